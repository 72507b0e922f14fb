/*
 * Which value of hugetlb.sync is in force, and what several values do alike. See mm/hugetlb_sync.h.
 */
#include "mm/hugetlb_sync.h"

#include "fs/vfs.h"
#include "kernel/cmdline.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/pmd_share.h"

static const struct hugetlb_sync_ops *const values[] = {
	&hugetlb_sync_vma, &hugetlb_sync_i_mmap, &hugetlb_sync_recheck, &hugetlb_sync_file, &hugetlb_sync_none_share, &hugetlb_sync_none,
};

const struct hugetlb_sync_ops *hugetlb_sync = &hugetlb_sync_file;	/* the reference is vma */
bool hugetlb_pmd_share_enabled = true;
bool hugetlb_ptl_is_mm;

static void choose_value(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		if (strcmp(values[i]->name, name))
			continue;
		if (values[i]->unsafe && !cmdline_flag("unsafe")) {
			pr_err("hugetlb.sync=%s corrupts memory on purpose: refused without 'unsafe', using %s", name, hugetlb_sync->name);
			return;
		}
		hugetlb_sync = values[i];
		return;
	}
	pr_err("hugetlb.sync=%s: no such value, using %s", name, hugetlb_sync->name);
}

static void choose_ptl(const char *name)
{
	if (!strcmp(name, "mm") && hugetlb_sync == &hugetlb_sync_recheck)
		hugetlb_ptl_is_mm = true;
	else if (strcmp(name, "table"))
		pr_err("hugetlb.ptl=%s: 'mm' goes with hugetlb.sync=recheck only; using 'table'", name);
}

/* The checker learns the order of the value, and that the locks of other values are not to be seen. */
static void load_lock_order(void)
{
	u8 order[MAX_SYNC_ORDER];
	unsigned int n = 0;
	bool vma_lock = false;

	for (; hugetlb_sync->order[n] != NR_LOCK_CLASSES; n++) {
		order[n] = hugetlb_ptl_is_mm && hugetlb_sync->order[n] == LOCK_PTE ? LOCK_PAGE_TABLE : hugetlb_sync->order[n];
		vma_lock |= order[n] == LOCK_HUGETLB_VMA;
	}
	lock_rank_load_order(order, n);
	if (!vma_lock)
		lock_rank_forbid(LOCK_HUGETLB_VMA);
}

void hugetlb_sync_init(void)
{
	char name[16];

	if (cmdline_get("hugetlb.sync", name, sizeof(name)))
		choose_value(name);
	if (cmdline_get("hugetlb.ptl", name, sizeof(name)))
		choose_ptl(name);
	hugetlb_pmd_share_enabled = cmdline_on("hugetlb.pmd_share", true);
	load_lock_order();
}

static ssize_t show_sync(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "%s\n", hugetlb_sync->name);
}

static ssize_t show_ptl(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "%s\n", hugetlb_ptl_is_mm ? "mm" : "table");
}

static ssize_t show_pmd_share(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "%s\n", hugetlb_pmd_share_enabled ? "on" : "off");
}

void hugetlb_sync_sysfs_init(void)
{
	static const struct text_file_ops sync_ops = { .show = show_sync }, ptl_ops = { .show = show_ptl },
					  share_ops = { .show = show_pmd_share };

	pseudo_text_file(sysfs_root, "kernel/faultline/hugetlb.sync", 0444, &sync_ops, NULL);
	pseudo_text_file(sysfs_root, "kernel/faultline/hugetlb.ptl", 0444, &ptl_ops, NULL);
	pseudo_text_file(sysfs_root, "kernel/faultline/hugetlb.pmd_share", 0444, &share_ops, NULL);
#ifdef DEBUG
	pmd_share_debug_init();
#endif
}

u32 hugetlb_removal_lock(struct mapping *m, u64 idx)
{
	return hugetlb_sync->removal_without_mutex ? NO_FAULT_MUTEX : hugetlb_fault_mutex_lock(m, idx);
}

void hugetlb_removal_unlock(u32 hash)
{
	if (hash != NO_FAULT_MUTEX)
		hugetlb_fault_mutex_unlock(hash);
}

void hugetlb_evict_file(struct mapping *m)
{
	hugetlb_sync->evict_file(m);
}

void hugetlb_vma_mapped(struct vma *vma)
{
	hugetlb_sync->open(vma);
}

void hugetlb_unmap_file(struct mapping *m, u64 first, u64 last, bool even_cows)
{
	hugetlb_sync->unmap_file(m, first, last, even_cows);
}

/* -- what values have in common -- */

void sync_nothing(struct vma *vma) { (void)vma; }
void sync_evict_nothing(struct mapping *m) { (void)m; }
void sync_i_mmap_read_lock(struct vma *vma) { down_read(&vma->mapping->i_mmap_lock); }
void sync_i_mmap_read_unlock(struct vma *vma) { up_read(&vma->mapping->i_mmap_lock); }
void sync_i_mmap_write_lock(struct vma *vma) { down_write(&vma->mapping->i_mmap_lock); }
void sync_i_mmap_write_unlock(struct vma *vma) { up_write(&vma->mapping->i_mmap_lock); }

bool sync_table_is_shared(const struct vma *vma, const struct page *table)
{
	(void)vma;
	return pmd_table_is_shared(table);
}

int sync_share_or_alloc(struct vma *vma, uintptr_t addr, pud_t *pud)
{
	return huge_pmd_share_or_alloc(vma, addr, pud, false);
}

/* One pass over all VMAs, with nothing to wait for but i_mmap_lock. */
void sync_unmap_file(struct mapping *m, u64 first, u64 last, bool even_cows)
{
	struct vma *vma;

	down_write(&m->i_mmap_lock);
	list_for_each_entry(vma, &m->i_mmap, i_mmap_node)
		huge_unmap_file_pages(vma, first, last, even_cows);
	up_write(&m->i_mmap_lock);
}
