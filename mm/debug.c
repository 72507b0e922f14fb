/*
 * Memory checks of the debug build.
 *
 * Stale translations. Emulated CPUs forgive a missing flush more often than not, so this is checked by bookkeeping.
 * Every change of a user page-table entry goes through the writers of mm/pgtable.h; when a frame or a table disappears
 * from a present entry, they call debug_entry_changed(), which makes a record: which mm and address (the struct page of
 * the table knows both), which frame, by which instruction, at which generation of mm->tlb_gen. A flush that covers the
 * address takes the record away; it has waited for every CPU, and mm/tlb.c checks their generations then. So a frame
 * may be freed iff it has no record left. If it has, somebody may still reach it by the old translation: panic, naming
 * who unmapped it and who frees it.
 *
 *	unmap (zap.c:120) ---- record ----- flush ---- record gone ---- free: fine
 *	unmap (zap.c:120) ---- record ----- free: panic, "unmapped by zap_present+0x40, freed by release_pages+0x88"
 *
 * A table that was unlinked is held to more: the CPUs that are lazy on the mm must have left as well, so only a flush
 * that says "tables freed" settles it. (A table that only moves, as in mremap, is settled for the active CPUs by an
 * ordinary flush and for the lazy ones by the next of that kind.)
 *
 * Free frames carry a pattern from free to allocation: what is written to them in between is found at the latest then.
 */
#include "mm/debug.h"

#ifdef DEBUG
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/frame.h"
#include "mm/kasan.h"
#include "mm/mm.h"
#include "mm/slab.h"
#include "mm/vmstat.h"

#define POISONED	0x4652454546524d45ul	/* page->private of a free frame that holds the pattern */
#define PENDING_MASK	0xfffful		/* page->unmap_gen: number of its records; the generation above */
#define NR_BUCKETS	256u

/* One translation that was taken out of a table and not yet flushed. All fields: the bucket's lock. */
struct unmapped {
	struct unmapped	*next;
	struct mm	*mm;
	uintptr_t	 addr;
	size_t		 size;
	pfn_t		 pfn;
	u64		 gen;
	uintptr_t	 caller;
	bool		 table;		/* the frame is a page-table page */
	bool		 active_flushed;	/* table: only lazy CPUs are left */
};

/* By mm, so that address spaces do not wait for each other: a lock that all CPUs share would hide races by its own waits. */
static struct unmapped_bucket {
	struct spinlock	 lock;			/* LOCK_LEAF_IRQ */
	struct unmapped	*first;			/* lock */
} __aligned(64) buckets[NR_BUCKETS];

/* Records not in use: some with each CPU (interrupts off), the rest here. */
#define RECORD_BATCH	128u
static struct {
	struct spinlock	 lock;			/* LOCK_LEAF_IRQ */
	struct unmapped	*first;			/* lock */
	u64		 overflows;		/* A  no record to be had: checks not made */
} pool = { .lock = SPINLOCK_INIT(LOCK_LEAF_IRQ) };
struct record_cache { struct unmapped *first; u64 nr; };
static DEFINE_PER_CPU(struct record_cache, record_cache);

/* Enough for every CPU to have one full gather (mm/tlb.c keeps them short in debug builds). */
void debug_frames_init(u64 nr_frames)
{
	u64 n = clamp(nr_frames / 8, 2048ul, 65536ul);
	struct unmapped *u = boot_alloc(n * sizeof(*u), 64);

	for (unsigned int i = 0; i < NR_BUCKETS; i++)
		spin_lock_init(&buckets[i].lock, LOCK_LEAF_IRQ);
	for (u64 i = 0; i < n; i++) {
		u[i].next = pool.first;
		pool.first = &u[i];
	}
}

static void move_record(struct unmapped **from, struct unmapped **to)
{
	struct unmapped *u = *from;

	*from = u->next;
	u->next = *to;
	*to = u;
}

/* Interrupts off, no bucket locked. */
static struct unmapped *get_record(void)
{
	struct record_cache *rc = this_cpu_ptr(&record_cache);

	if (!rc->first) {
		spin_lock(&pool.lock);
		for (; pool.first && rc->nr < RECORD_BATCH; rc->nr++)
			move_record(&pool.first, &rc->first);
		spin_unlock(&pool.lock);
	}
	struct unmapped *u = rc->first;
	if (u) {
		rc->first = u->next;
		rc->nr--;
	}
	return u;
}

/* Interrupts off, no bucket locked. @list: a chain of records. */
static void put_records(struct unmapped *list)
{
	struct record_cache *rc = this_cpu_ptr(&record_cache);

	for (; list; rc->nr++)
		move_record(&list, &rc->first);
	if (rc->nr < 8 * RECORD_BATCH)
		return;
	spin_lock(&pool.lock);
	for (; rc->nr > RECORD_BATCH; rc->nr--)
		move_record(&rc->first, &pool.first);
	spin_unlock(&pool.lock);
}

/* -- stale translations ---------------------------------------------------------------------------------------- */

static struct unmapped_bucket *bucket(const struct mm *mm)
{
	return &buckets[mm->context_id % NR_BUCKETS];
}

/* One more record, at @gen. A page may be unmapped in several address spaces at once. */
static void page_count_record(struct page *p, u64 gen)
{
	u64 old = READ_ONCE(p->unmap_gen), new_val;

	do {
		new_val = gen << 16 | ((old & PENDING_MASK) + 1);
	} while (!__atomic_compare_exchange_n(&p->unmap_gen, &old, new_val, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static void remember(struct mm *mm, uintptr_t addr, size_t size, pfn_t pfn, bool table, uintptr_t caller)
{
	u64 gen = __atomic_load_n(&mm->tlb_gen, __ATOMIC_RELAXED);
	struct unmapped_bucket *b = bucket(mm);
	unsigned long flags = local_irq_save();
	struct unmapped *u = get_record();

	if (u) {
		*u = (struct unmapped){ .mm = mm, .addr = addr, .size = size, .pfn = pfn, .gen = gen, .caller = caller, .table = table };
		page_count_record(pfn_to_page(pfn), gen);
		spin_lock(&b->lock);
		u->next = b->first;
		b->first = u;
		spin_unlock(&b->lock);
	} else {
		__atomic_fetch_add(&pool.overflows, 1, __ATOMIC_RELAXED);
	}
	local_irq_restore(flags);
}

void debug_entry_changed(const void *slot, u64 old, u64 new_val, uintptr_t caller)
{
	static const size_t span[] = { 0, PAGE_SIZE, PMD_SIZE, PUD_SIZE, PGD_SIZE };

	if (!(old & PTE_PRESENT))
		return;				/* no CPU caches what is not present */
	struct page *table = virt_to_page(slot);
	if (!page_test(table, PG_table) || !table->table_level || !table->pt_mm)
		return;				/* a table of a file (hugetlb.sync=file) says itself in whose translations it was */
	bool leaf = table->table_level == 1 || (old & PTE_HUGE);
	if (leaf && (old & PTE_SPECIAL))
		return;				/* never freed */
	pfn_t pfn = (old & PTE_PFN_MASK) >> PAGE_SHIFT;
	if ((new_val & (PTE_PRESENT | PTE_PROTNONE)) && (new_val & PTE_PFN_MASK) >> PAGE_SHIFT == pfn)
		return;				/* other rights to the same frame */
	if (!pfn_valid(pfn))
		return;
	uintptr_t addr = table->index + ((uintptr_t)slot & ~PAGE_MASK) / 8 * span[table->table_level];
	remember(table->pt_mm, addr, span[table->table_level], pfn, !leaf, caller);
}

void debug_translation_gone(struct mm *mm, uintptr_t addr, size_t size, const struct page *page, uintptr_t caller)
{
	remember(mm, addr, size, page_to_pfn(page), false, caller);
}

void debug_flushed(struct mm *mm, uintptr_t start, uintptr_t end, bool tables)
{
	struct unmapped_bucket *b = bucket(mm);
	struct unmapped *settled = NULL;
	unsigned long flags = local_irq_save();

	spin_lock(&b->lock);
	for (struct unmapped **link = &b->first; *link; ) {
		struct unmapped *u = *link;
		/* The last table reaches beyond the last user address. */
		bool covered = u->mm == mm && u->addr >= start && min(u->addr + u->size, TASK_SIZE) <= end;

		if (u->mm == mm && u->table) {
			u->active_flushed |= covered;
			covered = tables && u->active_flushed;
		}
		if (covered) {
			__atomic_fetch_sub(&pfn_to_page(u->pfn)->unmap_gen, 1, __ATOMIC_RELAXED);
			move_record(link, &settled);
		} else {
			link = &u->next;
		}
	}
	spin_unlock(&b->lock);
	put_records(settled);
	local_irq_restore(flags);
}

u64 debug_pending_translations(struct mm *mm)
{
	struct unmapped_bucket *b = bucket(mm);
	u64 n = 0;
	unsigned long flags = spin_lock_irqsave(&b->lock);

	for (struct unmapped *u = b->first; u; u = u->next)
		n += u->mm == mm;
	spin_unlock_irqrestore(&b->lock, flags);
	return n;
}

/* The system stops here: the lists are read as they are, without locks. */
static void __noreturn stale_bug(pfn_t pfn, uintptr_t caller)
{
	const struct unmapped *found = NULL;

	for (unsigned int b = 0; b < NR_BUCKETS && !found; b++)
		for (found = buckets[b].first; found && found->pfn != pfn; )
			found = found->next;
	if (!found)
		panic("frame %lx: unflushed translations counted, none found; freed by %pS", pfn, (void *)caller);
	panic("stale translation: %s %lx freed by %pS, but CPUs %lx may still use it at %lx of mm %p:\n"
	      "  unmapped by %pS at generation %lu, not flushed since (now at %lu)", found->table ? "page table" : "frame", pfn,
	      (void *)caller, found->mm->cpu_mask, found->addr, found->mm, (void *)found->caller, found->gen, found->mm->tlb_gen);
}

/* -- free frames ----------------------------------------------------------------------------------------------- */

/* The block goes to the allocator: nobody may be able to reach it any more. */
void debug_frame_free(struct page *p, unsigned int order, uintptr_t caller)
{
	for (struct page *end = p + (1ul << order); p < end; p++) {
		u64 *words = page_to_virt(p), n = PAGE_SIZE / 8;

		if (p->unmap_gen & PENDING_MASK)
			stale_bug(page_to_pfn(p), caller);
		p->private = POISONED;
		__asm__ volatile("rep stosq" : "+D"(words), "+c"(n) : "a"(FRAME_POISON) : "memory");
	}
	kasan_frames_free(p - (1ul << order), order, caller);
}

void debug_frame_unreachable(struct page *p)
{
	if (p->unmap_gen & PENDING_MASK)
		stale_bug(page_to_pfn(p), (uintptr_t)__builtin_return_address(0));
}

void debug_frame_alloc(struct page *p, unsigned int order)
{
	kasan_frames_alloc(p, order);		/* first: we read the pattern */
	for (struct page *end = p + (1ul << order); p < end; p++) {
		const u64 *words = page_to_virt(p);

		if (p->flags || p->refcount || p->mapcount)
			panic("frame %lx was free, but has flags %x, %u references, map count %u", page_to_pfn(p), p->flags,
			      p->refcount, p->mapcount);
		if (p->unmap_gen & PENDING_MASK)
			stale_bug(page_to_pfn(p), (uintptr_t)__builtin_return_address(0));
		if (p->private != POISONED)
			continue;		/* never freed since boot */
		p->private = 0;
		for (unsigned int i = 0; i < PAGE_SIZE / 8; i++)
			if (words[i] != FRAME_POISON)
				panic("frame %lx was written to after it had been freed: %lx at offset %x", page_to_pfn(p),
				      words[i], i * 8);
	}
}

/* -- failure injection, leaks ---------------------------------------------------------------------------------- */

void alloc_fail_set(u64 nth)
{
	current->alloc_fail_nth = nth;
}

/* Interrupts allocate on their own account. */
bool alloc_should_fail(void)
{
	struct task *t = current;

	if (!t || !t->alloc_fail_nth || in_interrupt())
		return false;
	return --t->alloc_fail_nth == 0;
}

/* Planted bug, to show that the checker sees it: this task's next flushes are not done. True: leave it out. */
bool debug_skip_flush(void)
{
	struct task *t = current;

	if (!t || !t->skip_flushes || in_interrupt())
		return false;
	t->skip_flushes--;
	return true;
}

/* -- /sys/kernel/faultline/{alloc_fail,skip_flush,leaks}: the first two concern the task that writes them -- */

static ssize_t alloc_fail_show(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "%lu\n", current->alloc_fail_nth);
}

/* One number; trailing newlines are fine. */
static int parse_count(const char *buf, u64 *n)
{
	char copy[24];

	if (strscpy(copy, buf, sizeof(copy)) < 0)
		return -EINVAL;
	char *end = strchr(copy, '\n');
	if (end)
		*end = '\0';
	return kstrtou64(copy, 0, n);
}

static ssize_t alloc_fail_store(void *arg, const char *buf, size_t len)
{
	u64 nth;

	(void)arg;
	if (parse_count(buf, &nth))
		return -EINVAL;
	alloc_fail_set(nth);
	return (ssize_t)len;
}

static ssize_t skip_flush_store(void *arg, const char *buf, size_t len)
{
	u64 n;

	(void)arg;
	if (parse_count(buf, &n))
		return -EINVAL;
	current->skip_flushes = (u32)n;
	return (ssize_t)len;
}

/* Reading reports to the log what is allocated, after all caches have been emptied: exact when the system is quiet. */
static ssize_t leaks_show(void *arg, char *buf, size_t size)
{
	(void)arg;
	drain_all_caches();
	debug_leak_report();
	return scnprintf(buf, size, "frames_used %lu\nslab %ld\npage_tables %ld\nvmalloc %lu\nunfollowed %lu\n",
			 nr_total_pages() - nr_free_pages(), vm_counter_read(VM_nr_slab),
			 vm_counter_read(VM_nr_page_table_pages), vmalloc_nr_pages(), pool.overflows);
}

static const struct text_file_ops alloc_fail_ops = { .show = alloc_fail_show, .store = alloc_fail_store };
static const struct text_file_ops skip_flush_ops = { .store = skip_flush_store };
static const struct text_file_ops leaks_ops = { .show = leaks_show };

void memory_debug_init(void)
{
	if (IS_ERR(pseudo_text_file(sysfs_root, "kernel/faultline/alloc_fail", 0600, &alloc_fail_ops, NULL)) ||
	    IS_ERR(pseudo_text_file(sysfs_root, "kernel/faultline/skip_flush", 0200, &skip_flush_ops, NULL)) ||
	    IS_ERR(pseudo_text_file(sysfs_root, "kernel/faultline/leaks", 0400, &leaks_ops, NULL)))
		pr_err("memory debug files: no memory");
	kasan_test_init();
}

void debug_leak_report(void)
{
	static char text[16384];		/* one report at a time: from a test or a panic */

	slab_format(text, sizeof(text));
	printk("frames: %lu managed, %lu free, %ld slab, %ld page tables, %ld KiB kernel stacks, %lu vmalloc, %ld anonymous, %ld file",
	       nr_total_pages(), nr_free_pages(), vm_counter_read(VM_nr_slab), vm_counter_read(VM_nr_page_table_pages),
	       vm_counter_read(VM_nr_kernel_stack), vmalloc_nr_pages(), vm_counter_read(VM_nr_anon_pages),
	       vm_counter_read(VM_nr_file_pages));
	if (pool.overflows)
		printk("stale-translation checker: %lu translations not followed for want of records", pool.overflows);
	for (char *line = text; *line; ) {
		char *end = strchr(line, '\n');

		if (end)
			*end = '\0';
		printk("%s", line);
		line = end ? end + 1 : line + strlen(line);
	}
}
#endif
