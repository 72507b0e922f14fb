/*
 * process_vm_readv and process_vm_writev between processes, /proc/PID/mem, vmsplice: calls that pin pages. Rules A35, B9, B13, H9.
 */
#include "mm_test.h"

#include <sys/prctl.h>

static ssize_t copy_from(pid_t pid, void *local, const void *remote, size_t len)
{
	struct iovec l = { local, len }, r = { (void *)remote, len };

	return process_vm_readv(pid, &l, 1, &r, 1, 0);
}

static ssize_t copy_to(pid_t pid, const void *local, void *remote, size_t len)
{
	struct iovec l = { (void *)local, len }, r = { remote, len };

	return process_vm_writev(pid, &l, 1, &r, 1, 0);
}

static pid_t start_sleeper(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	MUST(waitpid(pid, NULL, 0) == pid);
}

static void arguments(void)
{
	static char buf[PAGE], other[PAGE];
	struct iovec l = { buf, 8 }, r = { other, 8 }, bad = { buf, (size_t)-1 }, none = { buf, 0 }, many[2] = { l, l };
	pid_t self = getpid();

	CHECK_ERRNO(EINVAL, process_vm_readv(self, &l, 1, &r, 1, 1));
	CHECK_ERRNO(EINVAL, process_vm_readv(self, &l, 1025, &r, 1, 0));
	CHECK_ERRNO(EINVAL, process_vm_readv(self, &l, 1, &r, 1025, 0));
	CHECK_ERRNO(EINVAL, process_vm_readv(self, &bad, 1, &r, 1, 0));
	CHECK_ERRNO(EINVAL, process_vm_readv(self, &l, 1, &bad, 1, 0));
	CHECK_ERRNO(EFAULT, process_vm_readv(self, (void *)8, 1, &r, 1, 0));
	CHECK_ERRNO(EFAULT, process_vm_readv(self, &l, 1, (void *)8, 1, 0));
	CHECK_ERRNO(EFAULT, process_vm_readv(self, &l, 1, (void *)KERNEL_ADDRESS, 1, 0));
	CHECK_ERRNO(ESRCH, process_vm_readv(0x3fffffff, &l, 1, &r, 1, 0));
	CHECK_ERRNO(ESRCH, process_vm_writev(-1, &l, 1, &r, 1, 0));
	CHECK_EQUAL(0, process_vm_readv(self, &none, 1, &r, 1, 0));
	CHECK_EQUAL(0, process_vm_readv(self, &l, 0, &r, 1, 0));
	CHECK_EQUAL(0, process_vm_readv(self, &l, 1, &r, 0, 0));
	CHECK_EQUAL(0, process_vm_readv(self, &l, 1, &none, 1, 0));
	CHECK_EQUAL(0, process_vm_readv(0x3fffffff, &none, 1, &r, 1, 0));	/* nothing to copy: nobody is looked for */
	CHECK_EQUAL(0, process_vm_readv(0x3fffffff, &l, 1, &none, 1, 0));
	CHECK_EQUAL(8, process_vm_readv(self, many, 2, &r, 1, 0));		/* the shorter side counts */
	struct iovec kernel = { (void *)KERNEL_ADDRESS, 8 };
	CHECK_ERRNO(EFAULT, process_vm_readv(self, &l, 1, &kernel, 1, 0));
	CHECK_ERRNO(EFAULT, process_vm_readv(self, &kernel, 1, &r, 1, 0));
}

static void copies(void)
{
	char *p = map_alone(6, RW), *ro = map_alone(1, PROT_READ), *none = map_alone(1, PROT_NONE), buf[4 * PAGE], *shared;
	pid_t pid;

	shared = map_pages(1, RW, MAP_SHARED | MAP_ANONYMOUS);
	memset(p, 'p', PAGE);
	p[2 * PAGE] = 'q';
	munmap(p + 4 * PAGE, PAGE);
	pid = start_sleeper();
	memset(p, 'm', PAGE);			/* ours from now on */
	p[2 * PAGE] = 'm';

	CHECK_EQUAL(3 * PAGE, copy_from(pid, buf, p + 100, 3 * PAGE));
	CHECK_EQUAL('p', buf[0]);
	CHECK_EQUAL('p', buf[PAGE - 101]);
	CHECK_EQUAL(0, buf[PAGE - 100]);			/* untouched memory reads zero */
	CHECK_EQUAL('q', buf[2 * PAGE - 100]);
	CHECK_EQUAL(4 * PAGE, copy_from(pid, buf, p, 4 * PAGE));
	CHECK_EQUAL(100, copy_from(pid, buf, p + 4 * PAGE - 100, 300));	/* short at the hole */
	CHECK_ERRNO(EFAULT, copy_from(pid, buf, p + 4 * PAGE, 1));
	CHECK_ERRNO(EFAULT, copy_from(pid, buf, none, 1));
	CHECK_ERRNO(EFAULT, copy_from(pid, p + 4 * PAGE, p, 1));
	CHECK_EQUAL(100, copy_from(pid, p + 4 * PAGE - 100, p, 300));		/* short at our hole */

	/* writing breaks the sharing that fork left, in the other process only */
	memset(buf, 'w', sizeof(buf));
	CHECK_EQUAL(PAGE + 10, copy_to(pid, buf, p + 10, PAGE + 10));
	CHECK_EQUAL('m', p[10]);
	CHECK_EQUAL(0, p[PAGE]);
	CHECK_EQUAL(2 * PAGE, copy_from(pid, buf, p, 2 * PAGE));
	CHECK(buf[9] == 'p' && buf[10] == 'w' && buf[PAGE + 19] == 'w' && buf[PAGE + 20] == 0);
	CHECK_ERRNO(EFAULT, copy_to(pid, buf, ro, 1));			/* H9: not forced */
	CHECK_EQUAL(1, copy_to(pid, "s", shared, 1));
	CHECK_EQUAL('s', shared[0]);

	/* several segments, cut differently on both sides */
	struct iovec l[3] = { { buf, 3 }, { buf + 10, 4 }, { buf + 20, 5 } };
	struct iovec r[2] = { { p + 8, 5 }, { p + PAGE - 2, 7 } };
	memset(buf, 0, 64);
	CHECK_EQUAL(12, process_vm_readv(pid, l, 3, r, 2, 0));
	CHECK(memcmp(buf, "ppw", 3) == 0 && memcmp(buf + 10, "wwww", 4) == 0 && memcmp(buf + 20, "wwwww", 5) == 0);
	stop(pid);
	CHECK_ERRNO(ESRCH, copy_from(pid, buf, p, 1));
	munmap(p, 6 * PAGE);
	munmap(ro, PAGE);
	munmap(none, PAGE);
	munmap(shared, PAGE);
}

/* H9 */
static void mem_file(void)
{
	char *ro = map_alone(2, RW), path[64], buf[8] = "";
	pid_t pid;
	int fd;

	strcpy(ro, "fixed");
	mprotect(ro, 2 * PAGE, PROT_READ);
	pid = start_sleeper();
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	MUST((fd = open(path, O_RDWR)) >= 0);
	CHECK_EQUAL(5, pread(fd, buf, 5, (off_t)ro));
	CHECK(memcmp(buf, "fixed", 5) == 0);
	CHECK_EQUAL(5, pwrite(fd, "patch", 5, (off_t)ro));		/* a debugger may write to read-only private memory */
	CHECK_EQUAL(5, pread(fd, buf, 5, (off_t)ro));
	CHECK(memcmp(buf, "patch", 5) == 0);
	CHECK(memcmp(ro, "fixed", 5) == 0);
	CHECK_ERRNO(EIO, pread(fd, buf, 1, (off_t)(ro + 2 * PAGE)));
	CHECK_EQUAL(4, pread(fd, buf, 8, (off_t)(ro + 2 * PAGE - 4)));
	stop(pid);
	CHECK_EQUAL(0, pread(fd, buf, 5, (off_t)ro));			/* no memory left to read */
	close(fd);
	munmap(ro, 2 * PAGE);
}

static pid_t victim;

static void nobody(void *unused)
{
	char buf[1];

	(void)unused;
	become_nobody();
	CHECK_ERRNO(EPERM, copy_from(victim, buf, buf, 1));
	CHECK_ERRNO(EPERM, copy_to(victim, buf, buf, 1));
	CHECK_EQUAL(1, copy_from(getpid(), buf, buf, 1));
}

static void splices(void)
{
	char *p = map_alone(4, RW), buf[2 * PAGE];
	struct iovec v = { p + 100, PAGE }, hole = { p + 4 * PAGE, 1 }, cut = { p + 4 * PAGE - 10, 100 };
	int ends[2], file = make_memfd(1, 0);

	MUST(pipe(ends) == 0);
	CHECK_ERRNO(EINVAL, vmsplice(ends[1], &v, 1, 0x10));
	CHECK_ERRNO(EBADF, vmsplice(-1, &v, 1, 0));
	CHECK_ERRNO(EBADF, vmsplice(file, &v, 1, 0));
	CHECK_ERRNO(EINVAL, vmsplice(ends[1], &v, 1025, 0));
	CHECK_EQUAL(0, vmsplice(ends[1], &v, 0, 0));
	CHECK_ERRNO(EFAULT, vmsplice(ends[1], (void *)8, 1, 0));
	CHECK_ERRNO(EFAULT, vmsplice(file, (void *)8, 1, 0));		/* the vector before the kind of file */
	CHECK_ERRNO(EFAULT, vmsplice(ends[1], &hole, 1, 0));

	memset(p, 'v', 2 * PAGE);
	CHECK_EQUAL(PAGE, vmsplice(ends[1], &v, 1, 0));
	CHECK_EQUAL(PAGE, read(ends[0], buf, sizeof(buf)));
	CHECK(buf[0] == 'v' && buf[PAGE - 1] == 'v');

	/* the pipe holds the page itself: unmapping it takes nothing away */
	CHECK_EQUAL(PAGE, vmsplice(ends[1], &v, 1, 0));
	munmap(p, PAGE);
	CHECK_EQUAL(PAGE, read(ends[0], buf, sizeof(buf)));
	CHECK(buf[0] == 'v' && buf[PAGE - 101] == 'v');
	CHECK_EQUAL(10, vmsplice(ends[1], &cut, 1, 0));
	CHECK_EQUAL(10, read(ends[0], buf, sizeof(buf)));

	/* the page of zeros is nobody's to free, however often it has been in a pipe */
	v.iov_base = p + 3 * PAGE;
	for (int i = 0; i < 200; i++) {
		CHECK_EQUAL(PAGE, vmsplice(ends[1], &v, 1, 0));
		CHECK_EQUAL(PAGE, read(ends[0], buf, sizeof(buf)));
	}
	CHECK_EQUAL(0, buf[0]);

	/* out of a pipe it is a read */
	v.iov_base = p + 2 * PAGE;
	CHECK_EQUAL(3, write(ends[1], "abc", 3));
	CHECK_EQUAL(3, vmsplice(ends[0], &v, 1, 0));
	CHECK(memcmp(p + 2 * PAGE, "abc", 3) == 0);

	/* full */
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	v.iov_base = p + PAGE;
	v.iov_len = PAGE;
	int n = 0;
	while (n < 100 && vmsplice(ends[1], &v, 1, SPLICE_F_NONBLOCK) == (ssize_t)PAGE)
		n++;
	CHECK_EQUAL(16, n);
	CHECK_ERRNO(EAGAIN, vmsplice(ends[1], &v, 1, SPLICE_F_NONBLOCK));
	signal(SIGPIPE, SIG_IGN);
	close(ends[0]);
	CHECK_ERRNO(EPIPE, vmsplice(ends[1], &v, 1, 0));
	close(ends[1]);
	close(file);
	munmap(p, 4 * PAGE);
}

int main(void)
{
	arguments();
	copies();
	mem_file();
	victim = start_sleeper();
	IN_CHILD(nobody);
	stop(victim);
	splices();
	test_end();
}
