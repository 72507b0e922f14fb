/*
 * One DMA remapping unit of Intel VT-d (specification 4.1: chapter 9 the tables, chapter 11 the registers), legacy mode, with
 * invalidation by registers. Shared by iommu_unit.c (registers, faults) and iommu.c (domains).
 */
#ifndef KERNEL_X86_IOMMU_UNIT_H
#define KERNEL_X86_IOMMU_UNIT_H

#include "kernel/spinlock.h"
#include "kernel/types.h"
#include "kernel/x86/irq.h"

struct pci_function;

/* 9.3 context entry, low word */
#define CTX_PRESENT		BIT(0)
#define CTX_SILENT		BIT(1)		/* its faults are not recorded */
#define CTX_PASS		(2ul << 2)	/* untranslated */
/* high word */
#define CTX_WIDTH(levels)	((u64)(levels) - 2)
#define CTX_DOMAIN(id)		((u64)(id) << 8)

#define DOMAIN_PASS		1u		/* 0 means "none" to some units */
#define DOMAIN_FIRST		2u

/*
 *   I  constant after boot    L  lock
 */
struct iommu_unit {
	volatile u8		*regs;		/* I  NULL: not usable */
	phys_addr_t		 base;		/* I */
	u64			 cap, ecap;	/* I */
	unsigned int		 levels;	/* I  3 or 4 */
	unsigned int		 nr_domains;	/* I */
	bool			 coherent;	/* I  it reads its tables through the caches */
	bool			 caches_absent;	/* I  it may remember that an entry was not there */
	bool			 can_pass;	/* I */
	u64			*root;		/* L  two words a bus */
	struct spinlock		 lock;		/* LOCK_LEAF_IRQ: one command at a time; context entries */
	struct irq_action	 action;	/* I */
	u64			 faults;	/* A  relaxed */
};

/* -- iommu_unit.c -- */
/* Maps registers at u->base, reads what it can do, stops what the firmware left. NULL, or why it cannot be used. Boot. */
const char *unit_probe(struct iommu_unit *u);
bool unit_start(struct iommu_unit *u);		/* boot, with root table and context entries of the kernel's functions made */
/* Nothing that was read from the tables is remembered. False: not confirmed. u->lock held. */
bool unit_invalidate(struct iommu_unit *u);
/* @n table words, all in one page, reach memory before what follows. */
void unit_wrote(const struct iommu_unit *u, const u64 *words, unsigned int n);

/* -- iommu.c -- */
/* A refused access, from the interrupt. @f NULL: nobody that we know. */
void iommu_fault(struct iommu_unit *u, u32 bdf, u64 addr, bool write, unsigned int reason);

#endif
