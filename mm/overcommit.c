/*
 * Overcommit: how much memory programs may have been promised. A private writable mapping is a promise of its whole
 * length, made at mmap (VM_ACCOUNT) and taken back at munmap; MAP_NORESERVE makes none except under policy 2. Shared and
 * read-only mappings are backed by a file and promise nothing here.
 *
 *	0 heuristic	one request may not exceed all of RAM; otherwise anything goes, and the OOM killer pays
 *	1 always	anything goes
 *	2 never		all promises together stay below CommitLimit = RAM * ratio / 100 (or overcommit_kbytes), less 8 MiB
 *			kept for root and, for others, 1/32 of the asking process
 *
 * Promises are summed per CPU, so that mmap on different CPUs writes no common line; only policy 2 and /proc add them up.
 * The sum may be off by what is being added elsewhere at this instant: Linux allows itself the same.
 */
#include "kernel/errno.h"
#include "kernel/percpu.h"
#include "kernel/preempt.h"
#include "kernel/task.h"
#include "mm/frame.h"
#include "mm/mmap.h"
#include "mm/vma_internal.h"

#define ADMIN_RESERVE_PAGES	(8ul << (20 - PAGE_SHIFT))
#define USER_RESERVE_PAGES	(128ul << (20 - PAGE_SHIFT))

int sysctl_overcommit_memory;
int sysctl_overcommit_ratio = 50;
u64 sysctl_overcommit_kbytes;

static DEFINE_PER_CPU(s64, committed_pages);	/* this CPU, preemption off */

static void committed_add(s64 pages)
{
	preempt_disable();
	*this_cpu_ptr(&committed_pages) += pages;
	preempt_enable_no_resched();
}

u64 vm_committed(void)
{
	s64 sum = 0;
	unsigned int cpu;

	for_each_cpu(cpu, cpu_online_mask)
		sum += READ_ONCE(*per_cpu_ptr(&committed_pages, cpu));
	return sum > 0 ? (u64)sum : 0;
}

u64 vm_commit_limit(void)
{
	if (sysctl_overcommit_kbytes)
		return sysctl_overcommit_kbytes >> (PAGE_SHIFT - 10);
	return nr_total_pages() * (u64)sysctl_overcommit_ratio / 100;
}

/* Before the change it is for. Does not sleep. */
int vm_commit(u64 pages)
{
	if (!pages)
		return 0;
	committed_add((s64)pages);
	if (sysctl_overcommit_memory == 1)
		return 0;
	if (sysctl_overcommit_memory == 0) {
		if (pages <= nr_total_pages())
			return 0;
	} else {
		u64 limit = vm_commit_limit(), kept = 0;

		if (!capable(CAP_SYS_ADMIN))
			kept += ADMIN_RESERVE_PAGES;
		if (current->mm)
			kept += min(current->mm->total_vm / 32, USER_RESERVE_PAGES);
		if (vm_committed() + kept < limit)
			return 0;
	}
	committed_add(-(s64)pages);
	return -ENOMEM;
}

void vm_uncommit(u64 pages)
{
	if (pages)
		committed_add(-(s64)pages);
}

bool vma_is_accountable(u64 flags)
{
	return (flags & (VM_NORESERVE | VM_SHARED | VM_WRITE | VM_HUGETLB)) == VM_WRITE;
}
