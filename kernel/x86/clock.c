/*
 * Time. One clock source counts; ktime = ticks * mult >> 32 since boot.
 *
 *	TSC	64 bits, one instruction; used unless CPUs disagree about it or clocksource= forbids
 *	HPET	memory access, 32 or 64 bits, same for all CPUs
 *	PM timer	a port, 24 or 32 bits at 3.579545 MHz, same for all CPUs
 *
 * The narrow ones are extended to 64 bits in memory (extend()), which works as long as somebody reads the clock at
 * least once per wrap: clock_max_idle_ns() bounds every sleep.
 *
 * The TSC is calibrated against HPET, PM timer or PIT, whichever exists first. A single reading is worth nothing (an
 * emulator's thread may be descheduled between two instructions), so each end of the interval takes the tightest of
 * several. Under QEMU's -icount all clocks are derived from the instruction count, and this holds as well.
 */
#include "kernel/x86/clock.h"
#include "kernel/cmdline.h"
#include "kernel/errno.h"
#include "kernel/percpu.h"
#include "kernel/printk.h"
#include "kernel/seqcount.h"
#include "kernel/spinlock.h"
#include "kernel/string.h"
#include "kernel/time.h"
#include "kernel/x86/acpi.h"
#include "kernel/x86/apic.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/features.h"
#include "kernel/x86/muldiv.h"
#include "mm/slab.h"

#define FSEC_PER_SEC		1000000000000000ul
#define PM_TIMER_HZ		3579545ul
#define PIT_HZ			1193182ul
#define PIT_GATE		0x61
#define PIT_CHANNEL2		0x42
#define PIT_COMMAND		0x43
#define CALIBRATION_NS		(10 * NSEC_PER_MSEC)
#define SAMPLES			5
#define EARLY_GUESS_HZ		5000000000ul	/* too high rather than too low: time may then only jump forwards */

enum hpet_reg { HPET_CAP = 0x00, HPET_CONFIG = 0x10, HPET_COUNTER = 0xf0 };
#define HPET_ENABLE		BIT(0)
#define HPET_64BIT		BIT(13)

struct clock_source {
	const char	*name;
	u64		(*read)(void);
	u64		 hz;		/* 0: not there */
	u64		 mask;		/* of the raw counter */
};

static u64 hpet_read(void);
static u64 pm_timer_read(void);
static u64 pit_read(void);
static u64 tsc_read(void);

static struct clock_source src_tsc = { "tsc", tsc_read, 0, UINT64_MAX };
static struct clock_source src_hpet = { "hpet", hpet_read, 0, UINT32_MAX };
static struct clock_source src_pm = { "acpi_pm", pm_timer_read, 0, 0xffffff };
static struct clock_source src_pit = { "pit", pit_read, PIT_HZ, 0xffff };	/* for calibration only */

/*
 * The running clock: written by the boot CPU while the others wait, read by all.
 */
static struct {
	struct seqcount	 seq;
	const struct clock_source *src;
	u64		 base_ticks;
	u64		 base_ns;
	u64		 mult;		/* ns per tick << 32 */
} clk = { .src = &src_tsc };
static u64 extended_last;		/* atomic: last value of a narrow counter, widened */
static u64 boot_tsc;
static struct spinlock real_lock = SPINLOCK_INIT(LOCK_LEAF_IRQ);
static u64 real_offset;			/* real_lock to write: real = ktime + offset */
static volatile u8 *hpet;

/* --- counters ------------------------------------------------------------------------------------------------------------- */

/* LFENCE: not before what precedes it in the program, or a lock's release could be timed before its acquire. */
static u64 tsc_read(void)
{
	__asm__ volatile("lfence" ::: "memory");
	return rdtsc();
}

static u64 hpet_read(void)
{
	if (src_hpet.mask == UINT64_MAX)
		return *(volatile u64 *)(hpet + HPET_COUNTER);
	return *(volatile u32 *)(hpet + HPET_COUNTER);
}

static u64 pm_timer_read(void)
{
	return inl(acpi.pm_timer_port) & src_pm.mask;
}

/* Channel 2 counts down; latched, low byte first. Turned into a count up. */
static u64 pit_read(void)
{
	outb(PIT_COMMAND, 0x80);
	u32 v = inb(PIT_CHANNEL2);
	v |= (u32)inb(PIT_CHANNEL2) << 8;
	return 0xffff - v;
}

static void pit_start(void)
{
	outb(PIT_GATE, (u8)((inb(PIT_GATE) & ~2) | 1));	/* gate on, speaker off */
	outb(PIT_COMMAND, 0xb0);		/* channel 2, both bytes, mode 0 */
	outb(PIT_CHANNEL2, 0xff);
	outb(PIT_CHANNEL2, 0xff);
}

static void find_hpet(void)
{
	if (!acpi.hpet || cmdline_flag("nohpet"))
		return;
	hpet = ioremap(acpi.hpet, PAGE_SIZE);
	if (!hpet)
		return;
	u64 cap = *(volatile u64 *)(hpet + HPET_CAP);
	u64 period = cap >> 32;			/* femtoseconds; at most 100 ns by specification */
	if (!period || period > 100000000) {
		pr_warn("HPET: nonsensical period %lu fs, ignored", period);
		return;
	}
	*(volatile u64 *)(hpet + HPET_CONFIG) |= HPET_ENABLE;
	src_hpet.hz = FSEC_PER_SEC / period;
	if (cap & HPET_64BIT)
		src_hpet.mask = UINT64_MAX;
}

/* Present, and it counts. */
static void find_pm_timer(void)
{
	if (!acpi.pm_timer_port)
		return;
	if (acpi.pm_timer_32bit)
		src_pm.mask = UINT32_MAX;
	u64 first = pm_timer_read();
	for (int i = 0; i < 10000; i++) {
		if (pm_timer_read() != first) {
			src_pm.hz = PM_TIMER_HZ;
			return;
		}
	}
	pr_warn("PM timer at port 0x%x stands still, ignored", acpi.pm_timer_port);
}

/* --- reading the clock -------------------------------------------------------------------------------------------------------- */

/*
 * Widens a counter that wraps: last + the distance since then. Two readers may race; the compare-exchange keeps the
 * larger value, and a reader that lost still returns a correct time.
 */
static u64 extend(u64 raw, u64 mask)
{
	u64 last = __atomic_load_n(&extended_last, __ATOMIC_ACQUIRE);
	u64 delta = (raw - last) & mask;

	/* A reader that was overtaken sees a "distance" of nearly a full wrap: it is behind, not ahead. */
	if (delta > mask / 2)
		return last;
	u64 now = last + delta;
	__atomic_compare_exchange_n(&extended_last, &last, now, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	return now;
}

static u64 source_ticks(const struct clock_source *src)
{
	u64 raw = src->read();
	return src->mask == UINT64_MAX ? raw : extend(raw, src->mask);
}

u64 ktime_get_ns(void)
{
	u64 ns;
	u32 seq;

	do {
		seq = read_seqbegin(&clk.seq);
		u64 ticks = source_ticks(clk.src) - clk.base_ticks;
		/* A TSC that is behind by a few ticks on another CPU (below what smp.c notices) must not wrap. */
		if (unlikely((s64)ticks < 0))
			ticks = 0;
		ns = clk.base_ns + mul_shift32_u64(ticks, clk.mult);
	} while (read_seqretry(&clk.seq, seq));
	return ns;
}

static void clock_switch(const struct clock_source *src, u64 now_ns)
{
	unsigned long flags = local_irq_save();	/* an interrupt that reads the clock would wait for us for ever */

	write_seqbegin(&clk.seq);
	__atomic_store_n(&extended_last, src->read() & src->mask, __ATOMIC_RELAXED);
	clk.src = src;
	clk.base_ticks = source_ticks(src);
	clk.base_ns = now_ns;
	clk.mult = mul_div_u64(NSEC_PER_SEC, 1ul << 32, src->hz);
	write_seqend(&clk.seq);
	local_irq_restore(flags);
}

u64 clock_max_idle_ns(void)
{
	if (clk.src->mask == UINT64_MAX)
		return UINT64_MAX;
	/* A quarter of a wrap: extend() tells "behind" from "ahead" at half of one. */
	return mul_div_u64(clk.src->mask / 4, NSEC_PER_SEC, clk.src->hz);
}

const char *clock_source_name(void)
{
	return clk.src->name;
}

u64 clock_tsc_hz(void)
{
	return src_tsc.hz;
}

bool clock_tsc_params(u64 *base, u64 *mult)
{
	if (clk.src != &src_tsc || clk.base_ns)
		return false;
	*base = clk.base_ticks;
	*mult = clk.mult;
	return true;
}

void udelay(u64 us)
{
	u64 end = ktime_get_ns() + us * NSEC_PER_USEC;

	while (ktime_get_ns() < end)
		cpu_relax();
}

/* --- calibration -------------------------------------------------------------------------------------------------------------- */

struct sample { u64 tsc, ref; u32 apic; };

static struct sample take_sample(const struct clock_source *ref)
{
	struct sample best = { 0 };
	u64 tightest = UINT64_MAX;

	for (int i = 0; i < SAMPLES; i++) {
		u64 before = tsc_read();
		u64 r = ref->read();
		u32 a = apic_timer_calibrate_elapsed();
		u64 after = tsc_read();
		if (after - before < tightest) {
			tightest = after - before;
			best = (struct sample){ before + (after - before) / 2, r, a };
		}
	}
	return best;
}

static void calibrate(const struct clock_source *ref, u64 *tsc_hz, u64 *apic_hz)
{
	if (ref == &src_pit)
		pit_start();
	apic_timer_calibrate_start();
	struct sample first = take_sample(ref), last;
	u64 wanted = ref->hz / (NSEC_PER_SEC / CALIBRATION_NS);
	/* The reference may stand still on a broken machine: give up after what must be seconds. */
	for (u64 limit = 0; ((ref->read() - first.ref) & ref->mask) < wanted && limit < 100000000; limit++)
		;
	last = take_sample(ref);

	u64 ticks = (last.ref - first.ref) & ref->mask;
	if (!ticks)
		ticks = 1;
	*tsc_hz = mul_div_u64(last.tsc - first.tsc, ref->hz, ticks);
	*apic_hz = mul_div_u64(last.apic - first.apic, ref->hz, ticks);
}

void clock_early_init(void)
{
	boot_tsc = rdtsc();
	src_tsc.hz = EARLY_GUESS_HZ;
	clk.base_ticks = boot_tsc;
	clk.mult = ((u64)NSEC_PER_SEC << 32) / EARLY_GUESS_HZ;
}

void clock_init(void)
{
	u64 apic_hz;
	char wanted[16] = "tsc";

	find_hpet();
	find_pm_timer();
	const struct clock_source *ref = src_hpet.hz ? &src_hpet : src_pm.hz ? &src_pm : &src_pit;
	calibrate(ref, &src_tsc.hz, &apic_hz);
	pr_info("clock: TSC %lu.%03lu MHz, APIC timer %lu.%03lu MHz, measured against %s", src_tsc.hz / 1000000,
		src_tsc.hz / 1000 % 1000, apic_hz / 1000000, apic_hz / 1000 % 1000, ref->name);

	/* The same zero as before, with the right length of a tick. */
	clk.base_ticks = boot_tsc;
	clk.base_ns = 0;
	clk.mult = mul_div_u64(NSEC_PER_SEC, 1ul << 32, src_tsc.hz);

	cmdline_get("clocksource", wanted, sizeof(wanted));
	if (strcmp(wanted, "hpet") == 0 && src_hpet.hz)
		clock_switch(&src_hpet, ktime_get_ns());
	else if (strcmp(wanted, "acpi_pm") == 0 && src_pm.hz)
		clock_switch(&src_pm, ktime_get_ns());
	else if (strcmp(wanted, "tsc") != 0)
		pr_warn("clocksource=%s: not available here, using tsc", wanted);

	apic_timer_set_frequency(apic_hz, clk.src == &src_tsc ? src_tsc.hz : 0);
	apic_timer_init_cpu();
	pr_info("clock: source %s, timer %s", clk.src->name, apic_timer_uses_deadline() ? "TSC deadline" : "APIC one-shot");

	u64 seconds = rtc_read_seconds();
	if (!seconds)
		pr_warn("RTC: no sensible date; the clock starts in 1970");
	real_offset = seconds * NSEC_PER_SEC - ktime_get_ns();
}

void clock_tsc_unusable(const char *why)
{
	const struct clock_source *other = src_hpet.hz ? &src_hpet : src_pm.hz ? &src_pm : NULL;

	if (clk.src != &src_tsc)
		return;
	if (!other) {
		pr_warn("clock: %s, but there is no other clock than the TSC", why);
		return;
	}
	pr_warn("clock: %s: using %s instead of the TSC", why, other->name);
	clock_switch(other, ktime_get_ns());
	/* APs that come later take the one-shot timer too; those already there keep a deadline timer, which only counts. */
}

/* --- wall clock ----------------------------------------------------------------------------------------------------------------- */

u64 ktime_get_real_ns(void)
{
	return ktime_get_ns() + __atomic_load_n(&real_offset, __ATOMIC_RELAXED);
}

int ktime_set_real_ns(u64 ns)
{
	if (ns > INT64_MAX)
		return -EINVAL;
	unsigned long flags = spin_lock_irqsave(&real_lock);
	__atomic_store_n(&real_offset, ns - ktime_get_ns(), __ATOMIC_RELAXED);
	spin_unlock_irqrestore(&real_lock, flags);
	return 0;
}
