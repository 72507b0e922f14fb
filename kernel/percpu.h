/*
 * Per-CPU data. GS points at this CPU's struct cpu_local, which is the first thing in its copy of the
 * .percpu section. The boot CPU uses the section itself (offset 0), so per-CPU variables work from the
 * first C line on; kernel/x86/smp.c makes the copies of the others.
 *
 * Access rules: this_cpu_*() only with preemption disabled, unless the value is the same on every CPU
 * the task may move to (current, preempt_count). per_cpu_ptr() from anywhere; the owner of the variable
 * states who may write it.
 */
#ifndef KERNEL_PERCPU_H
#define KERNEL_PERCPU_H

#include "kernel/types.h"

struct task;

struct cpu_local {
	uintptr_t	 self;		/* 0   address of this structure */
	uintptr_t	 percpu_offset;	/* 8   this CPU's copy minus the linked section */
	struct task	*task;		/* 16  running task; written by the context switch only */
	uintptr_t	 kernel_rsp;	/* 24  top of current's kernel stack, for system-call entry */
	uintptr_t	 user_rsp;	/* 32  scratch of the system-call entry */
	u32		 preempt_count;	/* 40  > 0: no preemption. See kernel/preempt.h for its fields */
	u32		 id;		/* 44  index of this CPU, 0 = boot CPU */
	u32		 need_resched;	/* 48  a higher claim waits: schedule() at the next chance */
	u32		 apic_id;	/* 52 */
};

#define CPU_LOCAL_CURRENT	16
#define CPU_LOCAL_KERNEL_RSP	24
#define CPU_LOCAL_USER_RSP	32
#define CPU_LOCAL_PREEMPT	40
#define CPU_LOCAL_RESCHED	48
_Static_assert(offsetof(struct cpu_local, task) == CPU_LOCAL_CURRENT, "used by entry code");
_Static_assert(offsetof(struct cpu_local, kernel_rsp) == CPU_LOCAL_KERNEL_RSP, "used by entry code");
_Static_assert(offsetof(struct cpu_local, user_rsp) == CPU_LOCAL_USER_RSP, "used by entry code");
_Static_assert(offsetof(struct cpu_local, preempt_count) == CPU_LOCAL_PREEMPT, "used by entry code");
_Static_assert(offsetof(struct cpu_local, need_resched) == CPU_LOCAL_RESCHED, "used by preempt_enable");

#define DEFINE_PER_CPU(type, name)	__section(".percpu") __typeof__(type) name
#define DECLARE_PER_CPU(type, name)	extern __typeof__(type) name

extern uintptr_t percpu_offsets[NR_CPUS];	/* set before a CPU is marked online, then constant */

/* One CPU field by GS, a single instruction: safe even where preemption is on. */
#define cpu_local_read(field) ({							\
	__typeof__(((struct cpu_local *)0)->field) _v;					\
	__asm__ volatile("mov %%gs:%c1, %0" : "=r"(_v)					\
			 : "i"(offsetof(struct cpu_local, field)));			\
	_v; })
#define cpu_local_write(field, v) do {							\
	__typeof__(((struct cpu_local *)0)->field) _v = (v);				\
	__asm__ volatile("mov %0, %%gs:%c1" : : "r"(_v),				\
			 "i"(offsetof(struct cpu_local, field)) : "memory");		\
} while (0)

#define this_cpu_ptr(var) \
	((__typeof__(var))((uintptr_t)(var) + cpu_local_read(percpu_offset)))
#define per_cpu_ptr(var, cpu) \
	((__typeof__(var))((uintptr_t)(var) + percpu_offsets[cpu]))

DECLARE_PER_CPU(struct cpu_local, cpu_local);

#define smp_processor_id()	cpu_local_read(id)

/* current never changes under the running code, so the compiler may reuse the value: no volatile. */
static inline __attribute__((always_inline)) struct task *get_current(void)
{
	struct task *t;
	__asm__("mov %%gs:%c1, %0" : "=r"(t) : "i"(CPU_LOCAL_CURRENT));
	return t;
}
#define current get_current()

/* CPUs found, and those that run; both constant once boot is done. */
extern unsigned int nr_cpus_found;
extern cpumask_t cpu_online_mask;
#define for_each_cpu(cpu, mask)								\
	for (cpumask_t _m = (mask); _m && ((cpu) = (unsigned)__builtin_ctzll(_m), 1); _m &= _m - 1)

#endif
