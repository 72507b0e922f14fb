/* Symbol lookup: binary search in the table that the second link adds. The first link has an empty one. */
#include "kernel/ksym.h"
#include "mm/layout.h"

struct ksym {
	u64	addr;
	u32	name_off;	/* into ksym_names */
	u32	size;
};

extern const u64 ksym_count __attribute__((weak));
extern const struct ksym ksym_table[] __attribute__((weak));	/* sorted by address */
extern const char ksym_names[] __attribute__((weak));

bool is_kernel_text(uintptr_t addr)
{
	return addr >= (uintptr_t)__text_start && addr < (uintptr_t)__text_end;
}

bool ksym_lookup(uintptr_t addr, const char **name, size_t *offset, size_t *size)
{
	if (!is_kernel_text(addr) || !&ksym_count || !ksym_count || ksym_table[0].addr > addr)
		return false;

	/* Invariant: table[lo].addr <= addr < table[hi].addr. */
	u64 lo = 0, hi = ksym_count;
	while (hi - lo > 1) {
		u64 mid = lo + (hi - lo) / 2;
		if (ksym_table[mid].addr <= addr)
			lo = mid;
		else
			hi = mid;
	}
	*name = ksym_names + ksym_table[lo].name_off;
	*offset = addr - ksym_table[lo].addr;
	*size = ksym_table[lo].size;
	return true;
}
