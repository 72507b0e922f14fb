/*
 * I/O APICs (Intel 82093AA data sheet) and, where there are none, the 8259A pair of the PC. Only ISA lines are routed
 * here; everything on PCI uses MSI, which goes straight to the local APIC.
 */
#include "kernel/x86/ioapic.h"
#include "kernel/errno.h"
#include "kernel/percpu.h"
#include "kernel/printk.h"
#include "kernel/spinlock.h"
#include "kernel/x86/acpi.h"
#include "kernel/x86/apic.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/irq.h"
#include "mm/slab.h"

#define IOREGSEL	0x00
#define IOWIN		0x10
#define IOAPIC_VERSION	0x01
#define IOAPIC_REDIR(n)	(0x10 + 2 * (n))
#define REDIR_ACTIVE_LOW BIT(13)
#define REDIR_LEVEL	BIT(15)
#define REDIR_MASKED	BIT(16)

static struct {
	volatile u8	*mem;
	u32		 gsi_base, pins;
} ioapics[MAX_IOAPICS];
static unsigned int nr_ioapics;
/* Guards the register pair select/window. Leaf, below irq.c's lock of the same class: nested there. */
static struct spinlock ioapic_lock = SPINLOCK_INIT(LOCK_LEAF_IRQ);

static u32 ioapic_read(unsigned int i, u32 reg)
{
	*(volatile u32 *)(ioapics[i].mem + IOREGSEL) = reg;
	return *(volatile u32 *)(ioapics[i].mem + IOWIN);
}

static void ioapic_write(unsigned int i, u32 reg, u32 v)
{
	*(volatile u32 *)(ioapics[i].mem + IOREGSEL) = reg;
	*(volatile u32 *)(ioapics[i].mem + IOWIN) = v;
}

static void redir_write(unsigned int i, u32 pin, u64 entry)
{
	/* Mask first, so that no half-written entry can fire. */
	ioapic_write(i, IOAPIC_REDIR(pin), REDIR_MASKED);
	ioapic_write(i, IOAPIC_REDIR(pin) + 1, (u32)(entry >> 32));
	ioapic_write(i, IOAPIC_REDIR(pin), (u32)entry);
}

/* --- 8259A ---------------------------------------------------------------------------------------------------------------- */

#define PIC1		0x20
#define PIC2		0xa0
#define PIC_READ_ISR	0x0b
#define PIC_EOI		0x20
#define PIC_CASCADE	2

static u16 pic_mask = 0xffff;

/* Also when it stays masked: spurious interrupts 7 and 15 must not look like exceptions. */
static void pic_init(void)
{
	outb(PIC1, 0x11);			/* ICW1: edge, cascade, ICW4 follows */
	outb(PIC2, 0x11);
	outb(PIC1 + 1, VECTOR_ISA_BASE);
	outb(PIC2 + 1, VECTOR_ISA_BASE + 8);
	outb(PIC1 + 1, 1 << PIC_CASCADE);
	outb(PIC2 + 1, PIC_CASCADE);
	outb(PIC1 + 1, 0x01);			/* ICW4: 8086 mode */
	outb(PIC2 + 1, 0x01);
	outb(PIC1 + 1, 0xff);
	outb(PIC2 + 1, 0xff);
}

static void pic_unmask(unsigned int irq)
{
	pic_mask &= (u16)~(1u << irq);
	if (irq >= 8)
		pic_mask &= (u16)~(1u << PIC_CASCADE);
	outb(PIC1 + 1, (u8)pic_mask);
	outb(PIC2 + 1, (u8)(pic_mask >> 8));
}

static bool pic_in_service(unsigned int irq)
{
	u16 port = irq < 8 ? PIC1 : PIC2;

	outb(port, PIC_READ_ISR);
	return inb(port) & 1u << (irq & 7);
}

/* --- the choice ------------------------------------------------------------------------------------------------------------ */

bool ioapic_init(void)
{
	pic_init();
	for (unsigned int n = 0; n < acpi.nr_ioapics; n++) {
		volatile u8 *mem = ioremap(acpi.ioapics[n].phys, PAGE_SIZE);
		if (!mem)
			continue;
		unsigned int i = nr_ioapics++;
		ioapics[i].mem = mem;
		ioapics[i].gsi_base = acpi.ioapics[n].gsi_base;
		ioapics[i].pins = (ioapic_read(i, IOAPIC_VERSION) >> 16 & 0xff) + 1;
		for (u32 pin = 0; pin < ioapics[i].pins; pin++)
			redir_write(i, pin, REDIR_MASKED);
		pr_info("I/O APIC %u: interrupts %u to %u", acpi.ioapics[n].id, ioapics[i].gsi_base,
			ioapics[i].gsi_base + ioapics[i].pins - 1);
	}
	if (!nr_ioapics) {
		apic_accept_pic();
		return false;
	}
	return true;
}

int isa_irq_enable(unsigned int irq, unsigned int vector)
{
	if (!nr_ioapics) {
		pic_unmask(irq);
		return 0;
	}
	const struct acpi_override *o = &acpi.isa[irq];
	for (unsigned int i = 0; i < nr_ioapics; i++) {
		if (o->gsi < ioapics[i].gsi_base || o->gsi >= ioapics[i].gsi_base + ioapics[i].pins)
			continue;
		u64 entry = vector | (u64)cpu_apic_ids[0] << 56;
		if (o->active_low)
			entry |= REDIR_ACTIVE_LOW;
		if (o->level)
			entry |= REDIR_LEVEL;
		unsigned long flags = spin_lock_irqsave_nested(&ioapic_lock);
		redir_write(i, o->gsi - ioapics[i].gsi_base, entry);
		spin_unlock_irqrestore(&ioapic_lock, flags);
		return 0;
	}
	return -ENODEV;
}

bool isa_irq_is_spurious(unsigned int irq)
{
	return !nr_ioapics && (irq == 7 || irq == 15) && !pic_in_service(irq);
}

void isa_irq_eoi(unsigned int irq)
{
	if (nr_ioapics) {
		apic_eoi();
		return;
	}
	if (irq >= 8 && pic_in_service(irq))
		outb(PIC2, PIC_EOI);
	if (irq >= 8 || pic_in_service(irq))
		outb(PIC1, PIC_EOI);
}
