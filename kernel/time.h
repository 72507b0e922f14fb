/* Time: one monotonic nanosecond clock from the TSC (or HPET/PM timer when the TSC cannot be trusted). */
#ifndef KERNEL_TIME_H
#define KERNEL_TIME_H

#include "kernel/types.h"

#define NSEC_PER_SEC	1000000000ul
#define NSEC_PER_MSEC	1000000ul
#define NSEC_PER_USEC	1000ul

struct timespec64 { s64 tv_sec; s64 tv_nsec; };	/* also the user layout on x86-64 */
struct timeval64  { s64 tv_sec; s64 tv_usec; };

u64 ktime_get_ns(void);			/* since boot, monotonic across CPUs; any context */
u64 ktime_get_real_ns(void);		/* since 1970 UTC; from the RTC at boot, settable */
int ktime_set_real_ns(u64 ns);		/* clock_settime */
void udelay(u64 us);			/* busy wait, for device bring-up only */

/* One-shot timer of this CPU: sched_timer_interrupt() at @deadline (absolute ktime; U64_MAX = never; it may come early). Interrupts off. */
void clock_event_program(u64 deadline);

static inline struct timespec64 ns_to_timespec(u64 ns)
{
	return (struct timespec64){ (s64)(ns / NSEC_PER_SEC), (s64)(ns % NSEC_PER_SEC) };
}
static inline bool timespec_valid(const struct timespec64 *ts)
{
	return ts->tv_sec >= 0 && ts->tv_nsec >= 0 && ts->tv_nsec < (s64)NSEC_PER_SEC;
}
/* Saturates at about 292 years instead of wrapping. */
static inline u64 timespec_to_ns(const struct timespec64 *ts)
{
	if (ts->tv_sec >= 9223372036)
		return INT64_MAX;
	return (u64)ts->tv_sec * NSEC_PER_SEC + (u64)ts->tv_nsec;
}

#endif
