/*
 * /proc/self/maps, smaps, smaps_rollup, pagemap, status and statm about mappings whose state is known. Rules B14, H4..H8.
 */
#include "mm_test.h"

#include <sys/prctl.h>
#include <sys/shm.h>

#define N	16

static int pagemap_fd;

static uint64_t pagemap(const void *p)
{
	uint64_t e = 0;

	MUST(pread(pagemap_fd, &e, 8, (off_t)((unsigned long)p / PAGE * 8)) == 8);
	return e;
}

#define PRESENT		(1ull << 63)
#define FILE_PAGE	(1ull << 61)
#define EXCLUSIVE	(1ull << 56)
#define PFN(e)		((e) & ((1ull << 55) - 1))

/* H4: the exact line */
static void maps_lines(void)
{
	char *p = map_alone(2, PROT_READ), *text, start[40], *line;
	int fd = make_memfd(4, 0);
	struct vma_line v;
	struct stat st;

	snprintf(start, sizeof(start), "%08lx-%08lx ", (unsigned long)p, (unsigned long)p + 2 * PAGE);
	text = read_text("/proc/self/maps");
	line = strstr(text, start);
	CHECK(line != NULL);
	*strchr(line, '\n') = '\0';
	CHECK(strcmp(line + strlen(start), "r--p 00000000 00:00 0 ") == 0);
	munmap(p, 2 * PAGE);

	p = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, fd, 2 * PAGE);
	MUST(fstat(fd, &st) == 0);
	CHECK(vma_at(p, &v));
	CHECK(strcmp(v.rights, "rw-s") == 0 && v.offset == 2 * PAGE && v.inode == st.st_ino);
	text = read_text("/proc/self/maps");
	line = strstr(text, "/memfd:test (deleted)");
	CHECK(line != NULL);
	*line = '\0';
	char *begin = strrchr(text, '\n');
	CHECK_EQUAL(73, line - (begin ? begin + 1 : text));
	munmap(p, 2 * PAGE);
	close(fd);

	/* all kinds of rights */
	static const char *const rights[8] = { "---p", "r--p", "-w-p", "rw-p", "--xp", "r-xp", "-wxp", "rwxp" };
	for (int prot = 0; prot < 8; prot++) {
		p = map_alone(1, prot);
		CHECK(vma_at(p, &v) && strcmp(v.rights, rights[prot]) == 0);
		munmap(p, PAGE);
	}

	/* names */
	char here;
	CHECK(vma_at(&here, &v) && strcmp(v.name, "[stack]") == 0);
	long brk = sys_brk(0);
	MUST(sys_brk(brk + PAGE) > brk);
	CHECK(vma_at((void *)((brk + PAGE - 1) & ~(PAGE - 1)), &v) || vma_at((void *)(brk - 1), &v));
	CHECK(strcmp(v.name, "[heap]") == 0);
	sys_brk(brk);
	char exe[256] = "";
	CHECK(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	CHECK(vma_at((void *)maps_lines, &v) && strcmp(v.name, exe) == 0);
	CHECK(v.rights[2] == 'x');
	int id = shmget(IPC_PRIVATE, PAGE, 0600);
	MUST(id >= 0);
	p = shmat(id, NULL, 0);
	CHECK(vma_at(p, &v) && strcmp(v.name, "/SYSV00000000 (deleted)") == 0 && v.inode == (unsigned long)id);
	shmdt(p);
	shmctl(id, IPC_RMID, NULL);
	char odd[] = "/tmp/with a\nnewline";
	fd = open(odd, O_RDWR | O_CREAT, 0600);
	MUST(fd >= 0 && ftruncate(fd, PAGE) == 0);
	p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(vma_at(p, &v) && strcmp(v.name, "/tmp/with a\\012newline") == 0);
	unlink(odd);
	CHECK(vma_at(p, &v) && strcmp(v.name, "/tmp/with a\\012newline (deleted)") == 0);
	munmap(p, PAGE);
	close(fd);
}

/* H5: every line that Linux has, in its order */
static void smaps_order(void)
{
	static const char *const keys[] = {
		"Size", "KernelPageSize", "MMUPageSize", "Rss", "Pss", "Pss_Dirty", "Shared_Clean", "Shared_Dirty", "Private_Clean", "Private_Dirty",
		"Referenced", "Anonymous", "KSM", "LazyFree", "AnonHugePages", "ShmemPmdMapped", "FilePmdMapped", "Shared_Hugetlb", "Private_Hugetlb",
		"Swap", "SwapPss", "Locked", "THPeligible", "ProtectionKey", "VmFlags",
	};
	char *text = read_text("/proc/self/smaps"), *line = next_line(&text);
	size_t i = 0;

	MUST(line != NULL);
	while (i < sizeof(keys) / sizeof(keys[0]) && (line = next_line(&text))) {
		if (strcmp(keys[i], "ProtectionKey") == 0 && strncmp(line, "VmFlags", 7) == 0)
			i++;		/* a CPU without them has no such line */
		size_t n = strlen(keys[i]);
		if (strncmp(line, keys[i], n) || line[n] != ':') {
			printf("smaps: expected '%s:', got '%s'\n", keys[i], line);
			test_failures++;
			return;
		}
		if (strcmp(keys[i], "Rss") == 0)
			CHECK(line[n + 1] == ' ' && strcmp(line + strlen(line) - 3, " kB") == 0 && strlen(line) == 27);
		i++;
	}
}

static void smaps_numbers(void)
{
	char *p = map_alone(N, RW), *s;
	pid_t pid;

	CHECK_EQUAL(N * 4, smaps_kb(p, "Size"));
	CHECK_EQUAL(0, smaps_kb(p, "Rss"));
	for (int i = 0; i < 8; i++)
		p[i * PAGE] = 1;
	for (int i = 8; i < 12; i++)
		(void)*(volatile char *)(p + i * PAGE);
	CHECK_EQUAL(32, smaps_kb(p, "Rss"));			/* B14: zero pages are nobody's */
	CHECK_EQUAL(32, smaps_kb(p, "Pss"));
	CHECK_EQUAL(32, smaps_kb(p, "Private_Dirty"));
	CHECK_EQUAL(32, smaps_kb(p, "Anonymous"));
	CHECK_EQUAL(32, smaps_kb(p, "Referenced"));
	CHECK_EQUAL(0, smaps_kb(p, "Locked"));
	CHECK_EQUAL(0, smaps_kb(p, "Shared_Dirty"));
	CHECK_EQUAL(4, smaps_kb(p, "KernelPageSize"));

	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	CHECK_EQUAL(32, smaps_kb(p, "Rss"));
	CHECK_EQUAL(16, smaps_kb(p, "Pss"));			/* half each */
	CHECK_EQUAL(32, smaps_kb(p, "Shared_Dirty"));
	CHECK_EQUAL(0, smaps_kb(p, "Private_Dirty"));
	CHECK(!(pagemap(p) & EXCLUSIVE));
	p[0] = 2;
	CHECK_EQUAL(4, smaps_kb(p, "Private_Dirty"));
	CHECK_EQUAL(28, smaps_kb(p, "Shared_Dirty"));
	CHECK_EQUAL(18, smaps_kb(p, "Pss"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK_EQUAL(32, smaps_kb(p, "Private_Dirty"));

	CHECK(sys_mlock(p, N * PAGE) == 0);
	CHECK_EQUAL(N * 4, smaps_kb(p, "Rss"));
	CHECK_EQUAL(N * 4, smaps_kb(p, "Locked"));
	munmap(p, N * PAGE);

	/* shared memory: what this process has mapped, not what the file has */
	s = map_pages(N, RW, MAP_SHARED | MAP_ANONYMOUS);
	for (int i = 0; i < 4; i++)
		s[i * PAGE] = 1;
	CHECK_EQUAL(16, smaps_kb(s, "Rss"));
	CHECK_EQUAL(0, smaps_kb(s, "Anonymous"));
	madvise(s, N * PAGE, MADV_DONTNEED);
	CHECK_EQUAL(0, smaps_kb(s, "Rss"));
	munmap(s, N * PAGE);

	/* the sum of all */
	long rss = proc_number("/proc/self/smaps_rollup", "Rss"), sum = 0;
	char *text = read_text("/proc/self/smaps");
	for (char *line; (line = next_line(&text)); )
		if (strncmp(line, "Rss:", 4) == 0)
			sum += atol(line + 4);
	CHECK(labs(rss - sum) <= 8);
}

/* H6 */
static void vm_flags(void)
{
	char *p = map_alone(1, RW), text[256];
	int fd = make_memfd(1, 0);

	snprintf(text, sizeof(text), "%s", smaps_text(p, "VmFlags"));
	CHECK(strncmp(text, " rd wr mr mw me ac ", 19) == 0);
	madvise(p, PAGE, MADV_DONTFORK);
	madvise(p, PAGE, MADV_DONTDUMP);
	madvise(p, PAGE, MADV_WIPEONFORK);
	madvise(p, PAGE, MADV_RANDOM);
	sys_mlock2(p, PAGE, 1);
	snprintf(text, sizeof(text), "%s", smaps_text(p, "VmFlags"));
	CHECK(strncmp(text, " rd wr mr mw me lo rr dc lf ac wf dd ", 37) == 0);
	munmap(p, PAGE);
	p = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	snprintf(text, sizeof(text), "%s", smaps_text(p, "VmFlags"));
	CHECK(strncmp(text, " rd ex sh mr mw me ms ", 22) == 0);
	munmap(p, PAGE);
	p = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_GROWSDOWN, -1, 0);
	snprintf(text, sizeof(text), "%s", smaps_text(p, "VmFlags"));
	CHECK(strncmp(text, " mr mw me gd nr ", 16) == 0);
	munmap(p, PAGE);
	close(fd);
}

/* H8 */
static void nobody(void *unused)
{
	static char page;
	uint64_t e;

	(void)unused;
	page = 1;
	become_nobody();
	prctl(PR_SET_DUMPABLE, 1);
	int fd = open("/proc/self/pagemap", O_RDONLY);
	CHECK(fd >= 0 && pread(fd, &e, 8, (off_t)((unsigned long)&page / PAGE * 8)) == 8);
	CHECK(e & PRESENT);
	CHECK_EQUAL(0, PFN(e));			/* where it lies is not for everyone */
}

static void pagemap_entries(void)
{
	char *p = map_alone(4, RW), *a, *b;
	int fd = make_memfd(4, 0);
	uint64_t e, two[2];

	CHECK_EQUAL(0, pagemap(p) & (PRESENT | FILE_PAGE));
	CHECK_EQUAL(0, pagemap(p - PAGE));
	p[0] = 1;
	p[PAGE] = 1;
	e = pagemap(p);
	CHECK((e & PRESENT) && !(e & FILE_PAGE) && (e & EXCLUSIVE) && PFN(e) != 0);
	CHECK(PFN(e) != PFN(pagemap(p + PAGE)));
	(void)*(volatile char *)(p + 2 * PAGE);
	(void)*(volatile char *)(p + 3 * PAGE);
	CHECK(pagemap(p + 2 * PAGE) & PRESENT);
	CHECK_EQUAL(PFN(pagemap(p + 2 * PAGE)), PFN(pagemap(p + 3 * PAGE)));		/* one page of zeros */
	CHECK(mprotect(p, PAGE, PROT_NONE) == 0);
	CHECK_EQUAL(PFN(e), PFN(pagemap(p)));
	CHECK(pagemap(p) & PRESENT);
	CHECK(sys_mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 2 * PAGE) > 0);	/* A21: the page itself moves */
	CHECK_EQUAL(PFN(e), PFN(pagemap(p + 2 * PAGE)));
	CHECK_EQUAL(0, pagemap(p) & PRESENT);

	a = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, fd, 0);
	b = mmap(NULL, 4 * PAGE, RW, MAP_PRIVATE, fd, 0);
	a[PAGE] = 1;
	CHECK((pagemap(a + PAGE) & (PRESENT | FILE_PAGE)) == (PRESENT | FILE_PAGE));
	(void)*(volatile char *)(b + PAGE);
	CHECK_EQUAL(PFN(pagemap(a + PAGE)), PFN(pagemap(b + PAGE)));
	CHECK(!(pagemap(a + PAGE) & EXCLUSIVE));
	b[PAGE] = 2;
	CHECK(PFN(pagemap(a + PAGE)) != PFN(pagemap(b + PAGE)));
	CHECK(!(pagemap(b + PAGE) & FILE_PAGE));
	CHECK((pagemap(b + PAGE) & EXCLUSIVE) && (pagemap(a + PAGE) & EXCLUSIVE));

	/* sizes and positions */
	CHECK_ERRNO(EINVAL, pread(pagemap_fd, &e, 4, 0));
	CHECK_ERRNO(EINVAL, pread(pagemap_fd, &e, 8, 4));
	CHECK_EQUAL(16, pread(pagemap_fd, two, 16, (off_t)((unsigned long)a / PAGE * 8)));
	CHECK_EQUAL(0, pread(pagemap_fd, &e, 8, (off_t)(TASK_SIZE / PAGE * 8 + 8)));
	munmap(p, 4 * PAGE);
	munmap(a, 4 * PAGE);
	munmap(b, 4 * PAGE);
	close(fd);
}

static long statm(int field)
{
	char *p = read_text("/proc/self/statm");

	while (field--)
		p = strchr(p, ' ') + 1;
	return atol(p);
}

static long status(const char *key) { return proc_number("/proc/self/status", key); }

/* H7 */
static void status_and_statm(void)
{
	long size = status("VmSize"), rss = status("VmRSS"), anon = status("RssAnon"), data = status("VmData"), shm = status("RssShmem"), pte = status("VmPTE");
	char *p = map_alone(N, RW), *s;

	CHECK_EQUAL(size + 4 * N, status("VmSize"));
	CHECK_EQUAL(data + 4 * N, status("VmData"));
	CHECK_EQUAL(size / 4 + N, statm(0));
	CHECK_EQUAL(data / 4 + N + status("VmStk") / 4, statm(5));
	for (int i = 0; i < N; i++)
		p[i * PAGE] = 1;
	/* Linux's counters may be behind by a batch per processor; ours are exact. */
	CHECK(labs(rss + 4 * N - status("VmRSS")) <= 512);
	CHECK(labs(anon + 4 * N - status("RssAnon")) <= 512);
	s = map_pages(N, RW, MAP_SHARED | MAP_ANONYMOUS);
	for (int i = 0; i < N; i++)
		s[i * PAGE] = 1;
	CHECK(labs(shm + 4 * N - status("RssShmem")) <= 512);
	CHECK(status("VmPTE") >= pte);
	CHECK(labs(statm(1) - status("VmRSS") / 4) <= 128);
	munmap(s, N * PAGE);
	munmap(p, N * PAGE);
	CHECK_EQUAL(size, status("VmSize"));
	CHECK(status("VmPeak") >= size + 8 * N);
	CHECK(status("VmHWM") >= 4 * N);
	CHECK_EQUAL(0, status("VmLck"));
	CHECK_EQUAL(0, status("VmSwap"));
	CHECK_EQUAL(0, status("HugetlbPages"));
	CHECK(status("VmStk") > 0 && status("VmExe") > 0 && status("VmLib") >= 0);

	/* a page table for each of 8 places, two megabytes apart */
	pte = status("VmPTE");
	p = map_pages(8 * 512, RW, ANON | MAP_NORESERVE);
	madvise(p, 8 * 512 * PAGE, MADV_NOHUGEPAGE);
	for (int i = 0; i < 8; i++)
		p[(size_t)i * 512 * PAGE] = 1;
	CHECK(status("VmPTE") >= pte + 28 && status("VmPTE") <= pte + 44);
	munmap(p, 8 * 512 * PAGE);
	CHECK(status("VmPTE") <= pte + 8);
}

int main(void)
{
	pagemap_fd = open("/proc/self/pagemap", O_RDONLY);
	MUST(pagemap_fd >= 0);
	maps_lines();
	smaps_order();
	smaps_numbers();
	vm_flags();
	pagemap_entries();
	IN_CHILD(nobody);
	status_and_statm();
	test_end();
}
