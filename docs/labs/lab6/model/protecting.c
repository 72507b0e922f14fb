/* A page that another thread writes to all the time is protected: from then on it stands still, until it is released. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile long *page;
static volatile int stop;

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *writer(void *unused)
{
	run_on(1);
	while (!stop)
		page[0]++;
	return unused;
}

int main(void)
{
	uint64_t api[3] = { 0xaa, 0, 0 }, reg[4] = { 0, 4096, 2, 0 }, wp[3] = { 0, 4096, 1 };
	int fd = (int)syscall(SYS_userfaultfd, O_NONBLOCK), bad = 0;
	pthread_t t;

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page[0] = 1;
	reg[0] = wp[0] = (uintptr_t)page;
	if (fd < 0 || ioctl(fd, 0xc018aa3fu, api) || ioctl(fd, 0xc020aa00u, reg))
		return 2;
	run_on(0);
	pthread_create(&t, NULL, writer, NULL);
	for (int i = 0; i < 20; i++) {
		usleep(1000);
		wp[2] = 1;
		if (ioctl(fd, 0xc018aa06u, wp))
			return 2;
		long seen = page[0];

		for (int k = 0; k < 10000; k++)
			__builtin_ia32_pause();
		bad |= page[0] != seen;
		wp[2] = 0;
		if (ioctl(fd, 0xc018aa06u, wp))
			return 2;
	}
	stop = 1;
	pthread_join(t, NULL);
	if (bad)
		puts("a protected page changes");
	return bad;
}
