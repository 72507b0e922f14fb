/*
 * Interrupts: vectors, handlers of legacy (ISA) lines, and work that a CPU sends to itself.
 *
 *	0x00 - 0x1f	exceptions
 *	0x20 - 0x2f	ISA lines 0 to 15, through the I/O APIC or, without ACPI, the 8259s
 *	0x30 - 0xdf	free for MSI (irq_alloc_vectors)
 *	0xf0 - 0xff	this kernel's own: timer, IPIs, spurious
 */
#ifndef KERNEL_X86_IRQ_H
#define KERNEL_X86_IRQ_H

#include "kernel/percpu.h"
#include "kernel/types.h"

#define VECTOR_ISA_BASE		0x20
#define NR_ISA_IRQS		16
#define VECTOR_DYNAMIC_FIRST	0x30
#define VECTOR_DYNAMIC_LAST	0xdf
#define VECTOR_TIMER		0xf0
#define VECTOR_RESCHEDULE	0xf1
#define VECTOR_TLB		0xf2
#define VECTOR_CALL		0xf3
#define VECTOR_IRQ_WORK		0xf4
#define VECTOR_ERROR		0xfe
#define VECTOR_SPURIOUS		0xff	/* low four bits set: the 82489DX wants it */

struct irq_action {
	void		 (*handler)(void *arg);	/* interrupts off; must not sleep */
	void		 *arg;
	const char	 *name;
	struct irq_action *next;		/* lines may be shared (serial ports) */
};

/* Adds a handler to an ISA line and unmasks it. @action lives for ever. 0 or -ENODEV when the line goes nowhere. */
int irq_request_isa(unsigned int irq, struct irq_action *action);
/* @n consecutive vectors for MSI, aligned to @n rounded up to a power of two; the first, or -ENOSPC. */
int irq_alloc_vectors(unsigned int n);
void irq_free_vectors(unsigned int vector, unsigned int n);
/* The handler of one dynamic vector; NULL removes it. A vector's handler is called with interrupts off. */
void irq_set_handler(unsigned int vector, struct irq_action *action);

/* kernel/x86/trap.c calls it for every vector from 0x20 on. */
void irq_dispatch(unsigned int vector, bool user_mode);

/* How often each vector came, per CPU: /proc/interrupts and /proc/stat. */
DECLARE_PER_CPU(u64, irq_counts[256]);
const char *irq_name(unsigned int vector);	/* NULL: nobody uses it */

/*
 * Work that cannot be done where it arises because locks may be held: the CPU interrupts itself as soon as interrupts
 * are on. One bit per kind.
 */
#define IRQ_WORK_LOG		0	/* wake readers of the log */
#define IRQ_WORK_SCREEN		1	/* wake the thread that draws the screen */
#define IRQ_WORK_NMI		2	/* report an NMI of unknown origin */
void irq_work_raise(unsigned int kind);		/* any context, NMI too; does nothing before the APIC works */
void irq_work_set(unsigned int kind, void (*func)(void));

void irq_init(void);

#endif
