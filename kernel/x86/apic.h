/* The local APIC: interrupts to this CPU, between CPUs, and the timer. */
#ifndef KERNEL_X86_APIC_H
#define KERNEL_X86_APIC_H

#include "kernel/types.h"

extern u32 cpu_apic_ids[];		/* by CPU number; constant once smp_init() has read ACPI */

void apic_init(void);			/* boot CPU: chooses xAPIC or x2APIC; needs ioremap */
void apic_init_cpu(void);		/* each CPU, interrupts off */
u32 apic_read_id(void);
void apic_eoi(void);
void apic_error(void);

/* Inter-processor interrupts. Any context. They return once the message has left, not when it was taken. */
void apic_send_self(unsigned int vector);
void apic_send(unsigned int cpu, unsigned int vector);
void apic_send_mask(cpumask_t cpus, unsigned int vector);
void apic_send_nmi(unsigned int cpu);
void apic_send_init(u32 apic_id);
void apic_send_startup(u32 apic_id, phys_addr_t page);

/* Timer. Calibration (clock.c): free-running count down from the maximum, then the frequency found. */
void apic_timer_calibrate_start(void);
u32 apic_timer_calibrate_elapsed(void);
void apic_timer_set_frequency(u64 hz, u64 tsc_hz);
bool apic_timer_uses_deadline(void);
void apic_timer_init_cpu(void);		/* each CPU, after the calibration */

void apic_accept_pic(void);		/* boot CPU, machine without an I/O APIC */
bool smp_all_online(void);		/* kernel/x86/smp.c: no CPU was started that is not in cpu_online_mask */

#endif
