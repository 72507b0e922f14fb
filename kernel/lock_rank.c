/*
 * The lock-order checker of debug builds. Each task lists the locks it holds; interrupts use a list of their CPU, since
 * what the interrupted task holds is no business of theirs. At each acquire the new class must come after all
 * held ones in kernel/lock_rank.h. That is checked whether or not anybody else wants the locks, so an order that could
 * deadlock once a year panics on the first run.
 *
 * Not checked: trylock against the order (it cannot wait), but what it took counts for everything acquired later.
 */
#include "kernel/lock_rank.h"

#ifdef DEBUG
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/spinlock.h"
#include "kernel/task.h"

enum lock_kind { SPIN, SLEEP };
enum lock_irq { ON, OFF };
static const struct { u8 kind, irq; } classes[] = {
#define LOCK_TRAITS(class, kind, irq, where) [class] = { kind, irq },
	LOCK_CLASSES(LOCK_TRAITS)
#undef LOCK_TRAITS
};

struct held_list { struct held_lock *locks; u32 *nr; };

static struct { struct held_lock held[MAX_HELD_LOCKS]; u32 nr; } irq_held[NR_CPUS];	/* own CPU */
static bool stopped;
/* Place of each class in the order; all 0 until lock_rank_load_order(), then 1 and up. Constant after boot. */
static u8 places[NR_LOCK_CLASSES];
static bool forbidden[NR_LOCK_CLASSES];

static unsigned int place(unsigned int class)
{
	return places[class] ? places[class] : class + 1u;
}

static struct held_list this_context(void)
{
	struct task *t = current;

	/* Before the scheduler runs there is no task: boot code counts as interrupt context of its CPU. */
	if (!t || in_interrupt()) {
		unsigned int cpu = smp_processor_id();
		return (struct held_list){ irq_held[cpu].held, &irq_held[cpu].nr };
	}
	return (struct held_list){ t->held, &t->nr_held };
}

static void show(const struct held_lock *held, u32 nr)
{
	for (u32 i = nr; i-- > 0; )
		printk("  holds %s at %pS, taken by %pS\n", lock_class_name(held[i].class), held[i].lock, (void *)held[i].caller);
}

void lock_rank_show(const struct task *t)
{
	if (t)
		show(t->held, min(t->nr_held, (u32)MAX_HELD_LOCKS));
	else
		show(irq_held[smp_processor_id()].held, min(irq_held[smp_processor_id()].nr, (u32)MAX_HELD_LOCKS));
}

void lock_rank_stop(void)
{
	WRITE_ONCE(stopped, true);
}

static void fail(const char *what, const void *lock, unsigned int class, uintptr_t caller)
{
	struct held_list list = this_context();

	lock_rank_stop();		/* printing takes locks as well */
	printk("lock order: %s: %s at %pS, by %pS\n", what, lock_class_name(class), lock, (void *)caller);
	show(list.locks, *list.nr);
	panic("lock order: %s: %s", what, lock_class_name(class));
}

/* Boot CPU, before there is a second task that could hold one of them. */
void lock_rank_load_order(const u8 *order, unsigned int n)
{
	u8 free[NR_LOCK_CLASSES];
	unsigned int nr = 0;

	for (unsigned int c = 0; c < NR_LOCK_CLASSES; c++)
		for (unsigned int i = 0; i < n; i++)
			if (order[i] == c)
				free[nr++] = (u8)(c + 1);
	assert(nr == n);
	for (unsigned int i = 0; i < n; i++)
		places[order[i]] = free[i];
}

void lock_rank_forbid(enum lock_class class)
{
	forbidden[class] = true;
}

/* The list is this task's or this CPU's own; an interrupt in between uses the other one and leaves it as it was. */
static void acquire(const void *lock, unsigned int class, u8 mode, bool nested, bool try_lock, uintptr_t caller)
{
	struct held_list list = this_context();

	if (unlikely(forbidden[class]))
		fail("belongs to another value of a switch", lock, class, caller);
	for (u32 i = 0; i < *list.nr; i++) {
		const struct held_lock *h = &list.locks[i];

		if (h->lock == lock)
			fail("taken twice by the same task", lock, class, caller);
		if (try_lock)
			continue;
		if (place(h->class) > place(class))
			fail("out of order", lock, class, caller);
		if (h->class == class && !nested)
			fail("second lock of its class without *_nested()", lock, class, caller);
	}
	if (*list.nr == MAX_HELD_LOCKS)
		fail("too many locks held", lock, class, caller);
	list.locks[*list.nr] = (struct held_lock){ .lock = lock, .caller = caller, .class = class, .mode = mode };
	barrier();		/* an interrupt must not see the entry counted before it is written */
	++*list.nr;
}

static void release(const void *lock, unsigned int class)
{
	struct held_list list = this_context();
	u32 i = *list.nr;

	while (i-- > 0) {
		if (list.locks[i].lock != lock)
			continue;
		for (; i + 1 < *list.nr; i++)
			list.locks[i] = list.locks[i + 1];
		--*list.nr;
		return;
	}
	fail("released but not held by this task", lock, class, (uintptr_t)__builtin_return_address(0));
}

void lock_rank_acquire(const void *lock, enum lock_class class, bool nested, bool try_lock, uintptr_t caller)
{
	if (READ_ONCE(stopped))
		return;
	if (class >= NR_LOCK_CLASSES || classes[class].kind != SPIN)
		fail("spin lock without a class (never initialised?)", lock, class, caller);
	if (classes[class].irq == OFF && !irqs_disabled())
		fail("needs interrupts disabled", lock, class, caller);
	if (classes[class].irq == ON && in_interrupt())
		fail("must not be taken in an interrupt", lock, class, caller);
	acquire(lock, class, LOCK_MODE_WRITE, nested, try_lock, caller);
}

void lock_rank_release(const void *lock, enum lock_class class)
{
	if (!READ_ONCE(stopped))
		release(lock, class);
}

void lock_rank_acquire_sleeping(const void *lock, enum lock_class class, bool write, bool nested, bool try_lock, uintptr_t caller)
{
	if (READ_ONCE(stopped))
		return;
	if (class >= NR_LOCK_CLASSES || classes[class].kind != SLEEP)
		fail("sleeping lock without a class (never initialised?)", lock, class, caller);
	if (in_interrupt())
		fail("sleeping lock in an interrupt", lock, class, caller);
	preempt_disable();	/* the scheduler notes its lock in the same list, and would overwrite an entry not yet counted */
	acquire(lock, class, write ? LOCK_MODE_WRITE : LOCK_MODE_READ, nested, try_lock, caller);
	preempt_enable();
}

void lock_rank_release_sleeping(const void *lock, enum lock_class class)
{
	if (!READ_ONCE(stopped))
		release(lock, class);
}

void __might_sleep(const char *file, int line)
{
	if (!current || READ_ONCE(stopped) || (!preempt_count() && !irqs_disabled()))
		return;
	if (current->flags & PF_IDLE)		/* boot code, and the idle loop that never sleeps */
		return;
	lock_rank_stop();
	printk("sleep in atomic context at %s:%d: preempt_count %x, interrupts %s\n", file, line, preempt_count(),
	       irqs_disabled() ? "off" : "on");
	show(current->held, current->nr_held);
	panic("sleep in atomic context at %s:%d", file, line);
}
#endif
