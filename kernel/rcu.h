/*
 * Read-copy-update, quiescent-state based. A read section disables preemption; a CPU is quiescent whenever it
 * switches tasks, idles or returns to user mode from its timer tick. Read sections never sleep.
 */
#ifndef KERNEL_RCU_H
#define KERNEL_RCU_H

#include "kernel/preempt.h"

struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *head);
};

static inline void rcu_read_lock(void) { preempt_disable(); }
static inline void rcu_read_unlock(void) { preempt_enable(); }
#define rcu_dereference(p)	__atomic_load_n(&(p), __ATOMIC_CONSUME)
#define rcu_assign_pointer(p, v) __atomic_store_n(&(p), (v), __ATOMIC_RELEASE)

/* Runs func(head) after a grace period, in a kernel thread with interrupts on; any context may call. */
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head));
void synchronize_rcu(void);		/* waits for a grace period; sleeps */
void rcu_barrier(void);			/* waits until all callbacks queued so far have run; sleeps */
void kfree_rcu_cb(struct rcu_head *head, size_t offset);	/* see kfree_rcu */
#define kfree_rcu(ptr, member) kfree_rcu_cb(&(ptr)->member, offsetof(typeof(*(ptr)), member))

void rcu_init(void);			/* starts the grace-period thread; after process_init() */

/*
 * An idle CPU is quiescent all the time and is never woken for a grace period. Hardware interrupts that find it idle
 * are not: trap code brackets every one with rcu_irq_enter/exit (after raising, before lowering HARDIRQ_OFFSET). The
 * idle loop enters and exits itself. All four: own CPU, interrupts off.
 */
struct rcu_cpu {
	u64		 watching;	/* own CPU, by locked add: odd = may read, even = idle; read by the grace-period thread */
	u64		 seen;		/* own CPU: newest grace period in which it was quiescent */
	u32		 irq_depth;	/* own CPU: nested interrupts since one found it idle */
	u32		 reserved;
	struct rcu_head	*callbacks;	/* atomic stack: own CPU pushes, the grace-period thread takes all */
} __aligned(64);
extern struct rcu_cpu rcu_cpus[];
extern u64 rcu_gp;			/* written by the grace-period thread only */

/* Called by the scheduler and the timer: this CPU holds no RCU reference now. */
static inline void rcu_quiescent(void)
{
	struct rcu_cpu *rc = &rcu_cpus[smp_processor_id()];
	u64 gp = __atomic_load_n(&rcu_gp, __ATOMIC_ACQUIRE);

	if (unlikely(rc->seen != gp))
		__atomic_store_n(&rc->seen, gp, __ATOMIC_RELEASE);
}

void rcu_idle_enter(void);
void rcu_idle_exit(void);
void rcu_irq_enter_idle(struct rcu_cpu *rc);
void rcu_irq_exit_idle(struct rcu_cpu *rc);
static inline void rcu_irq_enter(void)
{
	struct rcu_cpu *rc = &rcu_cpus[smp_processor_id()];
	if (unlikely(!(rc->watching & 1) || rc->irq_depth))
		rcu_irq_enter_idle(rc);
}
static inline void rcu_irq_exit(void)
{
	struct rcu_cpu *rc = &rcu_cpus[smp_processor_id()];
	if (unlikely(rc->irq_depth))
		rcu_irq_exit_idle(rc);
}
void rcu_init_cpu(unsigned int cpu);	/* before that CPU runs */
void rcu_kicked(void);			/* reschedule IPI or timer tick, in the interrupt: quiescent unless what we interrupted reads */

#endif
