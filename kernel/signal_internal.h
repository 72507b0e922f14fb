/* What kernel/signal.c, signal_deliver.c and signal_calls.c have in common. "G": process->sighand->lock. */
#ifndef KERNEL_SIGNAL_INTERNAL_H
#define KERNEL_SIGNAL_INTERNAL_H

#include "kernel/signal.h"

#define UNBLOCKABLE		(sigmask(SIGKILL) | sigmask(SIGSTOP))
#define STOP_SIGNALS		(sigmask(SIGSTOP) | sigmask(SIGTSTP) | sigmask(SIGTTIN) | sigmask(SIGTTOU))
#define DEFAULT_IGNORED		(sigmask(SIGCONT) | sigmask(SIGCHLD) | sigmask(SIGWINCH) | sigmask(SIGURG))

static inline bool sig_in(int sig, sigset_t set) { return sigmask(sig) & set; }
static inline bool signal_valid(int sig) { return sig >= 1 && sig <= NSIG; }

/* Has @t look for work on its way to user mode; @fatal ends killable sleeps too. G held. */
void signal_wake_up(struct task *t, bool fatal);
/* A signal that current can neither block nor ignore; @to_default: nor handle. */
void force_sig_info(int sig, const struct siginfo *info, bool to_default);
int send_signal_member(struct process *p, int sig, const struct siginfo *info);	/* as send_signal_process, for one of a group */
bool action_ignores(const struct process *p, int sig);	/* G held */
/* Signals of the process that current will not take (any more): announce them to somebody who does. G held. */
void retarget_shared_pending(sigset_t which);
void set_blocked_locked(sigset_t set);	/* current's mask; G held */
void flush_mask_everywhere(struct process *p, sigset_t mask);	/* drops what is pending, on all queues; G held */
void notify_parent_stopped(int why);	/* current's parent, CLD_STOPPED or CLD_CONTINUED; no lock held */

#endif
