/*
 * execve with more than fits, a path of 10,000 characters, corrupt ELF files: errors, never damage.
 * timeout: 60
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "test.h"

static void write_file(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
}

static void try_exec(void *path)
{
	execl(path, path, NULL);
	_exit(errno == ENOEXEC ? 100 : errno == EINVAL ? 101 : errno == ENOMEM ? 102 : errno == EIO ? 103 : 104);
}

int main(void)
{
	/* One string longer than 32 pages, and then many that are too much together. */
	size_t big = 256 << 10;
	char *string = malloc(big + 1), *argv[200];

	memset(string, 'a', big);
	string[big] = '\0';
	argv[0] = "true";
	argv[1] = string;
	argv[2] = NULL;
	CHECK_ERRNO(E2BIG, execve("/bin/true", argv, argv + 2));
	string[100 << 10] = '\0';
	for (int i = 1; i < 199; i++)
		argv[i] = string;
	argv[199] = NULL;
	CHECK_ERRNO(E2BIG, execve("/bin/true", argv, argv + 199));

	/* An argv without an end, up to where the mapping ends. */
	char **endless = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(endless != MAP_FAILED);
	for (size_t i = 0; i < (16 << 20) / sizeof(char *); i++)
		endless[i] = "x";
	errno = 0;
	CHECK(execve("/bin/true", endless, NULL) == -1 && (errno == E2BIG || errno == EFAULT));
	munmap(endless, 16 << 20);

	char path[10001];
	memset(path, 'p', 10000);
	path[10000] = '\0';
	CHECK_ERRNO(ENAMETOOLONG, open(path, O_RDONLY));
	for (int i = 0; i < 10000; i += 2)
		memcpy(path + i, "./", 2);
	CHECK_ERRNO(ENAMETOOLONG, open(path, O_RDONLY));
	path[256] = '\0';
	memset(path, 'p', 256);
	CHECK_ERRNO(ENAMETOOLONG, mkdir(path, 0755));

	/* Every single byte of a good program's headers, spoilt in turn: it may run, fail or die, the kernel may not. */
	int fd = open("/proc/self/exe", O_RDONLY);
	struct stat st;
	MUST(fd >= 0 && fstat(fd, &st) == 0);
	unsigned char *elf = malloc(st.st_size);
	MUST(elf && read(fd, elf, st.st_size) == st.st_size);
	write_file("/tmp/bad", "", 0);
	CHECK_EQUAL(100 << 8, in_child(try_exec, "/tmp/bad"));
	write_file("/tmp/bad", elf, 40);			/* cut short inside the header */
	CHECK(WIFEXITED(in_child(try_exec, "/tmp/bad")));
	Elf64_Ehdr *eh = (Elf64_Ehdr *)elf;
	Elf64_Phdr *ph = (Elf64_Phdr *)(elf + eh->e_phoff);
	struct { void *where; size_t size; unsigned long long value; } spoil[] = {
		{ &eh->e_phnum, 2, 0xffff }, { &eh->e_phnum, 2, 0 }, { &eh->e_phentsize, 2, 1 }, { &eh->e_phoff, 8, ~0ull },
		{ &eh->e_phoff, 8, 1ull << 62 }, { &eh->e_machine, 2, 3 }, { &eh->e_type, 2, 77 }, { &eh->e_entry, 8, 0xffffffff80200000 },
		{ &eh->e_entry, 8, 0x800000000000 }, { &ph->p_memsz, 8, ~0ull }, { &ph->p_filesz, 8, ~0ull }, { &ph->p_offset, 8, ~0xfffull },
		{ &ph->p_vaddr, 8, 0xffffffff80000000 }, { &ph->p_vaddr, 8, 0x7ffffffff000 }, { &ph->p_vaddr, 8, 0 },
		{ &ph->p_memsz, 8, 1ull << 46 }, { &ph->p_filesz, 8, 1ull << 40 }, { &ph->p_align, 8, 3 }, { &ph->p_type, 4, PT_INTERP },
	};
	for (size_t i = 0; i < sizeof(spoil) / sizeof(spoil[0]); i++) {
		unsigned char keep[8];
		int status;

		memcpy(keep, spoil[i].where, spoil[i].size);
		memcpy(spoil[i].where, &spoil[i].value, spoil[i].size);
		write_file("/tmp/bad", elf, st.st_size);
		memcpy(spoil[i].where, keep, spoil[i].size);
		status = in_child(try_exec, "/tmp/bad");
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && spoil[i].where != &ph->p_align) {
			printf("case %zu ran as if nothing were wrong\n", i);
			test_failures++;
		}
	}
	unlink("/tmp/bad");
	test_end();
}
