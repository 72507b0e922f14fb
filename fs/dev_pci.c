/*
 * /dev/pci/BB:DD.F/{config,barN,irq}: one PCI function as files, for a driver in ring 3. user/include/fl_pci.h says what each
 * file takes.
 *
 * The right to a device is possession of its descriptors. Opening one takes CAP_SYS_RAWIO (EPERM without, whatever the mode of
 * the node says: rights that travel by chmod would be a second way in) and finds each file free or busy (EBUSY). After that
 * nobody asks who uses it: a launcher opens the files, gives up its rights and executes the driver (user/servers/driver_run.c).
 *
 * The function is held while any of its files is open or mapped. When the last one goes, by close or by the death of the
 * driver, it is stopped and reset (pci_quiesce()), and only then is its DMA memory free (fs/dev_dma.c).
 */
#include "fs/device_files.h"
#include "fs/internal.h"
#include "kernel/iommu.h"
#include "kernel/pci.h"
#include "kernel/printk.h"
#include "mm/pfnmap.h"
#include "mm/pgtable.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define DEV_PCI_MAJOR	240u		/* of those that Linux leaves for local use */

/* The files of a function: nodes 0 to 5 are its windows. */
#define NODE_CONFIG	6u
#define NODE_IRQ	7u
#define NR_NODES	8u

struct pci_node {
	struct pci_function	*fn;
	unsigned int		 number;
};

static const struct file_ops config_fops, bar_memory_fops, bar_port_fops, irq_fops;

/* -- holding a function -------------------------------------------------------------------------------------------------- */

static int node_open(struct inode *inode, struct file *f)
{
	struct pci_node *node = f->private;
	struct pci_function *fn = node->fn;
	int err = -EBUSY;

	(void)inode;
	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	mutex_lock(&fn->mutex);
	if (!(fn->open_nodes & (u32)BIT(node->number)))
		err = iommu_hold(fn);
	if (!err) {
		fn->open_nodes |= (u32)BIT(node->number);
		fn->open_files++;
	}
	mutex_unlock(&fn->mutex);
	return err;
}

/* The last descriptor and the last mapping of this file are gone. */
static void node_release(struct file *f)
{
	struct pci_node *node = f->private;
	struct pci_function *fn = node->fn;

	mutex_lock(&fn->mutex);
	if (node->number == NODE_IRQ)
		pci_irq_enable(fn, 0);
	fn->open_nodes &= ~(u32)BIT(node->number);
	if (!--fn->open_files) {
		pci_quiesce(fn);
		dma_free_closed(fn);
	}
	mutex_unlock(&fn->mutex);
}

/* Registers take 1, 2 or 4 bytes at their own alignment, all of it inside [0, @size). */
static bool register_ok(loff_t pos, size_t n, u64 size)
{
	return (n == 1 || n == 2 || n == 4) && pos >= 0 && (u64)pos + n <= size && IS_ALIGNED((u64)pos, n);
}

/* -- config -------------------------------------------------------------------------------------------------------------- */

/* Reading has no side effects, so any range will do: it is made of the largest aligned pieces. */
static ssize_t config_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct pci_function *fn = ((struct pci_node *)f->private)->fn;
	u32 size = pci_config_size(fn), at = (u32)min((u64)*pos, (u64)size);
	ssize_t done = 0;

	if (*pos < 0)
		return -EINVAL;
	while (to->count && at < size) {
		unsigned int n = at % 4 == 0 && to->count >= 4 ? 4 : at % 2 == 0 && to->count >= 2 ? 2 : 1;
		u32 value = pci_read(fn, at, n);

		if (copy_to_iter(&value, n, to) != n)
			return done ? done : -EFAULT;
		at += n;
		done += n;
	}
	*pos += done;
	return done;
}

static ssize_t config_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	struct pci_function *fn = ((struct pci_node *)f->private)->fn;
	size_t n = from->count;
	u32 value = 0;

	if (!register_ok(*pos, n, pci_config_size(fn)))
		return -EINVAL;
	if (copy_from_iter(&value, n, from) != n)
		return -EFAULT;
	mutex_lock(&fn->mutex);
	int err = pci_write_checked(fn, (u32)*pos, (unsigned int)n, value);
	mutex_unlock(&fn->mutex);
	if (err)
		return err;
	*pos += (loff_t)n;
	return (ssize_t)n;
}

/* Its size is known to nobody else: SEEK_END has no meaning here. */
static loff_t register_llseek(struct file *f, loff_t off, int whence)
{
	loff_t to = whence == 0 ? off : whence == 1 ? f->pos + off : -1;

	if (whence > 1 || to < 0)
		return -EINVAL;
	return f->pos = to;
}

struct pci_function *pci_function_of_config(const struct file *f)
{
	return f->ops == &config_fops && (f->mode & FMODE_WRITE) ? ((struct pci_node *)f->private)->fn : NULL;
}

/* -- windows ------------------------------------------------------------------------------------------------------------- */

static struct pci_bar *bar_of(const struct pci_node *node)
{
	return &node->fn->bars[node->number];
}

static vm_fault_t bar_fault(struct vm_fault *vmf)
{
	struct pci_bar *bar = bar_of(vmf->vma->file->private);

	return vmf_insert_pfn(vmf, (bar->start >> PAGE_SHIFT) + vmf->pgoff, PTE_TYPE_UC);
}

static const struct vma_ops bar_vma_ops = { .fault = bar_fault };

/* Whole pages of this window only, and never those with the interrupt messages. */
static int bar_mmap(struct file *f, struct vma *vma)
{
	struct pci_node *node = f->private;
	struct pci_function *fn = node->fn;
	struct pci_bar *bar = bar_of(node);
	u64 first = vma->pgoff, pages = vma_pages(vma), all = bar->size >> PAGE_SHIFT;

	if (!IS_ALIGNED(bar->start, PAGE_SIZE) || first > all || pages > all - first)
		return -EINVAL;
	u64 start = first << PAGE_SHIFT, end = start + (pages << PAGE_SHIFT);

	if (fn->cap_msix && fn->msix_bar == node->number && start < fn->msix_offset + fn->msix_size && end > fn->msix_offset)
		return -EPERM;
	return pfnmap_prepare(vma, &bar_vma_ops);
}

static ssize_t port_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct pci_bar *bar = bar_of(f->private);
	size_t n = to->count;

	if (!register_ok(*pos, n, bar->size))
		return -EINVAL;
	u32 value = pci_io_read((u16)(bar->start + (u64)*pos), (unsigned int)n);

	if (copy_to_iter(&value, n, to) != n)
		return -EFAULT;
	*pos += (loff_t)n;
	return (ssize_t)n;
}

static ssize_t port_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	struct pci_bar *bar = bar_of(f->private);
	size_t n = from->count;
	u32 value = 0;

	if (!register_ok(*pos, n, bar->size))
		return -EINVAL;
	if (copy_from_iter(&value, n, from) != n)
		return -EFAULT;
	pci_io_write((u16)(bar->start + (u64)*pos), (unsigned int)n, value);
	*pos += (loff_t)n;
	return (ssize_t)n;
}

/* -- interrupts ---------------------------------------------------------------------------------------------------------- */

static ssize_t irq_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct pci_function *fn = ((struct pci_node *)f->private)->fn;
	u64 fired;

	(void)pos;
	if (to->count < sizeof(fired))
		return -EINVAL;
	while (!(fired = pci_irq_take(fn))) {
		if (READ_ONCE(f->flags) & O_NONBLOCK)
			return -EAGAIN;
		int err = wait_event_interruptible(&fn->irq.wait, READ_ONCE(fn->irq.pending));

		if (err)
			return err;
	}
	return copy_to_iter(&fired, sizeof(fired), to) == sizeof(fired) ? (ssize_t)sizeof(fired) : -EFAULT;
}

static ssize_t irq_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	struct pci_function *fn = ((struct pci_node *)f->private)->fn;
	u32 vectors;

	(void)pos;
	if (from->count != sizeof(vectors))
		return -EINVAL;
	if (copy_from_iter(&vectors, sizeof(vectors), from) != sizeof(vectors))
		return -EFAULT;
	mutex_lock(&fn->mutex);
	int err = pci_irq_enable(fn, vectors);
	mutex_unlock(&fn->mutex);
	return err ? err : (ssize_t)sizeof(vectors);
}

static u32 irq_poll(struct file *f, struct poll_table *pt)
{
	struct pci_function *fn = ((struct pci_node *)f->private)->fn;

	poll_wait(f, &fn->irq.wait, pt);
	return READ_ONCE(fn->irq.pending) ? POLLIN | POLLRDNORM : 0;
}

static const struct file_ops config_fops = {
	.read = config_read, .write = config_write, .llseek = register_llseek, .open = node_open, .release = node_release,
};
static const struct file_ops bar_memory_fops = { .mmap = bar_mmap, .open = node_open, .release = node_release };
static const struct file_ops bar_port_fops = {
	.read = port_read, .write = port_write, .llseek = register_llseek, .open = node_open, .release = node_release,
};
static const struct file_ops irq_fops = {
	.read = irq_read, .write = irq_write, .poll = irq_poll, .open = node_open, .release = node_release,
};

/* -- making the files ---------------------------------------------------------------------------------------------------- */

static void make_node(struct pci_function *fn, unsigned int index, unsigned int number, const char *name, const struct file_ops *fops)
{
	struct pci_node *node = kzalloc(sizeof(*node), GFP_KERNEL);
	char path[40];

	snprintf(path, sizeof(path), "pci/%02x:%02x.%u/%s", fn->bus, fn->device, fn->function, name);
	if (node) {
		*node = (struct pci_node){ .fn = fn, .number = number };
		if (!dev_register(path, 0666, MKDEV(DEV_PCI_MAJOR, index * NR_NODES + number), fops, node))
			return;
	}
	pr_err("pci: cannot make /dev/%s", path);
	kfree(node);
}

/* What lspci and launchers read: who it is, without opening (and so holding) anything. */
static ssize_t show_uevent(void *arg, char *buf, size_t size)
{
	struct pci_function *fn = arg;

	return scnprintf(buf, size, "PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SLOT_NAME=0000:%02x:%02x.%u\n", fn->class_revision >> 8,
			 fn->vendor_id, fn->device_id, fn->bus, fn->device, fn->function);
}
static ssize_t show_vendor(void *arg, char *buf, size_t size) { return scnprintf(buf, size, "0x%04x\n", ((struct pci_function *)arg)->vendor_id); }
static ssize_t show_device(void *arg, char *buf, size_t size) { return scnprintf(buf, size, "0x%04x\n", ((struct pci_function *)arg)->device_id); }
static ssize_t show_class(void *arg, char *buf, size_t size) { return scnprintf(buf, size, "0x%06x\n", ((struct pci_function *)arg)->class_revision >> 8); }

static const struct { const char *name; struct text_file_ops ops; } attributes[] = {
	{ "uevent", { show_uevent, NULL } }, { "vendor", { show_vendor, NULL } }, { "device", { show_device, NULL } },
	{ "class", { show_class, NULL } },
};

static void make_attributes(struct pci_function *fn)
{
	char path[64];

	for (unsigned int i = 0; i < ARRAY_SIZE(attributes); i++) {
		snprintf(path, sizeof(path), "bus/pci/devices/0000:%02x:%02x.%u/%s", fn->bus, fn->device, fn->function, attributes[i].name);
		if (IS_ERR(pseudo_text_file(sysfs_root, path, 0444, &attributes[i].ops, fn)))
			pr_err("pci: cannot make /sys/%s", path);
	}
}

void dev_pci_init(void)
{
	struct pci_function *fn;
	unsigned int index = 0;
	char name[8];

	for_each_pci_function(fn) {
		make_attributes(fn);
		if (fn->is_bridge || fn->kernel_uses)
			continue;
		make_node(fn, index, NODE_CONFIG, "config", &config_fops);
		make_node(fn, index, NODE_IRQ, "irq", &irq_fops);
		for (unsigned int n = 0; n < PCI_NR_BARS; n++) {
			snprintf(name, sizeof(name), "bar%u", n);
			if (fn->bars[n].size)
				make_node(fn, index, n, name, fn->bars[n].io ? &bar_port_fops : &bar_memory_fops);
		}
		index++;
	}
}
