/*
 * A heap with a concurrent compacting collector on userfaultfd, as user/demo/uffd_gc.c and user/bench/gc.c use it.
 *
 * A cycle:
 *
 *	flip	The world stands still. Live objects are marked, each one's new place is counted out, the roots are set to the new places, and
 *		all pages of the heap go to the shadow by one UFFDIO_MOVE. No byte is copied; the heap is empty, and registered.
 *	compact	The world runs. Whoever touches a page of the heap faults, and the collector makes that page: from the objects that belong there,
 *		read in the shadow, with their references set to the new places, and puts it there by UFFDIO_COPY. Between faults
 *		it makes the pages that nobody has asked for yet.
 *	end	All pages made: the shadow is dropped by MADV_DONTNEED.
 *
 * The world is a read-write lock: a mutator holds it for reading for one step, in which it may fault; the collector takes it for writing
 * to flip. Who serves the faults never takes the lock, so a mutator that faults inside its step always comes to an end.
 */
#ifndef GC_HEAP_H
#define GC_HEAP_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../uffd.h"

#define GC_PAGE		4096ul
#define CELLS_PER_PAGE	16
#define GC_ROOTS	16

/* Reference: index of a cell; 0 is no cell, for the first is never used. */
struct cell {
	uint32_t next, owner, serial, check;
	uint32_t payload[60];
};
_Static_assert(sizeof(struct cell) * CELLS_PER_PAGE == GC_PAGE, "a cell never lies on two pages");

static struct {
	struct cell	*cells, *shadow;
	size_t		 pages, nr;		/* of the heap; cells in it */
	uint64_t	*live;			/* a bit for each cell, as of the last flip */
	uint32_t	*before;		/* live cells before each word of @live */
	uint8_t		*made;			/* pages that exist */
	uint32_t	 top;			/* atomic: the first cell that was never given out */
	uint32_t	 roots[GC_ROOTS];	/* the world's lock */
	pthread_rwlock_t world;
	bool		 wanted;		/* atomic: the collector waits for the world, so do not enter it again */
	int		 fd;
	size_t		 compacted, by_fault, zeroed;	/* the collector's own counts, in pages */
} gc;

static void gc_die(const char *what)
{
	perror(what);
	exit(1);
}

static void *gc_map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		gc_die("mmap");
	return p;
}

static void gc_init(size_t bytes)
{
	gc.pages = bytes / GC_PAGE;
	gc.nr = gc.pages * CELLS_PER_PAGE;
	gc.cells = gc_map(bytes);
	gc.shadow = gc_map(bytes);
	gc.live = gc_map(gc.nr / 8 + 8);
	gc.before = gc_map((gc.nr / 64 + 1) * sizeof(uint32_t));
	gc.made = gc_map(gc.pages);
	gc.top = 1;
	pthread_rwlock_init(&gc.world, NULL);
	gc.fd = uffd_open(O_NONBLOCK | O_CLOEXEC, 0);
	if (gc.fd < 0 || uffd_register(gc.fd, gc.shadow, bytes, UFFDIO_REGISTER_MODE_MISSING))
		gc_die("userfaultfd");
}

/* From here on the collector makes the pages. What was written before stays. */
static void gc_take_over(void)
{
	if (uffd_register(gc.fd, gc.cells, gc.pages * GC_PAGE, UFFDIO_REGISTER_MODE_MISSING))
		gc_die("UFFDIO_REGISTER");
}

/* -- for mutators -- */

/* A step begins, and ends. Readers alone would never let the collector in. */
static void gc_enter(void)
{
	while (__atomic_load_n(&gc.wanted, __ATOMIC_RELAXED))
		usleep(200);
	pthread_rwlock_rdlock(&gc.world);
}

static void gc_leave(void)
{
	pthread_rwlock_unlock(&gc.world);
}

/* Inside a step: a cell that nobody else has, or 0: the heap is full. */
__attribute__((unused))
static uint32_t gc_alloc(void)
{
	uint32_t n = __atomic_fetch_add(&gc.top, 1, __ATOMIC_RELAXED);

	if (n < gc.nr)
		return n;
	__atomic_fetch_sub(&gc.top, 1, __ATOMIC_RELAXED);
	return 0;
}

__attribute__((unused))
static bool gc_is_full(void)
{
	return __atomic_load_n(&gc.top, __ATOMIC_RELAXED) >= gc.nr / 4 * 3;
}

/* -- the collector -- */

static bool is_live(uint32_t n)
{
	return gc.live[n / 64] >> n % 64 & 1;
}

static uint32_t new_place(uint32_t n)
{
	return n ? 1 + gc.before[n / 64] + (uint32_t)__builtin_popcountll(gc.live[n / 64] & ((1ull << n % 64) - 1)) : 0;
}

/* Lists, whose tails may be shared: stop where somebody was already. */
static void mark(void)
{
	memset(gc.live, 0, gc.nr / 8 + 8);
	for (int r = 0; r < GC_ROOTS; r++)
		for (uint32_t n = gc.roots[r]; n && !is_live(n); n = gc.cells[n].next)
			gc.live[n / 64] |= 1ull << n % 64;
}

/* Returns how many cells live. */
static uint32_t count_out(void)
{
	uint32_t sum = 0;

	for (size_t w = 0; w < gc.nr / 64; w++) {
		gc.before[w] = sum;
		sum += (uint32_t)__builtin_popcountll(gc.live[w]);
	}
	return sum;
}

/* Page by page where a page is in use by somebody else for a moment: fork, a reader of our memory. */
static void move_away(char *to, const char *from, size_t len)
{
	while (len) {
		long n = uffd_move(gc.fd, to, from, len, UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES | UFFDIO_MOVE_MODE_DONTWAKE);

		if (n == -EAGAIN || n == -EBUSY)
			continue;
		if (n < 0) {
			errno = (int)-n;
			gc_die("UFFDIO_MOVE");
		}
		to += n;
		from += n;
		len -= (size_t)n;
	}
}

/* With the world held for writing. */
static void gc_flip(void)
{
	mark();
	uint32_t live = count_out();
	for (int r = 0; r < GC_ROOTS; r++)
		gc.roots[r] = new_place(gc.roots[r]);
	move_away((char *)gc.shadow, (char *)gc.cells, gc.pages * GC_PAGE);
	memset(gc.made, 0, gc.pages);
	gc.top = live + 1;
}

/* The live cell whose new place is @n: the word by bisection, the bit by counting. */
static uint32_t old_place(uint32_t n)
{
	size_t low = 0, high = gc.nr / 64;
	uint32_t rank = n - 1;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (gc.before[middle] <= rank)
			low = middle;
		else
			high = middle;
	}
	uint64_t word = gc.live[low];
	for (rank -= gc.before[low]; rank; rank--)
		word &= word - 1;
	return (uint32_t)(low * 64 + (size_t)__builtin_ctzll(word));
}

static uint32_t gc_live;		/* cells that the flip has found; the collector's */

/* Makes one page of the new heap, if it is not there. */
static void make_page(size_t page)
{
	static struct cell buf[CELLS_PER_PAGE];
	uint32_t first = (uint32_t)(page * CELLS_PER_PAGE), old = 0;
	long n;

	if (gc.made[page])
		return;
	if (first > gc_live) {
		n = uffd_zeropage(gc.fd, &gc.cells[first], GC_PAGE, 0);
		gc.zeroed++;
	} else {
		memset(buf, 0, sizeof(buf));
		for (uint32_t i = first ? 0 : 1; i < CELLS_PER_PAGE && first + i <= gc_live; i++) {
			old = old ? old + 1 : old_place(first + i);
			while (!is_live(old))
				old++;
			buf[i] = gc.shadow[old];
			buf[i].next = new_place(buf[i].next);
		}
		n = uffd_copy(gc.fd, &gc.cells[first], buf, GC_PAGE, 0);
		gc.compacted++;
	}
	if (n != (long)GC_PAGE) {
		errno = (int)-n;
		gc_die("filling a page");
	}
	gc.made[page] = 1;
}

/* Serves the faults that wait; at most @ms for the first. Returns how many. */
static int gc_serve(int ms)
{
	struct pollfd pfd = { .fd = gc.fd, .events = POLLIN };
	struct uffd_msg msg[16];
	int n = 0;

	if (ms && poll(&pfd, 1, ms) != 1)
		return 0;
	ssize_t got = read(gc.fd, msg, sizeof(msg));
	for (; got > 0 && n < (int)(got / (ssize_t)sizeof(msg[0])); n++) {
		char *at = (char *)(uintptr_t)msg[n].arg.pagefault.address;
		size_t page = (size_t)(at - (char *)gc.cells) / GC_PAGE;

		if (gc.made[page])			/* since the message was sent */
			uffd_wake(gc.fd, at, GC_PAGE);
		make_page(page);
		gc.by_fault++;
	}
	return n;
}

/* Until no mutator is inside a step. One may be inside a fault: it is served meanwhile. */
static void gc_stop_world(void)
{
	__atomic_store_n(&gc.wanted, true, __ATOMIC_RELAXED);
	while (pthread_rwlock_trywrlock(&gc.world))
		gc_serve(1);
	__atomic_store_n(&gc.wanted, false, __ATOMIC_RELAXED);
}

static void gc_start_world(void)
{
	pthread_rwlock_unlock(&gc.world);
}

/* The world stands still for the flip, and no longer. */
static void gc_begin(void)
{
	gc_stop_world();
	gc_flip();
	gc_live = gc.top - 1;
	gc_start_world();
}

/* All pages that hold something; those that are waited for first. */
static void gc_compact(void)
{
	for (size_t page = 0; page * CELLS_PER_PAGE <= gc_live; page++) {
		while (gc_serve(0))
			;
		make_page(page);
	}
}

/* One whole cycle. Returns the pages that it made. */
__attribute__((unused))
static size_t gc_cycle(void)
{
	size_t before = gc.compacted;

	gc_begin();
	gc_compact();
	if (madvise(gc.shadow, gc.pages * GC_PAGE, MADV_DONTNEED))
		gc_die("madvise");
	return gc.compacted - before;
}

#endif
