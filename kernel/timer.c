/*
 * One-shot timers. Each CPU has a heap of pending timers ordered by expiry; a timer runs on the CPU that armed it. The
 * hardware is programmed for the earliest need only, and never later than that (clock_event_need).
 *
 * Easy to break: a timer is guarded by the lock of the base named in timer->base, whether it is queued or not, and
 * base changes only under that lock. So lock_base() reads base, locks, and looks again. A function that is running
 * keeps its timer on its base, which is how timer_cancel_sync() knows whom to wait for.
 */
#include "kernel/timer.h"
#include "kernel/panic.h"
#include "kernel/percpu.h"
#include "kernel/spinlock.h"
#include "kernel/time.h"

struct timer_base {
	struct spinlock	 lock;		/* LOCK_TIMER: all below, and the timers that name this base */
	struct heap	 pending;
	struct timer	*running;	/* its function runs now, lock dropped */
	u64		 programmed;	/* own CPU, interrupts off: next hardware event, U64_MAX = none */
} __aligned(64);

static struct timer_base bases[NR_CPUS] = {
	[0 ... NR_CPUS - 1] = { .lock = SPINLOCK_INIT(LOCK_TIMER), .programmed = UINT64_MAX },
};

static bool expires_before(const struct heap_node *a, const struct heap_node *b)
{
	return container_of(a, struct timer, node)->expires < container_of(b, struct timer, node)->expires;
}

void timers_init_cpu(unsigned int cpu)
{
	bases[cpu].programmed = UINT64_MAX;
}

void timer_setup(struct timer *t, void (*func)(struct timer *t))
{
	*t = (struct timer){ .func = func, .cpu = -1, .base = smp_processor_id() };
}

static struct timer_base *lock_base(struct timer *t, unsigned long *flags)
{
	for (;;) {
		u32 cpu = READ_ONCE(t->base);
		struct timer_base *base = &bases[cpu];

		*flags = spin_lock_irqsave(&base->lock);
		if (likely(t->base == cpu))
			return base;
		spin_unlock_irqrestore(&base->lock, *flags);
	}
}

static void dequeue(struct timer_base *base, struct timer *t)
{
	heap_remove(&base->pending, &t->node, expires_before);
	WRITE_ONCE(t->cpu, -1);
}

void clock_event_need(u64 expires)
{
	struct timer_base *base = &bases[smp_processor_id()];

	if (expires < base->programmed) {
		base->programmed = expires;
		clock_event_program(expires);
	}
}

/*
 * Each round either queues the timer on this CPU's base or makes this CPU its base and tries again; a second arm of the same
 * timer on another CPU may make us lose a round, and then has happened after ours.
 */
void timer_arm(struct timer *t, u64 expires)
{
	for (;;) {
		unsigned long flags;
		struct timer_base *base = lock_base(t, &flags);
		unsigned int cpu = smp_processor_id();

		if (t->cpu >= 0)
			dequeue(base, t);
		if (base == &bases[cpu] || base->running == t) {
			t->expires = expires;
			WRITE_ONCE(t->cpu, (int)t->base);
			heap_insert(&base->pending, &t->node, expires_before);
			/* A base elsewhere has its function running right now and looks at the heap again when it is done. */
			if (base == &bases[cpu])
				clock_event_need(expires);
			spin_unlock_irqrestore(&base->lock, flags);
			return;
		}
		WRITE_ONCE(t->base, cpu);
		spin_unlock_irqrestore(&base->lock, flags);
	}
}

bool timer_cancel(struct timer *t)
{
	unsigned long flags;
	bool pending;

	if (!timer_pending(t))		/* the common case costs no lock; an arm that races with us came later */
		return false;
	struct timer_base *base = lock_base(t, &flags);
	pending = t->cpu >= 0;
	if (pending)
		dequeue(base, t);
	spin_unlock_irqrestore(&base->lock, flags);
	return pending;
}

bool timer_cancel_sync(struct timer *t)
{
	for (;;) {
		unsigned long flags;
		struct timer_base *base = lock_base(t, &flags);
		bool pending = t->cpu >= 0;
		bool running = base->running == t;

		if (pending)
			dequeue(base, t);
		spin_unlock_irqrestore(&base->lock, flags);
		if (!running)
			return pending;
		cpu_relax();
	}
}

/* Timer interrupt. A function may re-arm its own timer; one that re-arms into the past runs again at once. */
void timers_run(u64 now)
{
	struct timer_base *base = &bases[smp_processor_id()];
	struct heap_node *first;

	assert(irqs_disabled());
	base->programmed = UINT64_MAX;		/* the event that brought us here is used up */
	spin_lock(&base->lock);
	while ((first = heap_first(&base->pending)) && container_of(first, struct timer, node)->expires <= now) {
		struct timer *t = container_of(first, struct timer, node);
		void (*func)(struct timer *) = t->func;

		base->running = t;
		dequeue(base, t);
		spin_unlock(&base->lock);
		func(t);			/* may free t */
		spin_lock(&base->lock);
		base->running = NULL;
	}
	spin_unlock(&base->lock);
}

u64 timers_next(void)
{
	struct timer_base *base = &bases[smp_processor_id()];

	spin_lock(&base->lock);
	struct heap_node *first = heap_first(&base->pending);
	u64 next = first ? container_of(first, struct timer, node)->expires : UINT64_MAX;
	spin_unlock(&base->lock);
	return next;
}
