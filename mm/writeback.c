/*
 * Dirty pages of files that have a backing store: counting them, writing them back, and slowing down those who make
 * them faster than the store can take. RAM files (no write_page) have none of this.
 *
 *	           mapping_mark_dirty()           write_one_page()             page_end_writeback()
 *	clean  ---------------------------->  dirty  ---------->  writeback  ------------------->  clean
 *	                                       ^                      |
 *	                                       +----------------------+  written to meanwhile: dirty and under writeback
 *
 * Who writes back: the flusher thread, some time after a page became dirty, and at once when more than
 * dirty_background_bytes are dirty; and msync, fsync (mapping_writeback_range). Who waits: a writer that finds more than
 * dirty_bytes dirty or under writeback (balance_dirty_pages). He waits until the store has caught up, holding nothing
 * that others need; that is what the completed fault is for (mm/fault.c).
 *
 * The state of a page is in its flags, and again in the tags of the radix tree, where it can be found. Both change
 * together under tree_lock.
 *
 * Served files. A store that is a process may stop for ever, and must not take others along: its pages do not count against
 * the limit of everybody but against one of their own for each mount (super_block.unwritten), nobody waits for it but those
 * who use it, and they killably. Its inode table does not hold files, so a file with something to write holds itself: being
 * in the list of dirty mappings counts, and the flusher lets go (mapping_release_clean).
 *
 * The rule that is easy to break: a page is made read-only in every mapping, and flushed from every TLB, before its
 * dirty flag is cleared, and that before its contents are read for writing. The other way round a write could fall
 * between and stay in a page that counts as clean.
 */
#include "mm/mapping.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/mutex.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "kernel/sysctl.h"
#include "kernel/time.h"
#include "kernel/wait.h"
#include "mm/frame.h"
#include "mm/rmap.h"
#include "mm/vmstat.h"

#define FLUSH_PERIOD_NS	(5 * NSEC_PER_SEC)	/* how long a page may be dirty before the flusher comes by itself */
#define FLUSH_TURN	1024u			/* pages of one file before the next has its turn */
#define WRITE_ROUNDS	8			/* servers that may die one after the other before fsync says so */
#define THROTTLE_POLL_NS (10 * NSEC_PER_MSEC)	/* a waiting writer looks again at the latest after this */

u64 sysctl_dirty_bytes, sysctl_dirty_background_bytes;

static struct {
	struct spinlock	 lock;		/* LOCK_MAPPING_DIRTY */
	struct list_head mappings;	/* lock  those with pages dirty or being written, next to be flushed first */
	u64		 sync_seq;	/* sync_mutex  number of the writeback_sync() that runs */
	bool		 kicked;	/* set by writers over the background limit */
	struct wait_queue flusher;	/* the flusher sleeps here */
	struct wait_queue progress;	/* throttled writers; woken when pages have been written */
	u64		 waited_ns;	/* A  sum, for balance_dirty_wait_ms */
	s64		 served;	/* A  pages of served files, dirty or under write-back */
} wb = {
	.lock = SPINLOCK_INIT(LOCK_MAPPING_DIRTY),
	.mappings = LIST_HEAD_INIT(wb.mappings),
	.flusher = WAIT_QUEUE_INIT(wb.flusher),
	.progress = WAIT_QUEUE_INIT(wb.progress),
};

/* -- becoming dirty -- */

/* tree_lock held; nr_dirty or nr_writeback has changed: the mapping is in the list while either is not 0. */
static void list_mapping(struct mapping *m)
{
	bool unwritten = m->nr_dirty + m->nr_writeback;

	if (likely(unwritten == !list_empty(&m->dirty_node)))	/* changes only under our tree_lock */
		return;

	if (mapping_is_served(m)) {
		if (!unwritten)
			return;				/* mapping_release_clean() takes it out */
		inode_get(m->host);
		refcount_inc(&m->host->sb->refs);
	}
	unsigned long flags = spin_lock_irqsave(&wb.lock);
	bool first = list_empty(&wb.mappings);

	if (unwritten)
		list_add_tail(&m->dirty_node, &wb.mappings);
	else
		list_del_init(&m->dirty_node);
	spin_unlock_irqrestore(&wb.lock, flags);
	if (unwritten && first)
		wake_up(&wb.flusher);
}

/* Pages of @m that are dirty or under write-back have become @n more. */
static void count_served(struct mapping *m, s64 n)
{
	if (likely(!mapping_is_served(m)))
		return;
	__atomic_fetch_add(&m->host->sb->unwritten, n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&wb.served, n, __ATOMIC_RELAXED);
}

/* Never with a lock that eviction could want. */
void mapping_release_clean(struct mapping *m)
{
	if (!mapping_is_served(m) || list_empty(&m->dirty_node))
		return;
	struct inode *host = m->host;
	struct super_block *sb = host->sb;

	spin_lock(&m->tree_lock);
	bool clean = !m->nr_dirty && !m->nr_writeback && !list_empty(&m->dirty_node);

	if (clean) {
		unsigned long flags = spin_lock_irqsave(&wb.lock);

		list_del_init(&m->dirty_node);
		spin_unlock_irqrestore(&wb.lock, flags);
	}
	spin_unlock(&m->tree_lock);
	if (clean) {
		inode_put(host);
		super_put(sb);
	}
}

/* The folio lock or the lock of an entry that maps the page keeps page->mapping in place. */
bool __mapping_mark_dirty(struct page *page)
{
	struct mapping *m = page->mapping;

	if (!m || !mapping_tracks_dirty(m))
		return !page_test_and_set(page, PG_dirty);

	spin_lock(&m->tree_lock);
	bool dirtied = !page_test_and_set(page, PG_dirty);
	if (dirtied) {
		radix_tag_set(&m->pages, page->index, RADIX_DIRTY);
		vm_count(VM_nr_dirty);
		m->nr_dirty++;
		count_served(m, 1);
		list_mapping(m);
	}
	spin_unlock(&m->tree_lock);
	return dirtied;
}

/* Folio lock held. True: it was dirty. */
static bool clear_dirty(struct mapping *m, struct page *page)
{
	spin_lock(&m->tree_lock);
	bool was = page_test_and_clear(page, PG_dirty);
	if (was) {
		radix_tag_clear(&m->pages, page->index, RADIX_DIRTY);
		vm_count_add(VM_nr_dirty, -1);
		m->nr_dirty--;
		count_served(m, -1);
		list_mapping(m);
	}
	spin_unlock(&m->tree_lock);
	return was;
}

void mapping_cancel_dirty(struct page *page)
{
	struct mapping *m = page->mapping;

	assert(page_test(page, PG_locked));
	if (!page_test(page, PG_dirty))
		return;
	if (mapping_tracks_dirty(m))
		clear_dirty(m, page);
	else
		page_clear(page, PG_dirty);
}

/* -- writing back -- */

void page_start_writeback(struct page *page)
{
	struct mapping *m = page->mapping;

	assert(page_test(page, PG_locked));
	get_page(page);			/* until the end, which may come when nobody else knows the page any more */
	spin_lock(&m->tree_lock);
	bool twice = page_test_and_set(page, PG_writeback);
	BUG_ON(twice);
	radix_tag_set(&m->pages, page->index, RADIX_WRITEBACK);
	m->nr_writeback++;
	count_served(m, 1);
	list_mapping(m);
	vm_count(VM_nr_writeback);
	spin_unlock(&m->tree_lock);
}

static void record_error(struct mapping *m, int err)
{
	int none = 0;

	__atomic_compare_exchange_n(&m->wb_error, &none, err, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void page_end_writeback(struct page *page, int err)
{
	struct mapping *m = page->mapping;	/* stays: removal waits for us */

	if (err)
		record_error(m, err);
	spin_lock(&m->tree_lock);
	radix_tag_clear(&m->pages, page->index, RADIX_WRITEBACK);
	m->nr_writeback--;
	count_served(m, -1);
	list_mapping(m);
	spin_unlock(&m->tree_lock);
	vm_count_add(VM_nr_writeback, -1);
	end_page_writeback(page);
	/* m may be gone. A writer that queues itself just now and is not seen here looks again after THROTTLE_POLL_NS. */
	if (wait_queue_active(&wb.progress))
		wake_up_all(&wb.progress);
	put_page(page);
}

/* The page is dirty again before it counts as written, so there is no moment in which the file has nothing to write. */
void page_return_unwritten(struct page *page, bool told)
{
	if (told)
		__atomic_fetch_add(&page->mapping->nr_returned, 1, __ATOMIC_RELAXED);
	mapping_mark_dirty(page);	/* write-back keeps page->mapping in place */
	page_end_writeback(page, 0);
}

int mapping_check_error(struct mapping *m)
{
	return READ_ONCE(m->wb_error) ? __atomic_exchange_n(&m->wb_error, 0, __ATOMIC_RELAXED) : 0;
}

/* @page is referenced. Not dirty any more, or of another file by now: nothing to do. Sleeps, killably. */
static void write_one_page(struct mapping *m, struct page *page, bool wait)
{
	/*
	 * What is under write-back is waited for without the folio lock: a server may take for ever, and the next who wants the lock may
	 * be the flusher, whom everybody needs. For the same reason nobody who has the lock of a page that is up to date waits for one.
	 */
	for (;;) {
		if (page_test(page, PG_writeback) && (!wait || wait_on_page_writeback_killable(page)))
			return;
		lock_page(page);
		if (page->mapping != m || !page_test(page, PG_dirty)) {
			unlock_page(page);
			return;
		}
		if (!page_test(page, PG_writeback))
			break;
		unlock_page(page);	/* somebody has written it, and somebody has made it dirty again: that was after our caller's write */
	}
	page_mkclean(page);
	race_window("writeback_cleaned");
	clear_dirty(m, page);
	int err = m->ops->write_page(m, page);		/* unlocks */
	if (err)
		record_error(m, err);
}

/*
 * Up to @max dirty pages of [first, last]. One pass upwards, so it ends even if others dirty pages behind it. Where it
 * stopped, or ~0 when it came to the end.
 */
static u64 write_pages(struct mapping *m, u64 first, u64 last, u64 max, bool wait)
{
	struct page *page;
	u64 index = first;

	while (max-- && (page = mapping_find_get_tagged(m, &index, RADIX_DIRTY))) {
		if (index > last) {
			put_page(page);
			return ~0ul;
		}
		write_one_page(m, page, wait);
		put_page(page);
		if (index++ == ~0ul || fatal_signal_pending())
			return ~0ul;
		cond_resched();
	}
	return index;
}

int mapping_wait_writeback(struct mapping *m, u64 first, u64 last)
{
	struct page *page;

	for (; (page = mapping_find_get_tagged(m, &first, RADIX_WRITEBACK)); first++) {
		int err = first > last ? 0 : wait_on_page_writeback_killable(page);

		put_page(page);
		if (err)
			return err;
		if (first >= last)
			break;
	}
	return 0;
}

/* Bytes [start, end). 0, -EINTR, or with @wait the error of an earlier or this write-back. No lock held. Sleeps. */
int mapping_writeback_range(struct mapping *m, loff_t start, loff_t end, bool wait)
{
	u64 first = (u64)start >> PAGE_SHIFT, last = ((u64)end - 1) >> PAGE_SHIFT;

	if (!mapping_tracks_dirty(m) || start >= end)
		return 0;
	for (int round = 0; ; round++) {
		u32 returned = __atomic_load_n(&m->nr_returned, __ATOMIC_RELAXED);

		write_pages(m, first, last, ~0ul, wait);
		if (fatal_signal_pending())
			return -EINTR;
		if (!wait)
			return 0;
		int err = mapping_wait_writeback(m, first, last);

		if (err)
			return err;
		err = mapping_check_error(m);
		if (err || __atomic_load_n(&m->nr_returned, __ATOMIC_RELAXED) == returned)
			return err;
		/* A server died with some of the pages. If there is another one by now it gets them. */
		if (READ_ONCE(m->host->sb->store_away) || round == WRITE_ROUNDS)
			return -EIO;
	}
}

/* -- limits -- */

static u64 limit_pages(void)
{
	u64 bytes = READ_ONCE(sysctl_dirty_bytes);

	return max(bytes ? bytes >> PAGE_SHIFT : nr_total_pages() / 5, 1ul);
}

static u64 background_pages(void)
{
	u64 bytes = READ_ONCE(sysctl_dirty_background_bytes);
	u64 pages = bytes ? bytes >> PAGE_SHIFT : nr_total_pages() / 10;

	return min(pages, limit_pages() / 2);
}

/* Of everybody but served files. The counters are read one after the other: a sum below zero is none. */
static u64 unwritten_pages(void)
{
	s64 n = vm_counter_read(VM_nr_dirty) + vm_counter_read(VM_nr_writeback) - __atomic_load_n(&wb.served, __ATOMIC_RELAXED);

	return n > 0 ? (u64)n : 0;
}

/* How much one served mount may have unwritten. */
static u64 served_limit(void)
{
	return max(limit_pages() / 16, 8ul);
}

/*
 * Adding up the counters of all CPUs is not for every page: each CPU does it once in a while, often enough that all of
 * them together overrun a small limit by an eighth at most.
 */
static DEFINE_PER_CPU(u32, pages_since_check);

static bool time_to_check(void)
{
	u64 interval = min(limit_pages() / (8 * (u64)nr_cpus_found) + 1, 64ul);

	preempt_disable();
	u32 *n = this_cpu_ptr(&pages_since_check);
	bool due = ++*n >= interval;
	if (due)
		*n = 0;
	preempt_enable();
	return due;
}

static void kick_flusher(void)
{
	if (READ_ONCE(wb.kicked))
		return;
	WRITE_ONCE(wb.kicked, true);
	wake_up(&wb.flusher);
}

static void account_wait(u64 ns)
{
	u64 before = __atomic_fetch_add(&wb.waited_ns, ns, __ATOMIC_RELAXED);

	vm_count_add(VM_balance_dirty_wait_ms, (s64)((before + ns) / NSEC_PER_MSEC - before / NSEC_PER_MSEC));
}

void writeback_kick(void)
{
	kick_flusher();
}

static bool served_may_go_on(const struct super_block *sb)
{
	return READ_ONCE(sb->unwritten) <= (s64)served_limit();
}

/* The same for a served file: against the limit of its mount, counted page by page, for it is small. */
static void balance_served(struct super_block *sb)
{
	if (READ_ONCE(sb->unwritten) > (s64)served_limit() / 2 && !READ_ONCE(sb->store_away))
		kick_flusher();
	if (served_may_go_on(sb))
		return;
	u64 start = ktime_get_ns();

	while (!served_may_go_on(sb) && !fatal_signal_pending()) {
		if (!READ_ONCE(sb->store_away))
			kick_flusher();
		(void)__wait_event(&wb.progress, served_may_go_on(sb), TASK_KILLABLE, false, THROTTLE_POLL_NS);
	}
	account_wait(ktime_get_ns() - start);
}

/* Called after a page of @m became dirty, with no lock that the flusher or munmap could want. Sleeps, killably. */
void balance_dirty_pages(struct mapping *m)
{
	if (!mapping_tracks_dirty(m))
		return;
	if (mapping_is_served(m)) {
		balance_served(m->host->sb);
		return;
	}
	if (likely(!time_to_check()))
		return;

	u64 unwritten = unwritten_pages();
	if (unwritten > background_pages())
		kick_flusher();
	if (likely(unwritten <= limit_pages()))
		return;

	u64 start = ktime_get_ns();
	while (unwritten_pages() > limit_pages() && !fatal_signal_pending()) {
		kick_flusher();
		(void)__wait_event(&wb.progress, unwritten_pages() <= limit_pages(), TASK_KILLABLE, false, THROTTLE_POLL_NS);
	}
	account_wait(ktime_get_ns() - start);
}

/* -- whose turn is it -- */

/*
 * wb.lock held. @m is in the list, so it is not evicted yet: until we unlock neither its inode nor its super block is freed.
 * Holds both: an inode alone would not keep an unmount from freeing the file system under it. False: @m is being evicted,
 * alone or with all the others, and takes care of itself; then *drop may be a super block to put after the lock.
 */
static bool hold_mapping(struct mapping *m, struct super_block **drop)
{
	struct super_block *sb = m->host->sb;

	list_move_tail(&m->dirty_node, &wb.mappings);
	if (!refcount_inc_not_zero(&sb->refs))
		return false;
	if (refcount_inc_not_zero(&m->host->refs))
		return true;
	*drop = sb;
	return false;
}

/* The first of the list, held; NULL: none, or it cannot be. */
static struct mapping *next_dirty_mapping(void)
{
	unsigned long flags = spin_lock_irqsave(&wb.lock);
	struct mapping *m = list_first_entry_or_null(&wb.mappings, struct mapping, dirty_node);
	struct super_block *drop = NULL;

	if (m && !hold_mapping(m, &drop))
		m = NULL;
	spin_unlock_irqrestore(&wb.lock, flags);
	if (drop)
		super_put(drop);
	return m;
}

static void put_mapping(struct mapping *m)
{
	struct super_block *sb = m->host->sb;

	inode_put(m->host);
	super_put(sb);
}

/* -- sync -- */

static struct mutex sync_mutex = MUTEX_INIT(sync_mutex, LOCK_SYNC);

/* One of @sb, or (NULL) of any, that this sync has not seen yet. *m held, or NULL: it cannot be. False: there is none left. */
static bool next_to_sync(struct super_block *sb, struct mapping **m)
{
	unsigned long flags = spin_lock_irqsave(&wb.lock);
	struct super_block *drop = NULL;
	struct mapping *each, *found = NULL;

	list_for_each_entry(each, &wb.mappings, dirty_node) {
		if (each->sync_seq != wb.sync_seq && (!sb || each->host->sb == sb)) {
			found = each;
			break;
		}
	}
	*m = found;
	if (found) {
		found->sync_seq = wb.sync_seq;
		if (!hold_mapping(found, &drop))
			*m = NULL;
	}
	spin_unlock_irqrestore(&wb.lock, flags);
	if (drop)
		super_put(drop);
	return found;
}

/* Errors stay for the fsync of each file. No lock held. Sleeps. */
int writeback_sync(struct super_block *sb)
{
	struct mapping *m;
	int err = mutex_lock_killable(&sync_mutex);

	if (err)
		return err;
	wb.sync_seq++;
	while (!err && next_to_sync(sb, &m)) {
		if (!m)
			continue;
		bool wait = !mapping_is_served(m);		/* everybody's sync; a served mount has its own */

		write_pages(m, 0, ~0ul, ~0ul, wait);
		err = wait ? mapping_wait_writeback(m, 0, ~0ul) : 0;
		put_mapping(m);
		if (fatal_signal_pending())
			err = -EINTR;
	}
	mutex_unlock(&sync_mutex);
	return err;
}

/* -- the flusher -- */

static unsigned int nr_dirty_mappings(void)
{
	unsigned long flags = spin_lock_irqsave(&wb.lock);
	struct mapping *m;
	unsigned int n = 0;

	list_for_each_entry(m, &wb.mappings, dirty_node)
		n++;
	spin_unlock_irqrestore(&wb.lock, flags);
	return n;
}

/* A turn for each file that is dirty now. False: there was none. */
static bool flush_round(void)
{
	bool found = false;

	for (unsigned int n = nr_dirty_mappings(); n; n--) {
		struct mapping *m = next_dirty_mapping();

		if (!m)
			continue;
		if (!mapping_is_served(m) || !READ_ONCE(m->host->sb->store_away)) {
			write_pages(m, 0, ~0ul, FLUSH_TURN, false);
			found = true;
		}
		mapping_release_clean(m);
		put_mapping(m);
	}
	return found;
}

static int flusher_thread(void *arg)
{
	(void)arg;
	for (;;) {
		wait_event(&wb.flusher, READ_ONCE(wb.kicked) || !list_empty(&wb.mappings));
		(void)__wait_event(&wb.flusher, READ_ONCE(wb.kicked), TASK_UNINTERRUPTIBLE, false, FLUSH_PERIOD_NS);
		bool kicked = READ_ONCE(wb.kicked);
		WRITE_ONCE(wb.kicked, false);
		while (flush_round() && kicked && vm_counter_read(VM_nr_dirty) - READ_ONCE(wb.served) > (s64)background_pages())
			;
	}
	return 0;
}

void writeback_init(void)
{
	if (!kthread_run(flusher_thread, NULL, "flusher"))
		pr_err("no memory for the flusher thread: dirty pages are written back by fsync and msync only\n");
}
