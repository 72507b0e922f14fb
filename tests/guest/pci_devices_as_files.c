/*
 * /dev/pci and /dev/dma, with QEMU's teaching device "edu" behind them (1234:11e8; docs/specs/edu of QEMU): who may open what,
 * registers, an interrupt, a DMA transfer, and what is left when a driver dies in the middle of one.
 *
 * only: faultline
 * device: edu,dma_mask=0xffffffffffffffff
 * timeout: 120
 */
#include <dirent.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>

#include "edu.h"
#include "mm_test.h"
#include "user/include/fl_pci.h"

#define EDU_IDENT	0x00		/* 0xRRrr00ed */
#define EDU_LIVE	0x04		/* reads as the complement of what was written */
#define EDU_RAISE	0x60
#define EDU_ACK		0x64
#define PATTERN		0xfeedfacecafef00dull

#define CMD_MEMORY	2u
#define CMD_MASTER	4u

static char slot[16];

static char *node(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "/dev/pci/%s/%s", slot, name);
	return path;
}

static void find_edu(void)
{
	DIR *d = opendir("/sys/bus/pci/devices");
	struct dirent *e;
	char path[320];

	MUST(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/uevent", e->d_name);
		if (e->d_name[0] != '.' && strstr(read_text(path), EDU_ID))
			snprintf(slot, sizeof(slot), "%.12s", e->d_name + 5);
	}
	closedir(d);
	MUST(slot[0]);
}

static unsigned int get_config(int fd, off_t at, size_t n)
{
	unsigned int v = 0;

	MUST(pread(fd, &v, n, at) == (ssize_t)n);
	return v;
}

static void set_command(int fd, unsigned short bits)
{
	MUST(pwrite(fd, &bits, 2, 4) == 2);
}

static void as_nobody(void *unused)
{
	(void)unused;
	MUST(setresuid(65534, 65534, 65534) == 0);
	CHECK_ERRNO(EPERM, open(node("config"), O_RDWR));
	CHECK_ERRNO(EPERM, open(node("bar0"), O_RDWR));
	CHECK_ERRNO(EPERM, open(node("irq"), O_RDWR));
	CHECK_ERRNO(EPERM, open("/dev/dma", O_RDWR));
	test_end();
}

static void rights(void)
{
	CHECK_EQUAL(0, in_child(as_nobody, NULL));

	/* Each file once; the others are not held by it. */
	int config = open(node("config"), O_RDWR), again;

	MUST(config >= 0);
	CHECK_ERRNO(EBUSY, open(node("config"), O_RDONLY));
	again = open(node("irq"), O_RDWR);
	CHECK(again >= 0);
	CHECK_ERRNO(EBUSY, open(node("irq"), O_RDWR));
	close(again);
	close(config);
	config = open(node("config"), O_RDWR);
	CHECK(config >= 0);
	close(config);
}

static void configuration(void)
{
	int fd = open(node("config"), O_RDWR);
	unsigned char whole[8192];
	unsigned int v = 0xffffffff, at;

	MUST(fd >= 0);
	CHECK_EQUAL(0x11e81234, get_config(fd, 0, 4));
	CHECK_EQUAL(0x11e8, get_config(fd, 2, 2));
	CHECK_EQUAL(0x12, get_config(fd, 1, 1));
	ssize_t n = pread(fd, whole, sizeof(whole), 0);
	CHECK(n == 256 || n == 4096);
	CHECK_EQUAL(0x34, whole[0]);
	CHECK_EQUAL(0, pread(fd, &v, 4, n));
	CHECK_EQUAL(2, pread(fd, &v, 4, n - 2));

	/* Windows, interrupt messages and identity are not the driver's. */
	v = 0xffffffff;
	CHECK_ERRNO(EPERM, pwrite(fd, &v, 4, 0x10));
	CHECK_ERRNO(EPERM, pwrite(fd, &v, 4, 0x30));
	CHECK_ERRNO(EPERM, pwrite(fd, &v, 4, 0x00));
	CHECK_ERRNO(EPERM, pwrite(fd, &v, 4, 0x04));
	for (at = get_config(fd, 0x34, 1); at && get_config(fd, at, 1) != 5; at = get_config(fd, at + 1, 1))
		;
	MUST(at);
	CHECK_ERRNO(EPERM, pwrite(fd, &v, 2, at + 2));
	CHECK_ERRNO(EPERM, pwrite(fd, &v, 4, at + 4));
	CHECK_ERRNO(EINVAL, pwrite(fd, &v, 2, 5));
	CHECK_ERRNO(EINVAL, pwrite(fd, &v, 3, 4));
	CHECK_ERRNO(EINVAL, pwrite(fd, &v, 4, n));
	CHECK_ERRNO(EFAULT, pwrite(fd, (void *)1, 2, 4));
	set_command(fd, CMD_MEMORY | CMD_MASTER);
	CHECK_EQUAL(CMD_MEMORY | CMD_MASTER, get_config(fd, 4, 2) & 7);
	close(fd);
}

static volatile unsigned int *map_bar(int *config)
{
	int bar = open(node("bar0"), O_RDWR);

	*config = open(node("config"), O_RDWR);
	MUST(*config >= 0 && bar >= 0);
	set_command(*config, CMD_MEMORY | CMD_MASTER);
	volatile unsigned int *reg = mmap(NULL, 1 << 20, RW, MAP_SHARED, bar, 0);

	MUST(reg != MAP_FAILED);
	close(bar);		/* the mapping holds it */
	return reg;
}

static void touch_window(void *p)
{
	(void)*(volatile unsigned int *)p;
	_exit(0);
}

static void window(void)
{
	int config, bar = open(node("bar0"), O_RDWR), ro;

	MUST(bar >= 0);
	CHECK_ERRNO(EINVAL, (long)mmap(NULL, PAGE, RW, MAP_PRIVATE, bar, 0));
	CHECK_ERRNO(EINVAL, (long)mmap(NULL, PAGE, RW | PROT_EXEC, MAP_SHARED, bar, 0));
	CHECK_ERRNO(EINVAL, (long)mmap(NULL, PAGE, RW, MAP_SHARED, bar, 1 << 20));
	CHECK_ERRNO(EINVAL, (long)mmap(NULL, (1 << 20) + PAGE, RW, MAP_SHARED, bar, 0));
	close(bar);
	ro = open(node("bar0"), O_RDONLY);
	MUST(ro >= 0);
	CHECK_ERRNO(EACCES, (long)mmap(NULL, PAGE, RW, MAP_SHARED, ro, 0));
	close(ro);

	volatile unsigned int *reg = map_bar(&config);

	CHECK_EQUAL(0xed, reg[EDU_IDENT / 4] & 0xffff);
	reg[EDU_LIVE / 4] = 0x12345678;
	CHECK_EQUAL(~0x12345678u, reg[EDU_LIVE / 4]);
	CHECK_ERRNO(EBUSY, open(node("bar0"), O_RDWR));
	CHECK_ERRNO(EACCES, mprotect((void *)reg, PAGE, RW | PROT_EXEC));
	CHECK_EQUAL(0, mprotect((void *)reg, PAGE, PROT_READ));
	CHECK_EQUAL(0, mprotect((void *)reg, PAGE, RW));
	reg[EDU_LIVE / 4] = 1;
	CHECK_EQUAL(~1u, reg[EDU_LIVE / 4]);
	/* A child has no part in it. */
	int status = in_child(touch_window, (void *)reg);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	munmap((void *)reg, 1 << 20);
	close(config);
}

static void interrupt(void)
{
	int config, irq = open(node("irq"), O_RDWR | O_NONBLOCK);
	volatile unsigned int *reg = map_bar(&config);
	struct pollfd p = { .fd = irq, .events = POLLIN };
	unsigned long long fired = 0;
	unsigned int n = 1;

	MUST(irq >= 0);
	CHECK_ERRNO(EAGAIN, read(irq, &fired, 8));
	CHECK_ERRNO(EINVAL, read(irq, &fired, 4));
	n = 2;
	CHECK_ERRNO(EINVAL, write(irq, &n, 4));		/* it has one plain MSI */
	CHECK_ERRNO(EINVAL, write(irq, &n, 8));
	n = 1;
	CHECK_EQUAL(4, write(irq, &n, 4));
	CHECK_EQUAL(0, poll(&p, 1, 0));
	for (int round = 0; round < 20; round++) {
		reg[EDU_RAISE / 4] = 1;
		CHECK_EQUAL(1, poll(&p, 1, 5000));
		CHECK_EQUAL(POLLIN, p.revents);
		CHECK_EQUAL(8, read(irq, &fired, 8));
		CHECK_EQUAL(1, fired);
		CHECK_ERRNO(EAGAIN, read(irq, &fired, 8));
		reg[EDU_ACK / 4] = 1;
	}
	/* A blocked reader is woken. */
	pid_t pid = fork();

	if (!pid) {
		usleep(100 * 1000);
		_exit(0);		/* the window is not inherited, so the parent raises */
	}
	fcntl(irq, F_SETFL, 0);
	reg[EDU_RAISE / 4] = 1;
	CHECK_EQUAL(8, read(irq, &fired, 8));
	reg[EDU_ACK / 4] = 1;
	CHECK_EQUAL(pid, waitpid(pid, NULL, 0));
	/* Off: nothing comes any more. */
	n = 0;
	CHECK_EQUAL(4, write(irq, &n, 4));
	reg[EDU_RAISE / 4] = 1;
	CHECK_EQUAL(0, poll(&p, 1, 100));
	reg[EDU_ACK / 4] = 1;
	munmap((void *)reg, 1 << 20);
	close(irq);
	close(config);
}

/* A mapped piece of DMA memory. */
static void *dma_piece(int dma, size_t size, unsigned long long *bus)
{
	struct fl_dma_alloc a = { .size = size };

	MUST(ioctl(dma, FL_DMA_ALLOC, &a) == 0);
	CHECK_EQUAL(0, a.bus % PAGE);
	*bus = a.bus;
	void *p = mmap(NULL, a.size, RW, MAP_SHARED, dma, (off_t)a.offset);

	MUST(p != MAP_FAILED);
	return p;
}

static void start_dma(volatile unsigned int *reg, unsigned long from, unsigned long to, unsigned long n, unsigned int command)
{
	*(volatile unsigned long *)(reg + EDU_DMA_SRC / 4) = from;
	*(volatile unsigned long *)(reg + EDU_DMA_DST / 4) = to;
	*(volatile unsigned long *)(reg + EDU_DMA_COUNT / 4) = n;
	*(volatile unsigned long *)(reg + EDU_DMA_CMD / 4) = EDU_DMA_START | command;
}

static void finish_dma(volatile unsigned int *reg)
{
	for (int i = 0; i < 1000 && (reg[EDU_DMA_CMD / 4] & EDU_DMA_START); i++)
		usleep(10000);
	CHECK(!(reg[EDU_DMA_CMD / 4] & EDU_DMA_START));
}

static void dma_calls(void)
{
	int config = open(node("config"), O_RDWR), dma = open("/dev/dma", O_RDWR), null = open("/dev/null", O_RDWR);
	struct fl_dma_alloc a = { .size = PAGE };

	MUST(config >= 0 && dma >= 0);
	CHECK_ERRNO(ENXIO, ioctl(dma, FL_DMA_ALLOC, &a));
	CHECK_ERRNO(EBADF, ioctl(dma, FL_DMA_BIND, -1));
	CHECK_ERRNO(EINVAL, ioctl(dma, FL_DMA_BIND, null));
	CHECK_ERRNO(ENOTTY, ioctl(dma, 0x4699, 0));
	CHECK_EQUAL(0, ioctl(dma, FL_DMA_BIND, config));
	CHECK_ERRNO(EBUSY, ioctl(dma, FL_DMA_BIND, config));
	a.size = 0;
	CHECK_ERRNO(EINVAL, ioctl(dma, FL_DMA_ALLOC, &a));
	a.size = FL_DMA_MAX + 1;
	CHECK_ERRNO(EINVAL, ioctl(dma, FL_DMA_ALLOC, &a));
	CHECK_ERRNO(EFAULT, ioctl(dma, FL_DMA_ALLOC, (void *)8));
	CHECK_ERRNO(EINVAL, (long)mmap(NULL, PAGE, RW, MAP_SHARED, dma, 0));
	a.size = 5000;
	CHECK_EQUAL(0, ioctl(dma, FL_DMA_ALLOC, &a));
	CHECK_EQUAL(8192, a.size);
	CHECK_ERRNO(EINVAL, (long)mmap(NULL, 3 * PAGE, RW, MAP_SHARED, dma, (off_t)a.offset));
	CHECK_ERRNO(EINVAL, (long)mmap(NULL, PAGE, RW, MAP_PRIVATE, dma, (off_t)a.offset));

	/* The kernel copies to and from it as with any memory. */
	unsigned long long bus;
	char *p = dma_piece(dma, 3 * PAGE, &bus);
	int pipe_fd[2];

	MUST(pipe(pipe_fd) == 0);
	memcpy(p + PAGE - 3, "across", 6);
	CHECK_EQUAL(6, write(pipe_fd[1], p + PAGE - 3, 6));
	CHECK_EQUAL(6, read(pipe_fd[0], p + 2 * PAGE - 3, 6));
	CHECK(memcmp(p + 2 * PAGE - 3, "across", 6) == 0);

	/* There is an end to it. */
	int pieces = 0;
	a.size = FL_DMA_MAX;
	while (pieces < 100 && ioctl(dma, FL_DMA_ALLOC, &a) == 0)
		pieces++;
	CHECK(errno == ENOSPC || errno == ENOMEM);
	CHECK(pieces < 17);
	munmap(p, 3 * PAGE);
	close(null);
	close(dma);
	close(config);
}

static void transfer(void)
{
	int config, dma = open("/dev/dma", O_RDWR);
	volatile unsigned int *reg = map_bar(&config);
	unsigned long long bus;

	MUST(dma >= 0 && ioctl(dma, FL_DMA_BIND, config) == 0);
	unsigned char *p = dma_piece(dma, 2 * PAGE, &bus);

	for (size_t i = 0; i < 2 * PAGE; i++)
		CHECK_EQUAL(0, p[i]);
	for (size_t i = 0; i < PAGE; i++)
		p[i] = (unsigned char)(i * 7 + 1);
	start_dma(reg, bus, EDU_DMA_BUFFER, DMA_SIZE, 0);
	finish_dma(reg);
	start_dma(reg, EDU_DMA_BUFFER, bus + PAGE, DMA_SIZE, EDU_DMA_TO_RAM);
	finish_dma(reg);
	CHECK(memcmp(p, p + PAGE, DMA_SIZE) == 0);
	munmap(p, 2 * PAGE);
	munmap((void *)reg, 1 << 20);
	close(dma);
	close(config);
}

/* A driver that dies right after it told its device to write. The transfer takes a tenth of a second. */
static void die_in_transfer(void *unused)
{
	(void)unused;
	int config, dma = open("/dev/dma", O_RDWR);
	volatile unsigned int *reg = map_bar(&config);
	unsigned long long bus;

	MUST(dma >= 0 && ioctl(dma, FL_DMA_BIND, config) == 0);
	unsigned long long *p = dma_piece(dma, PAGE, &bus);

	for (size_t i = 0; i < PAGE / 8; i++)
		p[i] = PATTERN;
	start_dma(reg, bus, EDU_DMA_BUFFER, DMA_SIZE, 0);
	finish_dma(reg);
	memset(p, 0, PAGE);
	start_dma(reg, EDU_DMA_BUFFER, bus, DMA_SIZE, EDU_DMA_TO_RAM);
	kill(getpid(), SIGKILL);
}

static void death(void)
{
	for (int round = 0; round < 3; round++) {
		int status = in_child(die_in_transfer, NULL);

		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		/* All free memory that we can get, zero now, and zero still when the transfer should have come. */
		size_t size = 256ul << 20;
		unsigned long long *all = mmap(NULL, size, RW, ANON | MAP_POPULATE, -1, 0);

		MUST(all != MAP_FAILED);
		usleep(200 * 1000);
		size_t bad = 0;
		for (size_t i = 0; i < size / 8; i += PAGE / 8)
			bad += all[i] == PATTERN;
		CHECK_EQUAL(0, bad);
		munmap(all, size);

		int config = open(node("config"), O_RDWR);
		CHECK(config >= 0);
		CHECK_EQUAL(0, get_config(config, 4, 2) & CMD_MASTER);
		close(config);
	}
}

int main(void)
{
	find_edu();
	rights();
	configuration();
	window();
	interrupt();
	dma_calls();
	transfer();
	death();
	test_end();
}
