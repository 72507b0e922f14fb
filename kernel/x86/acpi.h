/* What the ACPI tables say, copied out once, before the memory they lie in is given a use. */
#ifndef KERNEL_X86_ACPI_H
#define KERNEL_X86_ACPI_H

#include "kernel/types.h"

#define MAX_IOAPICS	8

struct acpi_ioapic {
	u32	id;
	phys_addr_t phys;
	u32	gsi_base;
};

struct acpi_override {		/* of one ISA line */
	u32	gsi;
	bool	active_low, level;
};

struct acpi_sleep_port { u16 port; u8 width; };

struct acpi_info {
	bool		present;		/* tables found and readable */
	u32		apic_ids[NR_CPUS];	/* CPUs, boot CPU not necessarily first */
	unsigned int	nr_cpus;		/* stored; more may exist, see nr_cpus_listed */
	unsigned int	nr_cpus_listed;
	bool		has_madt;
	bool		pcat_compat;		/* 8259s exist */
	struct acpi_ioapic ioapics[MAX_IOAPICS];
	unsigned int	nr_ioapics;
	struct acpi_override isa[16];		/* identity where MADT says nothing */
	phys_addr_t	hpet;			/* 0: none */
	u16		pm_timer_port;		/* 0: none */
	bool		pm_timer_32bit;
	bool		no_8042;		/* FADT says there is no keyboard controller */
	u16		pm1a_cnt, pm1b_cnt;	/* ports, 0: none */
	u16		smi_cmd;
	u8		acpi_enable;
	bool		has_s5;
	u8		s5_typ_a, s5_typ_b;
	u8		reset_space;		/* 0 memory, 1 port, 2 PCI configuration */
	u64		reset_addr;		/* 0: no reset register */
	u8		reset_value;
	u8		century_reg;		/* in CMOS, 0: none */
	phys_addr_t	mcfg_base;		/* PCI configuration space of segment 0, 0: ports only */
	u8		mcfg_bus_first, mcfg_bus_last;
	u32		dmar_length;		/* IOMMUs, for kernel/x86/dmar.c; 0: none. More than the room below: not copied */
	u8		dmar[1024];
};

extern struct acpi_info acpi;

/* Boot CPU, on the boot page tables (tables above 4 GiB are ignored, with a line in the log). */
void acpi_init(void);

#endif
