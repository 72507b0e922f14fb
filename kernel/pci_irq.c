/*
 * Interrupts of PCI functions as something that can be waited for: each vector is a bit; a message sets it, pci_irq_take()
 * fetches and clears all of them.
 *
 * A vector whose bit is still set when it fires again is masked until the bit has been taken. So a driver that does not keep up,
 * or has hung, costs at most one interrupt beyond the one that it was told about, whatever its device does. MSI-X remembers in
 * its pending bits what came while a vector was masked and sends it afterwards: nothing is lost. A plain MSI cannot be
 * masked; its function falls silent when its driver dies.
 *
 * Who comes late finds everything still there: actions and vectors of a function are never freed, because an interrupt may be on
 * its way to another CPU while they are being switched off. Then it finds nr == 0 and does nothing.
 */
#include "kernel/pci.h"

#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/x86/irq.h"
#include "mm/slab.h"

#define MSI_CONTROL		0x02
#define  MSI_ENABLE		BIT(0)
#define  MSI_MULTIPLE_MASK	0x70u
#define  MSI_64BIT		BIT(7)
#define MSI_ADDRESS		0x04
#define MSIX_CONTROL		0x02
#define  MSIX_SIZE_MASK		0x7ffu
#define  MSIX_FUNCTION_MASK	BIT(14)
#define  MSIX_ENABLE		BIT(15)
#define MSIX_ENTRY_WORDS	4u	/* address low, address high, data, control */
#define  MSIX_VECTOR_MASK	1u

void pci_irq_init(struct pci_function *f)
{
	f->irq.lock = (struct spinlock)SPINLOCK_INIT(LOCK_LEAF_IRQ);
	wait_queue_init(&f->irq.wait);
}

/* irq->lock held; MSI-X in use. */
static void mask_vector(struct pci_irq *irq, unsigned int index, bool masked)
{
	irq->table[index * MSIX_ENTRY_WORDS + 3] = masked ? MSIX_VECTOR_MASK : 0;
}

/* Interrupts off. */
static void on_interrupt(void *arg)
{
	struct pci_vector *v = arg;
	struct pci_irq *irq = &v->fn->irq;
	u64 bit = BIT(v->index);
	bool wanted;

	spin_lock(&irq->lock);
	wanted = v->index < irq->nr;
	if (wanted && (irq->pending & bit) && irq->table) {
		mask_vector(irq, v->index, true);
		irq->masked |= bit;
	}
	if (wanted)
		irq->pending |= bit;
	spin_unlock(&irq->lock);
	if (wanted)
		wake_up_poll(&irq->wait, 0x001u | 0x040u);	/* POLLIN, POLLRDNORM */
}

u64 pci_irq_take(struct pci_function *f)
{
	struct pci_irq *irq = &f->irq;
	unsigned long flags = spin_lock_irqsave(&irq->lock);
	u64 pending = irq->pending;

	irq->pending = 0;
	while (irq->masked) {
		unsigned int index = (unsigned int)__builtin_ctzl(irq->masked);

		irq->masked &= irq->masked - 1;
		mask_vector(irq, index, false);
	}
	spin_unlock_irqrestore(&irq->lock, flags);
	return pending;
}

/* The parts that live for ever. 0 or -ENOMEM. */
static int make_vectors(struct pci_function *f)
{
	struct pci_irq *irq = &f->irq;

	if (irq->actions)
		return 0;
	struct irq_action *actions = kcalloc(PCI_IRQ_MAX, sizeof(*actions), GFP_KERNEL);

	irq->vectors = kcalloc(PCI_IRQ_MAX, sizeof(*irq->vectors), GFP_KERNEL);
	if (!actions || !irq->vectors) {
		kfree(actions);
		kfree(irq->vectors);
		irq->vectors = NULL;
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < PCI_IRQ_MAX; i++) {
		struct pci_vector *v = &irq->vectors[i];

		v->fn = f;
		v->index = i;
		snprintf(v->name, sizeof(v->name), "pci %02x:%02x.%u-%u", f->bus, f->device, f->function, i);
		actions[i] = (struct irq_action){ .handler = on_interrupt, .arg = v, .name = v->name };
	}
	irq->actions = actions;
	return 0;
}

static void switch_off(struct pci_function *f)
{
	struct pci_irq *irq = &f->irq;
	volatile u32 *table = irq->table;
	unsigned int nr = irq->nr;

	if (!nr)
		return;
	if (table)
		pci_write(f, f->cap_msix + MSIX_CONTROL, 2, pci_read(f, f->cap_msix + MSIX_CONTROL, 2) & ~(u32)MSIX_ENABLE);
	else
		pci_write(f, f->cap_msi + MSI_CONTROL, 2, pci_read(f, f->cap_msi + MSI_CONTROL, 2) & ~(u32)MSI_ENABLE);

	unsigned long flags = spin_lock_irqsave(&irq->lock);

	irq->nr = 0;
	irq->table = NULL;
	irq->pending = irq->masked = 0;
	spin_unlock_irqrestore(&irq->lock, flags);
	for (unsigned int i = 0; i < nr; i++)
		irq_set_handler(irq->first + i, NULL);
	irq_free_vectors(irq->first, nr);
	if (table)
		iounmap((void *)table);
}

static void start(struct pci_function *f, unsigned int first, unsigned int n, volatile u32 *table)
{
	struct pci_irq *irq = &f->irq;
	unsigned long flags = spin_lock_irqsave(&irq->lock);

	irq->first = first;
	irq->table = table;
	irq->nr = n;
	spin_unlock_irqrestore(&irq->lock, flags);
	for (unsigned int i = 0; i < n; i++)
		irq_set_handler(first + i, &irq->actions[i]);
}

/* Masks everything, writes the table, lets go: the order of PCI 3.0, 6.8.3.4. */
static int switch_on_msix(struct pci_function *f, unsigned int n)
{
	u32 control = pci_read(f, f->cap_msix + MSIX_CONTROL, 2), entries = (control & MSIX_SIZE_MASK) + 1;

	if (n > entries)
		return -EINVAL;
	volatile u32 *table = ioremap(f->bars[f->msix_bar].start + f->msix_table, entries * MSIX_ENTRY_WORDS * 4);

	if (!table)
		return -ENOMEM;
	int first = irq_alloc_vectors(n);

	if (first < 0) {
		iounmap((void *)table);
		return first;
	}
	pci_write(f, PCI_COMMAND, 2, pci_read(f, PCI_COMMAND, 2) | PCI_COMMAND_MEMORY | PCI_COMMAND_INTX_OFF);
	pci_write(f, f->cap_msix + MSIX_CONTROL, 2, control | MSIX_ENABLE | MSIX_FUNCTION_MASK);
	for (unsigned int i = 0; i < entries; i++) {
		volatile u32 *entry = table + i * MSIX_ENTRY_WORDS;
		u64 address = 0;
		u32 data = 0;

		entry[3] = MSIX_VECTOR_MASK;
		if (i >= n)
			continue;
		msi_compose((unsigned int)first + i, &address, &data);
		entry[0] = (u32)address;
		entry[1] = (u32)(address >> 32);
		entry[2] = data;
		entry[3] = 0;
	}
	start(f, (unsigned int)first, n, table);
	pci_write(f, f->cap_msix + MSIX_CONTROL, 2, (control | MSIX_ENABLE) & ~(u32)MSIX_FUNCTION_MASK);
	return 0;
}

static int switch_on_msi(struct pci_function *f)
{
	u32 control = pci_read(f, f->cap_msi + MSI_CONTROL, 2), data;
	u64 address;
	int first = irq_alloc_vectors(1);

	if (first < 0)
		return first;
	msi_compose((unsigned int)first, &address, &data);
	pci_write(f, PCI_COMMAND, 2, pci_read(f, PCI_COMMAND, 2) | PCI_COMMAND_INTX_OFF);
	pci_write(f, f->cap_msi + MSI_ADDRESS, 4, (u32)address);
	if (control & MSI_64BIT)
		pci_write(f, f->cap_msi + MSI_ADDRESS + 4, 4, (u32)(address >> 32));
	pci_write(f, f->cap_msi + (control & MSI_64BIT ? 0x0c : 0x08), 2, data);
	start(f, (unsigned int)first, 1, NULL);
	pci_write(f, f->cap_msi + MSI_CONTROL, 2, (control & ~MSI_MULTIPLE_MASK) | (u32)MSI_ENABLE);
	return 0;
}

int pci_irq_enable(struct pci_function *f, unsigned int n)
{
	assert(mutex_is_held(&f->mutex));
	switch_off(f);
	if (!n)
		return 0;
	if (!f->cap_msix && !f->cap_msi)
		return -ENODEV;
	if (n > PCI_IRQ_MAX || (!f->cap_msix && n > 1))
		return -EINVAL;
	int err = make_vectors(f);

	if (err)
		return err;
	return f->cap_msix ? switch_on_msix(f, n) : switch_on_msi(f);
}
