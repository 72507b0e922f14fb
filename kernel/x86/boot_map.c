/* Early access to physical memory, on the page tables of boot/entry.S. */
#include "kernel/x86/boot_map.h"
#include "kernel/x86/cpu.h"
#include "mm/pgtable.h"

extern u64 boot_pgd[512], boot_pmd_window[512];

void *boot_phys(phys_addr_t phys, size_t n)
{
	if (n > BOOT_MAP_LIMIT || phys > BOOT_MAP_LIMIT - n)
		return NULL;
	return phys_to_virt(phys);
}

void *boot_window_map(phys_addr_t phys, size_t n)
{
	phys_addr_t first = phys & PMD_MASK;
	size_t entries = (phys + n - first + PMD_SIZE - 1) >> PMD_SHIFT;

	if (n > BOOT_WINDOW_SIZE || entries > 512)
		return NULL;
	/* The entries were empty until now, so no CPU can hold a stale translation. */
	for (size_t i = 0; i < entries; i++)
		boot_pmd_window[i] = (first + i * PMD_SIZE) | PTE_PRESENT | PTE_WRITE | PTE_HUGE | PTE_PWT;
	return (void *)(BOOT_WINDOW_BASE + (phys - first));
}

bool boot_window_mapped(void)
{
	return (read_cr3() & PTE_PFN_MASK) == (uintptr_t)boot_pgd - KERNEL_BASE;
}
