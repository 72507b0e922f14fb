/* The DMAR table of ACPI: which IOMMUs exist and which functions are behind each. Intel VT-d specification 4.1, chapter 8. */
#ifndef KERNEL_X86_DMAR_H
#define KERNEL_X86_DMAR_H

#include "kernel/types.h"

#define DMAR_MAX_UNITS	8u
#define DMAR_MAX_SCOPES	32u
#define DMAR_MAX_DEPTH	4u
#define DMAR_RESERVED	0xffu	/* in place of a unit: has memory that the firmware uses with it (RMRR) */

/* One function, or a bridge with all that is behind it. */
struct dmar_scope {
	u8	unit;			/* index in units[], or DMAR_RESERVED */
	bool	bridge;
	u8	bus;			/* where its path begins */
	u8	depth;			/* bridges on the way, plus one; at least 1 */
	struct { u8 device, function; } path[DMAR_MAX_DEPTH];
};

struct dmar_info {
	unsigned int	nr_units, nr_scopes;
	struct {
		phys_addr_t	base;	/* registers */
		bool		all;	/* has every function that no scope names */
	} units[DMAR_MAX_UNITS];
	struct dmar_scope scopes[DMAR_MAX_SCOPES];
};

/*
 * Reads the table of @length bytes, head included, that acpi.c has checked the sum of. 0; -EINVAL: it contradicts itself;
 * -ENOSPC: more than we have room for. Units of other segments than 0 are left out. Pure: no lock, no memory.
 */
int dmar_parse(const u8 *table, u32 length, struct dmar_info *out);

#endif
