/*
 * Futexes: sleeping on a word of user memory. kernel/futex.c has the hash of waiters and the system call.
 */
#ifndef KERNEL_FUTEX_H
#define KERNEL_FUTEX_H

#include "kernel/types.h"

struct task;

#define FUTEX_WAIT		0
#define FUTEX_WAKE		1
#define FUTEX_FD		2
#define FUTEX_REQUEUE		3
#define FUTEX_CMP_REQUEUE	4
#define FUTEX_WAKE_OP		5
#define FUTEX_LOCK_PI		6
#define FUTEX_UNLOCK_PI		7
#define FUTEX_TRYLOCK_PI	8
#define FUTEX_WAIT_BITSET	9
#define FUTEX_WAKE_BITSET	10
#define FUTEX_PRIVATE_FLAG	128
#define FUTEX_CLOCK_REALTIME	256
#define FUTEX_CMD_MASK		(~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME))

#define FUTEX_WAITERS		0x80000000u
#define FUTEX_OWNER_DIED	0x40000000u
#define FUTEX_TID_MASK		0x3fffffffu

/*
 * What a futex word is, across processes (mm/futex_key.c): for a page of a file or shared mapping *object is its struct
 * mapping and *offset its byte offset in the file; for private memory *object is current's mm and *offset the address.
 * 0, or -EFAULT when nothing is mapped there (or it is not readable; @write: not writable). Faults the page in, sleeps.
 * @object is not referenced: equal keys mean the same word as long as both sides keep it mapped, and a waiter whose
 * mapping went away is only ever woken once too often.
 */
int futex_shared_key(uintptr_t uaddr, bool write, void **object, u64 *offset);

/* Wakes up to @n waiters of the shared or private word at @uaddr in current's mm; for clear_child_tid. Bad addresses are ignored. */
void futex_wake_user(u32 __user *uaddr, int n);

/* Exit and exec: marks every robust futex that current holds as OWNER_DIED and wakes one waiter of each. Sleeps. */
void exit_robust_list(struct task *t);

void futex_init(void);		/* after mm_init(), once the number of CPUs is known */

#endif
