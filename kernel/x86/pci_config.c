/*
 * How an x86 machine reaches PCI configuration space, by ports or in memory (ECAM), and what an interrupt message looks
 * like to its local APICs. Intel SDM vol. 3, 11.11 (message signalled interrupts).
 */
#include "kernel/pci.h"
#include "kernel/smp.h"
#include "kernel/x86/acpi.h"
#include "kernel/x86/apic.h"
#include "kernel/x86/cpu.h"
#include "mm/slab.h"

#define CONFIG_ADDRESS		0xcf8
#define CONFIG_DATA		0xcfc
#define CONFIG_ENABLE		BIT(31)
#define MSI_ADDRESS_BASE	0xfee00000ul
#define MSI_DESTINATION_SHIFT	12
#define MSI_DESTINATION_MAX	0xffu	/* more would need interrupt remapping */

static struct spinlock port_lock = SPINLOCK_INIT(LOCK_LEAF_IRQ);	/* the pair of ports */

static void select_register(u32 bdf, u32 offset)
{
	outl(CONFIG_ADDRESS, (u32)CONFIG_ENABLE | bdf << 8 | (offset & 0xfc));
}

u32 pci_io_read(u16 port, unsigned int size)
{
	return size == 1 ? inb(port) : size == 2 ? inw(port) : inl(port);
}

void pci_io_write(u16 port, unsigned int size, u32 value)
{
	if (size == 1)
		outb(port, (u8)value);
	else if (size == 2)
		outw(port, (u16)value);
	else
		outl(port, value);
}

u32 pci_port_read(u32 bdf, u32 offset, unsigned int size)
{
	unsigned long flags = spin_lock_irqsave(&port_lock);

	select_register(bdf, offset);
	u32 value = pci_io_read((u16)(CONFIG_DATA + (offset & 3)), size);
	spin_unlock_irqrestore(&port_lock, flags);
	return value;
}

void pci_port_write(u32 bdf, u32 offset, unsigned int size, u32 value)
{
	unsigned long flags = spin_lock_irqsave(&port_lock);

	select_register(bdf, offset);
	pci_io_write((u16)(CONFIG_DATA + (offset & 3)), size, value);
	spin_unlock_irqrestore(&port_lock, flags);
}

/* One page for one function: the whole window is 256 MiB, and nearly all of it is empty. */
volatile u8 *pci_map_ecam(u32 bdf)
{
	u32 bus = bdf >> 8;

	if (!acpi.mcfg_base || bus < acpi.mcfg_bus_first || bus > acpi.mcfg_bus_last)
		return NULL;
	return ioremap(acpi.mcfg_base + ((phys_addr_t)bdf << 12), PCI_EXP_CONFIG_SIZE);
}

void msi_compose(unsigned int vector, u64 *address, u32 *data)
{
	u32 id = cpu_apic_ids[smp_processor_id()];

	if (id > MSI_DESTINATION_MAX)
		id = cpu_apic_ids[0];
	*address = MSI_ADDRESS_BASE | (u64)id << MSI_DESTINATION_SHIFT;	/* physical destination, no redirection */
	*data = vector;							/* fixed delivery, edge */
}
