/*
 * Counters: one set per CPU, added up by who reads. A sum taken while others count is a snapshot that never was; taken
 * when all is quiet it is exact.
 */
#include "mm/vmstat.h"

#include "kernel/printk.h"
#include "mm/frame.h"

DEFINE_PER_CPU(struct vm_counters, vm_counters);

static const char *const names[NR_VM_COUNTERS] = {
#define VM_COUNTER_NAME(name) #name,
	VM_COUNTERS(VM_COUNTER_NAME)
#undef VM_COUNTER_NAME
};

/* A state may be raised on one CPU and lowered on another: single terms can be negative, a torn sum too. */
s64 vm_counter_read(enum vm_counter c)
{
	s64 sum = 0;
	unsigned int cpu;

	if (c == VM_pgalloc || c == VM_pgfree)		/* counted where frames are handed out, with nothing extra */
		return (s64)frame_events(c == VM_pgfree);
	for_each_cpu(cpu, cpu_online_mask)
		sum += READ_ONCE(per_cpu_ptr(&vm_counters, cpu)->count[c]);
	return sum > 0 ? sum : 0;
}

size_t vmstat_format(char *buf, size_t size)
{
	size_t n = (size_t)scnprintf(buf, size, "nr_free_pages %lu\n", nr_free_pages());

	for (unsigned int c = 0; c < NR_VM_COUNTERS; c++)
		n += (size_t)scnprintf(buf + n, size - n, "%s %ld\n", names[c], vm_counter_read(c));
	return n;
}
