/*
 * /dev/dma: memory that a device may read and write. Each open file is a pool of pieces, contiguous in physical memory, which
 * never move and are never taken away: a device has no page faults.
 *
 * A pool is bound to one function (by its "config" descriptor), because its memory outlives it: when the pool is closed while
 * the function is still held, the pieces wait on the function's list until it has been stopped. So a driver that is killed
 * at any moment, its files closed in any order, never leaves a device that writes into memory of somebody else.
 *
 * With an IOMMU the device reaches the pieces of its pools and nothing else (kernel/iommu.h), until it is released. A pool that
 * stays open beyond that is stale: its memory stays what it is, but no later holder's device reaches it, and it gets no more.
 *
 * Without an IOMMU nothing stops a driver from giving its device any other address: docs/drivers.md says what is trusted.
 */
#include "fs/device_files.h"
#include "fs/internal.h"
#include "kernel/iommu.h"
#include "kernel/pci.h"
#include "kernel/printk.h"
#include "mm/pfnmap.h"
#include "mm/slab.h"
#include "mm/uaccess.h"
#include "user/include/fl_pci.h"

#define DEV_DMA_MAJOR	241u
#define FIRST_OFFSET	PAGE_SIZE	/* for mmap; offset 0 is nobody's, so that a forgotten .offset is an error */

/* A contiguous block. Constant once it can be found; freed with the pool. */
struct dma_piece {
	struct dma_piece	*next;
	struct page		*page;
	unsigned int		 order;
	u64			 offset;	/* for mmap; unique in the pool */
};

/*
 *   F  the function's mutex    A  atomic
 */
struct dma_pool {
	struct pci_function	*fn;		/* A  set once, by BIND */
	struct list_head	 node;		/* F  of fn->dma_pools; linked iff bound */
	struct dma_piece	*pieces;	/* F to add; read without lock: it only grows while the file lives */
	u64			 next_offset;	/* F */
	u64			 total;		/* F  bytes */
	bool			 closed;	/* F */
	bool			 stale;		/* F  the function was released since BIND */
	bool			 lost;		/* F  and its IOMMU did not confirm that */
};

static const struct file_ops dma_fops;

static int dma_open(struct inode *inode, struct file *f)
{
	(void)inode;
	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	struct dma_pool *pool = kzalloc(sizeof(*pool), GFP_KERNEL);

	if (!pool)
		return -ENOMEM;
	pool->next_offset = FIRST_OFFSET;
	f->private = pool;
	return 0;
}

/* @reusable false: nobody knows whether a device still reaches the memory. It is lost. */
static void free_pool(struct dma_pool *pool, bool reusable)
{
	struct dma_piece *next;

	for (struct dma_piece *p = pool->pieces; p; p = next) {
		next = p->next;
		if (reusable)
			free_pages(p->page, p->order);
		kfree(p);
	}
	kfree(pool);
}

void dma_free_closed(struct pci_function *fn)
{
	struct dma_pool *pool, *next;

	assert(mutex_is_held(&fn->mutex) && !fn->open_files);
	bool reusable = iommu_release(fn);

	list_for_each_entry_safe(pool, next, &fn->dma_pools, node) {
		pool->stale = true;
		pool->lost |= !reusable;
		if (!pool->closed)
			continue;
		list_del(&pool->node);
		free_pool(pool, !pool->lost);
	}
}

/* No descriptor and no mapping is left. */
static void dma_release(struct file *f)
{
	struct dma_pool *pool = f->private;
	struct pci_function *fn = pool->fn;

	if (!fn) {
		free_pool(pool, true);
		return;
	}
	mutex_lock(&fn->mutex);
	pool->closed = true;
	if (!fn->open_files)		/* stopped already; else whoever lets go of it last */
		dma_free_closed(fn);
	mutex_unlock(&fn->mutex);
}

static long dma_bind(struct dma_pool *pool, int fd)
{
	struct file *config = fd_get(fd);
	long err = -EINVAL;

	if (!config)
		return -EBADF;
	struct pci_function *fn = pci_function_of_config(config);

	if (fn) {
		mutex_lock(&fn->mutex);
		err = -EBUSY;
		if (!pool->fn) {
			list_add_tail(&pool->node, &fn->dma_pools);
			__atomic_store_n(&pool->fn, fn, __ATOMIC_RELEASE);
			err = 0;
		}
		mutex_unlock(&fn->mutex);
	}
	file_put(config);
	return err;
}

/* Adds a piece; its offset or -errno. */
static long add_piece(struct dma_pool *pool, u64 size, phys_addr_t *bus)
{
	struct pci_function *fn = pool->fn;
	struct dma_piece *piece = kzalloc(sizeof(*piece), GFP_KERNEL);
	unsigned int order = 0;
	long ret;

	if (!piece)
		return -ENOMEM;
	while (PAGE_SIZE << order < size)
		order++;
	piece->order = order;
	piece->page = alloc_pages(GFP_USER | GFP_ZERO, order);
	ret = -ENOMEM;
	if (!piece->page)
		goto free_piece;

	mutex_lock(&fn->mutex);
	ret = pool->stale ? -ENXIO : pool->total + (PAGE_SIZE << order) > FL_DMA_TOTAL ? -ENOSPC :
	      iommu_map(fn, page_to_phys(piece->page), PAGE_SIZE << order);
	if (!ret) {
		piece->offset = pool->next_offset;
		pool->next_offset += PAGE_SIZE << order;
		pool->total += PAGE_SIZE << order;
		piece->next = pool->pieces;
		__atomic_store_n(&pool->pieces, piece, __ATOMIC_RELEASE);
		*bus = page_to_phys(piece->page);
		ret = (long)piece->offset;
	}
	mutex_unlock(&fn->mutex);
	if (ret > 0)
		return ret;
	free_pages(piece->page, order);
free_piece:
	kfree(piece);
	return ret;
}

/* If the answer cannot be copied out the piece stays, unknown to the caller, until the pool is closed. */
static long dma_alloc(struct dma_pool *pool, struct fl_dma_alloc __user *uarg)
{
	struct fl_dma_alloc a;
	phys_addr_t bus = 0;

	if (copy_in(&a, uarg, sizeof(a)))
		return -EFAULT;
	if (!__atomic_load_n(&pool->fn, __ATOMIC_ACQUIRE))
		return -ENXIO;
	if (!a.size || a.size > FL_DMA_MAX)
		return -EINVAL;
	long offset = add_piece(pool, ALIGN_UP(a.size, PAGE_SIZE), &bus);

	if (offset < 0)
		return offset;
	a = (struct fl_dma_alloc){ .size = ALIGN_UP(a.size, PAGE_SIZE), .bus = bus, .offset = (u64)offset };
	return copy_out(uarg, &a, sizeof(a));
}

static long dma_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case FL_DMA_BIND:
		return dma_bind(f->private, (int)arg);
	case FL_DMA_ALLOC:
		return dma_alloc(f->private, (struct fl_dma_alloc __user *)arg);
	}
	return -ENOTTY;
}

/* The piece that has all of [@offset, @offset + @len), or NULL. */
static struct dma_piece *find_piece(struct dma_pool *pool, u64 offset, u64 len)
{
	for (struct dma_piece *p = __atomic_load_n(&pool->pieces, __ATOMIC_ACQUIRE); p; p = p->next)
		if (offset >= p->offset && len <= PAGE_SIZE << p->order && offset - p->offset <= (PAGE_SIZE << p->order) - len)
			return p;
	return NULL;
}

/* The mapping was checked when it was made, and pieces stay. */
static vm_fault_t dma_fault(struct vm_fault *vmf)
{
	u64 offset = vmf->pgoff << PAGE_SHIFT;
	struct dma_piece *p = find_piece(vmf->vma->file->private, offset, PAGE_SIZE);

	if (!p)
		return VM_FAULT_SIGBUS;
	return vmf_insert_pfn(vmf, page_to_pfn(p->page) + ((offset - p->offset) >> PAGE_SHIFT), 0);
}

static const struct vma_ops dma_vma_ops = { .fault = dma_fault };

static int dma_mmap(struct file *f, struct vma *vma)
{
	if (!find_piece(f->private, vma->pgoff << PAGE_SHIFT, vma->end - vma->start))
		return -EINVAL;
	return pfnmap_prepare(vma, &dma_vma_ops);
}

static ssize_t show_iommu(void *arg, char *buf, size_t size)
{
	(void)arg;
	return iommu_show(buf, size);
}

static const struct text_file_ops iommu_ops = { show_iommu, NULL };

static const struct file_ops dma_fops = { .open = dma_open, .release = dma_release, .ioctl = dma_ioctl, .mmap = dma_mmap };

void dev_dma_init(void)
{
	if (list_empty(&pci_functions))
		return;
	if (dev_register("dma", 0666, MKDEV(DEV_DMA_MAJOR, 0), &dma_fops, NULL))
		pr_err("dma: cannot make /dev/dma");
	if (IS_ERR(pseudo_text_file(sysfs_root, "kernel/faultline/iommu", 0444, &iommu_ops, NULL)))
		pr_err("dma: cannot make /sys/kernel/faultline/iommu");
}
