/*
 * The PCI bus, without a driver for anything on it: which functions exist, where their windows lie, their configuration
 * space, their message-signalled interrupts, and how to stop one for good. Ring-3 drivers reach all this through the files of
 * fs/dev_pci.c.
 *
 * PCI Local Bus Specification 3.0 (6.1 header, 6.2.5 base addresses, 6.8 MSI and MSI-X); PCI Express Base 4.0 (7.5.3
 * capability, 6.6.2 function level reset); PCI Power Management 1.2 (3.2.4).
 */
#ifndef KERNEL_PCI_H
#define KERNEL_PCI_H

#include "kernel/list.h"
#include "kernel/mutex.h"
#include "kernel/spinlock.h"
#include "kernel/wait.h"

#define PCI_VENDOR_ID		0x00
#define PCI_DEVICE_ID		0x02
#define PCI_COMMAND		0x04
#define  PCI_COMMAND_IO		0x0001
#define  PCI_COMMAND_MEMORY	0x0002
#define  PCI_COMMAND_MASTER	0x0004
#define  PCI_COMMAND_INTX_OFF	0x0400
#define PCI_STATUS		0x06
#define  PCI_STATUS_CAPS	0x0010
#define PCI_CLASS_REVISION	0x08
#define PCI_CACHE_LINE		0x0c
#define PCI_LATENCY_TIMER	0x0d
#define PCI_HEADER_TYPE		0x0e
#define  PCI_HEADER_MULTI	0x80
#define  PCI_HEADER_BRIDGE	0x01
#define PCI_BAR0		0x10
#define PCI_SECONDARY_BUS	0x19
#define PCI_SUBORDINATE_BUS	0x1a
#define PCI_CAP_POINTER		0x34
#define PCI_HEADER_END		0x40	/* capabilities follow */

#define PCI_CAP_PM		0x01
#define PCI_CAP_MSI		0x05
#define PCI_CAP_EXP		0x10
#define PCI_CAP_MSIX		0x11
#define PCI_CAP_AF		0x13

#define PCI_NR_BARS		6
#define PCI_CONFIG_SIZE		256u
#define PCI_EXP_CONFIG_SIZE	4096u
#define PCI_IRQ_MAX		32u	/* vectors of one function */

/* One base address. size 0: there is none (or it is the upper half of the one before). */
struct pci_bar {
	phys_addr_t	 start;		/* a port number if io */
	u64		 size;
	bool		 io;
};

struct pci_function;

struct pci_vector {
	struct pci_function	*fn;
	unsigned int		 index;
	char			 name[24];
};

/*
 * Interrupts of one function (kernel/pci_irq.c).
 *   M  the function's mutex    I  irq.lock    both: M to change, either to read
 */
struct pci_irq {
	struct spinlock		 lock;		/* LOCK_LEAF_IRQ */
	struct wait_queue	 wait;		/* woken when pending becomes non-zero */
	u64			 pending;	/* I  vectors that fired since the last pci_irq_take() */
	u64			 masked;	/* I  vectors held back because nobody took the one before */
	volatile u32		*table;		/* M+I  MSI-X; NULL: one plain MSI, or off */
	unsigned int		 nr;		/* M+I  vectors in use; 0: off */
	unsigned int		 first;		/* M  CPU vector of number 0 */
	struct irq_action	*actions;	/* M  made at the first use, then for ever: an interrupt may come late */
	struct pci_vector	*vectors;	/* M  the same */
};

/*
 * One function of one device. Made at boot, never freed.
 *   I  constant after boot    M  mutex    A  atomic
 */
struct pci_function {
	struct list_head	 node;		/* I  of pci_functions */
	u8			 bus, device, function;	/* I */
	u16			 vendor_id, device_id;	/* I */
	u32			 class_revision;	/* I */
	bool			 is_bridge;	/* I  header type 1: not offered to drivers */
	bool			 kernel_uses;	/* I  the screen: not offered either */
	volatile u8		*ecam;		/* I  configuration space in memory; NULL: by ports */
	struct pci_bar		 bars[PCI_NR_BARS];	/* I */
	u8			 cap_pm, cap_msi, cap_exp, cap_msix, cap_af;	/* I  offsets, 0: absent */
	unsigned int		 msix_bar;	/* I  where table and pending bits lie; meaningful iff cap_msix */
	u64			 msix_offset, msix_size;	/* I  range of whole pages that only the kernel may touch */
	u64			 msix_table;	/* I  offset of the table in the bar */
	struct mutex		 mutex;		/* LOCK_KMUTEX */
	unsigned int		 open_files;	/* M  of fs/dev_pci.c */
	u32			 open_nodes;	/* M  which of them: each is open at most once */
	struct list_head	 dma_pools;	/* M  fs/dev_dma.c: freed no earlier than our reset */
	struct pci_irq		 irq;

	/* kernel/iommu.h */
	struct iommu_unit	*iommu;		/* I  what stands between it and memory; NULL: nothing */
	u16			 iommu_domain;	/* I  0: cannot have one */
	bool			 iommu_passes;	/* M  untranslated: for the firmware, while no driver has taken it */
	u64			*iommu_table;	/* M  of its domain; NULL: no domain */
	u64			 iommu_pages;	/* M  mapped */
	unsigned int		 iommu_faults;	/* A  since it was released */
};

extern struct list_head pci_functions;		/* constant after pci_init() */
#define for_each_pci_function(f) list_for_each_entry(f, &pci_functions, node)

/* Boot, once slab and vmalloc work: finds every function below bus 0. A machine without PCI has an empty list. */
void pci_init(void);
/* Size of its configuration space: 256, or 4096 where it is in memory. */
static inline u32 pci_config_size(const struct pci_function *f) { return f->ecam ? PCI_EXP_CONFIG_SIZE : PCI_CONFIG_SIZE; }
/* @size 1, 2 or 4, @offset aligned to it and inside the space. Any context. */
u32 pci_read(const struct pci_function *f, u32 offset, unsigned int size);
void pci_write(const struct pci_function *f, u32 offset, unsigned int size, u32 value);
/* A driver's write: the bits that it may change; 0 or -EPERM. f->mutex held. */
int pci_write_checked(struct pci_function *f, u32 offset, unsigned int size, u32 value);

/*
 * The holder is gone: interrupts off, no more DMA (bus mastering off, what was on its way has arrived), reset where the function
 * knows how. Memory that it was given may be used again afterwards. f->mutex held; may sleep.
 */
void pci_quiesce(struct pci_function *f);

/* -- kernel/pci_irq.c -- */
void pci_irq_init(struct pci_function *f);		/* boot */
/* Switches to @n vectors of MSI-X, or one of MSI; 0: off. 0, -EINVAL, -ENOSPC, -ENODEV (has neither), -ENOMEM. f->mutex held. */
int pci_irq_enable(struct pci_function *f, unsigned int n);
u64 pci_irq_take(struct pci_function *f);		/* what is pending, which it then is no more. Any context */

/* -- kernel/x86/pci_config.c: what depends on the processor -- */
u32 pci_port_read(u32 bdf, u32 offset, unsigned int size);	/* bdf: bus << 8 | device << 3 | function */
void pci_port_write(u32 bdf, u32 offset, unsigned int size, u32 value);
volatile u8 *pci_map_ecam(u32 bdf);				/* NULL: no such window, or no memory */
u32 pci_io_read(u16 port, unsigned int size);
void pci_io_write(u16 port, unsigned int size, u32 value);
/* The message that raises @vector on this CPU (or on the boot CPU if this one's id does not fit). */
void msi_compose(unsigned int vector, u64 *address, u32 *data);

static inline u32 pci_bdf(const struct pci_function *f) { return (u32)f->bus << 8 | (u32)f->device << 3 | f->function; }

#endif
