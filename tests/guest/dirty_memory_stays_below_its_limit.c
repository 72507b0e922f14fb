/*
 * /proc/sys/vm/dirty_bytes: whoever writes faster than the disk is slowed down to its speed, through a mapping and by write(2), and
 * dirty memory stays near the limit meanwhile. /proc/sys/vm/dirty_background_bytes: above it pages are written without being
 * asked for; below, they wait. In the end nothing is dirty and nothing under way.
 *
 * only: faultline
 */
#include "dirty_test.h"

#define MIB		(1ul << 20)
#define SIZE		(4 * MIB)
#define BANDWIDTH	(8 * MIB)		/* bytes a second */
#define LIMIT		(MIB / 2)

static bool over;		/* atomic */
static long most;		/* pages not yet written, as the observer saw them */

static void *observer(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		char text[8192];	/* read_text() is for one thread */
		int fd = open("/proc/vmstat", O_RDONLY);
		ssize_t n = read(fd, text, sizeof(text) - 1);
		long dirty = 0, writeback = 0;

		MUST(n > 0);
		close(fd);
		text[n] = '\0';
		const char *d = strstr(text, "\nnr_dirty "), *w = strstr(text, "\nnr_writeback ");

		MUST(d && w);
		dirty = atol(d + 10);
		writeback = atol(w + 14);
		most = dirty + writeback > most ? dirty + writeback : most;
		sleep_ms(3);
	}
	return NULL;
}

static void write_through_mapping(int fd)
{
	char *p = map_file(fd, SIZE / PAGE);

	for (size_t i = 0; i < SIZE; i += PAGE)
		((volatile char *)p)[i] = 1;
	munmap(p, SIZE);
}

static void write_by_call(int fd)
{
	static char buf[1 << 16];

	for (size_t i = 0; i < SIZE; i += sizeof(buf))
		MUST(pwrite(fd, buf, sizeof(buf), (off_t)i) == (ssize_t)sizeof(buf));
}

static void slowed_down(const char *how, void (*fill)(int fd))
{
	int fd = make_cached(DISK "/f", SIZE / PAGE);
	long start, took, waited = vmstat("balance_dirty_wait_ms"), least = (long)((SIZE - LIMIT) * 1000 / BANDWIDTH);
	pthread_t t;

	over = false;
	most = 0;
	MUST(pthread_create(&t, NULL, observer, NULL) == 0);
	start = now_ms();
	fill(fd);
	took = now_ms() - start;
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	MUST(pthread_join(t, NULL) == 0);

	if (took < least * 9 / 10 || most > (long)(LIMIT / PAGE * 3 / 2)) {
		printf("%s: took %ld ms, expected %ld at least; %ld pages unwritten at most, expected about %lu\n", how, took, least, most, LIMIT / PAGE);
		test_failures++;
	}
	CHECK(vmstat("balance_dirty_wait_ms") > waited);
	CHECK(vmstat("nr_dirty") + vmstat("nr_writeback") > 0);
	CHECK(fsync(fd) == 0);
	must_be_clean();
	close(fd);
	unlink(DISK "/f");
}

static void background_writing(void)
{
	int fd = make_cached(DISK "/f", 512);
	char *p = map_file(fd, 512);
	long start = now_ms();

	set_dirty_limits(64 * MIB, 256 * PAGE);
	for (size_t i = 0; i < 100; i++)
		p[i * PAGE] = 1;
	sleep_ms(200);
	CHECK_EQUAL(now_ms() - start < 4000 ? 100 : 0, vmstat("nr_dirty"));	/* a few seconds later they would be written anyway */
	for (size_t i = 100; i < 512; i++)
		p[i * PAGE] = 1;
	for (start = now_ms(); vmstat("nr_dirty") > 256 && now_ms() - start < 10000; )
		sleep_ms(20);
	CHECK(vmstat("nr_dirty") <= 256);
	CHECK(now_ms() - start < 4000);				/* long before anybody's time is up */
	munmap(p, 512 * PAGE);
	sync();
	must_be_clean();
	close(fd);
	unlink(DISK "/f");
}

int main(void)
{
	char options[64];

	snprintf(options, sizeof(options), "delay_us=1000,bw_kib=%lu,size=16m", BANDWIDTH / 1024);
	mount_disk(options);
	sync();
	set_dirty_limits(LIMIT, LIMIT / 4);
	slowed_down("mapping", write_through_mapping);
	slowed_down("write(2)", write_by_call);
	background_writing();
	set_dirty_limits(0, 0);
	CHECK(umount(DISK) == 0);
	must_be_clean();
	test_end();
}
