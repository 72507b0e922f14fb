/*
 * PAGEMAP_SCAN of /proc/PID/pagemap (user/pagemap.h): which pages are of which kind, and, with WP_ASYNC, which were written
 * since the last scan. What a scan says is compared as text: "0-3 present,written; 5-6 -".
 *
 * Soft-dirty is left out of every mask: it is an option of the kernel, and not ours.
 *
 * mem: 512M
 * append: hugepages=6
 */
#include "uffd_test.h"

#include "user/pagemap.h"

#define ALL		(PAGE_IS_WPALLOWED | PAGE_IS_WRITTEN | PAGE_IS_FILE | PAGE_IS_PRESENT | PAGE_IS_SWAPPED | PAGE_IS_PFNZERO | PAGE_IS_HUGE)
#define WRITTEN		PAGE_IS_WRITTEN
#define PRESENT		PAGE_IS_PRESENT
#define WP_MATCHING	PM_SCAN_WP_MATCHING
#define TWO_MB		(2ul << 20)

static int pm;

static struct pm_scan_arg scan_arg(const void *start, size_t len, struct page_region *vec, size_t vec_len)
{
	return (struct pm_scan_arg){ .size = sizeof(struct pm_scan_arg), .start = (uintptr_t)start, .end = (uintptr_t)start + len,
				     .walk_end = 0x5a5a5a5a, .vec = (uintptr_t)vec, .vec_len = vec_len, .return_mask = ALL };
}

static const char *category_names(uint64_t c)
{
	static const char *const names[] = { "wpallowed", "written", "file", "present", "swapped", "zero", "huge", "softdirty" };
	static char buf[128];
	size_t n = 0;

	for (int i = 0; i < 8; i++)
		if (c & 1ull << i)
			n += (size_t)snprintf(buf + n, sizeof(buf) - n, "%s%s", n ? "," : "", names[i]);
	return n ? buf : "-";
}

/* What came, with page numbers from @base on. */
static const char *as_text(const char *base, const struct page_region *vec, int n)
{
	static char buf[2048];
	size_t len = 0;

	buf[0] = '\0';
	if (n < 0)
		snprintf(buf, sizeof(buf), "errno %d", errno);
	for (int i = 0; i < n; i++)
		len += (size_t)snprintf(buf + len, sizeof(buf) - len, "%s%ld-%ld %s", i ? "; " : "", (long)(vec[i].start - (uintptr_t)base) / (long)PAGE,
					(long)(vec[i].end - (uintptr_t)base) / (long)PAGE, category_names(vec[i].categories));
	return buf;
}

#define CHECK_TEXT(want, got)								\
	do {										\
		const char *w_ = (want), *g_ = (got);					\
		if (strcmp(w_, g_)) {							\
			printf("%s:%d: expected \"%s\"\n%*sgot      \"%s\"\n", __FILE__, __LINE__, w_, (int)sizeof(__FILE__) + 4, "", g_);	\
			test_failures++;						\
		}									\
	} while (0)

/* A scan of @pages from @p on, which must come to its end. */
static const char *scan(const char *p, size_t pages, uint64_t flags, uint64_t mask, uint64_t returns)
{
	struct page_region vec[64];
	struct pm_scan_arg a = scan_arg(p, pages * PAGE, vec, 64);

	a.flags = flags;
	a.category_mask = mask;
	a.return_mask = returns;
	int n = ioctl(pm, PAGEMAP_SCAN, &a);
	if (n >= 0)
		CHECK_EQUAL(a.end, a.walk_end);
	return as_text(p, vec, n);
}

static const char *written(const char *p, size_t pages, uint64_t flags) { return scan(p, pages, flags, WRITTEN | PRESENT, WRITTEN); }

/* -- arguments -- */

static void bad_arguments(void)
{
	char *p = map_alone(4, RW);
	struct page_region vec[4];
	struct pm_scan_arg good = scan_arg(p, 4 * PAGE, vec, 4), a;

	p[0] = 1;
	CHECK_EQUAL(2, ioctl(pm, PAGEMAP_SCAN, (a = good, &a)));
	CHECK_ERRNO(EFAULT, ioctl(pm, PAGEMAP_SCAN, NULL));
	CHECK_ERRNO(EFAULT, ioctl(pm, PAGEMAP_SCAN, KERNEL_ADDRESS));
	CHECK_ERRNO(EINVAL, ioctl(pm, _IOWR('f', 17, struct pm_scan_arg), &a));
	CHECK_ERRNO(EINVAL, ioctl(pm, PAGEMAP_SCAN, (a = good, a.size = sizeof(a) - 8, &a)));
	CHECK_ERRNO(EINVAL, ioctl(pm, PAGEMAP_SCAN, (a = good, a.size = sizeof(a) + 8, &a)));
	CHECK_ERRNO(EINVAL, ioctl(pm, PAGEMAP_SCAN, (a = good, a.flags = 4, &a)));
	CHECK_ERRNO(EINVAL, ioctl(pm, PAGEMAP_SCAN, (a = good, a.flags = 1ull << 63, &a)));
	CHECK_ERRNO(EINVAL, ioctl(pm, PAGEMAP_SCAN, (a = good, a.category_inverted = 1ull << 8, &a)));
	CHECK_ERRNO(EINVAL, ioctl(pm, PAGEMAP_SCAN, (a = good, a.category_mask = 1ull << 40, &a)));
	CHECK_ERRNO(EINVAL, ioctl(pm, PAGEMAP_SCAN, (a = good, a.category_anyof_mask = 1ull << 63, &a)));
	CHECK_ERRNO(EINVAL, ioctl(pm, PAGEMAP_SCAN, (a = good, a.return_mask = ~0ull, &a)));
	CHECK_ERRNO(EINVAL, ioctl(pm, PAGEMAP_SCAN, (a = good, a.start++, &a)));
	CHECK_ERRNO(EINVAL, ioctl(pm, PAGEMAP_SCAN, (a = good, a.vec = 0, &a)));
	CHECK_EQUAL(0x5a5a5a5a, a.walk_end);		/* untouched where the arguments were refused */
	CHECK_ERRNO(EFAULT, ioctl(pm, PAGEMAP_SCAN, (a = good, a.end = a.start - PAGE, &a)));
	CHECK_ERRNO(EFAULT, ioctl(pm, PAGEMAP_SCAN, (a = good, a.start = a.end = KERNEL_ADDRESS, &a)));
	CHECK_ERRNO(EFAULT, ioctl(pm, PAGEMAP_SCAN, (a = good, a.end = TASK_SIZE + PAGE, &a)));
	CHECK_ERRNO(EFAULT, ioctl(pm, PAGEMAP_SCAN, (a = good, a.vec = KERNEL_ADDRESS, &a)));
	CHECK_ERRNO(EFAULT, ioctl(pm, PAGEMAP_SCAN, (a = good, a.vec_len = 1ull << 60, &a)));
	CHECK_ERRNO(EFAULT, ioctl(pm, PAGEMAP_SCAN, (a = good, a.vec_len = 1ull << 63, &a)));
	CHECK_ERRNO(EFAULT, ioctl(pm, PAGEMAP_SCAN, (a = good, a.vec = PAGE, &a)));

	/* Nothing to look at, nowhere to put it: no errors. The end is rounded up. */
	CHECK_EQUAL(0, ioctl(pm, PAGEMAP_SCAN, (a = good, a.end = a.start, &a)));
	CHECK_EQUAL(a.end, a.walk_end);
	CHECK_EQUAL(0, ioctl(pm, PAGEMAP_SCAN, (a = good, a.vec = 0, a.vec_len = 0, &a)));
	CHECK_EQUAL(a.end, a.walk_end);
	CHECK_EQUAL(0, ioctl(pm, PAGEMAP_SCAN, (a = good, a.vec_len = 0, &a)));
	CHECK_EQUAL(1, ioctl(pm, PAGEMAP_SCAN, (a = good, a.end = a.start + 1, &a)));
	CHECK_EQUAL(good.start + PAGE, a.walk_end);
	CHECK_EQUAL(good.start + PAGE, vec[0].end);
	a = scan_arg(NULL, TASK_SIZE, NULL, 0);
	CHECK_EQUAL(0, ioctl(pm, PAGEMAP_SCAN, &a));
	CHECK_EQUAL(TASK_SIZE, a.walk_end);

	/* The argument can be read only: the walk is made, then walk_end has no place. */
	char *ro = map_alone(1, RW);
	memcpy(ro, &good, sizeof(good));
	MUST(mprotect(ro, PAGE, PROT_READ) == 0);
	CHECK_ERRNO(EFAULT, ioctl(pm, PAGEMAP_SCAN, ro));
	munmap(ro, PAGE);
	munmap(p, 4 * PAGE);
}

/* -- kinds of pages -- */

static void kinds_of_pages(void)
{
	char *p = map_alone(8, RW);
	int fd = make_memfd(4, 0);

	/* 0 written, 1 the zero page, 2 nothing, 3 without rights, 4.. nothing */
	p[0] = 1;
	(void)*(volatile char *)(p + PAGE);
	p[3 * PAGE] = 1;
	MUST(mprotect(p + 3 * PAGE, PAGE, PROT_NONE) == 0);
	CHECK_TEXT("0-1 written,present; 1-2 written,present,zero; 2-3 -; 3-4 written,present; 4-8 -", scan(p, 8, 0, 0, ALL));
	CHECK_TEXT("0-2 present; 3-4 present", scan(p, 8, 0, PRESENT, PRESENT));
	CHECK_TEXT("1-2 zero", scan(p, 8, 0, PAGE_IS_PFNZERO, PAGE_IS_PFNZERO));
	CHECK_TEXT("0-2 -; 3-4 -", scan(p, 8, 0, PRESENT, 0));
	CHECK_TEXT("", scan(p, 8, 0, PAGE_IS_SWAPPED, ALL));
	CHECK_TEXT("", scan(p, 8, 0, PAGE_IS_WPALLOWED, ALL));
	MUST(munmap(p + 5 * PAGE, PAGE) == 0);
	CHECK_TEXT("0-1 written,present; 1-2 written,present,zero; 2-3 -; 3-4 written,present; 4-5 -; 6-8 -", scan(p, 8, 0, 0, ALL));
	munmap(p, 8 * PAGE);

	/* Files: 0 of the file, 1 a private copy of it, 2 not mapped though cached. */
	p = mmap(NULL, 4 * PAGE, RW, MAP_PRIVATE, fd, 0);
	MUST(p != MAP_FAILED && pwrite(fd, "x", 1, 0) == 1 && pwrite(fd, "x", 1, 2 * PAGE) == 1);
	p[PAGE] = 1;
	CHECK_EQUAL('x', *(volatile char *)p);
	struct page_region vec[8];
	struct pm_scan_arg a = scan_arg(p, 2 * PAGE, vec, 8);
	a.category_inverted = PAGE_IS_FILE;
	a.category_mask = PAGE_IS_FILE | PRESENT;
	CHECK_TEXT("1-2 written,present", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	a = scan_arg(p, 2 * PAGE, vec, 8);
	a.category_mask = PAGE_IS_FILE;
	CHECK_TEXT("0-1 written,file,present", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	a = scan_arg(p, 2 * PAGE, vec, 8);
	a.category_anyof_mask = PAGE_IS_FILE | PAGE_IS_SWAPPED;
	CHECK_TEXT("0-1 written,file,present", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	a.category_inverted = PAGE_IS_SWAPPED;
	CHECK_TEXT("0-1 written,file,present; 1-2 written,present", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	munmap(p, 4 * PAGE);
	close(fd);
}

/* -- results that do not fit -- */

static void limits(void)
{
	char *p = map_alone(16, RW);
	struct page_region vec[16];
	struct pm_scan_arg a;

	for (int i = 0; i < 16; i += 2)
		p[i * PAGE] = 1;
	a = scan_arg(p, 16 * PAGE, vec, 3);
	a.category_mask = PRESENT;
	a.return_mask = PRESENT;
	CHECK_TEXT("0-1 present; 2-3 present; 4-5 present", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	CHECK_EQUAL(6, (a.walk_end - (uintptr_t)p) / PAGE);

	/* Going on from there gives the rest. */
	a.start = a.walk_end;
	a.vec_len = 16;
	CHECK_TEXT("6-7 present; 8-9 present; 10-11 present; 12-13 present; 14-15 present", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	CHECK_EQUAL(a.end, a.walk_end);

	a = scan_arg(p, 16 * PAGE, vec, 16);
	a.category_mask = PRESENT;
	a.return_mask = PRESENT;
	a.max_pages = 2;
	CHECK_TEXT("0-1 present; 2-3 present", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	CHECK_EQUAL(4, (a.walk_end - (uintptr_t)p) / PAGE);

	/* Within a region: it ends where the pages do. */
	memset(p, 1, 16 * PAGE);
	a = scan_arg(p, 16 * PAGE, vec, 16);
	a.max_pages = 5;
	a.return_mask = PRESENT;
	CHECK_TEXT("0-5 present", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	CHECK_EQUAL(5, (a.walk_end - (uintptr_t)p) / PAGE);
	a.max_pages = 16;
	CHECK_TEXT("0-16 present", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	CHECK_EQUAL(a.end, a.walk_end);
	munmap(p, 16 * PAGE);

	/* In memory without any page table too. */
	p = map_alone(3 * TWO_MB / PAGE, RW);
	a = scan_arg(p, 3 * TWO_MB, vec, 16);
	a.max_pages = TWO_MB / PAGE + 5;
	CHECK_TEXT("0-517 -", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	CHECK_EQUAL(517, (a.walk_end - (uintptr_t)p) / PAGE);
	munmap(p, 3 * TWO_MB);
}

/* More regions than the kernel keeps at a time. */
static void many_regions(void)
{
	enum { N = 2400 };
	char *p = map_alone(N, RW);
	struct page_region *vec = calloc(N, sizeof(*vec));
	struct pm_scan_arg a = scan_arg(p, N * PAGE, vec, N);
	int bad = 0;

	for (int i = 0; i < N; i += 2)
		p[i * PAGE] = 1;
	a.category_mask = PRESENT;
	CHECK_EQUAL(N / 2, ioctl(pm, PAGEMAP_SCAN, &a));
	for (int i = 0; i < N / 2; i++)
		bad += vec[i].start != (uintptr_t)p + 2ul * (size_t)i * PAGE || vec[i].end != vec[i].start + PAGE;
	CHECK_EQUAL(0, bad);
	CHECK(a.walk_end > a.start && a.walk_end <= a.end);
	a.vec_len = 700;
	CHECK_EQUAL(700, ioctl(pm, PAGEMAP_SCAN, &a));
	CHECK_EQUAL(1400, (a.walk_end - (uintptr_t)p) / PAGE);
	munmap(p, N * PAGE);
	free(vec);
}

/* -- write tracking -- */

static void tracks_writes(enum kind kind, int fd)
{
	struct memory m = make_memory(kind, 8);
	char *p = m.p;

	if (m.alias)
		munmap(m.alias, m.len), m.alias = NULL;
	for (int i = 0; i < 6; i++)
		p[i * PAGE] = (char)i;
	MUST(uffd_register(fd, p, m.len, WP) == 0);
	CHECK_TEXT("0-6 written", written(p, 8, 0));
	CHECK_TEXT("0-6 written", written(p, 8, WP_MATCHING));
	CHECK_TEXT("", written(p, 8, WP_MATCHING));

	/* Written again, by a program and by the kernel; reading is no writing. */
	p[PAGE] = 7;
	MUST(pread(pm, p + 4 * PAGE, 8, 0) == 8);
	(void)*(volatile char *)(p + 2 * PAGE);
	p[7 * PAGE] = 1;
	CHECK_TEXT("1-2 written; 4-5 written; 7-8 written", written(p, 8, 0));
	CHECK_TEXT("1-2 written; 4-5 written; 7-8 written", written(p, 8, WP_MATCHING));
	CHECK_TEXT("", written(p, 8, 0));

	/* Protecting without a list. */
	p[3 * PAGE] = 9;
	CHECK_TEXT("3-4 written", written(p, 8, 0));
	struct pm_scan_arg a = scan_arg(p, m.len, NULL, 0);
	a.flags = WP_MATCHING | PM_SCAN_CHECK_WPASYNC;
	a.category_mask = WRITTEN;
	CHECK_EQUAL(0, ioctl(pm, PAGEMAP_SCAN, &a));
	CHECK_EQUAL(a.end, a.walk_end);
	CHECK_TEXT("", written(p, 8, 0));

	/* What does not fit is not protected either. */
	memset(p, 1, m.len);
	struct page_region vec[2];
	a = scan_arg(p, m.len, vec, 2);
	a.flags = WP_MATCHING;
	a.category_mask = WRITTEN;
	a.return_mask = WRITTEN;
	a.max_pages = 3;
	CHECK_TEXT("0-3 written", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	CHECK_TEXT("3-8 written", written(p, 8, 0));

	/* Pages that were thrown away and come again are written anew. */
	MUST(madvise(p + 5 * PAGE, PAGE, MADV_DONTNEED) == 0);
	CHECK_TEXT("3-8 written", (p[5 * PAGE] = 1, written(p, 8, WP_MATCHING)));
	MUST(uffd_unregister(fd, p, m.len) == 0);
	CHECK_TEXT("0-8 written", written(p, 8, 0));
	free_memory(&m);
}

/* The form that programs use most, with WRITTEN alone: empty entries of a table count as written, until they have a marker. */
static void written_alone(int fd)
{
	char *p = map_alone(8, RW);

	p[1 * PAGE] = 1;
	MUST(uffd_register(fd, p, 8 * PAGE, WP) == 0);
	CHECK_TEXT("0-8 written", scan(p, 8, 0, WRITTEN, WRITTEN));
	CHECK_TEXT("0-8 written", scan(p, 8, WP_MATCHING, WRITTEN, WRITTEN));
	CHECK_TEXT("", scan(p, 8, WP_MATCHING, WRITTEN, WRITTEN));
	CHECK_TEXT("0-1 wpallowed,swapped; 1-2 wpallowed,present; 2-8 wpallowed,swapped", scan(p, 8, 0, 0, ALL));
	p[2 * PAGE] = 1;
	(void)*(volatile char *)(p + 3 * PAGE);
	CHECK_TEXT("2-3 written", scan(p, 8, WP_MATCHING, WRITTEN, WRITTEN));
	MUST(uffd_unregister(fd, p, 8 * PAGE) == 0);
	munmap(p, 8 * PAGE);
}

/* Memory where nothing is, not even a table. */
static void protects_holes(int fd)
{
	size_t pages = 2 * TWO_MB / PAGE;
	char *room = map_alone(2 * pages, RW), *p = (char *)(((uintptr_t)room + TWO_MB - 1) & -TWO_MB);

	MUST(uffd_register(fd, p, pages * PAGE, WP) == 0);
	CHECK_TEXT("", scan(p, pages, WP_MATCHING, WRITTEN, WRITTEN));
	CHECK_TEXT("0-1024 wpallowed", scan(p, pages, 0, 0, ALL));
	CHECK_TEXT("0-1024 wpallowed", scan(p, pages, WP_MATCHING, 0, ALL));
	CHECK_TEXT("0-1024 wpallowed,swapped", scan(p, pages, 0, 0, ALL));
	p[5 * PAGE] = 1;
	CHECK_TEXT("5-6 wpallowed,written,present", scan(p, pages, 0, WRITTEN, ALL));
	MUST(uffd_unregister(fd, p, pages * PAGE) == 0);
	munmap(room, 2 * pages * PAGE);
}

static void poison_and_markers(int fd)
{
	char *p = map_alone(4, RW);

	p[0] = 1;
	MUST(uffd_register(fd, p, 4 * PAGE, WP) == 0);
	MUST(uffd_writeprotect(fd, p, 3 * PAGE, UFFDIO_WRITEPROTECT_MODE_WP) == 0);
	MUST(uffd_poison(fd, p + 3 * PAGE, PAGE, 0) == (long)PAGE);
	CHECK_TEXT("0-1 wpallowed,present; 1-3 wpallowed,swapped; 3-4 wpallowed,written,swapped", scan(p, 4, 0, 0, ALL));
	CHECK_TEXT("3-4 wpallowed,written,swapped", scan(p, 4, WP_MATCHING, WRITTEN, ALL));
	CHECK_TEXT("", scan(p, 4, WP_MATCHING, WRITTEN, ALL));
	MUST(uffd_unregister(fd, p, 4 * PAGE) == 0);
	munmap(p, 4 * PAGE);
}

/* Mappings that are not registered are passed over, or refused if asked for. */
static void only_where_allowed(int fd)
{
	char *p = map_alone(6, RW);
	struct page_region vec[8];
	struct pm_scan_arg a;
	int plain = open_uffd(0);

	memset(p, 1, 6 * PAGE);
	MUST(uffd_register(fd, p, 2 * PAGE, WP) == 0);
	MUST(uffd_register(plain, p + 4 * PAGE, 2 * PAGE, WP) == 0);	/* without WP_ASYNC */
	CHECK_TEXT("0-2 wpallowed,written,present; 2-6 written,present", scan(p, 6, 0, 0, ALL));
	CHECK_TEXT("0-2 wpallowed,written,present", scan(p, 6, 0, PAGE_IS_WPALLOWED, ALL));
	a = scan_arg(p, 6 * PAGE, vec, 8);
	a.category_inverted = a.category_mask = PAGE_IS_WPALLOWED;
	CHECK_TEXT("2-6 written,present", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	CHECK_TEXT("errno 1", scan(p, 6, PM_SCAN_CHECK_WPASYNC, 0, ALL));
	CHECK_TEXT("errno 1", scan(p, 6, PM_SCAN_CHECK_WPASYNC | WP_MATCHING, WRITTEN, ALL));
	CHECK_TEXT("", written(p, 2, 0));		/* but what came before has been done */
	CHECK_TEXT("2-6 written", written(p, 6, 0));
	CHECK_TEXT("", scan(p, 6, WP_MATCHING, WRITTEN, WRITTEN));
	p[0] = 2;
	p[3 * PAGE] = 2;
	CHECK_TEXT("0-1 wpallowed,written,present", scan(p, 6, WP_MATCHING, WRITTEN, ALL));
	CHECK_TEXT("2-6 written", written(p, 6, 0));
	close(plain);
	MUST(uffd_unregister(fd, p, 2 * PAGE) == 0);
	munmap(p, 6 * PAGE);
}

/* Huge pages: as many small ones, all alike; half of one cannot be protected. */
static void huge_memory(enum kind kind, int fd)
{
	size_t n = HUGE / PAGE;
	struct memory m = make_memory(kind, 3);
	char *p = m.p;
	bool file = kind == HUGETLB_SHARED;

	if (m.alias)
		munmap(m.alias, m.len), m.alias = NULL;
	p[0] = 1;
	p[HUGE] = 1;
	CHECK_TEXT(file ? "0-1024 written,file,present,huge" : "0-1024 written,present,huge", scan(p, 3 * n, 0, PRESENT, ALL));
	CHECK_TEXT(file ? "0-2 written,file,present,huge" : "0-2 written,present,huge", scan(p, 2, 0, PRESENT, ALL));
	MUST(uffd_register(fd, p, m.len, WP) == 0);
	CHECK_TEXT("0-1024 written", written(p, 3 * n, WP_MATCHING));
	CHECK_TEXT("", written(p, 3 * n, WP_MATCHING));
	p[HUGE + 5] = 2;
	CHECK_TEXT("512-1024 written", written(p, 3 * n, 0));

	struct page_region vec[4];
	struct pm_scan_arg a = scan_arg(p, HUGE + 3 * PAGE, vec, 4);
	a.flags = WP_MATCHING;
	a.category_mask = WRITTEN;
	a.return_mask = WRITTEN;
	CHECK_TEXT("", as_text(p, vec, ioctl(pm, PAGEMAP_SCAN, &a)));
	CHECK_EQUAL((uintptr_t)p + HUGE, a.walk_end);
	CHECK_TEXT("512-1024 written", written(p, 3 * n, WP_MATCHING));
	CHECK_TEXT("", written(p, 3 * n, 0));
	MUST(uffd_unregister(fd, p, m.len) == 0);
	free_memory(&m);
}

/* -- other processes -- */

static void other_processes(void)
{
	char *p = map_alone(4, RW), path[64];
	struct page_region vec[4];
	struct pm_scan_arg a = scan_arg(p, 4 * PAGE, vec, 4);
	int go[2], ready[2];
	char c;

	p[0] = 1;
	MUST(pipe(go) == 0 && pipe(ready) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		p[2 * PAGE] = 1;
		_exit(write(ready[1], "r", 1) != 1 || read(go[0], &c, 1) != 1);
	}
	MUST(pid > 0 && read(ready[0], &c, 1) == 1);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	int fd = open(path, O_RDONLY);
	MUST(fd >= 0);
	a.category_mask = PRESENT;
	CHECK_TEXT("0-1 written,present; 2-3 written,present", as_text(p, vec, ioctl(fd, PAGEMAP_SCAN, &a)));
	MUST(write(go[1], "g", 1) == 1 && waitpid(pid, NULL, 0) == pid);
	CHECK_TEXT("", as_text(p, vec, ioctl(fd, PAGEMAP_SCAN, &a)));	/* it has no memory any more */
	CHECK_EQUAL(a.end, a.walk_end);
	close(fd);
	munmap(p, 4 * PAGE);
}

/* -- a snapshotter: whatever is written while it looks is found now or the next time -- */

#define SHARED_PAGES	64
#define ROUNDS		40
#define WRITERS		3
#define WRITES		64

static pthread_barrier_t round_begins;
static char *heap;
static char image[SHARED_PAGES * PAGE];

static void *keep_writing(void *arg)
{
	unsigned long seed = (unsigned long)(uintptr_t)arg;

	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&round_begins);
		for (int i = 0; i < WRITES; i++) {
			seed = seed * 6364136223846793005ul + 1442695040888963407ul;
			__atomic_fetch_add((long *)(heap + (seed >> 33) % SHARED_PAGES * PAGE), 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

/* Copies into the image what was written since the last time, protecting it. Pages copied. */
static long update_image(size_t len)
{
	struct page_region vec[SHARED_PAGES];
	struct pm_scan_arg a = scan_arg(heap, len, vec, SHARED_PAGES);
	long copied = 0;

	a.flags = WP_MATCHING | PM_SCAN_CHECK_WPASYNC;
	a.category_mask = WRITTEN;
	a.return_mask = WRITTEN;
	int n = ioctl(pm, PAGEMAP_SCAN, &a);
	MUST(n >= 0);
	for (int i = 0; i < n; i++)
		for (uint64_t at = vec[i].start; at < vec[i].end && at < (uintptr_t)heap + sizeof(image); at += PAGE, copied++)
			memcpy(image + (at - (uintptr_t)heap), (void *)(uintptr_t)at, PAGE);
	return copied;
}

static void no_write_is_missed(enum kind kind, int fd)
{
	struct memory m = make_memory(kind, is_hugetlb(kind) ? 1 : SHARED_PAGES);
	pthread_t writers[WRITERS];
	long copied = 0;

	heap = m.p;
	memset(image, 0, sizeof(image));
	memset(heap, 0, SHARED_PAGES * PAGE);
	MUST(uffd_register(fd, heap, m.len, WP) == 0);
	MUST(pthread_barrier_init(&round_begins, NULL, WRITERS + 1) == 0);
	for (long i = 0; i < WRITERS; i++)
		MUST(pthread_create(&writers[i], NULL, keep_writing, (void *)(uintptr_t)(i + 1)) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&round_begins);
		copied += update_image(m.len);
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	/* Nobody writes any more, so after one more look the image is the memory. */
	copied += update_image(m.len);
	CHECK(memcmp(image, heap, sizeof(image)) == 0);
	CHECK(copied > SHARED_PAGES);
	CHECK_EQUAL(0, update_image(m.len));
	MUST(uffd_unregister(fd, heap, m.len) == 0);
	free_memory(&m);
}

int main(void)
{
	int fd = open_uffd(UFFD_FEATURE_WP_ASYNC);

	pm = open("/proc/self/pagemap", O_RDONLY);
	MUST(pm >= 0);
	bad_arguments();
	kinds_of_pages();
	limits();
	many_regions();
	written_alone(fd);
	protects_holes(fd);
	poison_and_markers(fd);
	only_where_allowed(fd);
	tracks_writes(ANON_PRIVATE, fd);
	tracks_writes(SHMEM_SHARED, fd);
	tracks_writes(SHMEM_PRIVATE, fd);
	no_write_is_missed(ANON_PRIVATE, fd);
	no_write_is_missed(SHMEM_SHARED, fd);
	if (huge_pages() >= 4) {
		huge_memory(HUGETLB_SHARED, fd);
		huge_memory(HUGETLB_PRIVATE, fd);
		no_write_is_missed(HUGETLB_PRIVATE, fd);
	}
	other_processes();
	test_end();
}
