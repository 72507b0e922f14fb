/*
 * Debug builds: counts who uses which PMD table of huge pages, by walking all address spaces, and compares with what the tables
 * say (E3). Reading /sys/kernel/faultline/pmd_share_check does it; exact when nobody maps or faults meanwhile.
 */
#include "mm/pmd_share.h"

#ifdef DEBUG
#include "fs/vfs.h"
#include "kernel/mutex.h"
#include "kernel/printk.h"
#include "mm/hugetlb_entry.h"
#include "mm/mm.h"

struct check {
	u64	tables, shared, users, wrong;
};

static struct mutex check_lock = MUTEX_INIT(check_lock, LOCK_HUGETLB_RESIZE);	/* page->debug_users of all tables; outside mmap_lock */

enum pass { PASS_CLEAR, PASS_COUNT, PASS_COMPARE };

/* A table says one user less, unless it is a file's: that has no first user. */
static void compare(struct check *c, struct page *table, const struct mm *mm, uintptr_t addr)
{
	u32 expected = table_is_of_file(table) ? table->pt_sharers : table->pt_sharers + 1;

	if (!table->debug_users)
		return;			/* compared already, for another user */
	c->tables++;
	c->shared += table->debug_users > 1;
	c->users += table->debug_users;
	if (table->debug_users != expected) {
		c->wrong++;
		pr_err("PMD table %lx, used by mm %p at %lx: %u users, but it says %u", page_to_pfn(table), (void *)mm, addr,
		       table->debug_users, expected);
	}
	table->debug_users = 0;
}

static void visit_vma(struct check *c, struct vma *vma, enum pass pass)
{
	for (uintptr_t addr = vma->start; addr < vma->end; addr = pud_addr_end(addr, vma->end)) {
		pud_t *pud = pud_walk(vma->mm, addr), e = pud ? pud_read(pud) : (pud_t){ 0 };

		/* A window that begins in the VMA before was visited with that. */
		if (!pud_table(e) || ((addr & ~PUD_MASK) && addr != vma->start))
			continue;
		struct vma *before = addr & ~PUD_MASK ? vma_prev(vma) : NULL;
		if (before && before->end > (addr & PUD_MASK) && (before->flags & VM_HUGETLB))
			continue;
		struct page *table = pud_page(e);
		if (pass == PASS_CLEAR)
			table->debug_users = 0;
		else if (pass == PASS_COUNT)
			table->debug_users++;
		else
			compare(c, table, vma->mm, addr);
	}
}

static void visit_all(struct check *c, enum pass pass)
{
	for (struct mm *mm = debug_next_mm(NULL); mm; mm = debug_next_mm(mm)) {
		mmap_read_lock(mm);
		for (struct vma *vma = vma_find(mm, 0); vma; vma = vma_next(vma))
			if ((vma->flags & VM_HUGETLB) && huge_page_shift(hstate_vma(vma)) == PMD_SHIFT)
				visit_vma(c, vma, pass);
		mmap_read_unlock(mm);
	}
}

static ssize_t show_check(void *arg, char *buf, size_t size)
{
	struct check c = { 0 };

	(void)arg;
	mutex_lock(&check_lock);
	visit_all(&c, PASS_CLEAR);
	visit_all(&c, PASS_COUNT);
	visit_all(&c, PASS_COMPARE);
	mutex_unlock(&check_lock);
	return scnprintf(buf, size, "tables %lu\nshared %lu\nusers %lu\nwrong %lu\n", c.tables, c.shared, c.users, c.wrong);
}

void pmd_share_debug_init(void)
{
	static const struct text_file_ops check_ops = { .show = show_check };

	pseudo_text_file(sysfs_root, "kernel/faultline/pmd_share_check", 0400, &check_ops, NULL);
}
#endif
