/*
 * Which page fault is this? Everything that touches memory that is not simply there comes through handle_mm_fault().
 *
 *	entry of the page is	access		memory		who serves it
 *	----------------------	--------------	--------------	-----------------------------------------------
 *	(any)			any		huge pages	hugetlb_fault()			mm/hugetlb_fault.c
 *	none			read		anonymous	do_zero_page()			here
 *	none			write		anonymous	do_anonymous_page()		here
 *	none			read		file		do_read_fault()			here
 *	none			write		private file	do_cow_fault()			here
 *	none			write		shared file	do_shared_fault()		here
 *	none, userfaultfd	any		any		handle_userfault()		mm/uffd_wait.c
 *	marker: poison		any		any		VM_FAULT_HWPOISON
 *	marker: uffd-wp		any		any		as none, the new entry stays write-protected
 *	present, read-only	write, unshare	any		do_wp_page()			mm/cow.c
 *	present, allows it	any		any		do_spurious_fault()		here
 *
 * Locks. The caller holds mmap_lock or the VMA's own lock, for read; either keeps the VMA and its page tables as they
 * are. Other faults run beside us, even for the same page, and truncate does not ask the VMA at all. So (B11, B12):
 *
 *   1. the entry is read without a lock, to choose the row above;
 *   2. whatever may sleep or fail comes next: memory, the page and its folio lock;
 *   3. then the entry's lock, and the entry is compared with what was read at 1. If it differs, somebody was faster:
 *      all is dropped, and 0 is returned. The access runs again and meets whatever is there now.
 *
 * The rule that is easy to break: no step between 1 and 3 may be visible to anybody if step 3 fails.
 *
 * Who owns the lock afterwards is told by the result: see VM_FAULT_DROPPED in fault.h.
 */
#include "mm/fault.h"

#include "fs/vfs.h"
#include "kernel/boot_info.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/task.h"
#include "kernel/trace.h"
#include "kernel/x86/trap_frame.h"
#include "mm/fault_internal.h"
#include "mm/frame.h"
#include "mm/hugetlb_sync.h"
#include "mm/tlb.h"
#include "mm/vmstat.h"

struct page *zero_page;
static phys_addr_t zero_frame;
bool fault_completed_enabled = true;

/* One function per row, never inlined: a fault saves only the registers that its own row needs. */
static vm_fault_t handle_page_fault(struct vma *vma, uintptr_t addr, unsigned int flags);
static inline vm_fault_t do_missing(struct vm_fault *vmf);
static __noinline vm_fault_t do_zero_page(struct vm_fault *vmf);
static __noinline vm_fault_t do_anonymous_page(struct vm_fault *vmf);
static __noinline vm_fault_t do_read_fault(struct vm_fault *vmf);
static __noinline vm_fault_t do_cow_fault(struct vm_fault *vmf);
static __noinline vm_fault_t do_shared_fault(struct vm_fault *vmf);
static __noinline vm_fault_t do_marker(struct vm_fault *vmf);
static __noinline vm_fault_t do_spurious_fault(struct vm_fault *vmf);

/* The legal combinations of flags, as fault.h lists them, and the lock that they promise. */
static void assert_fault_flags(const struct vma *vma, unsigned int flags)
{
	assert(!(flags & FAULT_FLAG_WRITE) || !(flags & FAULT_FLAG_UNSHARE));
	assert(!(flags & FAULT_FLAG_RETRY_NOWAIT) || (flags & FAULT_FLAG_ALLOW_RETRY));
	assert(!(flags & FAULT_FLAG_VMA_LOCK) || (flags & (FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_RETRY_NOWAIT)) == FAULT_FLAG_ALLOW_RETRY);
	assert(rwsem_is_locked(flags & FAULT_FLAG_VMA_LOCK ? &vma->lock : &vma->mm->mmap_lock));
	assert(!(flags & FAULT_FLAG_WRITE) || (vma->flags & (VM_WRITE | VM_MAYWRITE)));
	(void)vma;
	(void)flags;
}

/*
 * B7, B8. A RETRY is no fault yet, only a visit. Only current is touched: the VMA may be gone. Faults that one task
 * causes in another's memory (page pinning) count for the one that causes them, as on Linux.
 */
static void account_fault(vm_fault_t ret, unsigned int flags)
{
	if (unlikely(ret & VM_FAULT_RETRY)) {
		vm_count_both(VM_fault_entries, VM_fault_retry);
		return;
	}
	vm_count_both(VM_fault_entries, VM_pgfault);
	if (likely(!(ret & (VM_FAULT_ERROR | VM_FAULT_MAJOR)) && !(flags & FAULT_FLAG_TRIED)))
		current->min_flt++;
	else if (!(ret & VM_FAULT_ERROR))
		current->maj_flt++;
}

/* Every visit, so that a trace shows RETRY and COMPLETED; with the user instruction that is behind it. */
static void trace_fault(uintptr_t addr, unsigned int flags, vm_fault_t ret)
{
	trace_event(TRACE_FAULT, addr, flags, ret, task_is_kthread(current) ? 0 : task_trap_frame(current)->rip);
}

vm_fault_t handle_mm_fault(struct vma *vma, uintptr_t addr, unsigned int flags)
{
	vm_fault_t ret;

	assert_fault_flags(vma, flags);
	if (unlikely(vma->flags & VM_HUGETLB))
		ret = hugetlb_fault(vma, addr, flags);
	else
		ret = handle_page_fault(vma, addr, flags);
	account_fault(ret, flags);
	if (unlikely(trace_on))
		trace_fault(addr, flags, ret);
	return ret;
}

/* Makes the tables for the address, from the top. */
static __noinline bool make_tables(struct vm_fault *vmf)
{
	struct mm *mm = vmf->vma->mm;

	vmf->pmd = pmd_alloc(mm, vmf->address);
	return vmf->pmd && !pte_alloc(mm, vmf->pmd);
}

/* Fills in where the entry is. False: no memory for a table. Usually all tables are there: then this is three loads. */
static inline bool find_entry(struct vm_fault *vmf, uintptr_t addr)
{
	pgd_t pgd = pgd_read(vmf->vma->mm->pgd + pgd_index(addr));
	pmd_t table = { 0 };

	if (likely(!pgd_none(pgd))) {
		pud_t pud = pud_read(pud_offset(pgd, addr));
		if (likely(!pud_none(pud))) {
			vmf->pmd = pmd_offset(pud, addr);
			table = pmd_read(vmf->pmd);
		}
	}
	if (unlikely(pmd_none(table))) {
		if (!make_tables(vmf))
			return false;
		table = pmd_read(vmf->pmd);
	}
	assert(pmd_table(table));		/* leaves are for VM_HUGETLB alone */
	vmf->pte = pte_offset(table, addr);
	vmf->ptl = &pmd_page(table)->ptl;
	return true;
}

/* The table at the top, row by row. */
static vm_fault_t handle_page_fault(struct vma *vma, uintptr_t addr, unsigned int flags)
{
	struct vm_fault vmf;

	vmf.vma = vma;
	vmf.address = addr & PAGE_MASK;
	vmf.real_address = addr;
	vmf.flags = flags;
	if (unlikely(!find_entry(&vmf, addr)))
		return VM_FAULT_OOM;
	vmf.orig_pte = pte_read(vmf.pte);

	if (pte_none(vmf.orig_pte))
		return do_missing(&vmf);
	if (unlikely(pte_marker(vmf.orig_pte)))
		return do_marker(&vmf);
	if ((flags & (FAULT_FLAG_WRITE | FAULT_FLAG_UNSHARE)) && !pte_writable(vmf.orig_pte))
		return do_wp_page(&vmf);
	return do_spurious_fault(&vmf);
}

static inline vm_fault_t do_missing(struct vm_fault *vmf)
{
	const struct vma *vma = vmf->vma;
	bool write = vmf->flags & FAULT_FLAG_WRITE;

	if (vma_is_anonymous(vma)) {
		if (unlikely(vma->flags & VM_UFFD_MISSING))
			return handle_userfault(vmf, VM_UFFD_MISSING);
		return write ? do_anonymous_page(vmf) : do_zero_page(vmf);
	}
	if (unlikely(!vma->ops->fault))
		return VM_FAULT_SIGBUS;		/* device memory is mapped whole by mmap; what is missing does not exist */
	if (!write)
		return do_read_fault(vmf);
	return vma_is_private(vma) ? do_cow_fault(vmf) : do_shared_fault(vmf);
}

/* -- anonymous memory -- */

/*
 * B14. Nobody has written here: one page of zeros serves all readers. The entry is special, for that page counts
 * neither references nor as resident. No flush: the CPU does not cache entries that are not present.
 */
static vm_fault_t do_zero_page(struct vm_fault *vmf)
{
	u64 prot = (vmf->vma->page_prot & ~PTE_WRITE) | PTE_SPECIAL | PTE_ACCESSED;

	if (!vmf_lock_pte(vmf))
		return 0;
	pte_write_entry(vmf->pte, vmf_keep_marker(vmf, (pte_t){ zero_frame | prot }));
	pte_unlock(vmf->ptl);
	return 0;
}

/* A fresh page of zeros, ours alone. The clearing happens before any lock. */
static vm_fault_t do_anonymous_page(struct vm_fault *vmf)
{
	struct vma *vma = vmf->vma;
	vm_fault_t ret = vmf_anon_prepare(vmf);

	if (unlikely(ret))
		return ret;
	struct page *page = alloc_page(GFP_USER | GFP_ZERO);
	if (unlikely(!page))
		return VM_FAULT_OOM;

	race_window("anon_page_ready");
	if (!vmf_lock_pte(vmf)) {
		put_page(page);
		return 0;
	}
	mm_counter_add_locked(vma->mm, MM_ANONPAGES, 1);
	page_add_new_anon(page, vma, vmf->address);
	pte_write_entry(vmf->pte, vmf_keep_marker(vmf, vma_pte(vma, page, true)));
	pte_unlock(vmf->ptl);
	return 0;
}

/*
 * C7: vma->anon_vma may be set only under mmap_lock, because a neighbour's may be borrowed. Under the VMA's lock alone
 * we may try for mmap_lock but never wait: whoever writes there may be waiting for us. So then the VMA is let go, the
 * anon_vma is made by the front door, and the fault starts again; that is the one time in the life of a VMA that its
 * faults see mmap_lock.
 */
vm_fault_t vmf_anon_prepare_slow(struct vm_fault *vmf)
{
	struct vma *vma = vmf->vma;
	struct mm *mm = vma->mm;
	int err;

	if (!(vmf->flags & FAULT_FLAG_VMA_LOCK))
		return anon_vma_prepare(vma) ? VM_FAULT_OOM : 0;

	race_window("anon_vma_missing");
	if (mmap_read_trylock(mm)) {
		err = anon_vma_prepare(vma);
		mmap_read_unlock(mm);
		return err ? VM_FAULT_OOM : 0;
	}

	uintptr_t addr = vmf->address;		/* all that survives the unlock */
	release_fault_lock(vma, vmf->flags);
	if (!mmap_read_lock_killable(mm)) {
		vma = vma_lookup(mm, addr);
		/* If it fails, the next round finds out and says so, under its lock. */
		if (vma && vma_is_private(vma))
			(void)!anon_vma_prepare(vma);
		mmap_read_unlock(mm);
	}
	return VM_FAULT_RETRY;
}

/* -- file memory -- */

/*
 * Asks the owner of the memory for the page. With VM_FAULT_LOCKED in the result (and perhaps MAJOR) vmf->page is
 * referenced and locked, belongs to the file, and lies before its end, and stays so until it is unlocked (B11, R12).
 * Without: an error, the fault's lock dropped, or NOPAGE: the owner has put the entry in itself.
 */
static vm_fault_t fetch_page(struct vm_fault *vmf)
{
	vmf->pgoff = linear_index(vmf->vma, vmf->address);
	return vmf->vma->ops->fault(vmf);
}

/* The entry for a page of the file itself. Takes over the reference, unless it returns false: somebody was faster. */
static inline __attribute__((always_inline)) bool install_file_page(struct vm_fault *vmf, struct page *page, bool write)
{
	struct vma *vma = vmf->vma;

	race_window("file_page_ready");
	if (!vmf_lock_pte(vmf))
		return false;
	mm_counter_add_locked(vma->mm, file_mm_counter(page), 1);
	page_add_file(page, vma);
	pte_write_entry(vmf->pte, vmf_keep_marker(vmf, vma_pte(vma, page, write)));
	pte_unlock(vmf->ptl);
	return true;
}

static vm_fault_t do_read_fault(struct vm_fault *vmf)
{
	vm_fault_t ret = fetch_page(vmf);

	if (unlikely(!(ret & VM_FAULT_LOCKED)))
		return ret;
	struct page *page = vmf->page;
	bool installed = install_file_page(vmf, page, false);
	unlock_page(page);
	if (!installed)
		put_page(page);
	return ret & VM_FAULT_MAJOR;
}

/* A write to a private mapping: the file's page is only copied from, but held locked until the copy is in place (R12). */
static vm_fault_t do_cow_fault(struct vm_fault *vmf)
{
	struct vma *vma = vmf->vma;
	vm_fault_t ret = vmf_anon_prepare(vmf);

	if (unlikely(ret))
		return ret;
	vmf->cow_page = alloc_page(GFP_USER);
	if (unlikely(!vmf->cow_page))
		return VM_FAULT_OOM;
	ret = fetch_page(vmf);
	if (unlikely(!(ret & VM_FAULT_LOCKED))) {
		put_page(vmf->cow_page);
		return ret;
	}
	copy_page(page_to_virt(vmf->cow_page), page_to_virt(vmf->page));

	race_window("cow_page_ready");
	if (vmf_lock_pte(vmf)) {
		mm_counter_add_locked(vma->mm, MM_ANONPAGES, 1);
		page_add_new_anon(vmf->cow_page, vma, vmf->address);
		pte_write_entry(vmf->pte, vmf_keep_marker(vmf, vma_pte(vma, vmf->cow_page, true)));
		pte_unlock(vmf->ptl);
	} else {
		put_page(vmf->cow_page);
	}
	unlock_page(vmf->page);
	put_page(vmf->page);
	return ret & VM_FAULT_MAJOR;
}

/* A write to a shared mapping of a page that was not mapped here: it becomes dirty at once (B15). */
static vm_fault_t do_shared_fault(struct vm_fault *vmf)
{
	vm_fault_t ret = fetch_page(vmf);

	if (unlikely(!(ret & VM_FAULT_LOCKED)))
		return ret;
	struct page *page = vmf->page;
	if (vmf->vma->ops->page_mkwrite) {
		vm_fault_t mk = vmf->vma->ops->page_mkwrite(vmf);	/* page stays locked, unless it fails */
		if (unlikely(mk)) {
			put_page(page);
			return mk & VM_FAULT_ERROR ? mk : 0;		/* 0: truncated meanwhile (G6) */
		}
	}
	if (!install_file_page(vmf, page, true)) {
		unlock_page(page);
		put_page(page);
		return ret & VM_FAULT_MAJOR;
	}
	return (ret & VM_FAULT_MAJOR) | fault_dirty_shared_page(vmf, page);
}

vm_fault_t vmf_lock_page_slow(struct vm_fault *vmf, struct page *page)
{
	if (!(vmf->flags & FAULT_FLAG_ALLOW_RETRY)) {
		lock_page(page);
		return 0;
	}
	if (!(vmf->flags & FAULT_FLAG_RETRY_NOWAIT)) {
		/* Sleep for the page with nothing else held: it may be locked for as long as a disk takes. */
		bool killable = vmf->flags & FAULT_FLAG_KILLABLE;
		release_fault_lock(vmf->vma, vmf->flags);
		if (!killable)
			lock_page(page);
		if (!killable || !lock_page_killable(page))
			unlock_page(page);
	}
	put_page(page);
	return VM_FAULT_RETRY;
}

/*
 * Section G: the completed fault. The page is mapped and dirty, so the fault is done; what remains is to make a fast
 * writer wait for the disk, which can take long and must not be done with a lock that munmap is waiting for. Where the
 * flags allow it the lock goes first, and COMPLETED says so. (Linux before 6.0 answered RETRY here, as we do with
 * mm.fault_completed=off: the access then faulted a second time, only to find its page.) RAM files never wait, but
 * answer in the same way.
 *
 * The file is pinned, not the VMA (G5): once the lock is gone munmap may free the VMA, and close the file with it.
 */
static vm_fault_t throttle_writer(struct vm_fault *vmf, struct mapping *mapping)
{
	struct file *pin = NULL;

	if (!vmf_may_drop_lock(vmf) || (vmf->flags & FAULT_FLAG_TRIED)) {
		balance_dirty_pages(mapping);
		return 0;
	}
	if (mapping_tracks_dirty(mapping)) {
		pin = vmf->vma->file;
		file_get(pin);
	}
	release_fault_lock(vmf->vma, vmf->flags);
	race_window("fault_completed");
	if (pin) {
		balance_dirty_pages(mapping);
		file_put(pin);
	}
	return likely(fault_completed_enabled) ? VM_FAULT_COMPLETED : VM_FAULT_RETRY;
}

vm_fault_t fault_dirty_shared_page(struct vm_fault *vmf, struct page *page)
{
	struct mapping *mapping = page->mapping;
	bool dirtied = mapping_mark_dirty(page);

	unlock_page(page);
	/* From here on the page may be gone: its reference went to the entry, and truncate may have taken that. */
	if (!mapping || (!dirtied && !vmf->vma->ops->page_mkwrite))
		return 0;
	return throttle_writer(vmf, mapping);
}

/* -- entries that are there -- */

/*
 * A marker says why the page is not there (R43). Poison: the memory is lost, and every access is told so. uffd-wp: a
 * page is to be write-protected once it comes; the entry that is installed over the marker sees to that.
 */
static vm_fault_t do_marker(struct vm_fault *vmf)
{
	if (vmf->orig_pte.v & PTE_MARKER_POISON) {
		if (!vmf_lock_pte(vmf))
			return 0;		/* a signal is visible: decide under the lock (B12) */
		pte_unlock(vmf->ptl);
		return VM_FAULT_HWPOISON;
	}
	return do_missing(vmf);
}

/*
 * B16. The entry allows the access: another thread was faster, or this CPU used a translation from before a right was
 * added. Rights that grow are not flushed anywhere; the CPU that still has the old entry comes here and drops it.
 */
static vm_fault_t do_spurious_fault(struct vm_fault *vmf)
{
	flush_tlb_local_page(vmf->address);
	return 0;
}

/* -- the rest -- */

void release_fault_lock(struct vma *vma, unsigned int flags)
{
	if (flags & FAULT_FLAG_VMA_LOCK)
		vma_read_unlock(vma);
	else
		mmap_read_unlock(vma->mm);
}

void fault_init(void)
{
	zero_page = alloc_page(GFP_KERNEL | GFP_ZERO);
	BUG_ON(!zero_page);
	zero_frame = page_to_phys(zero_page);
	fault_completed_enabled = cmdline_on("mm.fault_completed", true);
	hugetlb_sync_init();
	rmap_init();
	filemap_init();
}
