/* Exceptions. */
#ifndef KERNEL_X86_TRAPS_H
#define KERNEL_X86_TRAPS_H

#include "kernel/x86/trap_frame.h"

enum trap_vector { TRAP_DE, TRAP_DB, TRAP_NMI, TRAP_BP, TRAP_OF, TRAP_BR, TRAP_UD, TRAP_NM, TRAP_DF, TRAP_TS = 10, TRAP_NP,
		   TRAP_SS, TRAP_GP, TRAP_PF, TRAP_MF = 16, TRAP_AC, TRAP_MC, TRAP_XM };

void idt_init(void);		/* boot CPU: builds the one table */
void idt_load(void);		/* each CPU */

/* Called by entry.S. */
void trap_dispatch(struct trap_frame *frame, u64 vector);	/* interrupts off on entry and on return */
void trap_paranoid(struct trap_frame *frame, u64 vector);	/* on an interrupt stack */
void trap_bad_user_rip(struct trap_frame *frame);
void exit_to_user_work(struct trap_frame *frame);		/* interrupts off on entry and on return */

/* An exception in kernel mode that nothing expects: panics with the registers. For mm/fault_entry.c too. */
void die(const char *what, struct trap_frame *frame, u64 error_code) __attribute__((noreturn));
const char *trap_name(unsigned int vector);

/* The registers of a frame, into the log. */
void show_registers(const struct trap_frame *frame);

#endif
