/*
 * Memory that a PCI function may reach. Where the machine has an IOMMU, each function that a driver holds has address tables of its
 * own, its domain: it reaches what iommu_map() put there and nothing else, and a function without a domain reaches nothing. A bus
 * address is a physical address; the tables only say which of them exist.
 *
 * Without an IOMMU (or with iommu=off) these calls succeed and confine nothing: docs/drivers.md says what is trusted then.
 */
#ifndef KERNEL_IOMMU_H
#define KERNEL_IOMMU_H

#include "kernel/types.h"

struct pci_function;

/* Boot, after pci_init(): from here on no function but the kernel's own reaches memory. */
void iommu_init(void);
/* A driver takes it: what the firmware had with it (RMRR) is over. 0, or -EIO: the unit did not confirm that. f->mutex held. */
int iommu_hold(struct pci_function *f);
/* [@phys, @phys + @size), whole pages, not mapped yet, for reading and writing. 0, -ENOMEM, -ENOSPC (no domain left). f->mutex held. */
int iommu_map(struct pci_function *f, phys_addr_t phys, u64 size);
/*
 * The function reaches nothing any more, and nothing that it was allowed to reach is cached anywhere. False: the hardware did not
 * confirm that; then that memory must never be used again. f->mutex held.
 */
__must_check bool iommu_release(struct pci_function *f);
/* For /sys/kernel/faultline/iommu: units, faults, domains. */
ssize_t iommu_show(char *buf, size_t size);

#endif
