/*
 * The walk of one address, decoded, for a panic that has to do with it: which entry of which table the processor met, level by
 * level, and the VMA that should have known about it.
 *
 * The machine is in an unknown state and the other CPUs stand still. So nothing is locked, and no memory is read that
 * cannot be a page table: an entry is followed only if there is a frame where it points to. A tree that somebody was in the
 * middle of changing is left alone: its sequence count would never become even again.
 */
#include "mm/show_walk.h"

#include "kernel/printk.h"
#include "kernel/task.h"
#include "kernel/x86/cpu.h"
#include "mm/mm.h"
#include "mm/pgtable.h"
#include "mm/vma.h"

static const struct level { const char *name; unsigned int shift; bool may_be_leaf; } levels[] = {
	{ "pgd", PGD_SHIFT, false }, { "pud", PUD_SHIFT, true }, { "pmd", PMD_SHIFT, true }, { "pte", PAGE_SHIFT, true },
};

static void show_entry(const struct level *l, unsigned int index, u64 e, bool leaf)
{
	if (!e) {
		printk("  %s[%3u]  empty: nothing is mapped from here on", l->name, index);
	} else if (!(e & PTE_PRESENT)) {
		printk("  %s[%3u]  %016lx  %s", l->name, index, e, e & PTE_PROTNONE ? "a page that nobody may touch (PROT_NONE)" :
		       e & PTE_MARKER_POISON ? "marker: poisoned" : e & PTE_MARKER_UFFD_WP ? "marker: userfaultfd write-protect" : "damaged?");
	} else {
		printk("  %s[%3u]  %016lx  %s %lx%s%s%s%s%s", l->name, index, e, leaf ? "frame" : "table in frame", (e & PTE_PFN_MASK) >> PAGE_SHIFT,
		       e & PTE_WRITE ? " writable" : " read-only", e & PTE_USER ? " user" : " kernel", e & PTE_NX ? " no-execute" : "",
		       e & PTE_ACCESSED ? " accessed" : "", e & PTE_DIRTY ? " dirty" : "");
	}
}

static void show_vma(struct mm *mm, uintptr_t addr)
{
	struct vma *vma;

	if (READ_ONCE(mm->vmas.seq.seq) & 1) {
		printk("  the VMA tree was just being changed");
		return;
	}
	vma = vma_tree_find(&mm->vmas, addr);
	if (!vma)
		printk("  no VMA there or above");
	else if (addr < vma->start)
		printk("  no VMA there; the next one begins %lu KiB above: %lx-%lx", (vma->start - addr + 1023) >> 10, vma->start, vma->end);
	else
		printk("  VMA %lx-%lx %c%c%c%c%s%s, %s", vma->start, vma->end, vma->flags & VM_READ ? 'r' : '-', vma->flags & VM_WRITE ? 'w' : '-',
		       vma->flags & VM_EXEC ? 'x' : '-', vma->flags & VM_MAYSHARE ? 's' : 'p', vma->flags & VM_HUGETLB ? " hugetlb" : "",
		       vma->flags & VM_UFFD_ANY ? " userfaultfd" : "", vma->file ? "of a file" : "anonymous");
}

void show_page_walk(uintptr_t addr)
{
	u64 table = read_cr3() & PTE_PFN_MASK;
	struct task *t = current;

	printk("walk of %lx:", addr);
	if ((u64)((s64)addr >> 47) + 1 > 1) {
		printk("  not canonical: no page table has it");
		return;
	}
	for (const struct level *l = levels; l < levels + ARRAY_SIZE(levels); l++) {
		unsigned int index = (addr >> l->shift) & (PTRS_PER_PTE - 1);
		u64 e = READ_ONCE(((const u64 *)phys_to_virt(table))[index]);
		bool leaf = l->shift == PAGE_SHIFT || (l->may_be_leaf && (e & PTE_HUGE));

		show_entry(l, index, e, leaf);
		if (!(e & PTE_PRESENT) || leaf)
			break;
		table = e & PTE_PFN_MASK;
		if (!pfn_valid(table >> PAGE_SHIFT)) {
			printk("  that is no memory: the entry is damaged");
			break;
		}
	}
	if (addr < TASK_SIZE && t && t->mm)
		show_vma(t->mm, addr);
}
