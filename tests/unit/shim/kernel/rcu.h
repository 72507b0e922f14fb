/* Host tests: the test program supplies the four functions. */
#ifndef KERNEL_RCU_H
#define KERNEL_RCU_H

#include "kernel/preempt.h"

struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *head);
};
void rcu_read_lock(void);
void rcu_read_unlock(void);
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head));
void synchronize_rcu(void);
#define rcu_dereference(p)	__atomic_load_n(&(p), __ATOMIC_CONSUME)
#define rcu_assign_pointer(p, v) __atomic_store_n(&(p), (v), __ATOMIC_RELEASE)

#endif
