/*
 * The page cache: the pages of each file, found by (mapping, index), whoever supplies them.
 *
 *	read(2), write(2)	mapping_read(), mapping_write()
 *	a mapped file		filemap_fault(), called by mm/fault.c
 *	everything else		mapping_find_get(), mapping_get_page()
 *
 * RAM files (ops->read_page NULL): a hole is a page that nobody has made yet; it reads as zeros, and the first write or
 * mapping makes it. Others: a page that is absent is on the disk, and is read when somebody wants it.
 *
 * A page belongs to the file while page->mapping points here; that changes only under the folio lock. So whoever needs
 * it to stay locks the page and looks at page->mapping again: NULL means that truncate was faster, and the index must
 * be looked up anew.
 *
 * Faults and truncate (R12). Truncate lowers i_size, then looks for pages to remove. A fault that makes a page
 * inserts it, then looks at i_size. Each writes first and reads second, with a full barrier in between, so at least one
 * of the two sees the other: truncate finds the page, or the fault finds the new size and takes the page out again.
 *
 *	truncate				fault
 *	i_size = new				insert page (locked)
 *	barrier (truncate_mapping_range)	barrier (mapping_add_page)
 *	look for pages past the end		read i_size
 *	lock each, unmap, remove		map the page, unlock it
 *
 * Lookups take no lock. The tree is walked under RCU; what is found there may be freed and become anything at any
 * moment, so a reference is taken only if the count is not zero, and then the slot is read again: if it still holds the
 * page, the page was in the cache after we had our reference, and it is the right one.
 */
#include "mm/mapping.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/fault_internal.h"
#include "mm/frame.h"
#include "mm/hugetlb.h"
#include "mm/uaccess.h"
#include "mm/vmstat.h"

void filemap_init(void)
{
	radix_init();
}

void mapping_init(struct mapping *m, struct inode *host, const struct mapping_ops *ops)
{
	*m = (struct mapping){ .host = host, .ops = ops };
	spin_lock_init(&m->tree_lock, LOCK_PAGE_CACHE);
	rwsem_init(&m->i_mmap_lock, LOCK_I_MMAP);
	INIT_LIST_HEAD(&m->i_mmap);
	INIT_LIST_HEAD(&m->dirty_node);
}

/* Eviction: nobody maps, reads or holds the file any more. Its last pages go, dirty or not. Sleeps. */
void mapping_destroy(struct mapping *m)
{
	u64 index = 0;
	struct page *page;

	BUG_ON(!list_empty(&m->i_mmap));
	if (m->is_hugetlb)
		hugetlb_evict_file(m);
	while ((page = radix_next(&m->pages, &index, RADIX_ANY))) {
		get_page(page);
		lock_page(page);
		wait_on_page_writeback(page);
		mapping_remove_page(page);
		unlock_page(page);
		put_page(page);
		cond_resched();
	}
	BUG_ON(m->nr_pages || m->nr_dirty || m->nr_writeback || !list_empty(&m->dirty_node));
}

u64 mapping_size_pages(const struct mapping *m)
{
	u64 size = READ_ONCE(m->host->size);

	return (size >> PAGE_SHIFT) + ((size & ~PAGE_MASK) != 0);
}

static bool mapping_reads(const struct mapping *m)
{
	return m->ops && m->ops->read_page;
}

/* -- finding -- */

struct page *mapping_find_get(struct mapping *m, u64 index)
{
	struct page *page = NULL;

	rcu_read_lock();
	for (;;) {
		void **slot = radix_lookup_slot(&m->pages, index);

		page = slot ? rcu_dereference(*slot) : NULL;
		if (!page)
			break;
		if (likely(try_get_page(page))) {
			if (likely(READ_ONCE(*slot) == page))
				break;
			put_page(page);		/* may free it: then it was somebody else's last */
		}
		/* Removed after we had found it: the slot no longer holds it, or a page that came later. */
	}
	rcu_read_unlock();
	return page;
}

/* The first page at or after *index, referenced; sets *index. NULL: no more. */
static struct page *find_get_next(struct mapping *m, u64 *index, enum radix_tag tag)
{
	for (;;) {
		rcu_read_lock();
		void *found = radix_next(&m->pages, index, tag);
		rcu_read_unlock();
		if (!found)
			return NULL;
		struct page *page = mapping_find_get(m, *index);
		if (page)
			return page;
	}
}

struct page *mapping_find_get_next(struct mapping *m, u64 *index) { return find_get_next(m, index, RADIX_ANY); }
struct page *mapping_find_get_tagged(struct mapping *m, u64 *index, enum radix_tag tag) { return find_get_next(m, index, tag); }

u64 mapping_next_page(struct mapping *m, u64 index)
{
	rcu_read_lock();
	bool found = radix_next(&m->pages, &index, RADIX_ANY);
	rcu_read_unlock();
	return found ? index : ~0ul;
}

u64 mapping_next_hole(struct mapping *m, u64 index)
{
	rcu_read_lock();
	index = radix_next_hole(&m->pages, index);
	rcu_read_unlock();
	return index;
}

/* -- inserting and removing -- */

static int insert_page(struct mapping *m, struct page *page, u64 index)
{
	struct radix_pool pool = { 0 };
	int err;

	do {
		spin_lock(&m->tree_lock);
		err = radix_insert(&m->pages, index, page, &pool);
		if (!err)
			m->nr_pages++;
		spin_unlock(&m->tree_lock);
		if (err == -EAGAIN && radix_pool_fill(&pool, GFP_KERNEL))
			err = -ENOMEM;
	} while (err == -EAGAIN);
	radix_pool_drain(&pool);
	return err;
}

static void count_cached(const struct mapping *m, s64 n)
{
	if (unlikely(m->is_hugetlb))
		return;
	vm_count_add(VM_nr_file_pages, n);
	if (m->is_shmem)
		vm_count_add(VM_nr_shmem, n);
}

/* @page is locked and in no mapping. The cache takes a reference of its own. Sleeps. 0, -EEXIST, -ENOMEM, -ENOSPC. */
int mapping_add_page(struct mapping *m, struct page *page, u64 index)
{
	int err;

	assert(page_test(page, PG_locked) && !page->mapping);
	if (m->ops && m->ops->charge_pages) {
		err = m->ops->charge_pages(m, 1);
		if (err)
			return err;
	}
	get_page(page);
	page->mapping = m;
	page->index = index;
	err = insert_page(m, page, index);
	if (unlikely(err)) {
		page->mapping = NULL;
		if (m->ops && m->ops->freed_page)
			m->ops->freed_page(m, page);
		put_page(page);
		return err;
	}
	count_cached(m, 1);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);	/* insert, then read i_size: see the top */
	return 0;
}

void mapping_remove_page(struct page *page)
{
	struct mapping *m = page->mapping;

	assert(page_test(page, PG_locked) && !page_test(page, PG_writeback));
	BUG_ON(page_mapcount(page));
	mapping_cancel_dirty(page);
	spin_lock(&m->tree_lock);
	void *removed = radix_remove(&m->pages, page->index);
	BUG_ON(removed != page);
	m->nr_pages--;
	page->mapping = NULL;
	spin_unlock(&m->tree_lock);

	count_cached(m, -1);
	if (m->ops && m->ops->freed_page)
		m->ops->freed_page(m, page);
	put_page(page);		/* the cache's; the caller holds one */
}

/* -- getting, that is finding or making -- */

/*
 * A new page at @index, locked and referenced, of zeros or still to be read. ERR_PTR: -EEXIST (somebody was faster),
 * -ENOMEM, -ENOSPC.
 */
static struct page *create_page(struct mapping *m, u64 index)
{
	struct page *page = alloc_page(mapping_reads(m) ? GFP_USER : GFP_USER | GFP_ZERO);

	if (!page)
		return ERR_PTR(-ENOMEM);
	lock_page(page);		/* before anybody can find it */
	if (!mapping_reads(m))
		page->flags |= 1u << PG_uptodate;	/* not visible yet: no atomic needed */
	int err = mapping_add_page(m, page, index);
	if (unlikely(err)) {
		unlock_page(page);
		put_page(page);
		return ERR_PTR(err);
	}
	return page;
}

/* Fills a locked page of the cache that has no contents yet. On failure it leaves the cache, so that the next one tries again. */
static int read_locked_page(struct mapping *m, struct page *page)
{
	int err = m->ops->read_page(m, page);

	if (!err)
		page_set(page, PG_uptodate);
	else
		mapping_remove_page(page);
	return err;
}

/* Whoever has the lock may be waiting for a server. Then the wait ends with a fatal signal: -EINTR. */
static int lock_page_of(const struct mapping *m, struct page *page)
{
	if (unlikely(mapping_is_served(m)))
		return lock_page_killable(page);
	lock_page(page);
	return 0;
}

struct page *mapping_get_page_locked(struct mapping *m, u64 index)
{
	for (;;) {
		struct page *page = mapping_find_get(m, index);

		if (page) {
			if (unlikely(lock_page_of(m, page))) {
				put_page(page);
				return ERR_PTR(-EINTR);
			}
			if (unlikely(page->mapping != m)) {
				unlock_page(page);
				put_page(page);
				continue;
			}
		} else {
			page = create_page(m, index);
			if (PTR_ERR(page) == -EEXIST)
				continue;
			if (IS_ERR(page))
				return page;
		}
		int err = page_test(page, PG_uptodate) ? 0 : read_locked_page(m, page);
		if (likely(!err))
			return page;
		unlock_page(page);
		put_page(page);
		return ERR_PTR(err);
	}
}

struct page *mapping_get_page(struct mapping *m, u64 index)
{
	struct page *page = mapping_find_get(m, index);

	if (likely(page && page_test(page, PG_uptodate)))
		return page;
	if (page)
		put_page(page);
	page = mapping_get_page_locked(m, index);
	if (!IS_ERR(page))
		unlock_page(page);
	return page;
}

/* -- read(2) and write(2) -- */

/* Contents of one page into @to; a hole of a RAM file is not worth a page. Bytes, short after a fault, or -errno. */
static ssize_t read_from_page(struct mapping *m, u64 index, size_t off, size_t n, struct iov_iter *to)
{
	struct page *page = mapping_find_get(m, index);
	ssize_t done;

	if (!page && !mapping_reads(m))
		return (ssize_t)zero_iter(n, to);
	if (!page || !page_test(page, PG_uptodate)) {
		if (page)
			put_page(page);
		page = mapping_get_page(m, index);
		if (IS_ERR(page))
			return PTR_ERR(page);
	}
	done = (ssize_t)copy_to_iter((char *)page_to_virt(page) + off, n, to);
	put_page(page);
	return done;
}

ssize_t mapping_read(struct mapping *m, loff_t pos, struct iov_iter *to)
{
	ssize_t done = 0;

	if (pos < 0)
		return -EINVAL;
	while (to->count) {
		u64 size = READ_ONCE(m->host->size);		/* fresh for each page: it may shrink under us */
		if ((u64)pos >= size)
			break;
		size_t off = (u64)pos & ~PAGE_MASK;
		size_t n = min(min(PAGE_SIZE - off, to->count), (size_t)(size - (u64)pos));
		ssize_t got = read_from_page(m, (u64)pos >> PAGE_SHIFT, off, n, to);

		if (got < 0)
			return done ? done : got;
		done += got;
		pos += got;
		if ((size_t)got < n)
			return done ? done : -EFAULT;
		if (fatal_signal_pending())
			return done ? done : -EINTR;
		cond_resched();
	}
	return done;
}

/*
 * Part of one page from @from. The folio is locked meanwhile, and the source may be a mapping of this very page: so the
 * copy must not fault. The caller has faulted the source in; if it is gone again we come back short, and he tries again.
 * Bytes or -errno.
 */
static ssize_t write_to_page(struct mapping *m, loff_t pos, size_t n, struct iov_iter *from)
{
	struct page *page = mapping_get_page_locked(m, (u64)pos >> PAGE_SHIFT);
	size_t done;

	if (IS_ERR(page))
		return PTR_ERR(page);
	int err = m->ops && m->ops->make_room ? m->ops->make_room(m, page) : 0;
	if (unlikely(err)) {
		unlock_page(page);
		put_page(page);
		return err;
	}
	pagefault_disable();
	done = copy_from_iter((char *)page_to_virt(page) + ((u64)pos & ~PAGE_MASK), n, from);
	pagefault_enable();
	if (done) {
		/* Contents before size: who sees the new end must find the bytes before it. inode->lock is held. */
		u64 end = (u64)pos + done;
		if (end > m->host->size)
			__atomic_store_n(&m->host->size, end, __ATOMIC_RELEASE);
		mapping_mark_dirty(page);
	}
	unlock_page(page);
	put_page(page);
	return (ssize_t)done;
}

ssize_t mapping_write(struct mapping *m, loff_t pos, struct iov_iter *from)
{
	ssize_t done = 0;

	if (pos < 0)
		return -EINVAL;
	while (from->count) {
		size_t n = min(PAGE_SIZE - ((u64)pos & ~PAGE_MASK), from->count);
		size_t missing = fault_in_iter_readable(from, n);

		if (missing == n)
			return done ? done : -EFAULT;
		ssize_t got = write_to_page(m, pos, n - missing, from);
		if (got < 0)
			return done ? done : got;
		done += got;
		pos += got;
		if (got)
			balance_dirty_pages(m);
		if (fatal_signal_pending())
			return done ? done : -EINTR;
		cond_resched();
	}
	return done;
}

/* -- mapped files -- */

static vm_fault_t read_failed(int err)
{
	return err == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
}

/*
 * The page has to come from a disk, which takes long. The fault's lock is dropped for that: the page is brought into the
 * cache, and the access comes back with TRIED to find it there (and count as a major fault). If it could not be read the fault
 * ends here, with the error and without the lock. Only if it is gone again by the second time is it read with the lock held, but
 * never from a server, which may take for ever: there each turn follows a page that has come.
 */
static vm_fault_t fault_read_page(struct vm_fault *vmf)
{
	struct mapping *m = vmf->vma->mapping;
	u64 index = vmf->pgoff;

	vm_count(VM_pgmajfault);
	bool served = mapping_is_served(m);

	if (vmf_may_drop_lock(vmf) && (served || !(vmf->flags & FAULT_FLAG_TRIED))) {
		struct file *pin = vmf->vma->file;

		file_get(pin);
		release_fault_lock(vmf->vma, vmf->flags);
		struct page *page = mapping_get_page(m, index);
		file_put(pin);
		if (IS_ERR(page) && PTR_ERR(page) != -EINTR)
			return VM_FAULT_COMPLETED | read_failed((int)PTR_ERR(page));
		if (!IS_ERR(page))
			put_page(page);
		return VM_FAULT_RETRY | VM_FAULT_MAJOR;
	}
	if (served)
		return vmf->flags & FAULT_FLAG_RETRY_NOWAIT ? VM_FAULT_RETRY : VM_FAULT_SIGBUS;
	struct page *page = mapping_get_page_locked(m, index);
	if (IS_ERR(page))
		return read_failed((int)PTR_ERR(page));
	vmf->page = page;
	return VM_FAULT_LOCKED | VM_FAULT_MAJOR;
}

/* A page that was just made lies past the end: truncate has come and gone without seeing it (R12). */
static void discard_new_page(struct page *page)
{
	mapping_remove_page(page);
	unlock_page(page);
	put_page(page);
}

/*
 * B17, fault-around. Program text is read in runs, so one fault maps all of a small aligned window that is in the cache
 * already, nothing is made or waited for. Only for private mappings: those of shared memory are data, and each of its
 * pages is somebody's decision. True: the page that was asked for is among them. The window lies in one page table.
 */
#define AROUND_PAGES	16u

static bool may_map_around(const struct vm_fault *vmf)
{
	return vma_is_private(vmf->vma) && pte_none(vmf->orig_pte) && !(vmf->vma->flags & VM_UFFD_ANY) &&
	       !(vmf->flags & FAULT_FLAG_WRITE);
}

/* The page of @index if it can be had at once: referenced and locked, of this file, before its end. */
static struct page *find_lock_now(struct mapping *m, u64 index)
{
	struct page *page = mapping_find_get(m, index);

	if (!page)
		return NULL;
	if (page_test(page, PG_uptodate) && trylock_page(page)) {
		if (page->mapping == m && index < mapping_size_pages(m))
			return page;
		unlock_page(page);
	}
	put_page(page);
	return NULL;
}

static bool map_around(struct vm_fault *vmf)
{
	struct vma *vma = vmf->vma;
	struct mapping *m = vma->mapping;
	uintptr_t addr = max(vmf->address & ~(AROUND_PAGES * PAGE_SIZE - 1), vma->start);
	uintptr_t end = min((vmf->address | (AROUND_PAGES * PAGE_SIZE - 1)) + 1, vma->end);
	s64 mapped = 0;
	bool found = false;
	struct spinlock *ptl;
	pte_t *pte = pte_offset_lock(vma->mm, vmf->pmd, addr, &ptl);
	enum mm_counter counter = m->is_shmem ? MM_SHMEMPAGES : MM_FILEPAGES;

	if (!pte)
		return false;
	for (; addr < end; addr += PAGE_SIZE, pte++) {
		if (pte_none(pte_read(pte))) {
			struct page *page = find_lock_now(m, linear_index(vma, addr));

			if (!page)
				continue;
			page_add_file(page, vma);
			pte_write_entry(pte, vma_pte(vma, page, false));
			unlock_page(page);	/* its reference went to the entry */
			mapped++;
		}
		found |= addr == vmf->address;
	}
	pte_unlock(ptl);
	mm_counter_add(vma->mm, counter, mapped);
	return found;
}

static unsigned int filemap_fault(struct vm_fault *vmf)
{
	struct vma *vma = vmf->vma;
	struct mapping *m = vma->mapping;
	u64 index = vmf->pgoff;

	if (may_map_around(vmf) && map_around(vmf))
		return VM_FAULT_NOPAGE;
	for (;;) {
		struct page *page = mapping_find_get(m, index);
		bool created = false;

		/* Past the end is never an event: before userfaultfd (F40). For a page that is there it is asked below, under its lock. */
		if (unlikely((!page || (vma->flags & VM_UFFD_ANY)) && index >= mapping_size_pages(m))) {
			if (page)
				put_page(page);
			return VM_FAULT_SIGBUS;
		}
		if (unlikely(vma->flags & (page ? VM_UFFD_MINOR : VM_UFFD_MISSING))) {
			if (page)
				put_page(page);
			return handle_userfault(vmf, page ? VM_UFFD_MINOR : VM_UFFD_MISSING);
		}
		if (page && likely(page_test(page, PG_uptodate))) {
			vm_fault_t ret = vmf_lock_page(vmf, page);
			if (unlikely(ret))
				return ret;
		} else if (mapping_reads(m)) {
			if (page)
				put_page(page);
			vm_fault_t ret = fault_read_page(vmf);
			if (!(ret & VM_FAULT_LOCKED))
				return ret;
			if (likely(index < mapping_size_pages(m)))
				return ret;
			page = vmf->page;
		} else {
			page = create_page(m, index);
			if (PTR_ERR(page) == -EEXIST)
				continue;
			if (IS_ERR(page))
				return PTR_ERR(page) == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
			created = true;
		}

		/* The folio is locked: what holds now holds until it is unlocked (B11). */
		race_window("filemap_locked");
		bool ours = page->mapping == m;
		if (likely(ours && index < mapping_size_pages(m))) {
			vmf->page = page;
			return VM_FAULT_LOCKED;
		}
		if (created) {
			discard_new_page(page);
		} else {
			unlock_page(page);
			put_page(page);
		}
		if (ours)
			return VM_FAULT_SIGBUS;		/* past the end; such pages may stay: fallocate(KEEP_SIZE) puts them there */
	}
}

const struct vma_ops filemap_vma_ops = { .fault = filemap_fault };

int generic_file_mmap(struct file *file, struct vma *vma)
{
	vma->ops = &filemap_vma_ops;
	vma->mapping = &file->inode->mapping;
	return 0;
}
