/*
 * Who a process is: user and group ids with their rules, capabilities that follow them, sessions and groups, limits that are
 * enforced, prctl, uname and the small calls around them.
 */
#define _GNU_SOURCE
#include "test.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/personality.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

/* Runs fn in a child, so that it may give rights away. */
static void check_in_child(void (*fn)(void))
{
	int st;
	fflush(stdout);
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid) {
		test_failures = 0;
		fn();
		fflush(stdout);
		_exit(test_failures != 0);
	}
	MUST(waitpid(pid, &st, 0) == pid);
	CHECK_EQUAL(0, st);
}

static void user_ids(void)
{
	uid_t r, e, s;

	if (getuid())
		return;
	CHECK_EQUAL(0, setresuid(1000, 1001, 1002));
	getresuid(&r, &e, &s);
	CHECK(r == 1000 && e == 1001 && s == 1002);
	CHECK_ERRNO(EPERM, setresuid(0, -1, -1));
	CHECK_ERRNO(EPERM, setuid(0));
	CHECK_EQUAL(0, setresuid(1002, 1000, 1001));
	CHECK_EQUAL(0, setreuid(1000, -1));
	CHECK_ERRNO(EPERM, setgid(5));
	CHECK_ERRNO(EPERM, setgroups(0, NULL));
	CHECK_ERRNO(EPERM, kill(1, 0));
	CHECK_ERRNO(EPERM, sethostname("x", 1));
	CHECK_ERRNO(EACCES, setpriority(PRIO_PROCESS, 0, -5));
	CHECK_EQUAL(0, prctl(PR_GET_DUMPABLE));
}

static void saved_ids(void)
{
	if (getuid())
		return;
	CHECK_EQUAL(0, seteuid(1000));
	CHECK(geteuid() == 1000 && getuid() == 0);
	CHECK_EQUAL(0, seteuid(0));		/* the saved id allows it */
	CHECK_EQUAL(0, syscall(SYS_setfsuid, 1000));
	CHECK_EQUAL(1000, syscall(SYS_setfsuid, -1));
	gid_t groups[] = { 7, 8, 9 }, got[8];
	CHECK_EQUAL(0, setgroups(3, groups));
	CHECK_EQUAL(3, getgroups(0, NULL));
	CHECK_EQUAL(3, getgroups(8, got));
	CHECK(got[0] == 7 && got[2] == 9);
	CHECK_ERRNO(EINVAL, getgroups(1, got));
	CHECK_EQUAL(0, setresgid(5, 6, 7));
	CHECK(getgid() == 5 && getegid() == 6);
}

struct cap_header { unsigned version; int pid; };
struct cap_data { unsigned eff, perm, inh; };

static void capabilities(void)
{
	struct cap_header h = { 0x20080522, 0 };
	struct cap_data d[2], none[2] = { 0 };

	if (getuid())
		return;
	CHECK_EQUAL(0, syscall(SYS_capget, &h, d));
	CHECK(d[0].eff & (1 << 7));
	CHECK_EQUAL(1, prctl(PR_CAPBSET_READ, 7));
	CHECK_ERRNO(EINVAL, prctl(PR_CAPBSET_READ, 63));
	/* With KEEPCAPS the permitted set survives the change of user, without it nothing does. */
	prctl(PR_SET_KEEPCAPS, 1);
	CHECK_EQUAL(0, setuid(1000));
	CHECK_EQUAL(0, syscall(SYS_capget, &h, d));
	CHECK(!d[0].eff && d[0].perm & (1 << 7));
	d[0].eff = 1 << 7;
	d[0].perm = 1 << 7;
	d[1].perm = d[1].eff = 0;
	CHECK_EQUAL(0, syscall(SYS_capset, &h, d));
	CHECK_EQUAL(0, setuid(2000));
	CHECK_EQUAL(0, syscall(SYS_capset, &h, none));
	CHECK_ERRNO(EPERM, syscall(SYS_capset, &h, d));
	CHECK_ERRNO(EPERM, setuid(3000));
	h.version = 1;
	CHECK_ERRNO(EINVAL, syscall(SYS_capget, &h, d));
	CHECK_EQUAL(0x20080522, h.version);
}

static void sessions(void)
{
	pid_t me = getpid();

	CHECK_EQUAL(me, setsid());
	CHECK(getsid(0) == me && getpgrp() == me);
	CHECK_ERRNO(EPERM, setsid());
	CHECK_ERRNO(EPERM, setpgid(0, 0));
	CHECK_ERRNO(EINVAL, setpgid(0, -1));
	CHECK_ERRNO(ESRCH, getpgid(0x3fffffff));
	CHECK_ERRNO(ESRCH, setpgid(getppid(), 0));
	int fds[2];
	char c;
	MUST(!pipe(fds));
	pid_t pid = fork();
	if (!pid) {
		close(fds[1]);
		read(fds[0], &c, 1);
		_exit(0);
	}
	CHECK_ERRNO(EPERM, setpgid(pid, 1));
	CHECK_EQUAL(0, setpgid(pid, pid));
	CHECK(getpgid(pid) == pid && getsid(pid) == me);
	CHECK_EQUAL(0, setpgid(pid, me));
	close(fds[0]);
	close(fds[1]);
	waitpid(pid, NULL, 0);
	CHECK_ERRNO(ENXIO, open("/dev/tty", O_RDWR));
}

static void limits(void)
{
	struct rlimit lim, got;

	CHECK_ERRNO(EINVAL, getrlimit(16, &lim));
	lim = (struct rlimit){ 20, 10 };
	CHECK_ERRNO(EINVAL, setrlimit(RLIMIT_NOFILE, &lim));
	lim = (struct rlimit){ 20, 30 };
	CHECK_EQUAL(0, prlimit(0, RLIMIT_NOFILE, &lim, &got));
	CHECK(got.rlim_cur >= 30);
	int fd, n = 0;
	while ((fd = dup(0)) >= 0)
		n++;
	CHECK(errno == EMFILE && n > 0 && n < 20);
	for (int i = 3; i < 20; i++)
		close(i);
	if (!getuid()) {
		/* The number of processes binds everybody but root. */
		lim = (struct rlimit){ 3, 3 };
		CHECK_EQUAL(0, setrlimit(RLIMIT_NPROC, &lim));
		CHECK_EQUAL(0, setuid(4321));
		int made = 0;
		for (int i = 0; i < 5; i++) {
			pid_t pid = fork();
			if (!pid) {
				pause();
				_exit(0);
			}
			if (pid < 0) {
				CHECK_EQUAL(EAGAIN, errno);
				break;
			}
			made++;
		}
		CHECK_EQUAL(2, made);		/* and ourselves */
		signal(SIGTERM, SIG_IGN);
		kill(0, SIGTERM);
		while (wait(NULL) > 0)
			;
		lim = (struct rlimit){ 4, 4 };
		CHECK_ERRNO(EPERM, setrlimit(RLIMIT_NPROC, &lim));
		CHECK_ERRNO(EPERM, prlimit(1, RLIMIT_NPROC, NULL, &lim));
	}
}

static void limits_in_a_group(void)
{
	setpgid(0, 0);
	limits();
}

static void names_and_controls(void)
{
	char name[16] = { 0 };

	CHECK_EQUAL(0, prctl(PR_SET_NAME, "a name that is too long"));
	CHECK_EQUAL(0, prctl(PR_GET_NAME, name));
	CHECK(!strcmp(name, "a name that is "));
	CHECK_ERRNO(EFAULT, prctl(PR_SET_NAME, (char *)8));
	CHECK_ERRNO(EINVAL, prctl(0x12345678));
	int sig = 0;
	CHECK_ERRNO(EINVAL, prctl(PR_SET_PDEATHSIG, 65));
	CHECK_EQUAL(0, prctl(PR_SET_PDEATHSIG, SIGUSR1));
	CHECK_EQUAL(0, prctl(PR_GET_PDEATHSIG, &sig));
	CHECK_EQUAL(SIGUSR1, sig);
	CHECK_EQUAL(0, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	CHECK_ERRNO(EINVAL, prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	CHECK_EQUAL(0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK_EQUAL(1, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	CHECK_ERRNO(EINVAL, prctl(PR_SET_DUMPABLE, 7));
	unsigned old = (unsigned)personality(0xffffffff);
	CHECK_EQUAL(old, personality(old | ADDR_NO_RANDOMIZE));
	CHECK_EQUAL(old | ADDR_NO_RANDOMIZE, personality(0xffffffff));

	struct utsname u;
	CHECK_EQUAL(0, uname(&u));
	CHECK(!strcmp(u.sysname, "Linux") && !strcmp(u.machine, "x86_64") && atoi(u.release) >= 6);
	struct sysinfo si;
	CHECK_EQUAL(0, sysinfo(&si));
	CHECK(si.totalram * si.mem_unit > 1 << 20 && si.freeram <= si.totalram && si.procs > 0);
	CHECK_ERRNO(EFAULT, sysinfo((struct sysinfo *)8));
	CHECK_ERRNO(EINVAL, syscall(SYS_arch_prctl, 0x9999, 0));
	CHECK_ERRNO(EPERM, syscall(SYS_arch_prctl, 0x1002, 0xffff800000000000));
	CHECK_ERRNO(getuid() ? EPERM : EINVAL, syscall(SYS_reboot, 1, 2, 3, 0));
}

static void randomness(void)
{
	unsigned char a[64] = { 0 }, b[64] = { 0 }, big[10000];

	CHECK_EQUAL(64, getrandom(a, 64, 0));
	CHECK_EQUAL(64, getrandom(b, 64, GRND_NONBLOCK));
	CHECK(memcmp(a, b, 64));
	CHECK_EQUAL(10000, getrandom(big, sizeof(big), 0));
	int histogram[256] = { 0 };
	for (size_t i = 0; i < sizeof(big); i++)
		histogram[big[i]]++;
	for (int i = 0; i < 256; i++)
		CHECK(histogram[i] > 5 && histogram[i] < 100);
	CHECK_ERRNO(EINVAL, getrandom(a, 1, 0x100));
	CHECK_ERRNO(EFAULT, getrandom((void *)8, 1, 0));
}

static void barriers_and_pidfds(void)
{
	int supported = (int)syscall(SYS_membarrier, 0, 0, 0);

	if (supported > 0) {
		CHECK_EQUAL(0, syscall(SYS_membarrier, 1, 0, 0));
		CHECK_ERRNO(EPERM, syscall(SYS_membarrier, 8, 0, 0));
		CHECK_EQUAL(0, syscall(SYS_membarrier, 16, 0, 0));
		CHECK_EQUAL(0, syscall(SYS_membarrier, 8, 0, 0));
		CHECK_ERRNO(EINVAL, syscall(SYS_membarrier, 0x4000, 0, 0));
	}
	pid_t pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	CHECK(fd >= 0);
	struct pollfd pfd = { fd, POLLIN, 0 };
	CHECK_EQUAL(0, poll(&pfd, 1, 0));
	CHECK_EQUAL(0, syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
	CHECK_EQUAL(1, poll(&pfd, 1, 5000));
	siginfo_t info;
	CHECK_EQUAL(0, waitid(3 /* P_PIDFD */, (id_t)fd, &info, WEXITED));
	CHECK(info.si_pid == pid && info.si_code == CLD_KILLED && info.si_status == SIGTERM);
	CHECK_ERRNO(ESRCH, syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
	CHECK_ERRNO(EINVAL, syscall(SYS_pidfd_open, -1, 0));
	CHECK_ERRNO(ESRCH, syscall(SYS_pidfd_open, 0x3fffffff, 0));
	CHECK_ERRNO(EBADF, syscall(SYS_pidfd_send_signal, 0, SIGTERM, NULL, 0));
	close(fd);
}

int main(void)
{
	check_in_child(user_ids);
	check_in_child(saved_ids);
	check_in_child(capabilities);
	check_in_child(sessions);
	check_in_child(limits_in_a_group);
	check_in_child(names_and_controls);
	check_in_child(randomness);
	check_in_child(barriers_and_pidfds);
	test_end();
}
