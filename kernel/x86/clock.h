/* The clock behind kernel/time.h. */
#ifndef KERNEL_X86_CLOCK_H
#define KERNEL_X86_CLOCK_H

#include "kernel/types.h"

/* Boot CPU, first thing: timestamps count from here, in TSC ticks of guessed length until clock_init(). */
void clock_early_init(void);
/* Boot CPU: calibrates TSC and APIC timer, chooses the clock source, reads the RTC. Needs ACPI, APIC, ioremap. */
void clock_init(void);
/* The TSCs of two CPUs disagree: from now on another clock. All CPUs but the caller wait meanwhile. */
void clock_tsc_unusable(const char *why);
/* How long a CPU may sleep without reading the clock: a narrow counter must be seen at least twice per wrap. */
u64 clock_max_idle_ns(void);
const char *clock_source_name(void);
u64 clock_tsc_hz(void);
/* True when the clock is the TSC: then ns = (tsc - base) * mult >> 32, for a user-space clock page. */
bool clock_tsc_params(u64 *base, u64 *mult);

u64 rtc_read_seconds(void);		/* since 1970, 0 when the RTC makes no sense */

#endif
