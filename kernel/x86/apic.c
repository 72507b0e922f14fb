/*
 * Local APIC, as registers in memory (xAPIC) or as MSRs (x2APIC), and its one-shot timer.
 * Intel SDM vol. 3, chapter 10.
 *
 * The rule that is easy to break: sending an IPI on xAPIC is two writes, destination first. An interrupt handler that
 * sends another one in between would redirect ours, so interrupts are off around the pair.
 */
#include "kernel/x86/apic.h"
#include "kernel/panic.h"
#include "kernel/percpu.h"
#include "kernel/printk.h"
#include "kernel/time.h"
#include "kernel/x86/clock.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/features.h"
#include "kernel/x86/irq.h"
#include "kernel/x86/muldiv.h"
#include "mm/slab.h"

enum apic_reg {			/* offset in xAPIC memory; x2APIC MSR = 0x800 + offset / 16 */
	APIC_ID = 0x20, APIC_TPR = 0x80, APIC_EOI = 0xb0, APIC_LDR = 0xd0, APIC_DFR = 0xe0, APIC_SPURIOUS = 0xf0,
	APIC_ESR = 0x280, APIC_ICR = 0x300, APIC_ICR_HI = 0x310, APIC_LVT_TIMER = 0x320, APIC_LVT_THERMAL = 0x330,
	APIC_LVT_PERF = 0x340, APIC_LVT_LINT0 = 0x350, APIC_LVT_LINT1 = 0x360, APIC_LVT_ERROR = 0x370,
	APIC_TIMER_INITIAL = 0x380, APIC_TIMER_CURRENT = 0x390, APIC_TIMER_DIVIDE = 0x3e0,
};
#define X2APIC_MSR_BASE		0x800
#define X2APIC_SELF_IPI		0x83f
#define APIC_BASE_ENABLE	BIT(11)
#define APIC_BASE_X2APIC	BIT(10)
#define APIC_DEFAULT_BASE	0xfee00000ul
#define SPURIOUS_ENABLE		0x100
#define LVT_MASKED		0x10000
#define LVT_NMI			0x400
#define LVT_EXTINT		0x700
#define LVT_TIMER_DEADLINE	0x40000
#define TIMER_DIVIDE_1		0xb
#define ICR_INIT		0x500
#define ICR_STARTUP		0x600
#define ICR_NMI			0x400
#define ICR_ASSERT		0x4000
#define ICR_BUSY		0x1000
#define ICR_SELF		0x40000
#define ICR_ALL_BUT_SELF	0xc0000

u32 cpu_apic_ids[NR_CPUS];

static volatile u8 *apic_mem;		/* NULL: x2APIC */
static bool timer_deadline;		/* constant after calibration */
static u64 timer_mult;			/* timer ticks per ns << 32 */
static u64 tsc_mult;			/* TSC ticks per ns << 32, deadline mode */

static u32 apic_read(enum apic_reg reg)
{
	if (apic_mem)
		return *(volatile u32 *)(apic_mem + reg);
	return (u32)rdmsr(X2APIC_MSR_BASE + reg / 16);
}

static void apic_write(enum apic_reg reg, u32 v)
{
	if (apic_mem)
		*(volatile u32 *)(apic_mem + reg) = v;
	else
		wrmsr(X2APIC_MSR_BASE + reg / 16, v);
}

void apic_init(void)
{
	u64 base = rdmsr(MSR_APIC_BASE);

	/* Firmware that has already gone to x2APIC mode leaves no choice. */
	bool x2apic = cpu_features.x2apic || (base & APIC_BASE_X2APIC);
	if (!x2apic) {
		apic_mem = ioremap(base & 0xffffff000ul, PAGE_SIZE);
		if (!apic_mem)
			halt_with_message("No memory to map the local APIC.");
	}
	pr_info("APIC: %s mode", x2apic ? "x2APIC" : "xAPIC");
}

void apic_init_cpu(void)
{
	u64 base = rdmsr(MSR_APIC_BASE) | APIC_BASE_ENABLE;

	wrmsr(MSR_APIC_BASE, base);
	if (!apic_mem)
		wrmsr(MSR_APIC_BASE, base | APIC_BASE_X2APIC);

	apic_write(APIC_TPR, 0);
	apic_write(APIC_LVT_TIMER, LVT_MASKED | VECTOR_TIMER);
	apic_write(APIC_LVT_LINT0, LVT_MASKED);
	apic_write(APIC_LVT_LINT1, smp_processor_id() == 0 ? LVT_NMI : LVT_MASKED);
	apic_write(APIC_LVT_ERROR, VECTOR_ERROR);
	apic_write(APIC_ESR, 0);
	apic_write(APIC_SPURIOUS, SPURIOUS_ENABLE | VECTOR_SPURIOUS);
	apic_write(APIC_EOI, 0);		/* whatever the firmware left in service */
	cpu_local_write(apic_id, apic_read_id());
}

/* The 8259s reach the boot CPU through LINT0, on a machine without an I/O APIC. */
void apic_accept_pic(void)
{
	apic_write(APIC_LVT_LINT0, LVT_EXTINT);
}

u32 apic_read_id(void)
{
	return apic_mem ? apic_read(APIC_ID) >> 24 : apic_read(APIC_ID);
}

void apic_eoi(void)
{
	apic_write(APIC_EOI, 0);
}

void apic_error(void)
{
	apic_write(APIC_ESR, 0);
	pr_warn("local APIC error 0x%x on CPU %u", apic_read(APIC_ESR), smp_processor_id());
}

/* --- between CPUs ------------------------------------------------------------------------------------------------------ */

static void icr_write(u32 apic_id, u32 command)
{
	if (!apic_mem) {
		/* A WRMSR of x2APIC does not wait for earlier stores; the receiver must see what we wrote before. */
		__asm__ volatile("mfence; lfence" ::: "memory");
		wrmsr(X2APIC_MSR_BASE + APIC_ICR / 16, (u64)apic_id << 32 | command);
		return;
	}
	unsigned long flags = local_irq_save();
	while (apic_read(APIC_ICR) & ICR_BUSY)
		cpu_relax();
	apic_write(APIC_ICR_HI, apic_id << 24);
	apic_write(APIC_ICR, command);
	local_irq_restore(flags);
}

/* Also from an NMI, which may have come between the two writes of another IPI: the destination is left alone. */
void apic_send_self(unsigned int vector)
{
	if (!apic_mem) {
		wrmsr(X2APIC_SELF_IPI, vector);
		return;
	}
	while (apic_read(APIC_ICR) & ICR_BUSY)
		cpu_relax();
	apic_write(APIC_ICR, ICR_SELF | ICR_ASSERT | vector);
}

void apic_send(unsigned int cpu, unsigned int vector)
{
	icr_write(cpu_apic_ids[cpu], ICR_ASSERT | vector);
}

void apic_send_mask(cpumask_t cpus, unsigned int vector)
{
	unsigned int cpu;
	cpumask_t others = READ_ONCE(cpu_online_mask) & ~BIT(smp_processor_id());

	/* One message instead of many when it is for all the others and every CPU that is running is online. */
	if (cpus == others && (cpus & (cpus - 1)) && smp_all_online()) {
		icr_write(0, ICR_ALL_BUT_SELF | ICR_ASSERT | vector);
		return;
	}
	for_each_cpu(cpu, cpus)
		apic_send(cpu, vector);
}

void apic_send_nmi(unsigned int cpu)
{
	icr_write(cpu_apic_ids[cpu], ICR_NMI | ICR_ASSERT);
}

void apic_send_init(u32 apic_id)
{
	icr_write(apic_id, ICR_INIT | ICR_ASSERT);
}

void apic_send_startup(u32 apic_id, phys_addr_t page)
{
	icr_write(apic_id, ICR_STARTUP | ICR_ASSERT | (u32)(page >> PAGE_SHIFT));
}

/* --- timer -------------------------------------------------------------------------------------------------------------- */

void apic_timer_calibrate_start(void)
{
	apic_write(APIC_TIMER_DIVIDE, TIMER_DIVIDE_1);
	apic_write(APIC_LVT_TIMER, LVT_MASKED | VECTOR_TIMER);
	apic_write(APIC_TIMER_INITIAL, UINT32_MAX);
}

u32 apic_timer_calibrate_elapsed(void)
{
	return UINT32_MAX - apic_read(APIC_TIMER_CURRENT);
}

void apic_timer_set_frequency(u64 hz, u64 tsc_hz)
{
	apic_write(APIC_TIMER_INITIAL, 0);
	timer_mult = mul_div_u64(hz, 1ul << 32, NSEC_PER_SEC);
	tsc_mult = mul_div_u64(tsc_hz, 1ul << 32, NSEC_PER_SEC);
	/* The deadline is in TSC ticks: only of use while the TSC is also the clock. */
	timer_deadline = cpu_features.tsc_deadline && tsc_hz;
}

bool apic_timer_uses_deadline(void)
{
	return timer_deadline;
}

void apic_timer_init_cpu(void)
{
	apic_write(APIC_TIMER_DIVIDE, TIMER_DIVIDE_1);
	apic_write(APIC_LVT_TIMER, VECTOR_TIMER | (timer_deadline ? LVT_TIMER_DEADLINE : 0));
	/* In deadline mode a WRMSR may overtake the write to memory that chose the mode (SDM 10.5.4.1). */
	__asm__ volatile("mfence" ::: "memory");
}

/*
 * Rounded up, so that the interrupt does not come a tick before the deadline and find nothing to do. An interval too
 * long for the counter, or for the wrap of a slow clock source, ends early; the caller looks at the clock again.
 */
void clock_event_program(u64 deadline)
{
	if (deadline == UINT64_MAX) {
		if (timer_deadline)
			wrmsr(MSR_TSC_DEADLINE, 0);
		else
			apic_write(APIC_TIMER_INITIAL, 0);
		return;
	}
	u64 now = ktime_get_ns();
	u64 ns = deadline > now ? min(deadline - now, clock_max_idle_ns()) : 0;
	if (timer_deadline) {
		wrmsr(MSR_TSC_DEADLINE, rdtsc() + mul_shift32_u64(ns, tsc_mult) + 1);
		return;
	}
	u64 ticks = mul_shift32_u64(ns, timer_mult) + 1;
	apic_write(APIC_TIMER_INITIAL, (u32)min(ticks, (u64)UINT32_MAX));
}
