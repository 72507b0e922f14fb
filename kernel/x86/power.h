/* The end: power off, reset, stop. Interrupts may be on or off; none returns. */
#ifndef KERNEL_X86_POWER_H
#define KERNEL_X86_POWER_H

void machine_power_off(void) __attribute__((noreturn));	/* falls back to a halt with a sentence */
void machine_restart(void) __attribute__((noreturn));
void machine_halt(void) __attribute__((noreturn));

#endif
