/*
 * TLB maintenance: which CPU may hold which translation, and how it loses it. The only file of generic mm that loads
 * CR3.
 *
 * The rule: whoever removes or narrows a translation calls flush_tlb_*() before anything relies on it; frames and
 * tables come out of a struct mmu_gather only after that (mm/tlb.h).
 *
 * State. mm->tlb_gen counts the flush requests of an mm. Each CPU notes for the mm it has loaded up to which request
 * its TLB is clean ("its generation"). CPU c is in mm->cpu_mask as long as CR3 of c may point at the tables of mm. A
 * CPU that runs a kernel thread stays on the last user tables and is then lazy: it uses no user translations.
 *
 * Why no CPU keeps a stale translation. A flush does
 *
 *	F1 clear the entry    F2 gen = ++mm->tlb_gen    F3 read cpu_mask    F4 read lazy of each CPU    F5 interrupt, wait
 *
 * F2 is a locked instruction, so F1 is visible before F3 and F4 read. On the other side a CPU does one of
 *
 *	load:	L1 set its bit in cpu_mask    L2 read tlb_gen    L3 its generation = that    L4 load CR3 (empties the TLB)
 *	wake:	W1 lazy = false               W2 read tlb_gen    W3 if it is newer than its own: empty the TLB
 *
 * where L1 and W1 are locked as well. (A CPU that loads an mm may still be lazy on the one before: it stops that, L0, ahead
 * of L1. Else a flush could see its bit, take it for lazy on this mm, and not interrupt it.) All locked operations have one order, so:
 *
 *	flush		load				flush		wake
 *	F2					 	F2
 *	F3 bit not set  L1 after F3			F4 lazy set	W1 after F4
 *			L4 walks see F1					W2 sees F2, empties
 *	F3 bit set	gets the interrupt		F4 not lazy	gets the interrupt
 *
 * In the left case all page walks of the other CPU for this mm come after L1, thus after F1: it can never have seen the
 * old entry (with PCIDs it may have, in an earlier stay; then L2 sees F2 and L4 does not keep the old contents).
 * Skipping a lazy CPU is sound only while the tables themselves stay: even an unused CR3 lets the CPU walk
 * speculatively, set accessed bits, and cache what it believes to be entries. So when tables are freed the lazy are
 * interrupted too, and leave for init_mm's tables.
 *
 * Generations make requests idempotent: a CPU that empties its whole TLB notes the tlb_gen it read before, and ignores
 * all requests up to it. It may only step from g to g+1 by flushing single pages of request g+1; after any gap it
 * empties all.
 *
 * Requests. Each CPU has one slot, which it fills and then waits for, and one inbox word with a bit per sender. Two
 * CPUs that flush different mms write no common line. The wait is with interrupts on, so that two CPUs flushing at
 * each other both make progress; that is also why nobody may flush with interrupts off once other CPUs run.
 */
#include "mm/tlb.h"

#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/rcu.h"
#include "kernel/smp.h"
#include "kernel/trace.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/features.h"
#include "mm/debug.h"
#include "mm/frame.h"
#include "mm/mm.h"
#include "mm/vmstat.h"

#define FLUSH_ALL_ABOVE	33u		/* more pages than this: emptying is cheaper, as in Linux */
#define NR_CONTEXTS	6u		/* PCIDs 1 to 6; 0 is init_mm's */
#define CR3_KEEP	BIT(63)		/* do not flush the PCID that is loaded */

/*
 * What CR3 of this CPU holds. Written by its CPU with interrupts off; lazy and mm are read by others.
 */
struct tlb_state {
	struct mm	*mm;		/* never NULL after tlb_init_cpu */
	bool		 lazy;		/* running a kernel thread on mm's tables */
	u32		 slot;		/* contexts[slot] belongs to mm; always 0 without PCIDs */
	u32		 next_slot;	/* next to be evicted */
	struct {
		u64	 id;		/* mm->context_id; 0: unused */
		u64	 gen;		/* clean up to this request */
	} contexts[NR_CONTEXTS];
} __aligned(64);
static DEFINE_PER_CPU(struct tlb_state, tlb_state);

/* The flush that a CPU asks of others. Constant from the send until the last has answered. */
struct tlb_request {
	struct mm	*mm;		/* NULL: kernel addresses */
	uintptr_t	 start, end;
	u64		 gen;
	bool		 tables;	/* tables go too: lazy CPUs leave */
	bool		 forget;	/* the mm dies: everybody leaves */
	cpumask_t	 pending __aligned(64);	/* atomic: CPUs that have not answered */
} __aligned(64);
static DEFINE_PER_CPU(struct tlb_request, tlb_request);

/* Bit n: CPU n's request is for us. Whoever sets the first bit sends the interrupt. */
struct tlb_inbox { cpumask_t senders; } __aligned(64);
static DEFINE_PER_CPU(struct tlb_inbox, tlb_inbox);

static void flush_local(struct tlb_state *ts, const struct tlb_request *req);
static void shoot_down(struct tlb_request *req, cpumask_t targets);

/* -- context switch -------------------------------------------------------------------------------------------- */

static void load_tables(struct mm *mm, u32 pcid, bool keep)
{
	u64 cr3 = virt_to_phys(mm->pgd) | pcid;

	write_cr3(keep ? cr3 | CR3_KEEP : cr3);
}

/* Finds (or evicts for) @mm a PCID slot; *@keep: its old contents are clean up to @gen. */
static u32 choose_slot(struct tlb_state *ts, const struct mm *mm, u64 gen, bool *keep)
{
	*keep = false;
	if (!cpu_features.pcid)
		return 0;
	for (u32 i = 0; i < NR_CONTEXTS; i++) {
		if (ts->contexts[i].id == mm->context_id) {
			*keep = ts->contexts[i].gen == gen;
			return i;
		}
	}
	u32 slot = ts->next_slot;
	ts->next_slot = (slot + 1) % NR_CONTEXTS;
	return slot;
}

/* Interrupts off. From whatever is loaded to init_mm, whose tables have no user half. */
static void leave_mm(struct tlb_state *ts)
{
	struct mm *old = ts->mm;

	if (old == &init_mm)
		return;
	load_tables(&init_mm, 0, false);
	ts->mm = &init_mm;
	ts->lazy = false;
	__atomic_fetch_and(&old->cpu_mask, ~cpumask_of(smp_processor_id()), __ATOMIC_RELEASE);
}

/*
 * Interrupts off, from the scheduler. What is really loaded is our own knowledge: @prev may be gone by now (its mm died
 * while we ran a kernel thread on its tables; then we have left them).
 */
void switch_mm(struct mm *prev, struct mm *next)
{
	struct tlb_state *ts = this_cpu_ptr(&tlb_state);
	unsigned int cpu = smp_processor_id();
	struct mm *old = ts->mm;
	bool keep;

	(void)prev;
	assert(irqs_disabled());
	if (next == &init_mm) {
		leave_mm(ts);
		return;
	}
	if (next == old) {
		if (!ts->lazy)
			return;				/* another thread of the same process */
		(void)__atomic_exchange_n(&ts->lazy, false, __ATOMIC_SEQ_CST);		/* W1 */
		u64 gen = __atomic_load_n(&next->tlb_gen, __ATOMIC_SEQ_CST);		/* W2 */
		if (gen != ts->contexts[ts->slot].gen) {
			load_tables(next, cpu_features.pcid ? ts->slot + 1 : 0, false);	/* W3 */
			ts->contexts[ts->slot].gen = gen;
			vm_count(VM_nr_tlb_local_flush_all);
		}
		return;
	}

	WRITE_ONCE(ts->lazy, false);							/* L0: of old */
	__atomic_fetch_or(&next->cpu_mask, cpumask_of(cpu), __ATOMIC_SEQ_CST);		/* L1 */
	u64 gen = __atomic_load_n(&next->tlb_gen, __ATOMIC_SEQ_CST);			/* L2 */
	ts->slot = choose_slot(ts, next, gen, &keep);
	ts->contexts[ts->slot].id = next->context_id;
	ts->contexts[ts->slot].gen = gen;						/* L3 */
	load_tables(next, cpu_features.pcid ? ts->slot + 1 : 0, keep);			/* L4 */
	ts->mm = next;
	/* Only now: until L4 the CPU could still walk the old tables, so whoever frees them had to interrupt us. */
	if (old != &init_mm)
		__atomic_fetch_and(&old->cpu_mask, ~cpumask_of(cpu), __ATOMIC_RELEASE);
}

/* Interrupts off: a kernel thread is going to run on what is loaded. No order needed: late means one interrupt more. */
void enter_lazy_tlb(struct mm *mm)
{
	struct tlb_state *ts = this_cpu_ptr(&tlb_state);

	(void)mm;
	if (ts->mm != &init_mm)
		WRITE_ONCE(ts->lazy, true);
}

void tlb_init_cpu(void)
{
	struct tlb_state *ts = this_cpu_ptr(&tlb_state);

	ts->mm = &init_mm;
	if (cpu_features.pcid)
		write_cr4(read_cr4() | CR4_PCIDE);	/* CR3 names PCID 0 now, as the CPU demands */
}

/* -- flushing on this CPU -------------------------------------------------------------------------------------- */

static void invlpg_range(uintptr_t start, uintptr_t end)
{
	for (uintptr_t addr = start & PAGE_MASK; addr < end; addr += PAGE_SIZE)
		invlpg(addr);
	vm_count_add(VM_nr_tlb_local_flush_one, (s64)((end - (start & PAGE_MASK) + PAGE_SIZE - 1) >> PAGE_SHIFT));
}

static bool range_is_small(uintptr_t start, uintptr_t end)
{
	return end - start <= FLUSH_ALL_ABOVE * PAGE_SIZE;
}

/* Everything, global translations and all PCIDs included. */
static void flush_local_kernel(uintptr_t start, uintptr_t end)
{
	if (range_is_small(start, end)) {
		invlpg_range(start, end);
		return;
	}
	u64 cr4 = read_cr4();
	if (cr4 & CR4_PGE) {
		write_cr4(cr4 & ~CR4_PGE);
		write_cr4(cr4);
	} else {
		write_cr3(read_cr3());
	}
	vm_count(VM_nr_tlb_local_flush_all);
}

/* This CPU has @req->mm loaded and uses it. Interrupts off. */
static void flush_local_mm(struct tlb_state *ts, const struct tlb_request *req)
{
	u64 *gen = &ts->contexts[ts->slot].gen;

	if (*gen >= req->gen)
		return;					/* emptied since the request was made */
	if (*gen + 1 == req->gen && range_is_small(req->start, req->end)) {
		/* INVLPG also drops all paging-structure caches, so freed tables need nothing more. */
		invlpg_range(req->start, req->end);
		*gen = req->gen;
		return;
	}
	u64 newest = __atomic_load_n(&req->mm->tlb_gen, __ATOMIC_ACQUIRE);	/* before the flush, or it would claim too much */
	load_tables(req->mm, cpu_features.pcid ? ts->slot + 1 : 0, false);
	*gen = newest;
	vm_count(VM_nr_tlb_local_flush_all);
}

/* Interrupts off. */
static void flush_local(struct tlb_state *ts, const struct tlb_request *req)
{
	if (!req->mm) {
		flush_local_kernel(req->start, req->end);
		return;
	}
	if (ts->mm != req->mm)
		return;					/* went elsewhere since; coming back compares generations */
	if (ts->lazy || req->forget)
		leave_mm(ts);
	else
		flush_local_mm(ts, req);
}

/* A spurious fault: another CPU has made the entry more permissive and owes us nothing (B16). */
void flush_tlb_local_page(uintptr_t addr)
{
	invlpg(addr);
}

/* -- flushing everywhere --------------------------------------------------------------------------------------- */

void tlb_flush_ipi(void)
{
	struct tlb_state *ts = this_cpu_ptr(&tlb_state);
	cpumask_t self = cpumask_of(smp_processor_id());
	cpumask_t senders = __atomic_exchange_n(&this_cpu_ptr(&tlb_inbox)->senders, 0, __ATOMIC_ACQ_REL);
	unsigned int cpu;

	assert(irqs_disabled());
	for_each_cpu(cpu, senders) {
		struct tlb_request *req = per_cpu_ptr(&tlb_request, cpu);

		flush_local(ts, req);
		vm_count(VM_nr_tlb_remote_flush_received);
		/* The last touch of *req: its owner may fill it anew as soon as our bit is gone. */
		__atomic_fetch_and(&req->pending, ~self, __ATOMIC_RELEASE);
	}
}

static void wait_for_answers(const struct tlb_request *req)
{
	u64 spins = 0;

	while (__atomic_load_n(&req->pending, __ATOMIC_ACQUIRE)) {
		cpu_relax();
		if (unlikely(++spins == 1ul << 32))
			pr_err("TLB shoot-down: no answer from CPUs %lx, still waiting", READ_ONCE(req->pending));
	}
}

/* Asks @targets (not this CPU), flushes here meanwhile, waits. Preemption off, so that the slot is ours. */
static void shoot_down(struct tlb_request *req, cpumask_t targets)
{
	cpumask_t self = cpumask_of(smp_processor_id()), kick = 0;
	unsigned int cpu;

	if (targets) {
		assert(!irqs_disabled());
		assert(!in_interrupt());
		__atomic_store_n(&req->pending, targets, __ATOMIC_RELAXED);
		for_each_cpu(cpu, targets) {
			/* Release: the slot is complete. A non-empty inbox has an interrupt on its way. */
			if (__atomic_fetch_or(&per_cpu_ptr(&tlb_inbox, cpu)->senders, self, __ATOMIC_ACQ_REL) == 0)
				kick |= cpumask_of(cpu);
		}
		smp_send_tlb_flush(kick);
		vm_count(VM_nr_tlb_remote_flush);
	}
	unsigned long flags = local_irq_save();
	flush_local(this_cpu_ptr(&tlb_state), req);
	local_irq_restore(flags);
	if (targets)
		wait_for_answers(req);
}

/* CPUs in @mm's mask but for this one; lazy ones only if they matter. F3 and F4. */
static cpumask_t flush_targets(struct mm *mm, bool lazy_too)
{
	cpumask_t mask = __atomic_load_n(&mm->cpu_mask, __ATOMIC_SEQ_CST) & ~cpumask_of(smp_processor_id());
	cpumask_t targets = mask;
	unsigned int cpu;

	if (!lazy_too) {
		for_each_cpu(cpu, mask)
			if (__atomic_load_n(&per_cpu_ptr(&tlb_state, cpu)->lazy, __ATOMIC_SEQ_CST))
				targets &= ~cpumask_of(cpu);
	}
	return targets;
}

#ifdef DEBUG
/* The promise of the essay above, looked at: nobody who uses @mm is behind @gen now. */
static void check_generations(struct mm *mm, u64 gen)
{
	unsigned int cpu;

	for_each_cpu(cpu, __atomic_load_n(&mm->cpu_mask, __ATOMIC_SEQ_CST)) {
		struct tlb_state *ts = per_cpu_ptr(&tlb_state, cpu);
		u64 spins = 0;

		/* Between W1 and W3 a CPU is behind for an instant; it does not use the mm before it has caught up. */
		while (READ_ONCE(ts->mm) == mm && !READ_ONCE(ts->lazy) && READ_ONCE(ts->contexts[READ_ONCE(ts->slot)].gen) < gen) {
			cpu_relax();
			if (++spins == 1ul << 28)
				panic("TLB of CPU %u is at generation %lu of mm %p, the flush that was completed is %lu", cpu,
				      ts->contexts[ts->slot].gen, mm, gen);
		}
	}
}
#else
static void check_generations(struct mm *mm, u64 gen) { (void)mm; (void)gen; }
#endif

/* @span: how much one leaf at @start maps, if that is more than the range: a single large page. */
static void flush_mm_span(struct mm *mm, uintptr_t start, uintptr_t end, size_t span, bool tables, bool forget)
{
	if (unlikely(debug_skip_flush()))
		return;
	preempt_disable();
	struct tlb_request *req = this_cpu_ptr(&tlb_request);

	req->mm = mm;
	req->start = start;
	req->end = end;
	req->tables = tables;
	req->forget = forget;
	req->gen = __atomic_add_fetch(&mm->tlb_gen, 1, __ATOMIC_SEQ_CST);	/* F2 */
	cpumask_t targets = flush_targets(mm, tables || forget);
	trace_event(TRACE_TLB, mm->context_id, start, end, targets);
	shoot_down(req, targets);
	check_generations(mm, req->gen);
	preempt_enable();
	/* Those who leave empty their TLB: as good as freed tables to the checker. */
	debug_flushed(mm, start, max(end, start + span), tables || forget);
}

static void flush_mm_range(struct mm *mm, uintptr_t start, uintptr_t end, bool tables, bool forget)
{
	flush_mm_span(mm, start, end, 0, tables, forget);
}

void flush_tlb_page(struct mm *mm, uintptr_t addr)
{
	flush_mm_range(mm, addr & PAGE_MASK, (addr & PAGE_MASK) + PAGE_SIZE, false, false);
}

/* INVLPG of any address in a large page drops all of it (SDM vol. 3, 4.10.4.1), so this is a flush of one page. */
void flush_tlb_huge_page(struct mm *mm, uintptr_t addr, size_t size)
{
	flush_mm_span(mm, addr, addr + PAGE_SIZE, size, false, false);
}

void flush_tlb_range(struct mm *mm, uintptr_t start, uintptr_t end, bool freed_tables)
{
	flush_mm_range(mm, start, end, freed_tables, false);
}

void flush_tlb_mm(struct mm *mm)
{
	flush_mm_range(mm, 0, TASK_SIZE, false, false);
}

void flush_tlb_kernel_range(uintptr_t start, uintptr_t end)
{
	preempt_disable();
	struct tlb_request *req = this_cpu_ptr(&tlb_request);

	req->mm = NULL;
	req->start = start;
	req->end = end;
	shoot_down(req, READ_ONCE(cpu_online_mask) & ~cpumask_of(smp_processor_id()));
	preempt_enable();
}

void tlb_forget_mm(struct mm *mm)
{
	if (__atomic_load_n(&mm->cpu_mask, __ATOMIC_SEQ_CST))
		flush_mm_range(mm, 0, TASK_SIZE, true, true);
	/* Nobody can have come back: no task has this mm, and a lazy CPU only leaves. */
	BUG_ON(READ_ONCE(mm->cpu_mask));
}

/*
 * R56. A clears an entry and will flush at the end of its batch; B finds nothing to clear in the same range and would
 * return without a flush, while stale translations are still in use. The counter is raised before the first PTE lock,
 * so whoever sees an entry cleared under that lock also sees the count, and flushes for the other.
 */
void inc_tlb_flush_pending(struct mm *mm)
{
	__atomic_fetch_add(&mm->tlb_flush_pending, 1, __ATOMIC_SEQ_CST);
}

void dec_tlb_flush_pending(struct mm *mm)
{
	u32 old = __atomic_fetch_sub(&mm->tlb_flush_pending, 1, __ATOMIC_SEQ_CST);	/* after the flush */

	BUG_ON(old == 0);
}

bool mm_tlb_flush_pending(struct mm *mm)
{
	return __atomic_load_n(&mm->tlb_flush_pending, __ATOMIC_ACQUIRE) > 0;
}

bool mm_tlb_flush_nested(struct mm *mm)
{
	return __atomic_load_n(&mm->tlb_flush_pending, __ATOMIC_ACQUIRE) > 1;
}

/* -- mmu_gather: free after flush ------------------------------------------------------------------------------ */

/* Pages held back at once: bounded, so that the memory comes back soon and put_page() runs in short pieces. */
#ifdef DEBUG
#define MAX_BATCHES	1u		/* the checker remembers each translation until its flush */
#else
#define MAX_BATCHES	16u
#endif
_Static_assert(sizeof(struct gather_batch) == PAGE_SIZE, "GATHER_PAGES fills a page");

static void gather_reset(struct mmu_gather *tlb)
{
	tlb->start = ~0ul;
	tlb->end = 0;
	tlb->freed_tables = false;
}

void tlb_gather_begin(struct mmu_gather *tlb, struct mm *mm)
{
	tlb->mm = mm;
	tlb->fullmm = false;
	tlb->batches = tlb->current_batch = NULL;
	tlb->tables = NULL;
	tlb->nr_inline = tlb->nr_batches = 0;
	gather_reset(tlb);
	inc_tlb_flush_pending(mm);
}

/* The mm has no tasks any more: one flush of everything at the end, whatever was cleared. */
void tlb_gather_begin_fullmm(struct mmu_gather *tlb, struct mm *mm)
{
	tlb_gather_begin(tlb, mm);
	tlb->fullmm = true;
}

void tlb_note_cleared(struct mmu_gather *tlb, uintptr_t addr, size_t size)
{
	if (addr < tlb->start)
		tlb->start = addr;
	if (addr + size > tlb->end)
		tlb->end = addr + size;
}

/* Under a PTE lock: the batch pages must come without waiting. False: none to be had, or enough gathered. */
static bool next_batch(struct mmu_gather *tlb)
{
	struct gather_batch *b;

	if (tlb->current_batch && tlb->current_batch->next) {
		tlb->current_batch = tlb->current_batch->next;	/* kept by tlb_flush */
		return true;
	}
	if (tlb->nr_batches == MAX_BATCHES)
		return false;
	struct page *p = __alloc_pages(GFP_ATOMIC | GFP_NOWARN, 0);
	if (!p)
		return false;
	b = page_to_virt(p);
	b->next = NULL;
	b->nr = 0;
	if (tlb->current_batch)
		tlb->current_batch->next = b;
	else
		tlb->batches = b;
	tlb->current_batch = b;
	tlb->nr_batches++;
	return true;
}

/* There is always room for one: else the call before has said "full". */
bool tlb_add_page(struct mmu_gather *tlb, struct page *page)
{
	struct gather_batch *b = tlb->current_batch;

	if (likely(b)) {
		assert(b->nr < GATHER_PAGES);
		b->pages[b->nr++] = page;
		return b->nr == GATHER_PAGES && !next_batch(tlb);
	}
	assert(tlb->nr_inline < GATHER_INLINE);
	tlb->inline_pages[tlb->nr_inline++] = page;
	return tlb->nr_inline == GATHER_INLINE && !next_batch(tlb);
}

void tlb_add_table(struct mmu_gather *tlb, struct page *table)
{
	table->next_table = tlb->tables;
	tlb->tables = table;
	tlb->freed_tables = true;
}

static void free_tables_rcu(struct rcu_head *head)
{
	for (struct page *next, *table = container_of(head, struct page, rcu); table; table = next) {
		next = table->next_table;
		free_table(table);
	}
}

/* After the flush no CPU's hardware knows the tables; walkers in software may, until the end of a grace period. */
static void free_gathered_tables(struct mmu_gather *tlb)
{
	if (!tlb->tables)
		return;
	call_rcu(&tlb->tables->rcu, free_tables_rcu);
	tlb->tables = NULL;
}

static void free_gathered_pages(struct mmu_gather *tlb)
{
	release_pages(tlb->inline_pages, tlb->nr_inline);
	tlb->nr_inline = 0;
	for (struct gather_batch *b = tlb->batches; b && b->nr; b = b->next) {
		release_pages(b->pages, b->nr);
		b->nr = 0;
	}
	tlb->current_batch = tlb->batches;
}

void tlb_flush(struct mmu_gather *tlb)
{
	if (tlb->fullmm && tlb->start < tlb->end)
		flush_mm_range(tlb->mm, 0, TASK_SIZE, tlb->freed_tables, true);
	else if (tlb->start < tlb->end)
		flush_mm_range(tlb->mm, tlb->start, tlb->end, tlb->freed_tables, false);
	else
		assert(!tlb->freed_tables && !tlb->nr_inline && !(tlb->batches && tlb->batches->nr));
	free_gathered_pages(tlb);
	free_gathered_tables(tlb);
	gather_reset(tlb);
}

void tlb_gather_end(struct mmu_gather *tlb)
{
	/* Somebody else has cleared entries that we may have found empty: flush for him, all of it (R56). */
	if (unlikely(mm_tlb_flush_nested(tlb->mm)))
		tlb_note_cleared(tlb, 0, TASK_SIZE);
	tlb_flush(tlb);
	if (tlb->fullmm)
		tlb_forget_mm(tlb->mm);
	while (tlb->batches) {
		struct gather_batch *b = tlb->batches;

		tlb->batches = b->next;
		free_page(b);
	}
	dec_tlb_flush_pending(tlb->mm);
}
