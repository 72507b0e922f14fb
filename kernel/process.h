/*
 * Processes, beyond what kernel/task.h says: the pid table, the tree, exit and wait, and the credentials that all of
 * kernel/{process,fork,exit,exec,signal,creds,rlimit,sys}.c share.
 *
 * A pid number is in use as long as any of these names it: a task (tid), a process (tgid), a process group, a session.
 * struct pid is that number; it is hashed while it has uses and freed by RCU after the last.
 */
#ifndef KERNEL_PROCESS_H
#define KERNEL_PROCESS_H

#include "kernel/task.h"

struct file;
struct trap_frame;

#define PID_MAX_DEFAULT	32768
#define PID_MAX_LIMIT	262144		/* largest kernel.pid_max */
#define RESERVED_PIDS	300		/* after a wrap, numbers start here, as in Linux */

/*
 *   I  constant   T  process_tree_lock (RCU to read)
 */
struct pid {
	int		 nr;		/* I */
	u32		 uses;		/* T  task + process + members of the group + members of the session */
	struct task	*task;		/* T  the thread with this tid, until it has exited (a leader: until it is reaped) */
	struct process	*process;	/* T  the process with this tgid, zombies included */
	struct list_head members;	/* T  process->pg_node of the processes of this group */
	struct pid	*hash_next;	/* T */
	struct rcu_head	 rcu;
};

extern u32 sysctl_pid_max;		/* kernel.pid_max, RESERVED_PIDS + 1 .. PID_MAX_LIMIT */
extern struct process kernel_process;	/* tgid 0: kernel threads, and the boot context before there is anything else */

/* -- process.c: numbers -- */
struct pid *pid_new(void);			/* without a number yet, uses = 0; NULL: no memory */
void pid_discard(struct pid *pid);		/* undoes pid_new() while it has no number */
bool pid_assign_locked(struct pid *pid);	/* T held: gives it the next free number; false: none. Then at least one use must follow */
struct pid *pid_find(int nr);			/* T or RCU held; NULL if not in use */
void pid_use_locked(struct pid *pid);		/* T held */
void pid_unuse_locked(struct pid *pid);		/* T held; may free (RCU) */
int last_pid(void);				/* for /proc/loadavg */

/* -- process.c: objects -- */
struct process *process_alloc(void);		/* zeroed, locks and lists initialised, refs = 1, no sighand, no user; NULL */
struct sighand *sighand_alloc(void);		/* all SIG_DFL, refs = 1; NULL */
void sighand_put(struct sighand *sh);
/* The process's sighand, locked. It may change in execve, so it is looked at again under its lock. */
struct sighand *lock_sighand(struct process *p, unsigned long *flags);
void unlock_sighand(struct sighand *sh, unsigned long flags);
/* Scheduler: it has switched away from @t, TASK_DEAD, for good. Frees the stack, drops the reference of task_alloc(). Any context. */
void task_dead_switched_out(struct task *t);
unsigned int nr_tasks(void);			/* user threads that exist, zombies included */
bool task_count_try_inc(void);			/* false: kernel.threads-max reached */
void task_count_dec(void);

/* -- process.c: groups and sessions. T held where the name says so -- */
void process_join_group_locked(struct process *p, struct pid *pgrp);	/* leaves the old one */
void process_join_session_locked(struct process *p, struct pid *session);
bool pgrp_is_orphaned(int pgid);		/* takes T */
bool pgrp_will_be_orphaned_locked(struct pid *pgrp, const struct process *ignored);	/* T held */
void process_leave_groups_locked(struct process *p);	/* reaped: out of its group and session */
int pgrp_session(int pgid);			/* the session all of the group belongs to, or -ESRCH. Takes T */
/* Calls fn for each process of the group, T held; stops when fn returns false. Count of calls. */
unsigned int for_each_in_pgrp_locked(struct pid *pgrp, bool (*fn)(struct process *p, void *arg), void *arg);
/* Every process of the session that has @tty loses it, with its reference. Takes T. */
void session_clear_tty(int sid, struct tty *tty);

/* -- fork.c -- */
#define CSIGNAL			0x000000fful
#define CLONE_VM		0x00000100ul
#define CLONE_FS		0x00000200ul
#define CLONE_FILES		0x00000400ul
#define CLONE_SIGHAND		0x00000800ul
#define CLONE_PIDFD		0x00001000ul
#define CLONE_PTRACE		0x00002000ul
#define CLONE_VFORK		0x00004000ul
#define CLONE_PARENT		0x00008000ul
#define CLONE_THREAD		0x00010000ul
#define CLONE_NEWNS		0x00020000ul
#define CLONE_SYSVSEM		0x00040000ul
#define CLONE_SETTLS		0x00080000ul
#define CLONE_PARENT_SETTID	0x00100000ul
#define CLONE_CHILD_CLEARTID	0x00200000ul
#define CLONE_DETACHED		0x00400000ul	/* ignored; old musl and glibc set it */
#define CLONE_UNTRACED		0x00800000ul
#define CLONE_CHILD_SETTID	0x01000000ul
#define CLONE_NEWCGROUP		0x02000000ul
#define CLONE_NEWUTS		0x04000000ul
#define CLONE_NEWIPC		0x08000000ul
#define CLONE_NEWUSER		0x10000000ul
#define CLONE_NEWPID		0x20000000ul
#define CLONE_NEWNET		0x40000000ul
#define CLONE_IO		0x80000000ul
#define CLONE_CLEAR_SIGHAND	0x100000000ul
#define CLONE_INTO_CGROUP	0x200000000ul
#define CLONE_NEWTIME		0x00000080ul
#define CLONE_NEW_ANY	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

struct kernel_clone_args {
	u64		 flags;		/* CLONE_*, without CSIGNAL */
	int __user	*pidfd;
	int __user	*child_tid;
	int __user	*parent_tid;
	int		 exit_signal;	/* 0 none */
	u64		 stack;		/* user stack pointer of the child; 0: the parent's */
	u64		 tls;
};
void fork_child_start(void);			/* entry.S: first code of a user task, in its own context */
long kernel_clone(const struct kernel_clone_args *args);	/* tid of the child or -errno */
void vfork_complete(struct task *t);		/* exec or exit: the parent may go on. Takes T */
/* exec and exit give up the old address space: robust futexes, clear_child_tid, vfork. current. */
void mm_release(void);

/* -- exit.c -- */
void uncharge_thread(struct process *p);	/* one thread less for its user and for kernel.threads-max */
void process_reap_locked(struct process *p);	/* T held: takes a zombie out of the tree and the pid table, drops the tree's reference */

/* -- signal.c -- */
#define SIGNAL_STOPPED		1u	/* stop_flags: job control has stopped the whole process */
#define SIGNAL_CONTINUED	2u	/* went on by SIGCONT, not yet reported by wait */
#define SIGNAL_CLD_STOPPED	4u	/* tell the parent: stopped (and already continued) */
#define SIGNAL_CLD_CONTINUED	8u	/* tell the parent: continued */
#define SIGNAL_STOP_REPORTED	16u	/* wait has reported this stop */
#define JOBCTL_STOP_PENDING	1u	/* the thread is to stop */
#define JOBCTL_STOP_CONSUME	2u	/* counted in group_stop_count */
#define JOBCTL_STOP_DEQUEUED	4u	/* a stop signal was dequeued and no SIGCONT has come since */

void signal_init(void);
void recalc_sigpending_locked(struct task *t);	/* G */
void sigpending_init(struct sigpending *pending);
void flush_sigpending(struct sigpending *pending);	/* G, or nobody else sees it */
void flush_signal_handlers(struct sighand *sh, bool all);	/* exec: handlers to default; @all: SIG_IGN too */
/* current ends with @code: it takes no more process signals, hands pending ones on. True: the last live thread. */
bool exit_signals(int code);
/* T held: @child has become a zombie; tells the parent. True: nobody will wait for it, reap it now. */
bool notify_parent_locked(struct process *child, int sig);
void notify_parent_stopped_locked(struct task *t, int why);	/* T held; why CLD_STOPPED or CLD_CONTINUED */
void zap_other_threads_locked(void);		/* G: all other threads of current's process get SIGKILL */
int send_signal_task_locked(struct task *t, int sig, const struct siginfo *info);	/* G held */
int send_signal_process_locked(struct process *p, int sig, const struct siginfo *info);	/* G held */
void force_fatal_sig(int sig);			/* kills current for certain: the action becomes SIG_DFL */

/* -- creds.c -- */
struct user {			/* what the processes of one user id use together */
	u32		 uid;		/* I */
	struct refcount	 refs;
	u32		 nr_threads;	/* A  against RLIMIT_NPROC */
	u32		 nr_sigqueue;	/* A  against RLIMIT_SIGPENDING */
	u32		 nr_inflight;	/* A  files sent over sockets and not yet received (fs/scm.c) */
	struct list_head node;		/* users_lock */
};
extern struct user root_user;
struct user *user_find(u32 uid);		/* counted, made if need be; NULL: no memory */
void user_get(struct user *u);
void user_put(struct user *u);
long prctl_caps(int option, unsigned long arg);	/* -ENOSYS: not one of its options */
bool process_capable(const struct process *p, int cap);
/* exec: ids and capabilities of the new program. @setuid, @setgid: -1 or the owner of a setuid file. */
void creds_exec(s64 setuid, s64 setgid);
bool may_signal(const struct process *target, int sig);		/* current may */
bool may_ptrace(const struct process *target);			/* current may look into it (/proc, process_vm, kcmp) */

/* -- rlimit.c -- */
u64 process_rlimit(const struct process *p, unsigned int which);
void rusage_add(struct rusage_sum *sum, const struct rusage_sum *more);
void thread_rusage(const struct task *t, struct rusage_sum *sum);	/* adds */
struct rusage_user {			/* struct rusage of user space */
	s64 utime_sec, utime_usec, stime_sec, stime_usec;
	s64 maxrss, ixrss, idrss, isrss, minflt, majflt, nswap, inblock, oublock, msgsnd, msgrcv, nsignals, nvcsw, nivcsw;
};
void rusage_to_user(const struct rusage_sum *sum, struct rusage_user *out);

/* -- exec.c, elf.c, for /proc -- */
char task_state_char(const struct task *t);	/* R S D T Z X */
size_t task_cmdline(struct task *t, char *buf, size_t size);	/* NUL separated, as in /proc/PID/cmdline */
size_t task_environ(struct task *t, char *buf, size_t size);
void set_task_comm(struct task *t, const char *name);

/* -- sys.c -- */
/* process->mm_flags. The first two are what PR_SET_MDWE takes (mm/mprotect.c looks at them). */
#define MMF_MDWE		3u
#define MDWE_NO_INHERIT		2u
#define MMF_THP_DISABLE		BIT(8)
#define MMF_MEMBARRIER_PRIVATE	BIT(9)
#define MMF_MEMBARRIER_GLOBAL	BIT(10)
#define MMF_MEMBARRIER_SYNC	BIT(11)
u32 mm_flags_inherited(u32 flags);		/* by a new address space: fork and exec */
extern char utsname_nodename[65];		/* hostname; written under uts_lock, readers may see a mix */
extern char utsname_domainname[65];
#define UTS_RELEASE	"6.12.0-faultline"

#endif
