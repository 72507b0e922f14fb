/* What this CPU can do. Read once by the boot CPU; every other must have what the first one uses. */
#ifndef KERNEL_X86_FEATURES_H
#define KERNEL_X86_FEATURES_H

#include "kernel/types.h"

struct cpu_features {
	char	vendor[13];
	char	brand[49];
	u32	family, model, stepping;
	u8	phys_bits, virt_bits;
	bool	smep, smap, umip, fsgsbase, nx, pge, pcid, invpcid, gib_pages, x2apic, tsc_deadline;
	bool	invariant_tsc, hypervisor, xsave, xsaveopt, avx, pat, rdrand, rdseed, mwait, la57;
	u32	xcr0_lo;	/* components that XSAVE can save */
	u32	max_leaf;
};

extern struct cpu_features cpu_features;

/* Boot CPU: reads CPUID; halts with a sentence if something that we cannot do without is missing. */
void cpu_features_init(void);
/* Every CPU: turns on what cpu_features says. GS and stack are valid, page tables may still be the boot ones. */
void cpu_enable_features(void);
void cpu_features_log(void);

#endif
