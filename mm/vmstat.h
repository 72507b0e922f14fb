/* Event and state counters of /proc/vmstat and /proc/meminfo: one line per CPU, added up on reading. */
#ifndef MM_VMSTAT_H
#define MM_VMSTAT_H

#include "kernel/preempt.h"

#define VM_COUNTERS(X) \
	X(nr_anon_pages) X(nr_mapped) X(nr_file_pages) X(nr_dirty) X(nr_writeback) X(nr_shmem) X(nr_page_table_pages) \
	X(nr_kernel_stack) X(nr_slab) X(nr_mlock) \
	X(pgalloc) X(pgfree) X(pgfault) X(pgmajfault) X(fault_entries) X(fault_retry) \
	X(vma_lock_success) X(vma_lock_abort) X(vma_lock_retry) X(vma_lock_miss) \
	X(nr_tlb_remote_flush) X(nr_tlb_remote_flush_received) X(nr_tlb_local_flush_all) X(nr_tlb_local_flush_one) \
	X(htlb_buddy_alloc_success) X(htlb_buddy_alloc_fail) X(pmd_share) X(pmd_unshare) \
	X(balance_dirty_wait_ms) X(oom_kill)

enum vm_counter {
#define VM_COUNTER_ENUM(name) VM_##name,
	VM_COUNTERS(VM_COUNTER_ENUM)
#undef VM_COUNTER_ENUM
	NR_VM_COUNTERS
};

struct vm_counters { s64 count[NR_VM_COUNTERS]; } __aligned(64);
DECLARE_PER_CPU(struct vm_counters, vm_counters);

/* Any context. Preemption off around the add keeps it on one CPU; an interrupt that adds too is harmless: one instruction. */
static inline void vm_count_add(enum vm_counter c, s64 n)
{
	preempt_disable();
	s64 *p = &this_cpu_ptr(&vm_counters)->count[c];
	__asm__ volatile("addq %1, %0" : "+m"(*p) : "er"(n) : "cc");
	preempt_enable_no_resched();
}
static inline void vm_count(enum vm_counter c) { vm_count_add(c, 1); }
/* Where preemption is off already. */
static inline void vm_count_pinned(enum vm_counter c)
{
	s64 *p = &this_cpu_ptr(&vm_counters)->count[c];
	__asm__ volatile("addq $1, %0" : "+m"(*p) : : "cc");
}
/* Two at once, for the page fault. */
static inline void vm_count_both(enum vm_counter a, enum vm_counter b)
{
	preempt_disable();
	s64 *p = this_cpu_ptr(&vm_counters)->count;
	__asm__ volatile("addq $1, %0; addq $1, %1" : "+m"(p[a]), "+m"(p[b]) : : "cc");
	preempt_enable_no_resched();
}
s64 vm_counter_read(enum vm_counter c);			/* folded; never below 0 for the nr_ states */
size_t vmstat_format(char *buf, size_t size);		/* text of /proc/vmstat */

#endif
