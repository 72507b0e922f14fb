/*
 * Finding PCI functions and their windows, and taking one away from a holder that died.
 *
 * The rule that is easy to break: memory that a driver gave to its device belongs to the device, not to the driver, until
 * pci_quiesce() has returned. A network card goes on receiving into a dead driver's buffers.
 */
#include "kernel/pci.h"

#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/time.h"
#include "kernel/timer.h"
#include "mm/slab.h"

#define BAR_IO			BIT(0)
#define BAR_TYPE_MASK		0x6u
#define BAR_TYPE_64		0x4u
#define BAR_MEMORY_FLAGS	0xfu
#define BAR_IO_FLAGS		0x3u
#define CLASS_DISPLAY		0x03u
#define MSIX_SIZE_MASK		0x7ffu
#define MSIX_BIR_MASK		0x7u
#define MSIX_ENTRY_SIZE		16u

#define EXP_DEVCAP		0x04
#define  EXP_DEVCAP_FLR		BIT(28)
#define EXP_DEVCTL		0x08
#define  EXP_DEVCTL_FLR		BIT(15)
#define EXP_DEVSTA		0x0a
#define  EXP_DEVSTA_PENDING	BIT(5)
#define AF_CAP			0x03
#define  AF_CAP_TP_FLR		0x3u
#define AF_CTRL			0x04
#define AF_STATUS		0x05
#define PM_CSR			0x04
#define  PM_CSR_STATE		0x3u
#define  PM_CSR_D3		0x3u
#define  PM_CSR_NO_SOFT_RESET	BIT(3)

#define DRAIN_MS		100u	/* longest wait for transactions on their way (PCIe 6.6.2) */
#define FLR_MS			100u
#define D3_MS			10u

struct list_head pci_functions = LIST_HEAD_INIT(pci_functions);

u32 pci_read(const struct pci_function *f, u32 offset, unsigned int size)
{
	assert(offset + size <= pci_config_size(f) && IS_ALIGNED(offset, size));
	if (!f->ecam)
		return pci_port_read(pci_bdf(f), offset, size);
	switch (size) {
	case 1:  return *(f->ecam + offset);
	case 2:  return *(volatile u16 *)(f->ecam + offset);
	default: return *(volatile u32 *)(f->ecam + offset);
	}
}

void pci_write(const struct pci_function *f, u32 offset, unsigned int size, u32 value)
{
	assert(offset + size <= pci_config_size(f) && IS_ALIGNED(offset, size));
	if (!f->ecam)
		pci_port_write(pci_bdf(f), offset, size, value);
	else if (size == 1)
		*(f->ecam + offset) = (u8)value;
	else if (size == 2)
		*(volatile u16 *)(f->ecam + offset) = (u16)value;
	else
		*(volatile u32 *)(f->ecam + offset) = value;
}

/* -- finding them -- */

static void find_capabilities(struct pci_function *f)
{
	unsigned int left = (PCI_CONFIG_SIZE - PCI_HEADER_END) / 4;	/* a list that goes round ends too */

	if (!(pci_read(f, PCI_STATUS, 2) & PCI_STATUS_CAPS))
		return;
	for (u32 at = pci_read(f, PCI_CAP_POINTER, 1) & 0xfc; at >= PCI_HEADER_END && left--; at = pci_read(f, at + 1, 1) & 0xfc) {
		switch (pci_read(f, at, 1)) {
		case PCI_CAP_PM:   f->cap_pm = (u8)at; break;
		case PCI_CAP_MSI:  f->cap_msi = (u8)at; break;
		case PCI_CAP_EXP:  f->cap_exp = (u8)at; break;
		case PCI_CAP_MSIX: f->cap_msix = (u8)at; break;
		case PCI_CAP_AF:   f->cap_af = (u8)at; break;
		}
	}
}

/* Writes ones, reads back which bits exist. The function does not answer to its addresses meanwhile. Returns how many BARs it was. */
static unsigned int size_bar(struct pci_function *f, unsigned int n)
{
	u32 at = PCI_BAR0 + 4 * n, low = pci_read(f, at, 4), high = 0;
	struct pci_bar *bar = &f->bars[n];

	pci_write(f, at, 4, ~0u);
	u64 mask = pci_read(f, at, 4);
	pci_write(f, at, 4, low);
	if (!mask)
		return 1;
	if (low & BAR_IO) {
		/* A port is 16 bits here; some devices leave the upper half of the address out. */
		mask = (mask | 0xffff0000u) & ~(u64)BAR_IO_FLAGS;
		*bar = (struct pci_bar){ .start = low & ~BAR_IO_FLAGS & 0xffff, .size = (u32)(~mask + 1), .io = true };
		return 1;
	}
	bool wide = (low & BAR_TYPE_MASK) == BAR_TYPE_64 && n + 1 < PCI_NR_BARS;

	if (wide) {
		high = pci_read(f, at + 4, 4);
		pci_write(f, at + 4, 4, ~0u);
		mask |= (u64)pci_read(f, at + 4, 4) << 32;
		pci_write(f, at + 4, 4, high);
	} else {
		mask |= ~0ul << 32;
	}
	bar->start = (u64)high << 32 | (low & ~BAR_MEMORY_FLAGS);
	bar->size = ~(mask & ~(u64)BAR_MEMORY_FLAGS) + 1;
	if (!bar->start)		/* the firmware gave it no address, and we hand none out */
		bar->size = 0;
	return wide ? 2 : 1;
}

static void size_bars(struct pci_function *f)
{
	u32 command = pci_read(f, PCI_COMMAND, 2);

	pci_write(f, PCI_COMMAND, 2, command & ~(u32)(PCI_COMMAND_IO | PCI_COMMAND_MEMORY));
	for (unsigned int n = 0; n < PCI_NR_BARS; )
		n += size_bar(f, n);
	pci_write(f, PCI_COMMAND, 2, command);
}

/* Table and pending bits: the pages that hold them are the kernel's. They usually share a window of their own. */
static void find_msix(struct pci_function *f)
{
	u32 control = pci_read(f, f->cap_msix + 2, 2), table = pci_read(f, f->cap_msix + 4, 4), pba = pci_read(f, f->cap_msix + 8, 4);
	u64 entries = (control & MSIX_SIZE_MASK) + 1, start = table & ~MSIX_BIR_MASK, end = start + entries * MSIX_ENTRY_SIZE;

	f->msix_bar = table & MSIX_BIR_MASK;
	f->msix_table = start;
	if (f->msix_bar >= PCI_NR_BARS || f->bars[f->msix_bar].io || end > f->bars[f->msix_bar].size) {
		f->cap_msix = 0;	/* nonsense, or no address: do without */
		return;
	}
	if ((pba & MSIX_BIR_MASK) == f->msix_bar)
		end = max(end, (u64)(pba & ~MSIX_BIR_MASK) + ALIGN_UP(entries, 64) / 8);
	f->msix_offset = start & PAGE_MASK;
	f->msix_size = ALIGN_UP(end, PAGE_SIZE) - f->msix_offset;
}

static struct pci_function *add_function(u32 bdf, u32 id)
{
	struct pci_function *f = kzalloc(sizeof(*f), GFP_KERNEL);

	if (!f) {
		pr_err("pci: no memory for function %04x", bdf);
		return NULL;
	}
	f->bus = (u8)(bdf >> 8);
	f->device = bdf >> 3 & 31;
	f->function = bdf & 7;
	f->vendor_id = (u16)id;
	f->device_id = (u16)(id >> 16);
	f->ecam = pci_map_ecam(bdf);
	f->class_revision = pci_read(f, PCI_CLASS_REVISION, 4);
	f->is_bridge = (pci_read(f, PCI_HEADER_TYPE, 1) & ~PCI_HEADER_MULTI) != 0;
	f->kernel_uses = f->class_revision >> 24 == CLASS_DISPLAY;	/* fbcon draws on it: it must not go away for a moment either */
	mutex_init(&f->mutex, LOCK_KMUTEX);
	INIT_LIST_HEAD(&f->dma_pools);
	pci_irq_init(f);
	find_capabilities(f);
	if (!f->is_bridge && !f->kernel_uses)
		size_bars(f);
	if (f->cap_msix)
		find_msix(f);
	list_add_tail(&f->node, &pci_functions);
	return f;
}

/* All functions of one bus; @reachable learns the buses behind its bridges, whose numbers are always higher. */
static unsigned int scan_bus(u32 bus, u64 reachable[4])
{
	unsigned int found = 0;

	for (u32 device = 0; device < 32; device++) {
		bool multi = true;

		for (u32 function = 0; function < (multi ? 8u : 1u); function++) {
			u32 bdf = bus << 8 | device << 3 | function, id = pci_port_read(bdf, PCI_VENDOR_ID, 4);

			if (function == 0)
				multi = (u16)id != 0xffff && (pci_port_read(bdf, PCI_HEADER_TYPE, 1) & PCI_HEADER_MULTI);
			if ((u16)id == 0xffff || !id)
				continue;
			struct pci_function *f = add_function(bdf, id);

			if (!f)
				continue;
			found++;
			u32 below = f->is_bridge ? pci_read(f, PCI_SECONDARY_BUS, 1) : 0;

			if (below > bus)
				reachable[below / 64] |= BIT(below % 64);
		}
	}
	return found;
}

void pci_init(void)
{
	u64 reachable[4] = { 1 };
	unsigned int found = 0;

	for (u32 bus = 0; bus < 256; bus++)
		if (reachable[bus / 64] & BIT(bus % 64))
			found += scan_bus(bus, reachable);
	struct pci_function *first = list_empty(&pci_functions) ? NULL : list_first_entry(&pci_functions, struct pci_function, node);

	pr_info("pci: %u functions, configuration %s", found, first && first->ecam ? "in memory" : "by ports");
}

/* -- what a driver may write -- */

/* Does [offset, offset + size) touch [start, end)? */
static bool touches(u32 offset, unsigned int size, u32 start, u32 end)
{
	return offset < end && offset + size > start;
}

/*
 * Windows stay where they are, and interrupt messages are composed by the kernel alone; with these two a driver could reach
 * memory and vectors that are not its device's even behind an IOMMU. Of the header it may change the command register, the
 * cache line size and the latency; of the rest, all but MSI and MSI-X.
 */
int pci_write_checked(struct pci_function *f, u32 offset, unsigned int size, u32 value)
{
	if (offset < PCI_HEADER_END) {
		bool command = offset == PCI_COMMAND && size == 2;
		bool status = offset == PCI_STATUS && size == 2;
		bool timing = offset >= PCI_CACHE_LINE && offset + size <= PCI_HEADER_TYPE;

		if (!command && !status && !timing)
			return -EPERM;
	}
	if (f->cap_msi && touches(offset, size, f->cap_msi, f->cap_msi + 24u))
		return -EPERM;
	if (f->cap_msix && touches(offset, size, f->cap_msix, f->cap_msix + 12u))
		return -EPERM;
	pci_write(f, offset, size, value);
	return 0;
}

/* -- stopping one -- */

static void sleep_ms(unsigned int ms)
{
	u64 deadline = ktime_get_ns() + ms * NSEC_PER_MSEC;

	while (ktime_get_ns() < deadline) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_until(deadline);
	}
	set_current_state(TASK_RUNNING);
}

/* Requests that the function sent before it lost the right to: they arrive, or their answers do. */
static void wait_until_drained(struct pci_function *f)
{
	for (unsigned int ms = 0; ms < DRAIN_MS; ms++) {
		bool pending = f->cap_exp ? pci_read(f, f->cap_exp + EXP_DEVSTA, 2) & EXP_DEVSTA_PENDING :
			       f->cap_af ? pci_read(f, f->cap_af + AF_STATUS, 1) & 1 : false;

		if (!pending)
			return;
		sleep_ms(1);
	}
	pr_warn("pci %02x:%02x.%u: transactions still pending after %u ms", f->bus, f->device, f->function, DRAIN_MS);
}

/* By its own means, best first. A function without any keeps its registers; it cannot use them to reach memory. */
static void reset_function(struct pci_function *f)
{
	if (f->cap_exp && (pci_read(f, f->cap_exp + EXP_DEVCAP, 4) & EXP_DEVCAP_FLR)) {
		pci_write(f, f->cap_exp + EXP_DEVCTL, 2, pci_read(f, f->cap_exp + EXP_DEVCTL, 2) | EXP_DEVCTL_FLR);
		sleep_ms(FLR_MS);
	} else if (f->cap_af && (pci_read(f, f->cap_af + AF_CAP, 1) & AF_CAP_TP_FLR) == AF_CAP_TP_FLR) {
		pci_write(f, f->cap_af + AF_CTRL, 1, 1);
		sleep_ms(FLR_MS);
	} else if (f->cap_pm) {
		u32 csr = pci_read(f, f->cap_pm + PM_CSR, 2);

		if (csr & PM_CSR_NO_SOFT_RESET)
			return;
		pci_write(f, f->cap_pm + PM_CSR, 2, csr | PM_CSR_D3);
		sleep_ms(D3_MS);
		pci_write(f, f->cap_pm + PM_CSR, 2, csr & ~PM_CSR_STATE);
		sleep_ms(D3_MS);
	}
}

void pci_quiesce(struct pci_function *f)
{
	u32 bars[PCI_NR_BARS], timing = pci_read(f, PCI_CACHE_LINE, 2);

	assert(mutex_is_held(&f->mutex));
	pci_irq_enable(f, 0);
	pci_write(f, PCI_COMMAND, 2, PCI_COMMAND_INTX_OFF);
	wait_until_drained(f);

	/* A reset empties the header too; only the kernel knew what stood there. */
	for (unsigned int n = 0; n < PCI_NR_BARS; n++)
		bars[n] = pci_read(f, PCI_BAR0 + 4 * n, 4);
	reset_function(f);
	for (unsigned int n = 0; n < PCI_NR_BARS; n++)
		pci_write(f, PCI_BAR0 + 4 * n, 4, bars[n]);
	pci_write(f, PCI_CACHE_LINE, 2, timing);
	pci_write(f, PCI_COMMAND, 2, PCI_COMMAND_INTX_OFF);
}
