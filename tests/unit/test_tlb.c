/*
 * mm/tlb.c against a model of four CPUs with TLBs that really keep what they have seen, with and without PCIDs (which no
 * emulator that we have offers).
 *
 * Random steps: a CPU switches to an mm, goes lazy, uses a page of its mm; somebody unmaps a page or a table in an mm and
 * flushes, with interrupts delivered at once or, to a CPU that has them off, later; an mm dies. The rule that is
 * checked after each flush and at each use: no CPU translates by an entry that was taken out before a completed flush,
 * and no CPU, lazy or not, has tables loaded that were given back. Also: a lazy CPU is left alone when no table goes,
 * flushes of one page do not empty the TLB, and a PCID keeps its entries over an absence.
 *
 * What this cannot show is memory ordering; the essay in mm/tlb.c argues that.
 */
#include "mm_host.h"

/* -- a machine -- */
#define CR4_PGE		BIT(7)
#define CR4_PCIDE	BIT(17)
#define NR_MMS		5
#define NR_PAGES	64
#define BASE		0x400000ul

struct tlb_entry { bool valid; u32 pcid; uintptr_t page; u64 value; };
#define TLB_SIZE 512
static struct sim_cpu {
	u64 cr3, cr4;
	struct tlb_entry tlb[TLB_SIZE];
	unsigned int next;
	bool irqs_off, ipi_pending;
	u64 emptied;
} sim[TEST_CPUS];

static u64 read_cr3(void) { return sim[test_cpu].cr3; }
static u64 read_cr4(void) { return sim[test_cpu].cr4; }
static void write_cr4(u64 v) { sim[test_cpu].cr4 = v; }
static void drop_pcid(struct sim_cpu *c, u32 pcid)
{
	for (int i = 0; i < TLB_SIZE; i++)
		if (c->tlb[i].pcid == pcid)
			c->tlb[i].valid = false;
	c->emptied++;
}
static void write_cr3(u64 v)
{
	struct sim_cpu *c = &sim[test_cpu];

	if (!(c->cr4 & CR4_PCIDE))
		CHECK(!(v & 0xfff) && !(v >> 63));
	if (!(v >> 63))
		drop_pcid(c, v & 0xfff);
	c->cr3 = v & ~(1ul << 63);
}
static void invlpg(uintptr_t addr)
{
	struct sim_cpu *c = &sim[test_cpu];

	for (int i = 0; i < TLB_SIZE; i++)
		if (c->tlb[i].pcid == (c->cr3 & 0xfff) && c->tlb[i].page == (addr & PAGE_MASK))
			c->tlb[i].valid = false;
}

#include "kernel/list.h"
#include "mm/tlb.c"

DEFINE_PER_CPU(struct vm_counters, vm_counters);
struct cpu_features cpu_features;
struct mm init_mm;
bool trace_on;
void __trace_event(enum trace_id id, u64 a, u64 b, u64 c, u64 d) { (void)id; (void)a; (void)b; (void)c; (void)d; }
struct page *__alloc_pages(unsigned int gfp, unsigned int order);
void release_pages(struct page **pages, unsigned int n);

/* -- memory: frames are numbers; a table is the mm's array -- */
static struct test_mm {
	struct mm mm;
	u64 entry[NR_PAGES];		/* 0: not mapped */
	bool dead;
} mms[NR_MMS];
static u64 next_value = 1, next_id = 1;
static u64 ipis;

static struct test_mm *loaded_mm(unsigned int cpu)
{
	for (int i = 0; i < NR_MMS; i++)
		if (!mms[i].dead && virt_to_phys(mms[i].mm.pgd) == (sim[cpu].cr3 & ~0xffful))
			return &mms[i];
	CHECK((sim[cpu].cr3 & ~0xffful) == virt_to_phys(init_mm.pgd));	/* else: tables of a dead mm */
	return NULL;
}

static void as_cpu(unsigned int cpu, void (*fn)(void))
{
	unsigned int self = test_cpu;
	bool off = test_irqs_off;

	test_cpu = cpu;
	test_irqs_off = true;
	fn();
	test_irqs_off = off;
	test_cpu = self;
}

static void flush_from_another_cpu(cpumask_t targets);

void smp_send_tlb_flush(cpumask_t mask)
{
	unsigned int cpu;

	flush_from_another_cpu(mask);
	for_each_cpu(cpu, mask) {
		ipis++;
		CHECK(cpu != test_cpu);
		as_cpu(cpu, tlb_flush_ipi);
	}
}

/* -- what the steps do -- */

static void start_mm(struct test_mm *m)
{
	m->mm.context_id = next_id++;
	m->mm.tlb_gen = 0;
	m->mm.cpu_mask = 0;
	m->dead = false;
	m->mm.pgd = (pgd_t *)(test_memory + (next_id << PAGE_SHIFT));
	for (int i = 0; i < NR_PAGES; i++)
		m->entry[i] = next_value++;
}

static void use(unsigned int cpu, struct test_mm *m, unsigned int page)
{
	struct sim_cpu *c = &sim[cpu];
	u32 pcid = c->cr3 & 0xfff;

	for (int i = 0; i < TLB_SIZE; i++) {
		struct tlb_entry *e = &c->tlb[i];
		if (e->valid && e->pcid == pcid && e->page == BASE + page * PAGE_SIZE) {
			CHECK(e->value == m->entry[page]);	/* else: a stale translation */
			return;
		}
	}
	if (m->entry[page])
		c->tlb[c->next++ % TLB_SIZE] = (struct tlb_entry){ true, pcid, BASE + page * PAGE_SIZE, m->entry[page] };
}

static struct mm *running[TEST_CPUS];	/* NULL: a kernel thread */

static void schedule_on(unsigned int cpu, struct mm *next)
{
	test_cpu = cpu;
	test_irqs_off = true;
	if (next)
		switch_mm(running[cpu], next);
	else
		enter_lazy_tlb(this_cpu_ptr(&tlb_state)->mm);
	running[cpu] = next;
	test_irqs_off = false;
}

static void unmap(struct test_mm *m, unsigned int first, unsigned int n, bool tables)
{
	for (unsigned int i = first; i < first + n; i++)
		m->entry[i] = 0;
	flush_tlb_range(&m->mm, BASE + first * PAGE_SIZE, BASE + (first + n) * PAGE_SIZE, tables);
	for (unsigned int cpu = 0; cpu < TEST_CPUS; cpu++) {
		if (running[cpu] == &m->mm)
			for (unsigned int i = 0; i < NR_PAGES; i++)
				use(cpu, m, i);
		else if (tables)
			CHECK(loaded_mm(cpu) != m);	/* lazy ones have left */
	}
	for (unsigned int i = first; i < first + n; i++)
		m->entry[i] = next_value++;		/* other frames; absent entries are not cached, so no flush */
}

/* Spinning: the interrupt that somebody else has promised to send arrives. */
static void deliver_all(void)
{
	for (unsigned int cpu = 0; cpu < TEST_CPUS; cpu++)
		if (per_cpu_ptr(&tlb_inbox, cpu)->senders)
			as_cpu(cpu, tlb_flush_ipi);
}

/* Before the interrupts of one flush arrive, one of its targets completes a flush of its own in the same mm. */
static struct test_mm *flushing;
static void flush_from_another_cpu(cpumask_t targets)
{
	struct test_mm *m = flushing;
	unsigned int self = test_cpu;

	if (!m || !targets || test_random() % 3)
		return;
	flushing = NULL;
	test_cpu = (unsigned int)__builtin_ctzll(targets);
	unsigned int page = (unsigned int)(test_random() % NR_PAGES);
	if (!m->entry[page])
		goto out;		/* one of those that the outer flush is about */
	m->entry[page] = 0;
	flush_tlb_page(&m->mm, BASE + page * PAGE_SIZE);
	for (unsigned int cpu = 0; cpu < TEST_CPUS; cpu++)
		if (running[cpu] == &m->mm)
			use(cpu, m, page);
	m->entry[page] = next_value++;
out:
	test_cpu = self;
}

static void kill(struct test_mm *m)
{
	for (unsigned int cpu = 0; cpu < TEST_CPUS; cpu++) {
		if (running[cpu] != &m->mm)
			continue;
		if (test_random() % 2)
			schedule_on(cpu, NULL);
		else
			running[cpu] = NULL;	/* on its way out, not yet marked lazy */
	}
	tlb_forget_mm(&m->mm);
	CHECK(m->mm.cpu_mask == 0);
	m->dead = true;
	for (unsigned int cpu = 0; cpu < TEST_CPUS; cpu++)
		loaded_mm(cpu);
	start_mm(m);
}

static void reset(bool pcid)
{
	cpu_features.pcid = pcid;
	memset(sim, 0, sizeof(sim));
	for (unsigned int cpu = 0; cpu < TEST_CPUS; cpu++) {
		test_cpu = cpu;
		memset(this_cpu_ptr(&tlb_state), 0, sizeof(tlb_state));
		sim[cpu].cr4 = CR4_PGE;
		write_cr3(virt_to_phys(init_mm.pgd));
		tlb_init_cpu();
		running[cpu] = NULL;
	}
	for (int i = 0; i < NR_MMS; i++)
		start_mm(&mms[i]);
}

static void random_steps(void)
{
	for (int step = 0; step < 100000; step++) {
		unsigned int cpu = (unsigned int)(test_random() % TEST_CPUS);
		struct test_mm *m = &mms[test_random() % NR_MMS];
		unsigned int what = (unsigned int)(test_random() % 100), page = (unsigned int)(test_random() % NR_PAGES);

		if (what < 30) {
			schedule_on(cpu, test_random() % 3 ? &m->mm : NULL);
		} else if (what < 75) {
			if (running[cpu])
				use(cpu, container_of(running[cpu], struct test_mm, mm), page);
		} else if (what < 99) {
			unsigned int n = test_random() % 3 ? 1 : (unsigned int)(1 + test_random() % (NR_PAGES - page));

			test_cpu = cpu;		/* anybody may flush any mm */
			flushing = m;
			unmap(m, page, n, test_random() % 8 == 0);
			flushing = NULL;
		} else {
			test_cpu = cpu;
			kill(m);
		}
		for (unsigned int c = 0; c < TEST_CPUS; c++) {
			struct test_mm *l = loaded_mm(c);
			if (l)
				CHECK(l->mm.cpu_mask >> c & 1);	/* who is loaded is in the mask */
		}
	}
}

static void lazy_cpus_are_left_alone(void)
{
	schedule_on(1, &mms[0].mm);
	schedule_on(2, &mms[0].mm);
	schedule_on(2, NULL);
	schedule_on(0, &mms[0].mm);
	use(1, &mms[0], 3);
	use(1, &mms[0], 4);
	u64 before = ipis, emptied = sim[1].emptied;
	test_cpu = 0;
	unmap(&mms[0], 3, 1, false);
	CHECK(ipis == before + 1);			/* CPU 1, not CPU 2 */
	CHECK(sim[1].emptied == emptied);		/* one page, one INVLPG */
	CHECK(loaded_mm(2) == &mms[0]);
	schedule_on(2, &mms[0].mm);			/* wakes and must catch up */
	before = ipis;
	test_cpu = 0;
	unmap(&mms[0], 5, 1, true);
	CHECK(ipis == before + 2);
	schedule_on(2, NULL);
	before = ipis;
	test_cpu = 0;
	unmap(&mms[0], 5, 1, true);
	CHECK(ipis == before + 2 && loaded_mm(2) == NULL);
}

static void pcid_keeps_entries(void)
{
	schedule_on(3, &mms[1].mm);
	use(3, &mms[1], 7);
	u64 emptied = sim[3].emptied;
	schedule_on(3, &mms[2].mm);
	emptied = sim[3].emptied;
	schedule_on(3, &mms[1].mm);
	CHECK((sim[3].emptied == emptied) == cpu_features.pcid);
	schedule_on(3, &mms[2].mm);
	test_cpu = 0;
	unmap(&mms[1], 7, 1, false);			/* CPU 3 is not in the mask now */
	emptied = sim[3].emptied;
	schedule_on(3, &mms[1].mm);
	CHECK(sim[3].emptied == emptied + 1);
	use(3, &mms[1], 7);
}

/* -- the gather -- */
static u64 released, tables_freed;
static bool no_memory;
static struct rcu_head *rcu_queue;
struct page *__alloc_pages(unsigned int gfp, unsigned int order)
{
	(void)gfp; (void)order;
	static u64 next_pfn = 0x1000;
	return no_memory ? NULL : pfn_to_page(next_pfn++ % 0x100 + 0x1000);
}
void release_pages(struct page **pages, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		pages[i]->index = 0;			/* marks it as gone */
	released += n;
}
void free_page(void *kaddr) { (void)kaddr; }
void free_table(struct page *table) { (void)table; tables_freed++; }
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *)) { (void)func; head->next = rcu_queue; rcu_queue = head; }

static void gather(bool starved)
{
	struct mm *mm = &mms[0].mm;
	struct mmu_gather tlb;
	u64 added = 0, gen = mm->tlb_gen;

	no_memory = starved;
	released = tables_freed = 0;
	tlb_gather_begin(&tlb, mm);
	CHECK(mm_tlb_flush_pending(mm) && !mm_tlb_flush_nested(mm));
	for (u64 i = 0; i < 20000; i++) {
		struct page *p = pfn_to_page(0x2000 + i);

		p->index = 1;
		tlb_note_cleared(&tlb, BASE + i * PAGE_SIZE, PAGE_SIZE);
		added++;
		if (tlb_add_page(&tlb, p)) {
			CHECK(p->index == 1);		/* nothing goes before the flush */
			tlb_flush(&tlb);
			CHECK(p->index == 0 && released == added);
		}
	}
	for (u64 i = 0; i < 3; i++) {
		tlb_note_cleared(&tlb, BASE + i * PMD_SIZE, PMD_SIZE);
		tlb_add_table(&tlb, pfn_to_page(0x8000 + i));
	}
	tlb_gather_end(&tlb);
	CHECK(released == added && mm->tlb_gen > gen && !mm_tlb_flush_pending(mm));
	CHECK(rcu_queue && !rcu_queue->next && !tables_freed);	/* one grace period for all three */
	free_tables_rcu(rcu_queue);
	rcu_queue = NULL;
	CHECK(tables_freed == 3);
	no_memory = false;

	/* R56: somebody else's flush is pending, we found nothing: flush all the same. */
	inc_tlb_flush_pending(mm);
	gen = mm->tlb_gen;
	tlb_gather_begin(&tlb, mm);
	tlb_gather_end(&tlb);
	CHECK(mm->tlb_gen == gen + 1);
	dec_tlb_flush_pending(mm);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		test_seed = strtoul(argv[1], NULL, 0) | 1;
	mm_host_init();
	init_mm.pgd = (pgd_t *)test_memory;
	test_relax = deliver_all;
	for (int pcid = 0; pcid < 2; pcid++) {
		reset(pcid);
		lazy_cpus_are_left_alone();
		reset(pcid);
		pcid_keeps_entries();
		reset(pcid);
		random_steps();
		reset(pcid);
		gather(false);
		gather(true);
	}
	return 0;
}
