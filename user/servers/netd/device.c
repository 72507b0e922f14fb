/* Descriptors of a PCI function as windows, DMA memory and interrupts; user/include/fl_pci.h is the other side. */
#define _GNU_SOURCE
#include "device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "user/include/fl_pci.h"

#define PAGE			4096ull
#define PCI_COMMAND		4
#define PCI_COMMAND_MEMORY	2u
#define PCI_COMMAND_MASTER	4u

void netd_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One NAME=VALUE of FL_PCI. */
static void take_word(struct device *d, const char *word)
{
	unsigned int vendor, device, n;
	int fd;

	if (sscanf(word, "slot=%15s", d->slot) == 1)
		return;
	if (sscanf(word, "id=%4x:%4x", &vendor, &device) == 2) {
		d->vendor = (uint16_t)vendor;
		d->device = (uint16_t)device;
	} else if (sscanf(word, "bar%u=%d", &n, &fd) == 2 && n < PCI_NR_BARS) {
		d->bar[n] = fd;
	} else if (sscanf(word, "config=%d", &fd) == 1) {
		d->config = fd;
	} else if (sscanf(word, "irq=%d", &fd) == 1) {
		d->irq = fd;
	} else if (sscanf(word, "dma=%d", &fd) == 1) {
		d->dma = fd;
	}
}

bool device_open(struct device *d)
{
	const char *given = getenv("FL_PCI");
	char copy[256], *word, *rest = copy;

	memset(d, 0, sizeof(*d));
	d->config = d->irq = d->dma = -1;
	for (int i = 0; i < PCI_NR_BARS; i++)
		d->bar[i] = -1;
	if (!given || strlen(given) >= sizeof(copy))
		return false;
	strcpy(copy, given);
	while ((word = strsep(&rest, " ")))
		take_word(d, word);
	if (d->config < 0 || d->irq < 0 || d->dma < 0)
		return false;
	fcntl(d->irq, F_SETFL, O_NONBLOCK);
	return true;
}

uint32_t device_config_read(const struct device *d, unsigned int offset, unsigned int size)
{
	uint32_t value = 0;

	return pread(d->config, &value, size, offset) == (ssize_t)size ? value : ~0u;
}

bool device_config_write(const struct device *d, unsigned int offset, unsigned int size, uint32_t value)
{
	return pwrite(d->config, &value, size, offset) == (ssize_t)size;
}

void device_enable(const struct device *d)
{
	device_config_write(d, PCI_COMMAND, 2, device_config_read(d, PCI_COMMAND, 2) | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
}

volatile void *device_map(const struct device *d, unsigned int bar, uint64_t offset, uint64_t size)
{
	uint64_t start = offset & ~(PAGE - 1), end = (offset + size + PAGE - 1) & ~(PAGE - 1);

	if (bar >= PCI_NR_BARS || d->bar[bar] < 0 || !size || end < start)
		return NULL;
	char *p = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_SHARED, d->bar[bar], (off_t)start);

	return p == MAP_FAILED ? NULL : p + (offset - start);
}

bool device_dma(const struct device *d, struct dma *out, size_t size)
{
	struct fl_dma_alloc a = { .size = size };

	if (ioctl(d->dma, FL_DMA_ALLOC, &a))
		return false;
	out->mem = mmap(NULL, a.size, PROT_READ | PROT_WRITE, MAP_SHARED, d->dma, (off_t)a.offset);
	out->bus = a.bus;
	out->size = a.size;
	return out->mem != MAP_FAILED;
}

bool device_irqs(const struct device *d, uint32_t vectors)
{
	return write(d->irq, &vectors, sizeof(vectors)) == sizeof(vectors);
}
