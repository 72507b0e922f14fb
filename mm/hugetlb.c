/*
 * The pools of huge pages, one for each size, and who has been promised a page of them.
 *
 *	nr		pages of the pool, wherever they are	= free + in use
 *	free		on the free list
 *	resv		promised: free pages that may only go to those who reserved them
 *	surplus		of nr, those above what the administrator asked for; they leave the pool when they are freed
 *
 * The rule that is easy to break is D1: resv <= free, at every moment at which the pool's lock is free. A promise is made
 * only over pages that are there; pages that are still to be made (overcommit) are made first, belong to nobody meanwhile, and
 * enter the counts together with the promise. So nothing has to be undone when there is no memory.
 *
 * A page that is taken remembers in page->private what for, and hugetlb_free_page() gives back exactly that. Who promises what
 * to whom is decided in mm/hugetlb_reserve.c.
 */
#include "mm/hugetlb_internal.h"

#include "fs/vfs.h"
#include "kernel/cmdline.h"
#include "kernel/errno.h"
#include "kernel/mutex.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/x86/features.h"
#include "mm/debug.h"
#include "mm/frame.h"
#include "mm/vmstat.h"

#define ORDER_2M	9
#define ORDER_1G	18
#define NR_FAULT_MUTEXES 256u	/* a power of two */
#define BOOT_KEEP	((64ul << 20) >> PAGE_SHIFT)	/* what hugepages= leaves in any case: a system must come up to say what is wrong */

struct hstate hstates[NR_HSTATES];
struct hstate *default_hstate;

static struct mutex resize_lock = MUTEX_INIT(resize_lock, LOCK_HUGETLB_RESIZE);

static struct mutex fault_mutexes[NR_FAULT_MUTEXES];

static struct page *new_page(struct hstate *h);
static void release_to_buddies(struct page *page);

/* -- which pool -- */

struct hstate *hstate_of_size(u64 bytes)
{
	for (unsigned int i = 0; i < NR_HSTATES; i++)
		if (hstates[i].order && huge_page_size(&hstates[i]) == bytes)
			return &hstates[i];
	return NULL;
}

struct hstate *hstate_of_log2(unsigned int log2)
{
	return log2 ? hstate_of_size(1ul << log2) : default_hstate;
}

static struct hstate *hstate_of_page(const struct page *page)
{
	return &hstates[page->order == ORDER_1G];
}

/* -- promises -- */

u64 hugetlb_pool_ceiling(struct hstate *h)
{
	return READ_ONCE(h->nr) + READ_ONCE(h->overcommit);
}

/* A page that is in no count goes to the free list; it is in all of them then. Lock held. */
static void enqueue(struct hstate *h, struct page *page)
{
	list_add(&page->lru, &h->free_list);
	h->free++;
}

/* Lock held; there is one. Its count stays 0. */
static struct page *dequeue(struct hstate *h)
{
	struct page *page = list_first_entry(&h->free_list, struct page, lru);

	list_del(&page->lru);
	h->free--;
	return page;
}

static void release_list(struct list_head *pages)
{
	while (!list_empty(pages)) {
		struct page *page = list_first_entry(pages, struct page, lru);

		list_del(&page->lru);
		release_to_buddies(page);
		cond_resched();
	}
}

/*
 * How many more pages must be made before @n more can be promised, if @made are at hand. -ENOMEM: overcommit forbids it.
 * Lock held.
 */
static s64 pages_to_make(const struct hstate *h, u64 n, u64 made)
{
	s64 short_of = (s64)(h->resv + n - h->free);

	if (short_of <= 0)
		return 0;
	if (h->surplus + (u64)short_of > h->overcommit)
		return -ENOMEM;
	return max(short_of - (s64)made, (s64)0);
}

int hugetlb_pool_promise(struct hstate *h, u64 n)
{
	LIST_HEAD(made);
	u64 nr_made = 0;
	s64 missing;

	if (!n)
		return 0;
	spin_lock(&h->lock);
	while ((missing = pages_to_make(h, n, nr_made)) > 0) {
		spin_unlock(&h->lock);
		struct page *page = new_page(h);

		if (page) {
			list_add(&page->lru, &made);
			nr_made++;
		}
		spin_lock(&h->lock);
		if (!page) {
			missing = -ENOMEM;
			break;
		}
	}
	if (!missing) {
		h->resv += n;
		/* Others may have freed pages meanwhile: only as many as are still needed join the pool. */
		while (h->free < h->resv) {
			struct page *page = list_first_entry(&made, struct page, lru);

			list_del(&page->lru);
			h->nr++;
			h->surplus++;
			enqueue(h, page);
		}
	}
	spin_unlock(&h->lock);
	release_list(&made);
	return (int)missing;
}

/* Surplus pages that nobody is promised any more leave with the promise. */
void hugetlb_pool_unpromise(struct hstate *h, u64 n)
{
	LIST_HEAD(leaving);

	if (!n)
		return;
	spin_lock(&h->lock);
	BUG_ON(n > h->resv);
	h->resv -= n;
	for (; n && h->surplus && h->free > h->resv; n--) {
		struct page *page = dequeue(h);

		h->nr--;
		h->surplus--;
		list_add(&page->lru, &leaving);
	}
	spin_unlock(&h->lock);
	while (!list_empty(&leaving)) {
		struct page *page = list_first_entry(&leaving, struct page, lru);

		list_del(&page->lru);
		release_to_buddies(page);
	}
}

/* -- taking and freeing one page -- */

/* Nobody knows the page yet. */
static struct page *hand_out(struct page *page)
{
	page->mapping = NULL;
	page->index = 0;
	page->private = 0;
	__atomic_store_n(&page->refcount, 1, __ATOMIC_RELAXED);
	return page;
}

/* A page above what the administrator asked for, if overcommit allows one. NULL. Sleeps. */
static struct page *take_surplus(struct hstate *h)
{
	struct page *page;
	bool allowed;

	if (READ_ONCE(h->surplus) >= READ_ONCE(h->overcommit))
		return NULL;
	page = new_page(h);
	if (!page)
		return NULL;
	spin_lock(&h->lock);
	allowed = h->surplus < h->overcommit;
	if (allowed) {
		h->nr++;
		h->surplus++;
	}
	spin_unlock(&h->lock);
	if (allowed)
		return hand_out(page);
	release_to_buddies(page);
	return NULL;
}

struct page *hugetlb_pool_take(struct hstate *h, bool promised)
{
	struct page *page = NULL;

	spin_lock(&h->lock);
	if (promised ? h->resv && h->free : h->free > h->resv)
		page = dequeue(h);
	if (page)
		h->resv -= promised;
	spin_unlock(&h->lock);
	if (page)
		return hand_out(page);
	return promised ? NULL : take_surplus(h);
}

struct page *hugetlb_alloc_temporary(struct hstate *h)
{
	struct page *page = new_page(h);

	if (!page)
		return NULL;
	hand_out(page);
	page->private = HP_TEMPORARY;
	return page;
}

/*
 * The last reference is gone. A page that somebody was promised stays in the pool; a surplus one that nobody waits for leaves
 * it (D3). No translation to it may be left, as for any frame that is freed.
 */
void hugetlb_free_page(struct page *page)
{
	struct hstate *h = hstate_of_page(page);
	struct hugetlb_subpool *sp = huge_page_subpool(page);
	u64 state = huge_page_state(page);
	struct hugetlb_ticket ticket = { 0 };
	bool leaves;

	BUG_ON(page_mapcount(page) || page_test(page, PG_locked) || (state & HP_PROMISED));
	debug_frame_unreachable(page);
	if (state != HP_TEMPORARY)
		ticket = hugetlb_ticket_of(page);
	page->flags = 1u << PG_head | 1u << PG_hugetlb;
	page->mapping = NULL;
	page->private = 0;
	if (state == HP_TEMPORARY) {
		release_to_buddies(page);
		return;
	}
	/* Promised first, to whom is asked then: a subpool may keep it for its minimum, and must not count what is not there yet. */
	spin_lock(&h->lock);
	h->resv += sp || ticket.kind;
	leaves = h->surplus && h->free >= h->resv;
	if (leaves) {
		h->nr--;
		h->surplus--;
	} else {
		enqueue(h, page);
	}
	spin_unlock(&h->lock);
	if (leaves)
		release_to_buddies(page);
	if (ticket.kind)
		hugetlb_ticket_redeem(&ticket, h, sp);
	else if (sp)
		hugetlb_uncharge(h, sp, 1);
	hugetlb_subpool_put(sp);
}

/* -- from and to the frame allocator -- */

/* In no count, on no list, refcount 0. NULL. Sleeps unless at boot. */
static struct page *new_page(struct hstate *h)
{
	struct page *page = alloc_pages(GFP_USER | GFP_NOWARN, h->order);

	if (!page) {
		vm_count(VM_htlb_buddy_alloc_fail);
		return NULL;
	}
	vm_count(VM_htlb_buddy_alloc_success);
	page->flags |= 1u << PG_hugetlb;
	__atomic_store_n(&page->refcount, 0, __ATOMIC_RELAXED);
	return page;
}

static void release_to_buddies(struct page *page)
{
	page->flags &= ~(1u << PG_hugetlb);
	free_pages(page, page->order);
}

void clear_huge_page(struct page *page)
{
	for (u64 i = 0; i < 1ul << page->order; i++) {
		clear_pages(page_to_virt(page + i), 0);
		if (i % 64 == 63)
			cond_resched();
	}
}

void copy_huge_page(struct page *to, struct page *from)
{
	for (u64 i = 0; i < 1ul << to->order; i++) {
		memcpy(page_to_virt(to + i), page_to_virt(from + i), PAGE_SIZE);
		if (i % 64 == 63)
			cond_resched();
	}
}

/* -- one instantiation per (file, index) -- */

static void fault_mutexes_init(void)
{
	for (unsigned int i = 0; i < NR_FAULT_MUTEXES; i++)
		mutex_init(&fault_mutexes[i], LOCK_HUGETLB_FAULT);
}

/* Neighbouring indexes of one file, and equal ones of different files, fall on different mutexes. */
u32 hugetlb_fault_mutex_lock(struct mapping *m, u64 idx)
{
	u64 key = ((uintptr_t)m >> 6) * 0x9e3779b97f4a7c15ul;
	u32 hash = (u32)((key >> 32) + idx) % NR_FAULT_MUTEXES;

	mutex_lock(&fault_mutexes[hash]);
	return hash;
}

void hugetlb_fault_mutex_unlock(u32 hash)
{
	mutex_unlock(&fault_mutexes[hash]);
}

/* -- the size of a pool -- */

static u64 persistent(const struct hstate *h)
{
	return h->nr - h->surplus;
}

/*
 * Up to @count persistent pages, as many as there are to be had. What CPUs keep for themselves is asked for once: lone
 * frames there may be all that a large block lacks; not @at_boot, when there are no other CPUs. Lock held; dropped meanwhile.
 */
static void grow(struct hstate *h, u64 count, bool at_boot)
{
	bool drained = at_boot;

	if (h->surplus && count > persistent(h))
		h->surplus -= min(h->surplus, count - persistent(h));
	while (count > persistent(h)) {
		if (at_boot && nr_free_pages() < (1ul << h->order) + BOOT_KEEP)
			return;
		spin_unlock(&h->lock);
		struct page *page = new_page(h);

		if (!page && !drained) {
			drain_all_caches();
			drained = true;
			page = new_page(h);
		}
		spin_lock(&h->lock);
		if (!page)
			return;
		h->nr++;
		enqueue(h, page);
		if (!at_boot && signal_pending())
			return;
	}
}

/* Down to @count, as far as pages are free and not promised; those in use become surplus (D2). Lock held; dropped meanwhile. */
static void shrink(struct hstate *h, u64 count)
{
	while (count < persistent(h) && h->free > h->resv) {
		struct page *page = dequeue(h);

		h->nr--;
		spin_unlock(&h->lock);
		release_to_buddies(page);
		race_window("hugetlb_pool_shrinks");
		cond_resched();
		spin_lock(&h->lock);
	}
	if (count < persistent(h))
		h->surplus += persistent(h) - count;
}

void hugetlb_pool_resize(struct hstate *h, u64 count)
{
	mutex_lock(&resize_lock);
	spin_lock(&h->lock);
	grow(h, count, false);
	shrink(h, count);
	h->max = persistent(h);
	spin_unlock(&h->lock);
	mutex_unlock(&resize_lock);
}

void hugetlb_pool_counts(struct hstate *h, struct hugetlb_counts *c)
{
	spin_lock(&h->lock);
	*c = (struct hugetlb_counts){ .nr = h->nr, .free = h->free, .resv = h->resv, .surplus = h->surplus,
				      .overcommit = h->overcommit, .max = h->max };
	spin_unlock(&h->lock);
}

void hugetlb_pool_set_overcommit(struct hstate *h, u64 pages)
{
	spin_lock(&h->lock);
	h->overcommit = pages;
	spin_unlock(&h->lock);
}

/* -- boot -- */

/*
 * The parameters act in the order in which they are given: hugepages=N is for the size named last, and for the default
 * size if none was. What cannot be is reported and ignored. Of two that say the same thing the first counts, as on Linux: a size
 * that is named again is ignored with the number that follows it, and so is a second number for one size. Only a default size may be
 * named once more, to give it a number.
 */
static struct boot_params {
	struct hstate	*size;		/* of the last size that was good; NULL: none yet */
	bool		 size_bad;	/* one was not: the number that follows it is for nobody */
	bool		 default_named;
	bool		 named[NR_HSTATES];
	u64		 nr[NR_HSTATES];
	u64		 nr_default;	/* given before any size */
	const u64	*last_nr;	/* what the last number was for */
} boot;

static void boot_hugepages(const char *value)
{
	u64 *nr = boot.size ? &boot.nr[boot.size - hstates] : &boot.nr_default, n;

	if (boot.size_bad) {
		pr_warn("hugepages=%s: for no size that this machine has, ignored", value);
		boot.size_bad = false;
	} else if (nr == boot.last_nr) {
		pr_warn("hugepages=%s: the second number for one size, ignored", value);
	} else if (kstrtou64(value, 10, &n)) {
		pr_warn("hugepages=%s: not a number, ignored", value);
	} else {
		*nr = n;
		boot.last_nr = nr;
	}
}

static bool boot_may_name(const struct hstate *h, bool as_default)
{
	unsigned int i = (unsigned int)(h - hstates);

	if (as_default)
		return !boot.default_named;
	return !boot.named[i] || (boot.default_named && h == default_hstate && !boot.nr[i]);
}

static void boot_size(const char *name, const char *value, bool as_default)
{
	const char *end;
	struct hstate *h = hstate_of_size(memparse(value, &end));

	boot.size_bad = !h || !boot_may_name(h, as_default);
	if (!h) {
		pr_warn("%s=%s: this machine has no pages of that size, ignored", name, value);
		return;
	}
	if (boot.size_bad) {
		pr_warn("%s=%s: not the first of its kind, ignored", name, value);
		return;
	}
	boot.size = h;
	boot.named[h - hstates] = true;
	if (!as_default)
		return;
	default_hstate = h;
	boot.default_named = true;
	if (boot.nr_default) {
		boot.nr[h - hstates] = boot.nr_default;
		boot.nr_default = 0;
	}
}

static void boot_param(void *unused, const char *name, const char *value)
{
	(void)unused;
	if (!strcmp(name, "hugepages"))
		boot_hugepages(value);
	else if (!strcmp(name, "hugepagesz") || !strcmp(name, "default_hugepagesz"))
		boot_size(name, value, name[0] == 'd');
}

static void hstate_init(unsigned int i, unsigned int order, const char *name)
{
	struct hstate *h = &hstates[i];

	h->order = order;
	h->name = name;
	spin_lock_init(&h->lock, LOCK_HUGETLB_POOL);
	INIT_LIST_HEAD(&h->free_list);
}

void hugetlb_init(void)
{
	fault_mutexes_init();
	hstate_init(0, ORDER_2M, "hugepages-2048kB");
	if (cpu_features.gib_pages)
		hstate_init(1, ORDER_1G, "hugepages-1048576kB");
	default_hstate = &hstates[0];
	cmdline_for_each(boot_param, NULL);
	if (boot.nr_default)
		boot.nr[default_hstate - hstates] = boot.nr_default;

	/* The large ones first: they are the harder to find. */
	for (unsigned int i = NR_HSTATES; i-- > 0; ) {
		struct hstate *h = &hstates[i];

		if (!boot.nr[i])
			continue;
		spin_lock(&h->lock);
		grow(h, boot.nr[i], true);
		h->max = persistent(h);
		spin_unlock(&h->lock);
		printk("%s: %lu pages%s", h->name, h->nr, h->nr < boot.nr[i] ? ", fewer than asked for: memory is short" : "");
	}
}
