/*
 * struct mapping: the pages of one file (page cache), whoever supplies them. ramfs keeps pages for ever; block devices,
 * delayfs and ring-3 servers read and write them through mapping_ops. The index is a radix tree with RCU readers.
 */
#ifndef MM_MAPPING_H
#define MM_MAPPING_H

#include "kernel/list.h"
#include "kernel/rwsem.h"
#include "kernel/spinlock.h"
#include "mm/page.h"
#include "mm/radix.h"

struct inode;
struct super_block;
struct file;
struct vma;
struct vm_fault;
struct iov_iter;

struct mapping_ops {
	/* Fill a new locked page; unlocks nothing. 0 or -errno (-EIO...). NULL: a hole reads as zeros (RAM files). May sleep. */
	int	(*read_page)(struct mapping *m, struct page *page);
	/*
	 * Write one locked page back, already marked clean; NULL: never written back (RAM files, no dirty accounting).
	 * Calls page_start_writeback(), unlocks, and when the data is safe page_end_writeback(), now or later, from any
	 * task. 0, or -errno with nothing started and the page unlocked.
	 */
	int	(*write_page)(struct mapping *m, struct page *page);
	/* The page leaves the cache for good (truncate): owner's bookkeeping, e.g. block counts. */
	void	(*freed_page)(struct mapping *m, struct page *page);
	/*
	 * A locked page is about to become dirty: make room for it in the store, so that write_page will not lack any. 0,
	 * -ENOSPC, -ENOMEM. NULL: needs none. Mapped files call theirs from vma_ops->page_mkwrite. May sleep.
	 */
	int	(*make_room)(struct mapping *m, struct page *page);
	/* May @n more pages be used? 0 or -ENOSPC. NULL: yes. Undone by freed_page. */
	int	(*charge_pages)(struct mapping *m, u64 n);
};

/*
 *   F  i_mmap_lock     T  tree_lock      A  atomic     I  constant after init
 */
struct mapping {
	struct inode		*host;		/* I */
	const struct mapping_ops *ops;		/* I */
	struct radix_tree	 pages;		/* T; RCU to read. Holds one reference of each page in it */
	struct radix_tree	 huge_tables;	/* T; RCU to read. hugetlb.sync=file: a PMD table for each GiB of the file */
	struct spinlock		 tree_lock;	/* LOCK_PAGE_CACHE */
	u64			 nr_pages;	/* T */
	struct rwsem		 i_mmap_lock;	/* LOCK_I_MMAP */
	struct list_head	 i_mmap;	/* F  all VMAs; truncate finds every mapping here */
	s64			 writable_maps;	/* A  VM_SHARED|VM_MAYWRITE VMAs, counted by mm/vma.c; < 0: denied by F_SEAL_WRITE, set only from 0 */
	bool			 is_shmem;	/* I  counts as shmem, survives as RAM */
	bool			 is_hugetlb;	/* I  huge pages, indexed in their own size; counted by their pool alone */
	/* LOCK_MAPPING_DIRTY  linked while nr_dirty or nr_writeback > 0. Served: and until mapping_release_clean(); counts host and its sb */
	struct list_head	 dirty_node;
	u64			 sync_seq;	/* LOCK_MAPPING_DIRTY  the last writeback_sync() that came by */
	u64			 nr_dirty;	/* T  pages with RADIX_DIRTY; only where mapping_tracks_dirty() */
	u64			 nr_writeback;	/* T  pages with RADIX_WRITEBACK */
	int			 wb_error;	/* A  first write-back error, reported once by fsync */
	u32			 nr_returned;	/* A  how often a page has come back unwritten, and stayed dirty */
};

void mapping_init(struct mapping *m, struct inode *host, const struct mapping_ops *ops);
void mapping_destroy(struct mapping *m);		/* eviction: no VMA, no reader; frees all pages */

struct page *mapping_find_get(struct mapping *m, u64 index);	/* referenced or NULL; RCU inside */
/* The first page at or after *index (with the tag): referenced, sets *index; NULL: no more. */
struct page *mapping_find_get_next(struct mapping *m, u64 *index);
struct page *mapping_find_get_tagged(struct mapping *m, u64 *index, enum radix_tag tag);
/* Referenced, uptodate page, created (and read or zeroed) if absent; ERR_PTR(-ENOMEM/-EIO/-ENOSPC/-EINTR). Sleeps. */
struct page *mapping_get_page(struct mapping *m, u64 index);
struct page *mapping_get_page_locked(struct mapping *m, u64 index);	/* the same, folio locked and still in this mapping */
int mapping_add_page(struct mapping *m, struct page *page, u64 index);	/* locked page; 0, -EEXIST, -ENOMEM, -ENOSPC */
void mapping_remove_page(struct page *page);	/* locked, unmapped, not under writeback; drops the cache's reference */
/* Folio lock, or the lock of a PTE that maps it, held. True: it was clean until now. */
bool __mapping_mark_dirty(struct page *page);
static inline bool mapping_mark_dirty(struct page *page) { return !page_test(page, PG_dirty) && __mapping_mark_dirty(page); }
void mapping_cancel_dirty(struct page *page);	/* folio lock: the contents are not wanted any more (truncate) */
/* Does somebody write dirty pages of this file back? Then its pages are mapped read-only while they are clean (B15). */
static inline bool mapping_tracks_dirty(const struct mapping *m) { return m->ops && m->ops->write_page; }
u64 mapping_size_pages(const struct mapping *m);	/* i_size in pages, rounded up; a fresh read each time */
/* Next index >= @index that has a page (data) / has none (hole), for SEEK_DATA/HOLE and fincore-like uses; ~0 when none. */
u64 mapping_next_page(struct mapping *m, u64 index);
u64 mapping_next_hole(struct mapping *m, u64 index);

/* read(2)/write(2) through the cache. Bytes done or -errno. i_size is checked against and (write) extended by the caller's inode lock rules:
 * write: inode->lock held. */
ssize_t mapping_read(struct mapping *m, loff_t pos, struct iov_iter *to);
ssize_t mapping_write(struct mapping *m, loff_t pos, struct iov_iter *from);

/*
 * Removes pages of [start, end) bytes from the cache and from every mapping, partial edge pages zeroed. i_size is
 * already changed (truncate). even_cows: private copies go too (truncate and punch, A36). inode lock held. Sleeps.
 */
void truncate_mapping_range(struct mapping *m, loff_t start, loff_t end, bool even_cows);
/* A file with a store grows to @new_size: what a mapping has written beyond its end, in its last page, must not appear. inode lock held. Sleeps. */
void zero_beyond_end(struct mapping *m, u64 new_size);
void unmap_mapping_range(struct mapping *m, u64 first_index, u64 nr, bool even_cows);
/* Clean pages [first, end) that nobody maps or uses leave the cache; their contents are in the store. Not those of RAM files. Sleeps. */
void mapping_drop_clean(struct mapping *m, u64 first, u64 end);
int mapping_writeback_range(struct mapping *m, loff_t start, loff_t end, bool wait);	/* msync, fsync */
void balance_dirty_pages(struct mapping *m);		/* throttle the writer; sleeps killably */
/* For write_page: the page is on its way / has arrived (err: -EIO...). Task context, may be different tasks. */
void page_start_writeback(struct page *page);
void page_end_writeback(struct page *page, int err);
/* In place of page_end_writeback(): nobody has written it, it is dirty as before. @told: whoever waits for it to be safe gets EIO. */
void page_return_unwritten(struct page *page, bool told);
/* Waits until pages [first, last] are not under write-back. 0 or -EINTR (only a fatal signal). */
int mapping_wait_writeback(struct mapping *m, u64 first, u64 last);
void mapping_release_clean(struct mapping *m);	/* served: lets go of a file that has nothing left to write. May sleep */
void writeback_kick(void);			/* a store that was away is back */
int mapping_check_error(struct mapping *m);		/* the first write-back error since the last call, for fsync and msync */
int writeback_sync(struct super_block *sb);		/* sync, syncfs: all that is dirty now, of @sb or (NULL) of all. 0 or -EINTR */
void writeback_init(void);				/* starts the flusher thread; after the scheduler */
/* /proc/sys/vm: bytes; 0 = the default, a share of memory (20 and 10 percent). */
extern u64 sysctl_dirty_bytes, sysctl_dirty_background_bytes;

/*
 * Boot: caches of page cache and reverse map, the zero page; before the first file or address space (fault_init calls it).
 */
void filemap_init(void);

/* mmap of a file served by its page cache: file->ops->mmap of ramfs and others. */
int generic_file_mmap(struct file *file, struct vma *vma);
extern const struct vma_ops filemap_vma_ops;

#endif
