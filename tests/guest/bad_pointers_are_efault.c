/*
 * Every system call, with pointers that lead nowhere: an error or a signal, never a wedged or dead kernel. Where Linux says
 * EFAULT for sure, so do we.
 * timeout: 120
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "test.h"

static const uintptr_t wild[] = {
	0, 1, 0xfff, 0x10000, 0x7fffffffe000, 0x7ffffffff000, 0x7fffffffffff, 0x800000000000, 0x8000000000000000,
	0xffff800000000000, 0xffff888000000000, 0xffffffff80200000, 0xfffffffffffff000, 0xffffffffffffffff, 0xdeadbeefdeadbeef,
};

#define COUNT (sizeof(wild) / sizeof(wild[0]))

/* Calls that end, stop, replace or take away the caller, or the machine. */
static int excluded(long nr)
{
	switch (nr) {
	case SYS_exit: case SYS_exit_group: case SYS_pause: case SYS_rt_sigreturn: case SYS_rt_sigsuspend: case SYS_reboot:
	case SYS_vfork: case SYS_fork: case SYS_clone: case SYS_clone3: case SYS_kill: case SYS_tkill: case SYS_tgkill:
	case SYS_rt_sigtimedwait: case SYS_kexec_load: case SYS_vhangup: case SYS_setrlimit: case SYS_prlimit64: case SYS_chroot:
	case SYS_pivot_root: case SYS_umount2: case SYS_sethostname: case SYS_setdomainname: case SYS_settimeofday:
	case SYS_clock_settime: case SYS_adjtimex: case SYS_clock_adjtime: case SYS_iopl: case SYS_ioperm: case SYS_unshare:
	case SYS_setns: case SYS_seccomp: case SYS_ptrace: case SYS_wait4: case SYS_waitid: case SYS_munmap: case SYS_mremap: case SYS_brk:
	case SYS_mprotect: case SYS_arch_prctl: case SYS_prctl: case SYS_close_range: case SYS_close: case SYS_dup2: case SYS_dup3:
	case SYS_read: case SYS_alarm: case SYS_setitimer: case SYS_select: case SYS_poll: case SYS_ppoll: case SYS_pselect6:
	case SYS_futex: case SYS_sched_setaffinity: case SYS_sched_setscheduler: case SYS_sched_setparam: case SYS_setpriority:
	case SYS_rt_sigprocmask: case SYS_swapon: case SYS_swapoff: case SYS_acct: case SYS_syslog: case SYS_sync: case SYS_syncfs:
	case SYS_mmap: case SYS_madvise: case SYS_mlockall: case SYS_setuid: case SYS_setgid: case SYS_setreuid:
	case SYS_setregid: case SYS_setresuid: case SYS_setresgid: case SYS_setgroups: case SYS_setfsuid: case SYS_setfsgid:
	case SYS_capset: case SYS_userfaultfd: case SYS_pidfd_send_signal: case SYS_process_madvise: case SYS_io_uring_enter:
	case SYS_nanosleep: case SYS_clock_nanosleep: case SYS_epoll_wait: case SYS_epoll_pwait: case SYS_msgrcv: case SYS_semop:
	case SYS_flock: case SYS_set_robust_list: case SYS_set_tid_address: case SYS_sigaltstack: case SYS_rt_sigaction:
	case SYS_accept: case SYS_accept4: case SYS_membarrier: case SYS_rseq: case SYS_restart_syscall: case SYS_remap_file_pages:
	case 448 /* process_mrelease */: case SYS_fanotify_init: case SYS_rt_sigqueueinfo: case SYS_rt_tgsigqueueinfo: case SYS_timer_settime:
	case SYS_landlock_restrict_self: case SYS_setsid: case SYS_setpgid: case SYS_ioprio_set: case SYS_mlock2: case SYS_mlock:
		return 1;
	}
	return 0;
}

static void storm(void *arg)
{
	long nr = (long)arg;

	alarm(5);			/* a call that waits is fine; it must end by the signal */
	for (size_t i = 0; i < COUNT; i++) {
		syscall(nr, wild[i], wild[i], wild[i], wild[i], wild[i], wild[i]);
		syscall(nr, 0, wild[i], 4096, wild[i], 0, 0);
		syscall(nr, -1, wild[i], 1, 0, wild[i], 0);
		syscall(nr, wild[i], 0, 0, 0, 0, 0);
	}
	_exit(0);
}

int main(void)
{
	int fds[2], null = open("/dev/null", O_WRONLY), zero = open("/dev/zero", O_RDONLY);

	MUST(null >= 0 && zero >= 0 && pipe(fds) == 0);
	for (size_t i = 0; i < COUNT; i++) {
		char *p = (char *)wild[i];
		struct iovec iov = { p, 100 };

		CHECK_ERRNO(EFAULT, syscall(SYS_write, fds[1], p, 100));
		CHECK_ERRNO(EFAULT, syscall(SYS_read, zero, p, 100));
		CHECK_ERRNO(EFAULT, syscall(SYS_writev, fds[1], &iov, 1));
		CHECK_ERRNO(EFAULT, syscall(SYS_open, p, O_RDONLY));
		CHECK_ERRNO(EFAULT, syscall(SYS_stat, "/", p));
		CHECK_ERRNO(EFAULT, syscall(SYS_pipe, p));
		CHECK_ERRNO(EFAULT, syscall(SYS_uname, p));
		CHECK_ERRNO(EFAULT, syscall(SYS_getcwd, p, 100));
		CHECK_ERRNO(EFAULT, syscall(SYS_clock_gettime, 0, p));
		CHECK_ERRNO(EFAULT, syscall(SYS_getrlimit, RLIMIT_NOFILE, p));
		CHECK_ERRNO(EFAULT, syscall(SYS_execve, p, NULL, NULL));
		if (p)
			CHECK_ERRNO(EFAULT, syscall(SYS_execve, "/bin/true", p, NULL));
	}
	for (long nr = 0; nr < 460; nr++) {
		int status;

		if (excluded(nr))
			continue;
		status = in_child(storm, (void *)nr);
		if (!WIFEXITED(status) && WTERMSIG(status) != SIGALRM && WTERMSIG(status) != SIGSEGV && WTERMSIG(status) != SIGBUS &&
		    WTERMSIG(status) != SIGSYS && WTERMSIG(status) != SIGILL) {
			printf("system call %ld ended the caller with signal %d\n", nr, WTERMSIG(status));
			test_failures++;
		}
	}
	test_end();
}
