/*
 * A hostile driver: it holds QEMU's teaching device "edu" as any driver does, and has it read and write memory that it was not given.
 * Shared by two tests: with an IOMMU nothing may come of it, and without one it must work, or the first test would prove nothing.
 */
#ifndef IOMMU_TEST_H
#define IOMMU_TEST_H

#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/wait.h>

#include "edu.h"
#include "mm_test.h"
#include "user/include/fl_pci.h"

#define VICTIM_ID	"PCI_CLASS=10601\n"	/* the disk controller of every q35: it has a driver of its own here, us */
#define SECRET		0x5ec2e75ec2e75ec2ul
#define GIVEN		0x1111111111111111ul

struct driver {
	char			 slot[16];
	int			 config, dma;
	volatile unsigned int	*reg;		/* edu's window */
	unsigned long		*mem;		/* a piece of two pages, and its address */
	unsigned long long	 bus;
};

/* The first function whose uevent has @text. */
static void find_slot(const char *text, char slot[16])
{
	DIR *d = opendir("/sys/bus/pci/devices");
	struct dirent *e;
	char path[320];

	MUST(d);
	slot[0] = 0;
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/uevent", e->d_name);
		if (e->d_name[0] != '.' && strstr(read_text(path), text))
			snprintf(slot, 16, "%.12s", e->d_name + 5);
	}
	closedir(d);
	MUST(slot[0]);
}

static int open_node(const struct driver *d, const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/pci/%s/%s", d->slot, name);
	fd = open(path, O_RDWR);
	MUST(fd >= 0);
	return fd;
}

static unsigned long *dma_piece(int dma, unsigned long long *bus)
{
	struct fl_dma_alloc a = { .size = 2 * PAGE };

	MUST(ioctl(dma, FL_DMA_ALLOC, &a) == 0);
	*bus = a.bus;
	unsigned long *p = mmap(NULL, a.size, RW, MAP_SHARED, dma, (off_t)a.offset);

	MUST(p != MAP_FAILED);
	return p;
}

/* Holds the device that @text describes; for edu its window too. */
static struct driver take_device(const char *text, bool window)
{
	struct driver d = { .dma = open("/dev/dma", O_RDWR) };
	unsigned short command = 6;		/* memory, bus master */

	find_slot(text, d.slot);
	d.config = open_node(&d, "config");
	MUST(pwrite(d.config, &command, 2, 4) == 2);
	MUST(d.dma >= 0 && ioctl(d.dma, FL_DMA_BIND, d.config) == 0);
	d.mem = dma_piece(d.dma, &d.bus);
	if (window) {
		int bar = open_node(&d, "bar0");

		d.reg = mmap(NULL, PAGE, RW, MAP_SHARED, bar, 0);
		MUST(d.reg != MAP_FAILED);
		close(bar);
	}
	return d;
}

static void let_go(struct driver *d)
{
	if (d->reg)
		munmap((void *)d->reg, PAGE);
	munmap(d->mem, 2 * PAGE);
	close(d->dma);
	close(d->config);
}

static void transfer(struct driver *d, unsigned long from, unsigned long to, unsigned int command)
{
	*(volatile unsigned long *)(d->reg + EDU_DMA_SRC / 4) = from;
	*(volatile unsigned long *)(d->reg + EDU_DMA_DST / 4) = to;
	*(volatile unsigned long *)(d->reg + EDU_DMA_COUNT / 4) = DMA_SIZE;
	*(volatile unsigned long *)(d->reg + EDU_DMA_CMD / 4) = EDU_DMA_START | command;
	while (d->reg[EDU_DMA_CMD / 4] & EDU_DMA_START)
		usleep(1000);
}

static void read_memory(struct driver *d, unsigned long from) { transfer(d, from, EDU_DMA_BUFFER, 0); }
static void write_memory(struct driver *d, unsigned long to) { transfer(d, EDU_DMA_BUFFER, to, EDU_DMA_TO_RAM); }

static void fill(unsigned long *p, unsigned long with)
{
	for (size_t i = 0; i < DMA_SIZE / 8; i++)
		p[i] = with;
}

static size_t count(const unsigned long *p, unsigned long what)
{
	size_t n = 0;

	for (size_t i = 0; i < DMA_SIZE / 8; i++)
		n += ((const volatile unsigned long *)p)[i] == what;
	return n;
}

static const char *iommu_file(void) { return read_text("/sys/kernel/faultline/iommu"); }

static long iommu_number(const char *name)
{
	char *at = strstr(iommu_file(), name);

	MUST(at);
	return atol(at + strlen(name));
}

/* What the driver was given works, in both directions. */
static void honest_transfers(struct driver *d)
{
	fill(d->mem, GIVEN);
	memset((char *)d->mem + PAGE, 0, PAGE);
	read_memory(d, d->bus);
	write_memory(d, d->bus + PAGE);
	CHECK_EQUAL(DMA_SIZE / 8, count(d->mem + PAGE / 8, GIVEN));
}

/* Words of @victim that the device got to see. */
static size_t attack_reading(struct driver *d, unsigned long *victim, unsigned long long bus)
{
	fill(victim, SECRET);
	read_memory(d, bus);
	write_memory(d, d->bus + PAGE);
	return count(d->mem + PAGE / 8, SECRET);
}

/* And that it changed. */
static size_t attack_writing(struct driver *d, unsigned long *victim, unsigned long long bus)
{
	fill(victim, SECRET);
	fill(d->mem, GIVEN);
	read_memory(d, d->bus);
	write_memory(d, bus);
	return DMA_SIZE / 8 - count(victim, SECRET);
}

#endif
