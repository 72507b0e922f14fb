/*
 * Devices as files, as the kernel and ring-3 drivers see them. docs/drivers.md tells the rest.
 *
 *	/dev/pci/BB:DD.F/config		pread, pwrite of 1, 2 or 4 bytes, aligned: configuration space
 *	/dev/pci/BB:DD.F/barN		memory: mmap, uncached; ports: pread, pwrite of 1, 2 or 4 bytes, aligned
 *	/dev/pci/BB:DD.F/irq		write a 32-bit number: that many vectors on; read 8 bytes: which fired, a bit for each
 *	/dev/dma			memory for one device, as long as that may write to it
 */
#ifndef FL_PCI_H
#define FL_PCI_H

/* ioctl of /dev/dma: the device that the memory will be for. Argument: an open "config". Once, before FL_DMA_ALLOC. */
#define FL_DMA_BIND	0x4604	/* _IO('F', 4) */
/* ioctl of /dev/dma: more memory, contiguous and zeroed. mmap it at .offset. */
#define FL_DMA_ALLOC	0xc0184605	/* _IOWR('F', 5, struct fl_dma_alloc) */

struct fl_dma_alloc {
	unsigned long long	size;	/* in: bytes, at most FL_DMA_MAX; out: rounded up to what was given */
	unsigned long long	bus;	/* out: the address for the device */
	unsigned long long	offset;	/* out: for mmap */
};

#define FL_DMA_MAX	(4ull << 20)	/* one piece */
#define FL_DMA_TOTAL	(64ull << 20)	/* all pieces of one descriptor */

#endif
