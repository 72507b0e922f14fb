/*
 * Lock statistics. Every CPU has its own table, so counting writes no line that another CPU writes; reading adds the
 * tables up. Sleeping locks are always counted, spin locks when lock_stat_enabled (lock_stat=spin on the command line).
 *
 * Easy to break: an increment is one instruction relative to GS. It may be interrupted before or after, never inside,
 * and a task that moves between computing the index and adding adds on its new CPU: nothing is lost.
 */
#include "kernel/lock_count.h"
#include "kernel/printk.h"
#include "kernel/spinlock.h"
#include "kernel/string.h"
#include "kernel/trace.h"

DEFINE_PER_CPU(struct lock_table, lock_table);

bool lock_stat_enabled;

static const char *const class_names[] = {
#define LOCK_NAME(class, kind, irq, where) [class] = #class,
	LOCK_CLASSES(LOCK_NAME)
#undef LOCK_NAME
};
static const char *const caller_names[NR_LOCK_CALLERS] = { "other", "fault", "uffd", "gup" };
static const char *const mode_names[NR_LOCK_MODES] = { "read", "write" };

const char *lock_class_name(unsigned int class)
{
	return class < NR_LOCK_CLASSES ? class_names[class] : "?";
}

enum lock_caller lock_stat_enter(enum lock_caller caller)
{
	enum lock_caller old = current->lock_caller;

	current->lock_caller = caller;
	return old;
}

void lock_stat_leave(enum lock_caller old)
{
	current->lock_caller = old;
}

/* In an interrupt the label of the interrupted task does not apply. */
static uintptr_t spin_counter(const struct spinlock *lock)
{
	return lock_counter_offset(lock->class, in_interrupt() ? LOCK_CALLER_OTHER : lock_stat_caller(), LOCK_MODE_WRITE);
}

static __attribute__((noinline)) void record_wait(uintptr_t c, u64 wait_ns)
{
	lock_counter_add(c + offsetof(struct lock_counter, contended), 1);
	lock_counter_add(c + offsetof(struct lock_counter, wait_total), wait_ns);

	/* The maximum needs two steps; interrupts off keeps both on one CPU. */
	unsigned long flags = local_irq_save();
	u64 *max = (u64 *)(cpu_local_read(self) + c + offsetof(struct lock_counter, wait_max));
	if (wait_ns > *max)
		*max = wait_ns;
	local_irq_restore(flags);
}

void lock_stat_record(enum lock_class class, enum lock_mode mode, bool contended, u64 wait_ns)
{
	uintptr_t c = lock_counter_offset(class, lock_stat_caller(), mode);

	lock_counter_add(c, 1);
	if (unlikely(contended)) {
		record_wait(c, wait_ns);
		trace_event(TRACE_LOCK_WAIT, class, mode, wait_ns, lock_stat_caller());
	}
}

void lock_stat_spin_acquired(const struct spinlock *lock)
{
	lock_counter_add(spin_counter(lock), 1);
}

void lock_stat_spin_waited(const struct spinlock *lock, u64 wait_ns)
{
	record_wait(spin_counter(lock), wait_ns);
}

void lock_stat_init_cpu(unsigned int cpu)
{
	memset(per_cpu_ptr(&lock_table, cpu), 0, sizeof(lock_table));
}

/* Counts that arrive meanwhile on other CPUs may survive or not; both are right for somebody who clears. */
void lock_stat_clear(void)
{
	unsigned int cpu;

	for_each_cpu(cpu, cpu_online_mask)
		memset(per_cpu_ptr(&lock_table, cpu), 0, sizeof(lock_table));
}

size_t lock_stat_format(char *buf, size_t size)
{
	size_t n = scnprintf(buf, size, "class caller mode acquired contended wait_ns_total wait_ns_max\n");

	for (unsigned int class = 0; class < NR_LOCK_CLASSES; class++)
	for (unsigned int caller = 0; caller < NR_LOCK_CALLERS; caller++)
	for (unsigned int mode = 0; mode < NR_LOCK_MODES; mode++) {
		struct lock_counter sum = { 0 };
		unsigned int cpu;

		for_each_cpu(cpu, cpu_online_mask) {
			const struct lock_counter *c = &per_cpu_ptr(&lock_table, cpu)->of[class][caller][mode];
			sum.acquired += READ_ONCE(c->acquired);
			sum.contended += READ_ONCE(c->contended);
			sum.wait_total += READ_ONCE(c->wait_total);
			sum.wait_max = max(sum.wait_max, READ_ONCE(c->wait_max));
		}
		if (!sum.acquired)
			continue;
		n += scnprintf(buf + n, size - n, "%s %s %s %lu %lu %lu %lu\n", class_names[class] + sizeof("LOCK_") - 1,
			       caller_names[caller], mode_names[mode], sum.acquired, sum.contended,
			       sum.wait_total, sum.wait_max);
	}
	return n;
}
