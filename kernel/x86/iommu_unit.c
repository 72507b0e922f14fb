/*
 * The registers of one DMA remapping unit: finding out what it can do, switching it on, making it forget, and hearing of accesses
 * that it has refused.
 *
 * The rule that is easy to break: the unit caches table entries. A change that takes something away is over only when
 * unit_invalidate() has returned true, and the memory concerned belongs to the device until then.
 */
#include "kernel/x86/iommu_unit.h"

#include "kernel/panic.h"
#include "kernel/pci.h"
#include "kernel/printk.h"
#include "kernel/time.h"
#include "kernel/x86/cpu.h"
#include "mm/slab.h"

/* 11.4: offsets */
#define REG_VERSION		0x00
#define REG_CAP			0x08
#define  CAP_DOMAINS(c)		(1u << (4 + 2 * ((c) & 7)))
#define  CAP_FLUSH_WRITES	BIT(4)
#define  CAP_LOW_REGION		BIT(5)
#define  CAP_HIGH_REGION	BIT(6)
#define  CAP_CACHING_MODE	BIT(7)
#define  CAP_3_LEVELS		BIT(9)
#define  CAP_4_LEVELS		BIT(10)
#define  CAP_FAULT_AT(c)	((u32)((c) >> 24 & 0x3ff) * 16)
#define  CAP_NR_FAULTS(c)	((u32)((c) >> 40 & 0xff) + 1)
#define REG_ECAP		0x10
#define  ECAP_COHERENT		BIT(0)
#define  ECAP_PASS		BIT(6)
#define  ECAP_IOTLB_AT(e)	((u32)((e) >> 8 & 0x3ff) * 16)
#define REG_COMMAND		0x18
#define REG_STATUS		0x1c
#define  CMD_TRANSLATE		(1u << 31)
#define  CMD_SET_ROOT		(1u << 30)
#define  CMD_FLUSH_WRITES	(1u << 27)
#define  CMD_QUEUE		(1u << 26)
#define  CMD_REMAP_IRQS		(1u << 25)
#define  STATUS_LASTING		0x96ffffffu	/* without the one-shot bits */
#define REG_ROOT		0x20
#define REG_CONTEXT		0x28
#define  CONTEXT_GO		BIT(63)
#define  CONTEXT_ALL		(1ul << 61)
#define REG_FAULT_STATUS	0x34
#define  FAULT_OVERFLOW		1u
#define REG_FAULT_CONTROL	0x38
#define  FAULT_IRQ_OFF		(1u << 31)
#define REG_FAULT_DATA		0x3c
#define REG_FAULT_ADDRESS	0x40
#define REG_PROTECTED		0x64
#define  PROTECTED_ON		(1u << 31)
#define IOTLB_COMMAND		8		/* behind the address register */
#define  IOTLB_GO		BIT(63)
#define  IOTLB_ALL		(1ul << 60)
#define  IOTLB_DRAIN		(3ul << 48)	/* reads and writes on their way are over too */
/* A fault record: 16 bytes */
#define RECORD_SIZE		16u
#define RECORD_VALID		BIT(63)
#define RECORD_READ		BIT(62)
#define RECORD_REASON(hi)	((unsigned int)((hi) >> 32 & 0xff))

#define CACHE_LINE		64ul
#define ANSWER_US		10000u		/* a unit that takes longer is broken */

static u32 get32(const struct iommu_unit *u, u32 at) { return *(volatile u32 *)(u->regs + at); }
static u64 get64(const struct iommu_unit *u, u32 at) { return *(volatile u64 *)(u->regs + at); }
static void put32(struct iommu_unit *u, u32 at, u32 v) { *(volatile u32 *)(u->regs + at) = v; }
static void put64(struct iommu_unit *u, u32 at, u64 v) { *(volatile u64 *)(u->regs + at) = v; }

/* -- commands -- */

static bool wait_status(struct iommu_unit *u, u32 bit, bool set)
{
	for (unsigned int us = 0; us < ANSWER_US; us++) {
		if (!(get32(u, REG_STATUS) & bit) == !set)
			return true;
		udelay(1);
	}
	return false;
}

static bool wait_clear(struct iommu_unit *u, u32 at, u64 bit)
{
	for (unsigned int us = 0; us < ANSWER_US; us++) {
		if (!(get64(u, at) & bit))
			return true;
		udelay(1);
	}
	return false;
}

/* The command register has no memory of its own: whoever changes one bit says the others again. */
static bool command(struct iommu_unit *u, u32 bit, bool set)
{
	u32 lasting = get32(u, REG_STATUS) & STATUS_LASTING;

	put32(u, REG_COMMAND, set ? lasting | bit : lasting & ~bit);
	return wait_status(u, bit, set);
}

static bool flush_writes(struct iommu_unit *u)
{
	if (!(u->cap & CAP_FLUSH_WRITES))
		return true;
	put32(u, REG_COMMAND, (get32(u, REG_STATUS) & STATUS_LASTING) | CMD_FLUSH_WRITES);
	return wait_status(u, CMD_FLUSH_WRITES, false);
}

/* Everything at once: this happens when a driver starts or ends, not for each transfer. The context cache first, it feeds the other. */
bool unit_invalidate(struct iommu_unit *u)
{
	u32 iotlb = ECAP_IOTLB_AT(u->ecap) + IOTLB_COMMAND;

	assert_spin_held(&u->lock);
	if (!flush_writes(u))
		return false;
	put64(u, REG_CONTEXT, CONTEXT_GO | CONTEXT_ALL);
	if (!wait_clear(u, REG_CONTEXT, CONTEXT_GO))
		return false;
	put64(u, iotlb, IOTLB_GO | IOTLB_ALL | IOTLB_DRAIN);
	return wait_clear(u, iotlb, IOTLB_GO);
}

void unit_wrote(const struct iommu_unit *u, const u64 *words, unsigned int n)
{
	if (!u->coherent) {
		for (uintptr_t at = (uintptr_t)words & ~(CACHE_LINE - 1); at < (uintptr_t)(words + n); at += CACHE_LINE)
			clflush((const void *)at);
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);	/* the tables before the command that makes the unit look */
}

/* -- faults -- */

/* Interrupts off. As many rounds as there are records: a device that goes on cannot keep us here. */
static void on_fault(void *arg)
{
	struct iommu_unit *u = arg;
	u32 first = CAP_FAULT_AT(u->cap), n = CAP_NR_FAULTS(u->cap);

	for (u32 at = first; at < first + n * RECORD_SIZE; at += RECORD_SIZE) {
		u64 high = get64(u, at + 8), low;

		if (!(high & RECORD_VALID))
			continue;
		low = get64(u, at);
		put32(u, at + 12, (u32)(RECORD_VALID >> 32));		/* writing the bit frees the record */
		iommu_fault(u, (u16)high, low & PAGE_MASK, !(high & RECORD_READ), RECORD_REASON(high));
	}
	put32(u, REG_FAULT_STATUS, FAULT_OVERFLOW);
}

/* Without an interrupt it confines all the same; only nobody hears of it. */
static void listen_for_faults(struct iommu_unit *u)
{
	u64 address = 0;
	u32 data = 0;
	int vector = irq_alloc_vectors(1);

	if (vector < 0) {
		pr_warn("iommu: no interrupt for faults");
		return;
	}
	u->action = (struct irq_action){ .handler = on_fault, .arg = u, .name = "iommu" };
	irq_set_handler((unsigned int)vector, &u->action);
	msi_compose((unsigned int)vector, &address, &data);
	put32(u, REG_FAULT_DATA, data);
	put32(u, REG_FAULT_ADDRESS, (u32)address);
	put32(u, REG_FAULT_ADDRESS + 4, (u32)(address >> 32));
	put32(u, REG_FAULT_STATUS, FAULT_OVERFLOW);
	put32(u, REG_FAULT_CONTROL, 0);
}

/* -- boot -- */

/* Once with a page to learn where the rest is, and again if that is not enough. */
static bool map_registers(struct iommu_unit *u)
{
	u->regs = ioremap(u->base, PAGE_SIZE);
	if (!u->regs)
		return false;
	u->cap = get64(u, REG_CAP);
	u->ecap = get64(u, REG_ECAP);
	u64 end = max(ECAP_IOTLB_AT(u->ecap) + 16u, CAP_FAULT_AT(u->cap) + CAP_NR_FAULTS(u->cap) * RECORD_SIZE);

	if (end > PAGE_SIZE) {
		iounmap((void *)u->regs);
		u->regs = ioremap(u->base, ALIGN_UP(end, PAGE_SIZE));
	}
	return u->regs;
}

/* The firmware may have used it. Interrupts that it remapped come as we program them from now on. */
static bool stop(struct iommu_unit *u)
{
	static const u32 parts[] = { CMD_TRANSLATE, CMD_QUEUE, CMD_REMAP_IRQS };

	for (unsigned int i = 0; i < ARRAY_SIZE(parts); i++)
		if ((get32(u, REG_STATUS) & parts[i]) && !command(u, parts[i], false))
			return false;
	put32(u, REG_FAULT_CONTROL, FAULT_IRQ_OFF);
	return true;
}

const char *unit_probe(struct iommu_unit *u)
{
	if (!map_registers(u))
		return "no memory for its registers";
	u32 version = get32(u, REG_VERSION);

	if (!version || version == ~0u)
		return "nobody answers there";
	u->levels = u->cap & CAP_3_LEVELS ? 3 : u->cap & CAP_4_LEVELS ? 4 : 0;
	if (!u->levels)
		return "it wants tables of a depth that we do not make";
	u->nr_domains = CAP_DOMAINS(u->cap);
	u->coherent = u->ecap & ECAP_COHERENT;
	u->caches_absent = u->cap & CAP_CACHING_MODE;
	u->can_pass = u->ecap & ECAP_PASS;
	return stop(u) ? NULL : "it does not stop";
}

bool unit_start(struct iommu_unit *u)
{
	unsigned long flags = spin_lock_irqsave(&u->lock);

	put64(u, REG_ROOT, virt_to_phys(u->root));
	bool good = command(u, CMD_SET_ROOT, true) && unit_invalidate(u) && command(u, CMD_TRANSLATE, true);

	/* What the firmware fenced off before anybody translated is ours now. */
	if (good && (u->cap & (CAP_LOW_REGION | CAP_HIGH_REGION)))
		put32(u, REG_PROTECTED, get32(u, REG_PROTECTED) & ~PROTECTED_ON);
	spin_unlock_irqrestore(&u->lock, flags);
	if (good)
		listen_for_faults(u);
	return good;
}
