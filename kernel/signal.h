/* Signals: Linux x86-64 numbers and layouts. kernel/signal.c sends and delivers, kernel/x86/signal_frame.c builds frames. */
#ifndef KERNEL_SIGNAL_H
#define KERNEL_SIGNAL_H

#include "kernel/list.h"
#include "kernel/refcount.h"
#include "kernel/signal_numbers.h"
#include "kernel/spinlock.h"
#include "kernel/types.h"
#include "kernel/wait.h"

struct task;
struct process;
struct trap_frame;

typedef u64 sigset_t;			/* bit n-1 = signal n */
#define sigmask(sig)	(1ul << ((sig) - 1))

#define SI_USER		0
#define SI_KERNEL	128
#define SI_TKILL	(-6)
#define SI_TIMER	(-2)
#define SEGV_MAPERR	1
#define SEGV_ACCERR	2
#define BUS_ADRALN	1
#define BUS_ADRERR	2
#define BUS_MCEERR_AR	4
#define CLD_EXITED	1
#define CLD_KILLED	2
#define CLD_DUMPED	3
#define CLD_STOPPED	5
#define CLD_CONTINUED	6

struct siginfo {			/* Linux siginfo_t, 128 bytes */
	int si_signo, si_errno, si_code, _pad0;
	union {
		u32 _pad[28];
		struct { int pid; u32 uid; int status; int _p; s64 utime, stime; } chld;	/* also kill: pid, uid */
		struct { int pid; u32 uid; u64 value; } rt;
		struct { int tid, overrun; u64 value; } timer;
		struct { u64 addr; s16 addr_lsb; } fault;
	};
};
_Static_assert(sizeof(struct siginfo) == 128, "user ABI");

struct sigaction {			/* kernel layout of struct sigaction */
	uintptr_t handler;		/* 0 SIG_DFL, 1 SIG_IGN */
	u64 flags;
	uintptr_t restorer;
	sigset_t mask;
};
#define SA_NOCLDSTOP	1u
#define SA_NOCLDWAIT	2u
#define SA_SIGINFO	4u
#define SA_RESTORER	0x04000000u
#define SA_ONSTACK	0x08000000u
#define SA_RESTART	0x10000000u
#define SA_NODEFER	0x40000000u
#define SA_RESETHAND	0x80000000u
#define SIG_DFL 0
#define SIG_IGN 1

struct sighand {
	struct spinlock	 lock;		/* LOCK_SIGHAND, interrupts off */
	struct refcount	 refs;
	struct sigaction action[NSIG];	/* lock */
	struct wait_queue signalfd_wait;	/* readers of signalfd, woken at each send */
};

struct sigpending {
	struct list_head queue;		/* struct sigqueue; sighand lock */
	sigset_t	 set;
};

/* Forms of sending. All: 0 or -errno; any context with interrupts enabled or not; never sleep. info NULL = SI_USER/kernel. */
int send_signal_task(struct task *t, int sig, const struct siginfo *info);	/* that thread */
int send_signal_process(struct process *p, int sig, const struct siginfo *info);	/* any thread of it */
int send_signal_pgrp(int pgid, int sig, const struct siginfo *info);
/* A fault of current: cannot be blocked or ignored (then it kills). si_code, address, log2 of the page for MCE. */
void force_sig_fault(int sig, int code, uintptr_t addr, int addr_lsb);
void force_sig(int sig);		/* SI_KERNEL */

bool signal_pending(void);		/* current: something to deliver; sleepers return -ERESTARTSYS */
bool fatal_signal_pending(void);	/* current is being killed */
bool task_is_dying(const struct task *t);	/* fatal signal pending or exiting */
void recalc_sigpending(void);		/* current; takes the lock */

/* On the way to user mode with work pending: delivers or stops or kills. Interrupts on. */
void do_signal(struct trap_frame *frame);
/* Sets current's mask for ppoll, pselect, sigsuspend, epoll_pwait; the old one returns after delivery or by restore. */
int set_user_sigmask(const sigset_t __user *umask, size_t sigsetsize);
void restore_saved_sigmask_unless(bool interrupted);
void set_current_blocked(sigset_t set);
/* signalfd and sigtimedwait: takes one pending signal out of @mask; 0 if none. Sighand lock held. */
int dequeue_signal_locked(struct task *t, sigset_t mask, struct siginfo *info);

/* kernel/x86/signal_frame.c: pushes the frame of @sig and points @frame at the handler; 0 or -EFAULT. */
int setup_signal_frame(int sig, const struct sigaction *sa, const struct siginfo *info, sigset_t oldmask, struct trap_frame *frame);

#endif
