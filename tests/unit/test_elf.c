/*
 * kernel/elf_image.c on the host: headers and script lines as an enemy would write them.
 *
 * 1. a good static program, a PIE with an interpreter: what the summary must say
 * 2. each way to be wrong, one at a time: the error it must give
 * 3. random damage to good headers: whatever is accepted has sums that fit into user space
 * 4. script lines: spaces, arguments, cut lines, no interpreter; then random bytes in a buffer of exact size
 *
 * sources: kernel/elf_image.c
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernel/elf_image.h"
#include "kernel/errno.h"
#include "kernel/string.h"
#include "mm/layout.h"

#define CHECK(cond) do { if (!(cond)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); exit(1); } } while (0)

static struct elf_header good_header(u16 type, u16 phnum)
{
	struct elf_header h = {
		.ident = { 0x7f, 'E', 'L', 'F', 2, 1, 1 }, .type = type, .machine = EM_X86_64, .version = 1,
		.entry = 0x401000, .phoff = 64, .ehsize = 64, .phentsize = 56, .phnum = phnum,
	};
	return h;
}

static const struct elf_phdr good_phdrs[] = {
	{ .type = PT_INTERP, .flags = PF_R, .offset = 0x300, .vaddr = 0x400300, .filesz = 28, .memsz = 28, .align = 1 },
	{ .type = PT_LOAD, .flags = PF_R, .offset = 0, .vaddr = 0x400000, .filesz = 0x520, .memsz = 0x520, .align = 0x1000 },
	{ .type = PT_LOAD, .flags = PF_R | PF_X, .offset = 0x1000, .vaddr = 0x401000, .filesz = 0x5ff, .memsz = 0x5ff, .align = 0x1000 },
	{ .type = PT_LOAD, .flags = PF_R | PF_W, .offset = 0x2de8, .vaddr = 0x403de8, .filesz = 0x258, .memsz = 0x3260, .align = 0x200000 },
	{ .type = PT_GNU_STACK, .flags = PF_R | PF_W, .align = 16 },
};
#define NR_PHDRS ARRAY_SIZE(good_phdrs)

static void good_programs(void)
{
	struct elf_header h = good_header(ET_EXEC, NR_PHDRS);
	struct elf_image img;

	CHECK(elf_check_header(&h) == (long)sizeof(good_phdrs));
	CHECK(elf_scan_phdrs(&h, good_phdrs, &img) == 0);
	CHECK(!img.dyn && img.has_interp && img.interp_offset == 0x300 && img.interp_size == 28);
	CHECK(img.nr_loads == 3 && !img.exec_stack && img.entry == 0x401000 && img.max_align == 0x200000);
	CHECK(img.phdrs_vaddr == 0x400040);
	CHECK(elf_check_loads(&h, good_phdrs, &img) == 0);
	CHECK(img.low == 0x400000 && img.high == 0x408000);
	CHECK(img.start_code == 0x401000 && img.end_code == 0x4015ff);
	CHECK(img.start_data == 0x403de8 && img.end_data == 0x404040 && img.end_bss == 0x407048);
	h.type = ET_DYN;
	CHECK(elf_scan_phdrs(&h, good_phdrs, &img) == 0 && img.dyn);
}

static void bad_headers(void)
{
	struct elf_header h;

#define BAD(change) do { h = good_header(ET_EXEC, NR_PHDRS); change; CHECK(elf_check_header(&h) == -ENOEXEC); } while (0)
	BAD(h.ident[0] = 0);
	BAD(h.ident[4] = 1);		/* 32 bits */
	BAD(h.ident[5] = 2);		/* big endian */
	BAD(h.type = 1);		/* an object file */
	BAD(h.type = 4);		/* a core file */
	BAD(h.machine = 183);
	BAD(h.phentsize = 32);
	BAD(h.phnum = 0);
	BAD(h.phnum = 1171);		/* more than 64 KiB */
	BAD(h.phoff = ~0ul);
#undef BAD
}

static int check_with(struct elf_phdr p)
{
	struct elf_header h = good_header(ET_EXEC, 1);
	struct elf_image img;
	int err = elf_scan_phdrs(&h, &p, &img);

	return err ? err : elf_check_loads(&h, &p, &img);
}

static void bad_segments(void)
{
	CHECK(check_with((struct elf_phdr){ .type = PT_LOAD, .vaddr = 0x400000, .memsz = 1 }) == 0);
	CHECK(check_with((struct elf_phdr){ .type = PT_LOAD, .vaddr = 0x400000, .filesz = 2, .memsz = 1 }) == -EINVAL);
	CHECK(check_with((struct elf_phdr){ .type = PT_LOAD, .vaddr = 0x400000, .memsz = ~0ul }) == -EINVAL);
	CHECK(check_with((struct elf_phdr){ .type = PT_LOAD, .vaddr = TASK_SIZE, .memsz = 1 }) == -EINVAL);
	CHECK(check_with((struct elf_phdr){ .type = PT_LOAD, .vaddr = TASK_SIZE - 1, .memsz = 1 }) == 0);
	CHECK(check_with((struct elf_phdr){ .type = PT_LOAD, .vaddr = ~0ul, .memsz = 1 }) == -EINVAL);
	CHECK(check_with((struct elf_phdr){ .type = PT_LOAD, .vaddr = ~0ul - 100, .memsz = 200 }) == -EINVAL);
	CHECK(check_with((struct elf_phdr){ .type = PT_LOAD, .vaddr = 0x400010, .offset = 0x20, .filesz = 1, .memsz = 1 }) == -EINVAL);
	CHECK(check_with((struct elf_phdr){ .type = PT_LOAD, .vaddr = 0x400000, .offset = 1ul << 63, .filesz = 1, .memsz = 1 }) == -EINVAL);
	CHECK(check_with((struct elf_phdr){ .type = PT_LOAD, .vaddr = 0x400000, .offset = INT64_MAX & ~0xffful, .filesz = 0x2000,
					    .memsz = 0x2000 }) == -EINVAL);
	CHECK(check_with((struct elf_phdr){ .type = 0, .vaddr = 0x400000 }) == -EINVAL);	/* nothing to load */
	CHECK(check_with((struct elf_phdr){ .type = PT_INTERP, .filesz = 1 }) == -ENOEXEC);
	CHECK(check_with((struct elf_phdr){ .type = PT_INTERP, .filesz = 4097 }) == -ENOEXEC);
	CHECK(check_with((struct elf_phdr){ .type = PT_INTERP, .filesz = 2, .offset = ~0ul }) == -ENOEXEC);
}

/* Flips bits and plants edge values, then tests what the loader relies on. */
static void random_damage(void)
{
	static const u64 edges[] = { 0, 1, 0xfff, 0x1000, TASK_SIZE - 1, TASK_SIZE, TASK_SIZE + 1, INT64_MAX, 1ul << 63, ~0ul, ~0xffful };
	unsigned int accepted = 0;

	for (int round = 0; round < 2000000; round++) {
		struct elf_header h = good_header(round & 1 ? ET_EXEC : ET_DYN, NR_PHDRS);
		struct elf_phdr *phdrs = malloc(sizeof(good_phdrs));
		struct elf_image img;

		memcpy(phdrs, good_phdrs, sizeof(good_phdrs));
		for (int n = rand() % 4; n >= 0; n--) {
			u8 *bytes = (u8 *)phdrs;
			size_t at = (size_t)rand() % (sizeof(good_phdrs) / 8) * 8;

			if (rand() & 1)
				bytes[at + (size_t)rand() % 8] ^= (u8)(1u << rand() % 8);
			else
				memcpy(bytes + at, &edges[(size_t)rand() % ARRAY_SIZE(edges)], 8);
		}
		if (!(rand() % 4))
			((u8 *)&h)[rand() % (int)sizeof(h)] ^= (u8)(1u << rand() % 8);
		long size = elf_check_header(&h);

		if (size > 0 && h.phnum <= NR_PHDRS && !elf_scan_phdrs(&h, phdrs, &img)) {
			CHECK(!img.has_interp || (img.interp_size >= 2 && img.interp_size <= 4096 && (s64)img.interp_offset >= 0));
			CHECK(!(img.max_align & (img.max_align - 1)) && img.max_align >= PAGE_SIZE);
			if (!elf_check_loads(&h, phdrs, &img)) {
				accepted++;
				CHECK(img.low <= img.high && img.high <= TASK_SIZE && !((img.low | img.high) & ~PAGE_MASK));
				CHECK(img.end_bss <= img.high && img.end_data <= img.end_bss);
				for (unsigned int i = 0; i < h.phnum; i++) {
					const struct elf_phdr *p = &phdrs[i];

					if (p->type == PT_LOAD)
						CHECK(p->vaddr >= img.low && p->vaddr + p->memsz >= p->vaddr &&
						      p->vaddr + p->memsz <= img.high && p->filesz <= p->memsz);
				}
			}
		}
		free(phdrs);
	}
	CHECK(accepted > 1000);
}

static void script(const char *line, size_t len, int want, const char *want_interp, const char *want_arg)
{
	char *buf = calloc(1, len), *interp = NULL, *arg = NULL;

	memcpy(buf, line, len);
	int ret = script_parse(buf, len, &interp, &arg);

	if (ret != want || (want == 1 && (strcmp(interp, want_interp) || !arg != !want_arg || (arg && strcmp(arg, want_arg))))) {
		fprintf(stderr, "\"%.*s\": %d, %s, %s\n", (int)len, line, ret, interp, arg);
		exit(1);
	}
	free(buf);
}

static void scripts(void)
{
#define SCRIPT(line, ...) script(line, sizeof(line) - 1, __VA_ARGS__)
	SCRIPT("#!/bin/sh\n", 1, "/bin/sh", NULL);
	SCRIPT("#! /bin/sh -e\nrest", 1, "/bin/sh", "-e");
	SCRIPT("#!\t /bin/awk  -f  x  \n", 1, "/bin/awk", "-f  x");
	SCRIPT("#!\n", -ENOEXEC, NULL, NULL);
	SCRIPT("#!   \n", -ENOEXEC, NULL, NULL);
	SCRIPT("#!", -ENOEXEC, NULL, NULL);
	SCRIPT("#", 0, NULL, NULL);
	SCRIPT("", 0, NULL, NULL);
	SCRIPT("\177ELF", 0, NULL, NULL);
	SCRIPT("#!/bin/sh", -ENOEXEC, NULL, NULL);		/* cut off: /bin/sh or /bin/shorter? */
	SCRIPT("#!/bin/sh -argument that is cut of", 1, "/bin/sh", "-argument that is cut o");
	SCRIPT("#!/bin/sh\0", 1, "/bin/sh", NULL);
#undef SCRIPT
	static const char alphabet[] = "#! \t\n\0/a";

	for (int round = 0; round < 1000000; round++) {
		size_t len = (size_t)rand() % 24;
		char *buf = malloc(len ? len : 1), *interp, *arg;

		for (size_t i = 0; i < len; i++)
			buf[i] = alphabet[(size_t)rand() % (sizeof(alphabet) - 1)];
		if (len >= 2 && rand() % 4)
			memcpy(buf, "#!", 2);
		if (script_parse(buf, len, &interp, &arg) == 1) {
			CHECK(interp >= buf && interp + strlen(interp) < buf + len && *interp);
			CHECK(!arg || (arg > interp && arg + strlen(arg) < buf + len && *arg));
		}
		free(buf);
	}
}

int main(int argc, char **argv)
{
	unsigned int seed = argc > 1 ? (unsigned int)atoi(argv[1]) : 1;

	srand(seed);
	good_programs();
	bad_headers();
	bad_segments();
	random_damage();
	scripts();
	return 0;
}
