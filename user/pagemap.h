/*
 * PAGEMAP_SCAN for programs: the ioctl of /proc/PID/pagemap, with the numbers and names of Linux 6.12's <linux/fs.h>, which libcs are
 * slow to get. It lists the regions of an address space whose pages are of some kind, and with a userfaultfd that has WP_ASYNC it write-protects
 * in the same moment what it lists: "what was written since the last time?" (docs/userfaultfd.md).
 */
#ifndef USER_PAGEMAP_H
#define USER_PAGEMAP_H

#include <stdint.h>
#include <sys/ioctl.h>

#ifndef PAGEMAP_SCAN

#define PAGE_IS_WPALLOWED	(1ull << 0)	/* of the mapping: registered for WP, with WP_ASYNC */
#define PAGE_IS_WRITTEN		(1ull << 1)	/* since it was protected */
#define PAGE_IS_FILE		(1ull << 2)
#define PAGE_IS_PRESENT		(1ull << 3)
#define PAGE_IS_SWAPPED		(1ull << 4)	/* markers too */
#define PAGE_IS_PFNZERO		(1ull << 5)
#define PAGE_IS_HUGE		(1ull << 6)
#define PAGE_IS_SOFT_DIRTY	(1ull << 7)

#define PM_SCAN_WP_MATCHING	(1ull << 0)
#define PM_SCAN_CHECK_WPASYNC	(1ull << 1)

struct page_region {
	uint64_t start, end, categories;
};

struct pm_scan_arg {
	uint64_t size, flags, start, end;
	uint64_t walk_end;			/* out */
	uint64_t vec, vec_len, max_pages;	/* max_pages 0: no limit */
	/* A page counts if (its categories ^ inverted) has all of mask and, unless that is 0, one of anyof. */
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define PAGEMAP_SCAN		_IOWR('f', 16, struct pm_scan_arg)

#endif

_Static_assert(PAGEMAP_SCAN == 0xc0606610, "");

#endif
