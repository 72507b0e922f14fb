/*
 * The device that the launcher handed over (user/servers/driver_run.c): its descriptors by the environment variable FL_PCI,
 *
 *	slot=00:02.0 id=1af4:1041 config=4 irq=5 dma=6 bar1=7 bar4=8
 *
 * and what a driver does with them.
 */
#ifndef NETD_DEVICE_H
#define NETD_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCI_NR_BARS	6

struct device {
	char		slot[16];
	uint16_t	vendor, device;
	int		config, irq, dma;
	int		bar[PCI_NR_BARS];		/* descriptors, -1: there is none */
};

/* Memory that the device may use too. */
struct dma {
	void		*mem;
	uint64_t	 bus;
	size_t		 size;
};

/* False: no device was handed over. */
bool device_open(struct device *d);
uint32_t device_config_read(const struct device *d, unsigned int offset, unsigned int size);
bool device_config_write(const struct device *d, unsigned int offset, unsigned int size, uint32_t value);
void device_enable(const struct device *d);			/* memory windows and bus mastering on */
/* Part of a memory window; NULL: cannot be mapped. Never unmapped. */
volatile void *device_map(const struct device *d, unsigned int bar, uint64_t offset, uint64_t size);
bool device_dma(const struct device *d, struct dma *out, size_t size);	/* zeroed, contiguous */
bool device_irqs(const struct device *d, uint32_t vectors);	/* the irq file becomes readable when one fires */

/* Device memory is accessed in the order of the program (x86, uncached); the compiler must keep it too. */
#define device_barrier()	__atomic_thread_fence(__ATOMIC_SEQ_CST)

#endif
