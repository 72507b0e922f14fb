/* Where ISA interrupt lines go: the I/O APIC of ACPI's MADT, or the two 8259s. */
#ifndef KERNEL_X86_IOAPIC_H
#define KERNEL_X86_IOAPIC_H

#include "kernel/types.h"

bool ioapic_init(void);			/* true: I/O APICs are in charge and the 8259s masked */
int isa_irq_enable(unsigned int irq, unsigned int vector);	/* 0 or -ENODEV; to the boot CPU */
void isa_irq_eoi(unsigned int irq);
bool isa_irq_is_spurious(unsigned int irq);

#endif
