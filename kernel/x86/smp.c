/*
 * The other CPUs.
 *
 * Start: memory for each is prepared here (per-CPU data, interrupt stacks, idle task), then all get INIT together and
 * the start-up IPI together, and each finds its own number by its APIC id (boot/ap_trampoline.S). Nobody waits for
 * anybody: 64 take hardly longer than two. Intel SDM vol. 3, 8.4.
 *
 * Cross calls: the caller puts one record per target on the target's queue and interrupts it. The rule is that the caller
 * has interrupts on while it waits, so that two CPUs calling each other both answer.
 */
#include "kernel/smp.h"
#include "kernel/cmdline.h"
#include "kernel/panic.h"
#include "kernel/preempt.h"
#include "kernel/printk.h"
#include "kernel/sched.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/time.h"
#include "kernel/timer.h"
#include "kernel/x86/acpi.h"
#include "kernel/x86/apic.h"
#include "kernel/x86/boot_info.h"
#include "kernel/x86/clock.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/features.h"
#include "kernel/x86/fpu.h"
#include "kernel/x86/gdt.h"
#include "kernel/x86/irq.h"
#include "kernel/x86/smp_calls.h"
#include "kernel/x86/syscall_setup.h"
#include "kernel/x86/traps.h"
#include "mm/frame.h"
#include "mm/pgtable.h"

#define INIT_DELAY_US		10000
#define SIPI_DELAY_US		300
#define START_TIMEOUT_NS	(20 * NSEC_PER_SEC)	/* 63 CPUs under emulation on a busy host */
#define TSC_ROUNDS		4
#define TSC_CHECK_NS		(20 * NSEC_PER_MSEC)

struct cpu_local cpu_local __section(".percpu.first") __aligned(64);
uintptr_t percpu_offsets[NR_CPUS];
unsigned int nr_cpus_found = 1;
cpumask_t cpu_online_mask = 1;

extern char __percpu_template[], ap_trampoline_start[], ap_trampoline_end[];
void ap_main(unsigned int cpu) __noreturn;

/* Read by the trampoline. 0: this CPU is not started. */
u64 ap_stack_tops[NR_CPUS];
u64 ap_cr3;

static cpumask_t called_in;		/* atomic: CPUs that have reached C */
static bool all_online = true;

bool smp_all_online(void)
{
	return READ_ONCE(all_online);
}

/* --- starting ----------------------------------------------------------------------------------------------------------------- */

/* As boot/ap_trampoline.S does it; the APIC itself is not mapped yet. */
static u32 cpuid_apic_id(void)
{
	u32 a, b, c, d;

	if (cpu_features.max_leaf >= 0xb) {
		cpuid(0xb, 0, &a, &b, &c, &d);
		if (b)
			return d;
	}
	cpuid(1, 0, &a, &b, &c, &d);
	return b >> 24;
}

/* cpu_apic_ids[]: ourselves first, the others as ACPI lists them. */
void smp_count_cpus(void)
{
	cpu_apic_ids[0] = cpuid_apic_id();
	for (unsigned int i = 0; i < acpi.nr_cpus; i++) {
		if (acpi.apic_ids[i] != cpu_apic_ids[0] && nr_cpus_found < NR_CPUS)
			cpu_apic_ids[nr_cpus_found++] = acpi.apic_ids[i];
	}
}

static unsigned int order_for(size_t size)
{
	unsigned int order = 0;

	while (PAGE_SIZE << order < size)
		order++;
	return order;
}

/* Everything that CPU @cpu needs before its first instruction. False: out of memory. What was allocated stays. */
static bool prepare_cpu(unsigned int cpu)
{
	size_t size = (size_t)(__percpu_end - __percpu_start);
	struct page *data = alloc_pages(GFP_KERNEL, order_for(size));
	struct page *ist = alloc_pages(GFP_KERNEL | GFP_ZERO, order_for((NR_IST - 1) * IST_STACK_SIZE));

	if (!data || !ist)
		return false;
	char *copy = page_to_virt(data);
	memcpy(copy, __percpu_template, size);
	percpu_offsets[cpu] = (uintptr_t)copy - (uintptr_t)__percpu_start;

	struct cpu_local *local = per_cpu_ptr(&cpu_local, cpu);
	local->self = (uintptr_t)local;
	local->percpu_offset = percpu_offsets[cpu];
	local->id = cpu;
	local->apic_id = cpu_apic_ids[cpu];
	gdt_set_ist_memory(cpu, page_to_virt(ist));

	timers_init_cpu(cpu);
	sched_init_cpu(cpu);
	struct task *idle = sched_idle_task(cpu);
	if (!idle)
		return false;
	local->task = idle;
	local->kernel_rsp = (uintptr_t)idle->stack + KERNEL_STACK_SIZE;
	ap_stack_tops[cpu] = local->kernel_rsp;
	return true;
}

static bool wait_for(const cpumask_t *mask, cpumask_t wanted, u64 timeout_ns)
{
	u64 end = ktime_get_ns() + timeout_ns;

	while ((__atomic_load_n(mask, __ATOMIC_ACQUIRE) & wanted) != wanted) {
		if (ktime_get_ns() > end)
			return false;
		cpu_relax();
	}
	return true;
}

static void send_start(cpumask_t cpus)
{
	unsigned int cpu;

	for_each_cpu(cpu, cpus)
		apic_send_startup(cpu_apic_ids[cpu], boot_trampoline_page);
}

static void start_cpus(cpumask_t wanted)
{
	unsigned int cpu;

	ap_cr3 = virt_to_phys(kernel_pgd);
	memcpy(phys_to_virt(boot_trampoline_page), ap_trampoline_start, (size_t)(ap_trampoline_end - ap_trampoline_start));

	for_each_cpu(cpu, wanted)
		apic_send_init(cpu_apic_ids[cpu]);
	udelay(INIT_DELAY_US);
	send_start(wanted);
	/* The second IPI is for CPUs that missed the first; the specification asks for it, most never need it. */
	if (!wait_for(&called_in, wanted, SIPI_DELAY_US * NSEC_PER_USEC))
		send_start(wanted & ~__atomic_load_n(&called_in, __ATOMIC_ACQUIRE));
	all_online = wait_for(&cpu_online_mask, wanted, START_TIMEOUT_NS);
}

/* --- do the TSCs agree? ------------------------------------------------------------------------------------------------------------ */

static u32 tsc_turn;			/* atomic: even = boot CPU's, odd = the other's */
static u64 tsc_last;			/* of whose turn it is */
static u64 tsc_worst;			/* largest step backwards */

/* Each reading must be at least what the other CPU read before it handed over. */
static void tsc_rounds(u32 me)
{
	for (u32 turn = me; turn < 2 * TSC_ROUNDS; turn += 2) {
		while (__atomic_load_n(&tsc_turn, __ATOMIC_ACQUIRE) != turn)
			cpu_relax();
		__asm__ volatile("lfence" ::: "memory");
		u64 now = rdtsc();
		if (turn && now < tsc_last && tsc_last - now > tsc_worst)
			tsc_worst = tsc_last - now;
		tsc_last = now;
		__atomic_store_n(&tsc_turn, turn + 1, __ATOMIC_RELEASE);
	}
}

static void tsc_rounds_other(void *unused)
{
	(void)unused;
	tsc_rounds(1);
}

/* Coarse: each CPU reads its TSC between our two readings. All at once. */
static u64 tsc_seen[NR_CPUS];

static void tsc_note(void *unused)
{
	(void)unused;
	tsc_seen[smp_processor_id()] = rdtsc();
}

static void check_tscs_coarsely(void)
{
	unsigned int cpu;
	u64 before = rdtsc();

	smp_call_function(cpu_online_mask & ~1ul, tsc_note, NULL, true);
	u64 after = rdtsc();
	for_each_cpu(cpu, cpu_online_mask & ~1ul) {
		u64 t = tsc_seen[cpu], off = t < before ? before - t : t > after ? t - after : 0;
		tsc_worst = max(tsc_worst, off);
	}
}

/*
 * A skew below the time of an interrupt escapes the coarse check; the exact one needs both CPUs to run at the same time, so
 * under emulation on a busy host it may take for ever: it ends when its time is up.
 */
static void check_tscs(void)
{
	unsigned int cpu, exact = 0;
	u64 end = ktime_get_ns() + TSC_CHECK_NS;

	check_tscs_coarsely();
	for_each_cpu(cpu, cpu_online_mask & ~1ul) {
		if (ktime_get_ns() > end)
			break;
		exact++;
		__atomic_store_n(&tsc_turn, 0, __ATOMIC_RELEASE);
		smp_call_function(cpumask_of(cpu), tsc_rounds_other, NULL, false);
		tsc_rounds(0);
		while (__atomic_load_n(&tsc_turn, __ATOMIC_ACQUIRE) != 2 * TSC_ROUNDS)
			cpu_relax();
	}
	if (tsc_worst) {
		pr_warn("TSCs of the CPUs disagree by up to %lu ticks", tsc_worst);
		clock_tsc_unusable("the TSCs of the CPUs disagree");
	} else {
		pr_info("SMP: TSCs agree, %u of %u checked closely", exact + 1, (unsigned int)__builtin_popcountll(cpu_online_mask));
	}
}

void smp_init(void)
{
	cpumask_t wanted = 0;

	u64 limit = cmdline_flag("nosmp") ? 1 : cmdline_u64("maxcpus", NR_CPUS, 0, NR_CPUS);
	if (limit == 0)
		limit = 1;
	if (nr_cpus_found > 1 && limit > 1 && !boot_trampoline_page) {
		pr_warn("SMP: no page below 1 MiB to start CPUs from");
		limit = 1;
	}
	for (unsigned int cpu = 1; cpu < nr_cpus_found && cpu < limit; cpu++) {
		if (!prepare_cpu(cpu)) {
			pr_warn("SMP: no memory for CPU %u and above", cpu);
			break;
		}
		wanted |= BIT(cpu);
	}
	if (wanted)
		start_cpus(wanted);

	unsigned int cpu, started = 0;
	for_each_cpu(cpu, cpu_online_mask)
		started++;
	pr_info("SMP: %u CPUs found, %u started%s", nr_cpus_found, started,
		nr_cpus_found > limit ? " (limited by a boot parameter)" : "");
	for (cpu = 1; cpu < NR_CPUS; cpu++) {
		if ((wanted & BIT(cpu)) && !cpu_online(cpu))
			pr_warn("SMP: CPU %u (APIC id %u) did not start", cpu, cpu_apic_ids[cpu]);
	}
	if (started > 1)
		check_tscs();
}

/* First C of an AP: on its idle task's stack, GS at its cpu_local, the kernel's page tables, interrupts off. */
void ap_main(unsigned int cpu)
{
	__atomic_fetch_or(&called_in, BIT(cpu), __ATOMIC_ACQ_REL);
	cpu_enable_features();
	mm_init_cpu();
	gdt_init_cpu(cpu);
	idt_load();
	tss_set_rsp0(cpu_local_read(kernel_rsp));
	syscall_init_cpu();
	fpu_init_cpu();
	apic_init_cpu();
	apic_timer_init_cpu();
	/* Release: who sees us online sees all of the above. */
	__atomic_fetch_or(&cpu_online_mask, BIT(cpu), __ATOMIC_ACQ_REL);
	sched_start_ap();
}

/* --- interrupts between CPUs ----------------------------------------------------------------------------------------------------- */

void smp_send_reschedule(unsigned int cpu)
{
	apic_send(cpu, VECTOR_RESCHEDULE);
}

void smp_send_tlb_flush(cpumask_t mask)
{
	apic_send_mask(mask, VECTOR_TLB);
}

/*
 * One record per (caller, target), in the caller's per-CPU data. busy is set by the caller before it queues the record
 * and cleared by the target after it has copied it out (and, when the caller waits, after the call).
 */
struct call_record {
	struct call_record *next;
	void		(*fn)(void *arg);
	void		*arg;
	u32		 busy;		/* atomic */
	bool		 wait;
};

static DEFINE_PER_CPU(struct call_record, call_records[NR_CPUS]);
static DEFINE_PER_CPU(struct call_record *, call_queue);	/* atomic: last in first; others push, the CPU takes all */

static void wait_idle(const struct call_record *r)
{
	while (__atomic_load_n(&r->busy, __ATOMIC_ACQUIRE))
		cpu_relax();
}

static void queue_call(unsigned int cpu, struct call_record *r)
{
	struct call_record **head = per_cpu_ptr(&call_queue, cpu);
	struct call_record *old = __atomic_load_n(head, __ATOMIC_RELAXED);

	do {
		r->next = old;
	} while (!__atomic_compare_exchange_n(head, &old, r, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
	if (!old)			/* else whoever queued first has sent the interrupt */
		apic_send(cpu, VECTOR_CALL);
}

void smp_call_function(cpumask_t mask, void (*fn)(void *arg), void *arg, bool wait)
{
	unsigned int cpu;

	preempt_disable();
	struct call_record *records = *this_cpu_ptr(&call_records);
	cpumask_t others = mask & READ_ONCE(cpu_online_mask) & ~BIT(smp_processor_id());
	BUG_ON(others && irqs_disabled());

	for_each_cpu(cpu, others) {
		wait_idle(&records[cpu]);
		records[cpu].fn = fn;
		records[cpu].arg = arg;
		records[cpu].wait = wait;
		__atomic_store_n(&records[cpu].busy, 1, __ATOMIC_RELAXED);	/* published by the queue */
		queue_call(cpu, &records[cpu]);
	}
	if (mask & BIT(smp_processor_id())) {
		unsigned long flags = local_irq_save();
		fn(arg);
		local_irq_restore(flags);
	}
	if (wait) {
		for_each_cpu(cpu, others)
			wait_idle(&records[cpu]);
	}
	preempt_enable();
}

void smp_call_ipi(void)
{
	struct call_record *taken = __atomic_exchange_n(this_cpu_ptr(&call_queue), NULL, __ATOMIC_ACQUIRE);
	struct call_record *fifo = NULL;

	while (taken) {
		struct call_record *next = taken->next;
		taken->next = fifo;
		fifo = taken;
		taken = next;
	}
	while (fifo) {
		/* Once busy is clear the record belongs to its caller again. */
		struct call_record *r = fifo;
		void (*fn)(void *arg) = r->fn;
		void *arg = r->arg;
		bool wait = r->wait;
		fifo = r->next;
		if (!wait)
			__atomic_store_n(&r->busy, 0, __ATOMIC_RELEASE);
		fn(arg);
		if (wait)
			__atomic_store_n(&r->busy, 0, __ATOMIC_RELEASE);
	}
}
