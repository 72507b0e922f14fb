/*
 * A driver in ring 3 gives its device addresses that it was not given: memory of another driver, of this process, of the kernel. With an
 * IOMMU nothing is read and nothing is written, each attempt is counted and the first ones are logged with the name of the device. What was
 * given works, and stops working when it is given back. iommu_off_means_trust.c shows that the attacks are real.
 *
 * only: faultline
 * device: intel-iommu,intremap=off edu,dma_mask=0xffffffffffffffff
 * timeout: 120
 */
#include "iommu_test.h"

/* The physical address of a page of ours. */
static unsigned long long address_of(void *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	unsigned long long entry = 0;

	MUST(fd >= 0 && pread(fd, &entry, 8, (off_t)((uintptr_t)p / PAGE * 8)) == 8);
	close(fd);
	MUST(entry >> 63);
	return (entry & ((1ull << 55) - 1)) * PAGE;
}

static bool log_says(const char *text)
{
	static char log[1 << 18];
	int n = klogctl(3, log, sizeof(log) - 1);

	MUST(n > 0);
	log[n] = 0;
	return strstr(log, text);
}

/* Told by an interrupt, which another CPU may be taking just now. */
static void wait_for_fault(long before)
{
	for (int i = 0; i < 20000 && iommu_number("faults ") <= before; i++)
		usleep(1000);
	CHECK(iommu_number("faults ") > before);
}

static void refused_write(struct driver *d, unsigned long to)
{
	long before = iommu_number("faults ");

	write_memory(d, to);
	wait_for_fault(before);
}

static void refused(struct driver *d, unsigned long *victim, unsigned long long bus)
{
	long before = iommu_number("faults ");

	CHECK_EQUAL(0, attack_reading(d, victim, bus));
	wait_for_fault(before);
	before = iommu_number("faults ");
	CHECK_EQUAL(0, attack_writing(d, victim, bus));
	wait_for_fault(before);
}

static void hostile(void)
{
	struct driver edu = take_device(EDU_ID, true), other = take_device(VICTIM_ID, false);
	unsigned long *mine = mmap(NULL, 2 * PAGE, RW, ANON | MAP_POPULATE, -1, 0);
	char line[64];

	MUST(mine != MAP_FAILED);
	CHECK_EQUAL(0, iommu_number("faults "));
	honest_transfers(&edu);
	CHECK_EQUAL(0, iommu_number("faults "));

	refused(&edu, other.mem, other.bus);
	refused(&edu, mine, address_of(mine));
	refused_write(&edu, 0x1000000);				/* the kernel's image: we would not be here */
	refused_write(&edu, 0x123456789000);			/* beyond everything */
	refused_write(&edu, edu.bus + 2 * PAGE - 1024);		/* half of it is ours */

	snprintf(line, sizeof(line), "pci %s: read at %012llx refused", edu.slot, other.bus);
	CHECK(log_says(line));
	snprintf(line, sizeof(line), "pci %s: write at %012llx refused", edu.slot, other.bus);
	CHECK(log_says(line));
	honest_transfers(&edu);					/* being caught is no punishment */
	munmap(mine, 2 * PAGE);
	let_go(&other);
	let_go(&edu);
}

/* A later driver does not reach what an earlier one had, whether that is free or still held by somebody. */
static void given_back(void)
{
	struct driver first = take_device(EDU_ID, true);
	unsigned long long free_page = first.bus, held_page;
	unsigned long *held = dma_piece(first.dma, &held_page);
	int stale = dup(first.dma);
	struct fl_dma_alloc a = { .size = PAGE };

	honest_transfers(&first);
	let_go(&first);
	CHECK_ERRNO(ENXIO, ioctl(stale, FL_DMA_ALLOC, &a));	/* the function it was for is not held any more */

	struct driver second = take_device(EDU_ID, true);

	CHECK(second.bus != held_page && second.bus != free_page);	/* the pool lives, and with it both pieces */
	refused(&second, held, held_page);
	refused_write(&second, free_page);
	honest_transfers(&second);
	munmap(held, 2 * PAGE);
	close(stale);
	let_go(&second);
	CHECK(!strstr(iommu_file(), "domain"));			/* nobody reaches anything */
}

/* A device without pause: it is not listened to for ever, and starts anew with its next driver. */
static void stubborn(void)
{
	struct driver edu = take_device(EDU_ID, true);

	for (int i = 0; i < 200 && !log_says("not listening"); i++)
		write_memory(&edu, 0x1000000);
	CHECK(log_says("not listening"));
	honest_transfers(&edu);			/* the interrupt that said so is over */
	long after = iommu_number("faults ");

	write_memory(&edu, 0x1000000);
	CHECK_EQUAL(after, iommu_number("faults "));
	honest_transfers(&edu);
	let_go(&edu);
	edu = take_device(EDU_ID, true);
	refused_write(&edu, 0x1000000);
	honest_transfers(&edu);
	let_go(&edu);
}

int main(void)
{
	CHECK_EQUAL(1, iommu_number("units "));
	hostile();
	given_back();
	stubborn();
	test_end();
}
