/*
 * Trace points. Off they cost one test of a word that is never written; on, a record goes into a ring of the CPU that
 * overwrites the oldest. /proc/trace is the text, one JSON object per line, merged by time.
 *
 *	trace=on on the command line, or 1 in /sys/kernel/faultline/trace.
 */
#ifndef KERNEL_TRACE_H
#define KERNEL_TRACE_H

#include "kernel/types.h"

/* X(EVENT, name, meaning of the four numbers as JSON keys; NULL: unused) */
#define TRACE_EVENTS(X)									\
	X(TRACE_FAULT,		"fault",	"addr", "flags", "result", "ip")	\
	X(TRACE_LOCK_WAIT,	"lock_wait",	"class", "mode", "wait_ns", "caller")	\
	X(TRACE_SHARE,		"pmd_share",	"mm", "addr", "table", "sharers")	\
	X(TRACE_UNSHARE,	"pmd_unshare",	"mm", "addr", "table", "sharers")	\
	X(TRACE_UFFD,		"uffd",		"event", "addr", "flags", "ctx")	\
	X(TRACE_TLB,		"tlb_flush",	"mm", "start", "end", "cpus")		\
	X(TRACE_SWITCH,		"switch",	"prev", "next", "prev_state", NULL)	\
	X(TRACE_SYSCALL,	"syscall",	"nr", "result", "arg0", "arg1")		\
	X(TRACE_USER,		"user",		"a", "b", "c", "d")

enum trace_id {
#define TRACE_ENUM(id, name, a, b, c, d) id,
	TRACE_EVENTS(TRACE_ENUM)
#undef TRACE_ENUM
	NR_TRACE_EVENTS
};

extern bool trace_on;
void __trace_event(enum trace_id id, u64 a, u64 b, u64 c, u64 d);	/* any context but NMI */

static inline __attribute__((always_inline)) void __trace(enum trace_id id, u64 a, u64 b, u64 c, u64 d)
{
	if (unlikely(trace_on))
		__trace_event(id, a, b, c, d);
}
#define trace_event(id, a, b, c, d) __trace(id, (u64)(a), (u64)(b), (u64)(c), (u64)(d))

/* Switches tracing; the first time it allocates the rings. 0 or -ENOMEM. Sleeps. */
int trace_enable(bool on);
void trace_clear(void);
void trace_init(void);			/* looks at trace=; after mm_init() */
/*
 * Text of the records with a sequence in [*pos, newest], oldest first, as many whole lines as fit into @buf; *pos moves on.
 * 0 bytes: no more right now. Sequences order all CPUs; those overwritten meanwhile are skipped.
 */
#define TRACE_MAX_LINE	320u		/* no room for one: nothing is written */
size_t trace_format(char *buf, size_t size, u64 *pos);
void trace_dump(void);		/* panic: the last few records into the log; other CPUs stopped, no locks taken */

#endif
