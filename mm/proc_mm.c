/*
 * What /proc/PID tells about an address space: maps, smaps, smaps_rollup, pagemap, pagetable, statm and the Vm lines of
 * status. Formats are Linux's to the byte (SEMANTICS H4..H8); pagetable is ours (DESIGN 9).
 *
 * Everything here reads under mmap_lock, held for one buffer at a time; between two buffers the address space may change, so
 * the position is an address, not a count. Entries of a page table are read under its lock.
 */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/sched.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/hugetlb.h"
#include "mm/mmap.h"
#include "mm/page_walk.h"
#include "mm/proc_text.h"
#include "mm/rmap.h"
#include "mm/slab.h"
#include "mm/vma_internal.h"

/* -- text that may not fit -- */

void __printf(2, 3) text_add(struct text *t, const char *fmt, ...)
{
	size_t left = t->size - t->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, left, fmt, ap);
	va_end(ap);
	t->len = n >= 0 && (size_t)n < left ? t->len + (size_t)n : t->size;
}

ssize_t show_vmas(struct mm *mm, u64 *cursor, char *buf, size_t size, void (*show)(struct text *t, struct vma *vma, void *arg), void *arg)
{
	struct text t = { .buf = buf, .size = size };
	int err = mmap_read_lock_killable(mm);

	if (err)
		return err;
	for (struct vma *vma = vma_find(mm, *cursor); vma; vma = vma_next(vma)) {
		show(&t, vma, arg);
		if (text_full(&t))
			break;
		*cursor = vma->end;
	}
	mmap_read_unlock(mm);
	return (ssize_t)t.len;
}

/* -- maps -- */

#define NAME_COLUMN	73	/* H4 */

static const char *vma_name(struct vma *vma, char *path, size_t size)
{
	struct mm *mm = vma->mm;
	char *name;

	if (vma->ops && vma->ops->name)
		return vma->ops->name(vma);
	if (vma->file) {
		name = file_path(vma->file, path, size);
		return IS_ERR(name) ? "(unreachable)" : name;
	}
	if (vma->start < mm->brk && vma->end > mm->start_brk)
		return "[heap]";
	if (vma->start <= mm->start_stack && vma->end >= mm->start_stack)
		return "[stack]";
	return NULL;
}

/* A newline in a file name would end the line: Linux writes it in octal. */
static void add_escaped(struct text *t, const char *name)
{
	for (const char *nl; (nl = strchr(name, '\n')); name = nl + 1)
		text_add(t, "%.*s\\012", (int)(nl - name), name);
	text_add(t, "%s", name);
}

static void show_header(struct text *t, uintptr_t start, uintptr_t end, u64 flags, u64 offset, dev_t dev, u64 ino, const char *name)
{
	size_t line = t->len;

	text_add(t, "%08lx-%08lx %c%c%c%c %08lx %02lx:%02lx %lu ", start, end,
		 flags & VM_READ ? 'r' : '-', flags & VM_WRITE ? 'w' : '-', flags & VM_EXEC ? 'x' : '-',
		 flags & VM_MAYSHARE ? 's' : 'p', offset, (unsigned long)MAJOR(dev), (unsigned long)MINOR(dev), ino);
	if (name) {
		text_add(t, "%*s", max(NAME_COLUMN - (int)(t->len - line), 1), "");
		add_escaped(t, name);
	}
	text_add(t, "\n");
}

/* @arg: a path buffer of PATH_MAX. */
static void show_map(struct text *t, struct vma *vma, void *arg)
{
	struct inode *inode = vma->file ? vma->file->inode : NULL;

	show_header(t, vma->start, vma->end, vma->flags, inode ? vma->pgoff << PAGE_SHIFT : 0,
		    inode && inode->sb ? inode->sb->dev : 0, inode ? inode->ino : 0, vma_name(vma, arg, PATH_MAX));
}

static ssize_t show_with_path(struct mm *mm, u64 *cursor, char *buf, size_t size, void (*show)(struct text *, struct vma *, void *))
{
	char *path = kmalloc(PATH_MAX, GFP_KERNEL);
	ssize_t ret;

	if (!path)
		return -ENOMEM;
	ret = show_vmas(mm, cursor, buf, size, show, path);
	kfree(path);
	return ret;
}

ssize_t proc_maps_read(struct mm *mm, u64 *cursor, char *buf, size_t size)
{
	return show_with_path(mm, cursor, buf, size, show_map);
}

/* Moves *addr up to what a PMD table or a 1 GiB leaf covers. True: nothing up to @end. */
static bool skip_missing_tables(struct mm *mm, uintptr_t *addr, uintptr_t end)
{
	while (*addr < end) {
		pud_t *pud = pud_walk(mm, *addr);

		if (pud && !pud_none(pud_read(pud)))
			return false;
		*addr = pud ? pud_addr_end(*addr, end) : pgd_addr_end(*addr, end);
	}
	return true;
}

/* -- smaps -- */

#define PSS_SHIFT	12	/* proportional sizes are summed with this many fraction bits */

struct smaps {
	u64	rss, shared_clean, shared_dirty, private_clean, private_dirty, referenced, anonymous, lazyfree;	/* bytes */
	u64	pss, pss_dirty, pss_anon, pss_file, pss_shmem, pss_locked;	/* bytes << PSS_SHIFT */
	u64	shared_hugetlb, private_hugetlb;	/* bytes, in no other sum (H5) */
};

static void smaps_page(struct smaps *s, struct page *page, pte_t e, bool locked)
{
	u32 mapped = page_mapcount(page);
	u64 pss = ((u64)PAGE_SIZE << PSS_SHIFT) / (mapped ? mapped : 1);
	bool dirty = pte_dirty(e) || page_test(page, PG_dirty), anon = page_test(page, PG_anon);

	s->rss += PAGE_SIZE;
	s->pss += pss;
	if (locked)
		s->pss_locked += pss;
	if (dirty)
		s->pss_dirty += pss;
	if (anon) {
		s->anonymous += PAGE_SIZE;
		s->pss_anon += pss;
	} else if (page_mm_counter(page) == MM_SHMEMPAGES) {
		s->pss_shmem += pss;
	} else {
		s->pss_file += pss;
	}
	if (pte_young(e))
		s->referenced += PAGE_SIZE;
	if (mapped > 1)
		*(dirty ? &s->shared_dirty : &s->shared_clean) += PAGE_SIZE;
	else
		*(dirty ? &s->private_dirty : &s->private_clean) += PAGE_SIZE;
}

/* E19: in a table that others use too everything is shared, however often it is mapped. */
static void smaps_gather_huge(struct smaps *s, struct vma *vma)
{
	const size_t size = huge_page_size(hstate_vma(vma));
	bool shared;

	for (uintptr_t addr = vma->start; addr < vma->end; addr += size) {
		pte_t e;

		if (skip_missing_tables(vma->mm, &addr, vma->end))
			break;
		e = hugetlb_read_entry(vma, addr, &shared);
		if (!pte_present(e))
			continue;
		if (shared || page_mapcount(pte_page(e)) > 1)
			s->shared_hugetlb += size;
		else
			s->private_hugetlb += size;
	}
}

/* mmap_lock held. The zero page and device memory do not count (B14). */
static void smaps_gather(struct smaps *s, struct vma *vma)
{
	uintptr_t addr = vma->start, stop;
	struct spinlock *ptl;
	pmd_t *pmd;

	if (vma->flags & VM_HUGETLB) {
		smaps_gather_huge(s, vma);
		return;
	}
	for (; next_pte_table(vma->mm, &addr, vma->end, &pmd, &stop); addr = stop) {
		pte_t *pte = pte_offset_lock(vma->mm, pmd, addr, &ptl);

		if (!pte)
			continue;
		for (; addr < stop; addr += PAGE_SIZE, pte++) {
			pte_t e = pte_read(pte);
			struct page *page = pte_present(e) ? pte_normal_page(e) : NULL;

			if (page)
				smaps_page(s, page, e, vma->flags & VM_LOCKED);
		}
		pte_unlock(ptl);
		cond_resched();
	}
}

static void kb(struct text *t, const char *name, u64 bytes)
{
	text_add(t, "%-16s%8lu kB\n", name, bytes >> 10);
}

static void show_smaps_sums(struct text *t, const struct smaps *s, bool rollup)
{
	kb(t, "Rss:", s->rss);
	kb(t, "Pss:", s->pss >> PSS_SHIFT);
	kb(t, "Pss_Dirty:", s->pss_dirty >> PSS_SHIFT);
	if (rollup) {
		kb(t, "Pss_Anon:", s->pss_anon >> PSS_SHIFT);
		kb(t, "Pss_File:", s->pss_file >> PSS_SHIFT);
		kb(t, "Pss_Shmem:", s->pss_shmem >> PSS_SHIFT);
	}
	kb(t, "Shared_Clean:", s->shared_clean);
	kb(t, "Shared_Dirty:", s->shared_dirty);
	kb(t, "Private_Clean:", s->private_clean);
	kb(t, "Private_Dirty:", s->private_dirty);
	kb(t, "Referenced:", s->referenced);
	kb(t, "Anonymous:", s->anonymous);
	kb(t, "KSM:", 0);
	kb(t, "LazyFree:", s->lazyfree);
	kb(t, "AnonHugePages:", 0);
	kb(t, "ShmemPmdMapped:", 0);
	kb(t, "FilePmdMapped:", 0);
	text_add(t, "Shared_Hugetlb: %7lu kB\nPrivate_Hugetlb: %7lu kB\n", s->shared_hugetlb >> 10, s->private_hugetlb >> 10);
	kb(t, "Swap:", 0);
	kb(t, "SwapPss:", 0);
	kb(t, "Locked:", s->pss_locked >> PSS_SHIFT);
}

/* H6: in this order, each followed by a space. */
static const struct { u64 flag; char name[3]; } vm_flag_names[] = {
	{ VM_READ, "rd" }, { VM_WRITE, "wr" }, { VM_EXEC, "ex" }, { VM_SHARED, "sh" }, { VM_MAYREAD, "mr" }, { VM_MAYWRITE, "mw" },
	{ VM_MAYEXEC, "me" }, { VM_MAYSHARE, "ms" }, { VM_GROWSDOWN, "gd" }, { VM_UFFD_MISSING, "um" }, { VM_PFNMAP, "pf" },
	{ VM_UFFD_WP, "uw" }, { VM_LOCKED, "lo" }, { VM_IO, "io" }, { VM_SEQ_READ, "sr" }, { VM_RAND_READ, "rr" },
	{ VM_DONTCOPY, "dc" }, { VM_DONTEXPAND, "de" }, { VM_LOCKONFAULT, "lf" }, { VM_ACCOUNT, "ac" }, { VM_NORESERVE, "nr" },
	{ VM_HUGETLB, "ht" }, { VM_SYNC, "sf" }, { VM_WIPEONFORK, "wf" }, { VM_DONTDUMP, "dd" }, { VM_HUGEPAGE, "hg" }, { VM_NOHUGEPAGE, "nh" },
	{ VM_MERGEABLE, "mg" }, { VM_UFFD_MINOR, "ui" }, { VM_DROPPABLE, "dp" }, { VM_SEALED, "sl" },
};

static void show_smap(struct text *t, struct vma *vma, void *path)
{
	struct smaps s = { 0 };
	u64 page_size = vma->flags & VM_HUGETLB ? huge_page_size(hstate_vma(vma)) : PAGE_SIZE;

	smaps_gather(&s, vma);
	show_map(t, vma, path);
	kb(t, "Size:", vma->end - vma->start);
	kb(t, "KernelPageSize:", page_size);
	kb(t, "MMUPageSize:", page_size);
	show_smaps_sums(t, &s, false);
	text_add(t, "THPeligible:    %8u\nVmFlags: ", 0u);
	for (size_t i = 0; i < ARRAY_SIZE(vm_flag_names); i++)
		if (vma->flags & vm_flag_names[i].flag)
			text_add(t, "%s ", vm_flag_names[i].name);
	text_add(t, "\n");
}

ssize_t proc_smaps_read(struct mm *mm, u64 *cursor, char *buf, size_t size)
{
	return show_with_path(mm, cursor, buf, size, show_smap);
}

size_t proc_smaps_rollup(struct mm *mm, char *buf, size_t size)
{
	struct text t = { .buf = buf, .size = size };
	struct smaps s = { 0 };
	uintptr_t start = 0, end = 0;

	if (mmap_read_lock_killable(mm))
		return 0;
	for (struct vma *vma = vma_find(mm, 0); vma; vma = vma_next(vma)) {
		if (!end)
			start = vma->start;
		end = vma->end;
		smaps_gather(&s, vma);
	}
	mmap_read_unlock(mm);
	show_header(&t, start, end, 0, 0, 0, 0, "[rollup]");
	show_smaps_sums(&t, &s, true);
	return t.len;
}

/* -- pagemap (H8) -- */

#define PM_PRESENT	BIT(63)
#define PM_SWAP		BIT(62)
#define PM_FILE		BIT(61)
#define PM_UFFD_WP	BIT(57)
#define PM_EXCLUSIVE	BIT(56)
#define PM_SOFT_DIRTY	BIT(55)

static u64 pagemap_entry(pte_t e, bool show_pfn)
{
	u64 v = e.v & PTE_SOFT_DIRTY ? PM_SOFT_DIRTY : 0;
	struct page *page;

	if (pte_none(e))
		return 0;
	if (pte_marker(e))
		return PM_SWAP | (e.v & PTE_MARKER_UFFD_WP ? PM_UFFD_WP : 0);
	v |= PM_PRESENT | (show_pfn ? pte_pfn(e) : 0) | (pte_uffd_wp(e) ? PM_UFFD_WP : 0);
	page = pte_normal_page(e);
	if (page && !page_test(page, PG_anon))
		v |= PM_FILE;
	if (page && page_mapcount(page) == 1)
		v |= PM_EXCLUSIVE;
	return v;
}

/* H8: one entry for each 4 KiB of a huge page. A page in a shared table is nobody's alone (E19). */
static void pagemap_huge(struct vma *vma, uintptr_t start, uintptr_t end, u64 *buf, bool show_pfn)
{
	const size_t size = huge_page_size(hstate_vma(vma));
	uintptr_t addr = max(start, vma->start), stop = min(end, vma->end);

	while (addr < stop && !skip_missing_tables(vma->mm, &addr, stop)) {
		uintptr_t next = min((addr & ~(size - 1)) + size, stop);
		bool shared;
		u64 v = pagemap_entry(hugetlb_read_entry(vma, addr, &shared), show_pfn);

		if (shared)
			v &= ~PM_EXCLUSIVE;
		if ((v & PM_PRESENT) && show_pfn)
			v += (addr & (size - 1)) >> PAGE_SHIFT;
		for (; addr < next; addr += PAGE_SIZE) {
			buf[(addr - start) >> PAGE_SHIFT] = v;
			v += (v & PM_PRESENT) && show_pfn;
		}
	}
}

/* @pos: file offset, 8 bytes per page. Sleeps for mmap_lock. Pages without a mapping read as 0; past user space it ends. */
ssize_t proc_pagemap_read(struct mm *mm, u64 pos, u64 *buf, size_t entries)
{
	bool show_pfn = capable(CAP_SYS_ADMIN);
	uintptr_t start, addr, end, stop;
	struct spinlock *ptl;
	pmd_t *pmd;
	int err;

	if (pos / 8 >= TASK_SIZE >> PAGE_SHIFT)
		return 0;
	start = addr = pos / 8 << PAGE_SHIFT;
	entries = min(entries, (size_t)((TASK_SIZE - start) >> PAGE_SHIFT));
	end = start + (entries << PAGE_SHIFT);
	memset(buf, 0, entries * sizeof(*buf));
	err = mmap_read_lock_killable(mm);
	if (err)
		return err;
	for (struct vma *vma = vma_find(mm, start); vma && vma->start < end; vma = vma_next(vma))
		if (vma->flags & VM_HUGETLB)
			pagemap_huge(vma, start, end, buf, show_pfn);
	for (; next_pte_table(mm, &addr, end, &pmd, &stop); addr = stop) {
		pte_t *pte = pte_offset_lock(mm, pmd, addr, &ptl);

		if (!pte)
			continue;
		for (; addr < stop; addr += PAGE_SIZE, pte++)
			buf[(addr - start) >> PAGE_SHIFT] = pagemap_entry(pte_read(pte), show_pfn);
		pte_unlock(ptl);
	}
	mmap_read_unlock(mm);
	return (ssize_t)entries;
}

/* -- pagetable: va_start va_end level pfn rights leaf|table sharers file_offset -- */

static void add_rights(char out[5], u64 e)
{
	out[0] = e & (PTE_PRESENT | PTE_PROTNONE) ? (e & PTE_PROTNONE && !(e & PTE_PRESENT) ? '-' : 'r') : 'm';	/* m: marker */
	out[1] = e & PTE_WRITE ? 'w' : '-';
	out[2] = e & PTE_NX ? '-' : 'x';
	out[3] = e & PTE_USER ? 'u' : '-';
	out[4] = '\0';
}

static void show_table(struct text *t, uintptr_t addr, size_t span, int level, u64 e)
{
	const struct page *table = phys_to_page(e & PTE_PFN_MASK);
	u32 users = 1;
	char rights[5];

	if (level == 3)			/* a PMD table: the only one that may be shared (E19) */
		users = READ_ONCE(table->pt_sharers) + (table->pt_mm ? 1 : 0);
	addr &= ~(span - 1);
	add_rights(rights, e);
	text_add(t, "%lx %lx %d %lx %s table %u -\n", addr, addr + span, level, (e & PTE_PFN_MASK) >> PAGE_SHIFT, rights, users);
}

/* A 2 MiB or 1 GiB page, or a marker for one. */
static void show_huge_leaf(struct text *t, struct mm *mm, uintptr_t addr, size_t span, int level, u64 e)
{
	struct vma *vma = vma_lookup(mm, addr);
	u64 pfn = (e & PTE_PFN_MASK) >> PAGE_SHIFT;
	char rights[5], offset[20] = "-";

	if (vma && vma->file)
		snprintf(offset, sizeof(offset), "%lx", linear_index(vma, addr) << PAGE_SHIFT);
	add_rights(rights, e);
	text_add(t, "%lx %lx %d %lx %s leaf %u %s\n", addr, addr + span, level, pfn, rights,
		 e & (PTE_PRESENT | PTE_PROTNONE) ? page_mapcount(pfn_to_page(pfn)) : 0, offset);
}

/*
 * The next PTE table of the mm at or after *addr, on the way to which upper tables and huge leaves are shown: each table once,
 * when its span begins at or after @from, where this call started. False: no more, or no more room for text. RCU keeps the
 * tables of huge pages, which others may take away.
 */
static bool show_upper(struct text *t, struct mm *mm, uintptr_t *addr, uintptr_t from, pmd_t **pmd, uintptr_t *stop)
{
	bool found = false;

	*stop = *addr;
	rcu_read_lock();
	while (*addr < TASK_SIZE && !found && !text_full(t)) {
		pgd_t pgd = pgd_read(mm->pgd + pgd_index(*addr));

		if (pgd_none(pgd)) {
			*addr = pgd_addr_end(*addr, TASK_SIZE);
			continue;
		}
		if (!(*addr & ~PGD_MASK) && *addr >= from)
			show_table(t, *addr, PGD_SIZE, 4, pgd.v);
		pud_t pud = pud_read(pud_offset(pgd, *addr));
		if (!pud_table(pud)) {
			if (!pud_none(pud))
				show_huge_leaf(t, mm, *addr, PUD_SIZE, 3, pud.v);
			*addr = pud_addr_end(*addr, TASK_SIZE);
			continue;
		}
		if (!(*addr & ~PUD_MASK) && *addr >= from)
			show_table(t, *addr, PUD_SIZE, 3, pud.v);
		*pmd = pmd_offset(pud, *addr);
		pmd_t e = pmd_read(*pmd);
		found = pmd_table(e);
		if (found && !(*addr & ~PMD_MASK) && *addr >= from)
			show_table(t, *addr, PMD_SIZE, 2, e.v);
		*stop = pmd_addr_end(*addr, TASK_SIZE);
		if (found)
			break;
		if (!pmd_none(e))
			show_huge_leaf(t, mm, *addr, PMD_SIZE, 2, e.v);
		*addr = *stop;
	}
	rcu_read_unlock();
	return found;
}

struct leaf {
	u64	e;
	u32	mapcount;
};

/* One line for as many pages as continue each other: frame, rights, sharers, VMA. */
static uintptr_t show_leaves(struct text *t, struct mm *mm, const struct leaf *leaf, uintptr_t addr, uintptr_t end)
{
	const u64 same = ~(PTE_PFN_MASK | PTE_ACCESSED | PTE_DIRTY);
	struct vma *vma = vma_lookup(mm, addr);
	u64 pfn = (leaf->e & PTE_PFN_MASK) >> PAGE_SHIFT, n = 1;
	char rights[5], offset[20] = "-";

	while (addr + (n << PAGE_SHIFT) < end && (!vma || addr + (n << PAGE_SHIFT) < vma->end) &&
	       (leaf[n].e & same) == (leaf->e & same) && leaf[n].mapcount == leaf->mapcount &&
	       (leaf[n].e & PTE_PFN_MASK) >> PAGE_SHIFT == pfn + n)
		n++;
	if (vma && vma->file)
		snprintf(offset, sizeof(offset), "%lx", linear_index(vma, addr) << PAGE_SHIFT);
	add_rights(rights, leaf->e);
	text_add(t, "%lx %lx 1 %lx %s leaf %u %s\n", addr, addr + (n << PAGE_SHIFT), pfn, rights, leaf->mapcount, offset);
	return addr + (n << PAGE_SHIFT);
}

static void show_pte_table(struct text *t, struct mm *mm, pmd_t *pmd, uintptr_t addr, uintptr_t end, struct leaf *leaves)
{
	uintptr_t start = addr;
	struct spinlock *ptl;
	pte_t *pte = pte_offset_lock(mm, pmd, addr, &ptl);

	if (!pte)
		return;
	for (uintptr_t a = addr; a < end; a += PAGE_SIZE, pte++) {
		pte_t e = pte_read(pte);
		struct page *page = pte_present(e) ? pte_normal_page(e) : NULL;

		leaves[(a - start) >> PAGE_SHIFT] = (struct leaf){ e.v, page ? page_mapcount(page) : 0 };
	}
	pte_unlock(ptl);
	while (addr < end) {
		const struct leaf *leaf = &leaves[(addr - start) >> PAGE_SHIFT];

		addr = leaf->e ? show_leaves(t, mm, leaf, addr, end) : addr + PAGE_SIZE;
	}
}

/* Frame numbers are for root: without CAP_SYS_ADMIN there is nothing to see. */
ssize_t proc_pagetable_read(struct mm *mm, u64 *cursor, char *buf, size_t size)
{
	struct text t = { .buf = buf, .size = size };
	struct leaf *leaves;
	uintptr_t addr = *cursor, from = *cursor, stop;
	pmd_t *pmd;
	int err;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	leaves = kmalloc(PTRS_PER_PTE * sizeof(*leaves), GFP_KERNEL);
	if (!leaves)
		return -ENOMEM;
	err = mmap_read_lock_killable(mm);
	if (err) {
		kfree(leaves);
		return err;
	}
	while (show_upper(&t, mm, &addr, from, &pmd, &stop)) {
		show_pte_table(&t, mm, pmd, addr, stop, leaves);
		if (text_full(&t))
			break;
		*cursor = addr = from = stop;
	}
	if (!text_full(&t))
		*cursor = TASK_SIZE;
	mmap_read_unlock(mm);
	kfree(leaves);
	return (ssize_t)t.len;
}

/* -- status and statm -- */

static u64 text_bytes(const struct mm *mm)
{
	u64 text = ALIGN_UP(mm->end_code, PAGE_SIZE) - (mm->start_code & PAGE_MASK);

	return min(text, mm->exec_vm << PAGE_SHIFT);
}

/*
 * H7. Counted when somebody asks: a counter would have to be kept by each fault, and be wrong, since pages appear in a shared
 * table by the faults of others. A mm that is being killed has none.
 */
static u64 hugetlb_mapped(struct mm *mm)
{
	struct smaps s = { 0 };

	if (!READ_ONCE(mm->hugetlb_vm) || mmap_read_lock_killable(mm))
		return 0;
	for (struct vma *vma = vma_find(mm, 0); vma; vma = vma_next(vma))
		if (vma->flags & VM_HUGETLB)
			smaps_gather_huge(&s, vma);
	mmap_read_unlock(mm);
	return s.shared_hugetlb + s.private_hugetlb;
}

/* Plain reads: each number is right, the set is a snapshot. */
size_t proc_status_mm(struct mm *mm, char *buf, size_t size)
{
	struct text t = { .buf = buf, .size = size };
	u64 anon = (u64)mm_counter_read(mm, MM_ANONPAGES), file = (u64)mm_counter_read(mm, MM_FILEPAGES);
	u64 shmem = (u64)mm_counter_read(mm, MM_SHMEMPAGES), text = text_bytes(mm);
	const struct { const char *name; u64 kb; } lines[] = {
		{ "VmPeak", max(mm->hiwater_vm, mm->total_vm) << (PAGE_SHIFT - 10) },
		{ "VmSize", mm->total_vm << (PAGE_SHIFT - 10) },
		{ "VmLck", mm->locked_vm << (PAGE_SHIFT - 10) },
		{ "VmPin", mm->pinned_vm << (PAGE_SHIFT - 10) },
		{ "VmHWM", mm_hiwater_rss(mm) << (PAGE_SHIFT - 10) },
		{ "VmRSS", (anon + file + shmem) << (PAGE_SHIFT - 10) },
		{ "RssAnon", anon << (PAGE_SHIFT - 10) },
		{ "RssFile", file << (PAGE_SHIFT - 10) },
		{ "RssShmem", shmem << (PAGE_SHIFT - 10) },
		{ "VmData", mm->data_vm << (PAGE_SHIFT - 10) },
		{ "VmStk", mm->stack_vm << (PAGE_SHIFT - 10) },
		{ "VmExe", text >> 10 },
		{ "VmLib", ((mm->exec_vm << PAGE_SHIFT) - text) >> 10 },
		{ "VmPTE", (u64)mm->pgtables_bytes >> 10 },
		{ "VmSwap", 0 },
		{ "HugetlbPages", hugetlb_mapped(mm) >> 10 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		text_add(&t, "%s:\t%8lu kB\n", lines[i].name, lines[i].kb);
	text_add(&t, "CoreDumping:\t0\nTHP_enabled:\t0\n");
	return min(t.len, size);
}

void proc_statm(struct mm *mm, u64 v[7])
{
	u64 shared = (u64)(mm_counter_read(mm, MM_FILEPAGES) + mm_counter_read(mm, MM_SHMEMPAGES));

	v[0] = mm->total_vm;
	v[1] = shared + (u64)mm_counter_read(mm, MM_ANONPAGES);
	v[2] = shared;
	v[3] = text_bytes(mm) >> PAGE_SHIFT;
	v[4] = 0;
	v[5] = mm->data_vm + mm->stack_vm;
	v[6] = 0;
}
