/*
 * Signals: siginfo of kill, tgkill, sigqueue, faults and children; masks and pending sets; one instance of old signals,
 * order and count of real-time ones; SA_RESTART, SA_NODEFER, SA_RESETHAND, sigaltstack; sigsuspend, sigtimedwait, pause;
 * job control; process-directed signals find the thread that takes them; SIGKILL ends everything.
 */
#define _GNU_SOURCE
#include "test.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

static volatile sig_atomic_t count, last_sig, last_code, last_pid, last_value, nested, on_alt;
static void *volatile last_addr;
static int *volatile unmapped = (int *)16;
static volatile int order[64], norder;

static void note(int sig, siginfo_t *info, void *uc)
{
	(void)uc;
	count++;
	last_sig = sig;
	last_code = info->si_code;
	last_pid = info->si_pid;
	last_value = info->si_value.sival_int;
	if (norder < 64)
		order[norder++] = info->si_value.sival_int;
}

static void set_handler(int sig, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = { .sa_sigaction = fn, .sa_flags = SA_SIGINFO | flags };
	sigemptyset(&sa.sa_mask);
	MUST(!sigaction(sig, &sa, NULL));
}

static void block(int sig, int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(how, &set, NULL);
}

static int is_pending(int sig)
{
	sigset_t set;
	sigpending(&set);
	return sigismember(&set, sig);
}

static void senders(void)
{
	set_handler(SIGUSR1, note, 0);
	count = 0;
	kill(getpid(), SIGUSR1);
	CHECK(count == 1 && last_sig == SIGUSR1 && last_code == SI_USER && last_pid == getpid());
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
	CHECK(count == 2 && last_code == SI_TKILL);
	sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = 4711 });
	CHECK(count == 3 && last_code == SI_QUEUE && last_value == 4711);
	CHECK_ERRNO(EINVAL, kill(getpid(), 65));
	CHECK_ERRNO(EINVAL, kill(getpid(), -1));
	CHECK_ERRNO(ESRCH, kill(0x3fffffff, 0));
	CHECK_ERRNO(ESRCH, kill(INT_MIN, SIGUSR1));
	CHECK_ERRNO(EINVAL, syscall(SYS_tgkill, -1, 1, SIGUSR1));
	CHECK_ERRNO(ESRCH, syscall(SYS_tgkill, getpid(), 0x3fffffff, 0));
	CHECK_ERRNO(EINVAL, sigaction(SIGKILL, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL));
	CHECK_ERRNO(EINVAL, syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4));
	/* Only to ourselves may we pretend to be the kernel. */
	siginfo_t fake = { .si_signo = SIGUSR1, .si_code = SI_USER };
	CHECK_ERRNO(EPERM, syscall(SYS_rt_sigqueueinfo, getppid(), SIGUSR1, &fake));
}

static void masks(void)
{
	set_handler(SIGUSR1, note, 0);
	block(SIGUSR1, SIG_BLOCK);
	count = 0;
	for (int i = 0; i < 3; i++)
		kill(getpid(), SIGUSR1);
	CHECK(count == 0 && is_pending(SIGUSR1));
	block(SIGUSR1, SIG_UNBLOCK);
	CHECK(count == 1 && !is_pending(SIGUSR1));
	/* Thread and process each keep one. */
	block(SIGUSR1, SIG_BLOCK);
	kill(getpid(), SIGUSR1);
	syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
	block(SIGUSR1, SIG_UNBLOCK);
	CHECK_EQUAL(3, count);
	/* Becoming ignored discards what is pending. */
	block(SIGUSR1, SIG_BLOCK);
	kill(getpid(), SIGUSR1);
	signal(SIGUSR1, SIG_IGN);
	CHECK(!is_pending(SIGUSR1));
	set_handler(SIGUSR1, note, 0);
	block(SIGUSR1, SIG_UNBLOCK);
	CHECK_EQUAL(3, count);
	/* KILL and STOP cannot be blocked. */
	sigset_t all, got;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &got);
	CHECK(!sigismember(&got, SIGKILL) && !sigismember(&got, SIGSTOP) && sigismember(&got, SIGTERM));
	sigemptyset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	CHECK_ERRNO(EINVAL, syscall(SYS_rt_sigprocmask, 9, &all, NULL, 8));
}

static void real_time(void)
{
	int rt = SIGRTMIN + 2;

	set_handler(rt, note, 0);
	set_handler(rt + 1, note, 0);
	block(rt, SIG_BLOCK);
	block(rt + 1, SIG_BLOCK);
	norder = 0;
	for (int i = 0; i < 5; i++) {
		sigqueue(getpid(), rt + 1, (union sigval){ .sival_int = 100 + i });
		sigqueue(getpid(), rt, (union sigval){ .sival_int = i });
	}
	siginfo_t info;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, rt);
	for (int i = 0; i < 5; i++) {
		CHECK_EQUAL(rt, sigwaitinfo(&set, &info));
		CHECK_EQUAL(i, info.si_value.sival_int);
	}
	block(rt + 1, SIG_UNBLOCK);
	CHECK_EQUAL(5, norder);
	for (int i = 0; i < 5; i++)
		CHECK_EQUAL(100 + i, order[i]);
	struct rlimit lim, small;
	getrlimit(RLIMIT_SIGPENDING, &lim);
	small = lim;
	small.rlim_cur = 0;
	setrlimit(RLIMIT_SIGPENDING, &small);
	CHECK_ERRNO(EAGAIN, sigqueue(getpid(), rt, (union sigval){ 0 }));
	setrlimit(RLIMIT_SIGPENDING, &lim);
	block(rt, SIG_UNBLOCK);
}

static void alarm_in(int ms)
{
	struct itimerval it = { .it_value = { ms / 1000, ms % 1000 * 1000 } };
	setitimer(ITIMER_REAL, &it, NULL);
}

static void *writes_later(void *arg)
{
	usleep(150000);
	write(*(int *)arg, "x", 1);
	return NULL;
}

static void restarting(void)
{
	int fds[2];
	char c;
	pthread_t t;

	MUST(!pipe(fds));
	set_handler(SIGALRM, note, 0);
	alarm_in(30);
	CHECK_ERRNO(EINTR, read(fds[0], &c, 1));
	set_handler(SIGALRM, note, SA_RESTART);
	count = 0;
	block(SIGALRM, SIG_BLOCK);		/* the helper thread must not take it */
	pthread_create(&t, NULL, writes_later, &fds[1]);
	block(SIGALRM, SIG_UNBLOCK);
	alarm_in(30);
	CHECK_EQUAL(1, read(fds[0], &c, 1));
	CHECK_EQUAL(1, count);
	pthread_join(t, NULL);
	/* nanosleep is never restarted after a handler, and tells what is left. */
	struct timespec ts = { 5, 0 }, left = { 0 };
	alarm_in(30);
	CHECK_ERRNO(EINTR, nanosleep(&ts, &left));
	CHECK(left.tv_sec == 4 && left.tv_nsec > 500000000);
	/* An ignored or stopping signal does not interrupt it at all: restart_syscall. */
	pid_t pid = fork();
	if (!pid) {
		struct timespec start, end;
		clock_gettime(CLOCK_MONOTONIC, &start);
		ts = (struct timespec){ 0, 300000000 };
		int ret = nanosleep(&ts, NULL);
		clock_gettime(CLOCK_MONOTONIC, &end);
		long ms = (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;
		_exit(ret == 0 && ms >= 299 ? 0 : 1);
	}
	int st;
	usleep(50000);
	kill(pid, SIGSTOP);
	CHECK_EQUAL(pid, waitpid(pid, &st, WUNTRACED));
	kill(pid, SIGCONT);
	CHECK_EQUAL(pid, waitpid(pid, &st, 0));
	CHECK_EQUAL(0, st);
	close(fds[0]);
	close(fds[1]);
}

static void nests(int sig, siginfo_t *info, void *uc)
{
	(void)info, (void)uc;
	if (nested++ == 0) {
		raise(sig);
		last_value = nested;
	}
}

static char alt_stack[65536];

static void looks_at_stack(int sig, siginfo_t *info, void *uc)
{
	char here;
	stack_t ss;

	(void)sig, (void)info;
	on_alt = &here >= alt_stack && &here < alt_stack + sizeof(alt_stack);
	sigaltstack(NULL, &ss);
	if (on_alt) {
		CHECK_EQUAL(SS_ONSTACK, ss.ss_flags);
		CHECK_ERRNO(EPERM, sigaltstack(&(stack_t){ .ss_flags = SS_DISABLE }, NULL));
	}
	CHECK(((ucontext_t *)uc)->uc_stack.ss_sp == alt_stack);
}

static void action_flags(void)
{
	nested = 0;
	set_handler(SIGUSR2, nests, 0);
	raise(SIGUSR2);
	CHECK(nested == 2 && last_value == 1);		/* the second came after the first had ended */
	nested = 0;
	set_handler(SIGUSR2, nests, SA_NODEFER);
	raise(SIGUSR2);
	CHECK(nested == 2 && last_value == 2);
	set_handler(SIGUSR2, note, SA_RESETHAND);
	raise(SIGUSR2);
	struct sigaction sa;
	sigaction(SIGUSR2, NULL, &sa);
	CHECK(sa.sa_handler == SIG_DFL);

	stack_t ss = { .ss_sp = alt_stack, .ss_size = sizeof(alt_stack) };
	CHECK_ERRNO(ENOMEM, sigaltstack(&(stack_t){ .ss_sp = alt_stack, .ss_size = 100 }, NULL));
	CHECK_ERRNO(EINVAL, sigaltstack(&(stack_t){ .ss_sp = alt_stack, .ss_size = sizeof(alt_stack), .ss_flags = 8 }, NULL));
	MUST(!sigaltstack(&ss, NULL));
	set_handler(SIGUSR2, looks_at_stack, SA_ONSTACK);
	raise(SIGUSR2);
	CHECK(on_alt);
	set_handler(SIGUSR2, looks_at_stack, 0);
	raise(SIGUSR2);
	CHECK(!on_alt);
	sigaltstack(&(stack_t){ .ss_flags = SS_DISABLE }, NULL);
	signal(SIGUSR2, SIG_DFL);
}

static void waiting(void)
{
	sigset_t set, old;
	siginfo_t info;
	struct timespec soon = { 0, 20000000 }, zero = { 0, 0 };

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_ERRNO(EAGAIN, sigtimedwait(&set, &info, &soon));
	CHECK_ERRNO(EAGAIN, sigtimedwait(&set, &info, &zero));
	CHECK_ERRNO(EINVAL, sigtimedwait(&set, &info, &(struct timespec){ 0, 2000000000 }));
	/* A child's death, which would be ignored, can be waited for while it is blocked. */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &old);
	pid_t pid = fork();
	if (!pid)
		_exit(12);
	CHECK_EQUAL(SIGCHLD, sigwaitinfo(&set, &info));
	CHECK(info.si_pid == pid && info.si_code == CLD_EXITED && info.si_status == 12);
	waitpid(pid, NULL, 0);
	sigprocmask(SIG_SETMASK, &old, NULL);
	/* sigsuspend lets exactly the signal through and gives the old mask back. */
	set_handler(SIGALRM, note, 0);
	block(SIGALRM, SIG_BLOCK);
	count = 0;
	alarm_in(20);
	sigemptyset(&set);
	CHECK_ERRNO(EINTR, sigsuspend(&set));
	CHECK_EQUAL(1, count);
	sigprocmask(SIG_BLOCK, NULL, &old);
	CHECK(sigismember(&old, SIGALRM));
	block(SIGALRM, SIG_UNBLOCK);
	alarm_in(20);
	CHECK_ERRNO(EINTR, pause());
	CHECK_EQUAL(2, count);
	/* sigtimedwait is interrupted by another signal. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	alarm_in(20);
	CHECK_ERRNO(EINTR, syscall(SYS_rt_sigtimedwait, &set, &info, &(struct timespec){ 5, 0 }, 8));	/* musl's function retries */
}

static void skips(int sig, siginfo_t *info, void *ucv)
{
	ucontext_t *uc = ucv;

	last_sig = sig;
	last_code = info->si_code;
	last_addr = info->si_addr;
	uc->uc_mcontext.gregs[REG_RIP] = uc->uc_mcontext.gregs[REG_RBX];	/* where the code below said it goes on */
}

static void faults(void)
{
	char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	set_handler(SIGSEGV, skips, 0);
	__asm__ volatile("lea 1f(%%rip), %%rbx; movl $0, (%0); 1:" : : "r"(page + 24) : "rbx", "memory");
	CHECK(last_sig == SIGSEGV && last_code == SEGV_ACCERR && last_addr == page + 24);
	__asm__ volatile("lea 1f(%%rip), %%rbx; movl $0, 16(%0); 1:" : : "r"(0L) : "rbx", "memory");
	CHECK(last_code == SEGV_MAPERR && last_addr == (void *)16);
	/* Blocked or ignored makes no difference: it kills. */
	int st;
	struct rlimit none = { 0, 0 };
	pid_t pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		block(SIGSEGV, SIG_BLOCK);
		*unmapped = 0;
		_exit(1);
	}
	waitpid(pid, &st, 0);
	CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV && !WCOREDUMP(st));
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSEGV, SIG_IGN);
		*unmapped = 0;
		_exit(1);
	}
	waitpid(pid, &st, 0);
	CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV);
	/* No stack for the frame. */
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		set_handler(SIGUSR1, note, 0);
		long self = getpid();
		__asm__ volatile("mov $4096, %%rsp; syscall; mov %%rax, %%rdi; mov $60, %%eax; syscall"
				 : : "a"(SYS_kill), "D"(self), "S"((long)SIGUSR1) : "rcx", "r11", "memory");
	}
	waitpid(pid, &st, 0);
	CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV);
	signal(SIGSEGV, SIG_DFL);
	munmap(page, 4096);
}

static void job_control(void)
{
	int st;
	siginfo_t info;

	set_handler(SIGCHLD, note, SA_RESTART);
	count = 0;
	pid_t pid = fork();
	if (!pid) {
		for (;;)
			pause();
	}
	kill(pid, SIGSTOP);
	CHECK_EQUAL(pid, waitpid(pid, &st, WUNTRACED));
	CHECK(WIFSTOPPED(st) && WSTOPSIG(st) == SIGSTOP);
	CHECK(count == 1 && last_code == CLD_STOPPED && last_pid == pid);
	CHECK_EQUAL(0, waitpid(pid, &st, WUNTRACED | WNOHANG));	/* reported once */
	kill(pid, SIGTERM);						/* stays pending while it is stopped */
	usleep(20000);
	CHECK_EQUAL(0, waitpid(pid, &st, WNOHANG));
	kill(pid, SIGCONT);
	CHECK_EQUAL(pid, waitpid(pid, &st, 0));
	CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGTERM);

	pid = fork();
	if (!pid) {
		for (;;)
			pause();
	}
	setpgid(pid, pid);		/* SIGTSTP does not stop an orphaned group, and ours may be one */
	kill(pid, SIGTSTP);
	CHECK_EQUAL(0, waitid(P_PID, pid, &info, WSTOPPED));
	CHECK(info.si_code == CLD_STOPPED && info.si_status == SIGTSTP);
	kill(pid, SIGCONT);
	CHECK_EQUAL(0, waitid(P_PID, pid, &info, WCONTINUED));
	CHECK(info.si_code == CLD_CONTINUED && info.si_status == SIGCONT);
	kill(pid, SIGSTOP);
	waitpid(pid, &st, WUNTRACED);
	kill(pid, SIGKILL);			/* also while stopped */
	CHECK_EQUAL(pid, waitpid(pid, &st, 0));
	CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
	/* SA_NOCLDSTOP. */
	set_handler(SIGCHLD, note, SA_NOCLDSTOP | SA_RESTART);
	count = 0;
	pid = fork();
	if (!pid) {
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(pid, &st, WUNTRACED);
	CHECK_EQUAL(0, count);
	kill(pid, SIGCONT);
	waitpid(pid, &st, 0);
	usleep(1000);
	CHECK_EQUAL(1, count);
	signal(SIGCHLD, SIG_DFL);
}

/* A stopped member of a group whose last link to the session goes gets SIGHUP and SIGCONT. */
static void orphaned_group(void)
{
	int fds[2], st;
	char c = 0;

	MUST(!pipe(fds));
	pid_t leader = fork();
	if (!leader) {
		setsid();
		pid_t middle = fork();
		if (!middle) {
			setpgid(0, 0);
			pid_t stopped = fork();
			if (!stopped) {
				setpgid(0, 0);
				close(fds[0]);
				raise(SIGSTOP);
				_exit(3);
			}
			setpgid(stopped, stopped);
			waitpid(stopped, &st, WUNTRACED);
			_exit(0);
		}
		waitpid(middle, &st, 0);
		usleep(100000);
		_exit(0);
	}
	close(fds[1]);
	CHECK_EQUAL(0, read(fds[0], &c, 1));		/* the stopped one has died: nobody holds the pipe any more */
	waitpid(leader, &st, 0);
	close(fds[0]);
}

static volatile pid_t taker;
static void takes(int sig, siginfo_t *info, void *uc)
{
	(void)sig, (void)info, (void)uc;
	taker = (pid_t)syscall(SYS_gettid);
}

static volatile pid_t open_tid;
static volatile int stop_thread;
static void *open_to_signals(void *arg)
{
	(void)arg;
	open_tid = (pid_t)syscall(SYS_gettid);
	block(SIGUSR1, SIG_UNBLOCK);
	while (!stop_thread)
		usleep(1000);
	return NULL;
}

static void threads(void)
{
	pthread_t t;

	set_handler(SIGUSR1, takes, 0);
	block(SIGUSR1, SIG_BLOCK);
	pthread_create(&t, NULL, open_to_signals, NULL);
	while (!open_tid)
		usleep(1000);
	for (int i = 0; i < 20; i++) {
		taker = 0;
		kill(getpid(), SIGUSR1);
		for (int n = 0; n < 1000 && !taker; n++)
			usleep(1000);
		CHECK_EQUAL(open_tid, taker);
	}
	stop_thread = 1;
	pthread_join(t, NULL);
	block(SIGUSR1, SIG_UNBLOCK);
}

static void *spins(void *arg)
{
	for (;;)
		;
	return arg;
}

static void killing(void)
{
	int st;
	pid_t pid = fork();

	if (!pid) {
		pthread_t t;
		sigset_t all;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, NULL);
		for (int i = 0; i < 3; i++)
			pthread_create(&t, NULL, spins, NULL);
		pause();
		_exit(0);
	}
	usleep(50000);
	kill(pid, SIGTERM);
	usleep(20000);
	CHECK_EQUAL(0, waitpid(pid, &st, WNOHANG));
	kill(pid, SIGKILL);
	CHECK_EQUAL(pid, waitpid(pid, &st, 0));
	CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
}

static void sent_to_groups(void)
{
	int st, n = 0;
	pid_t first = 0;

	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		if (!pid) {
			for (;;)
				pause();
		}
		if (!first)
			first = pid;
		MUST(!setpgid(pid, first));
	}
	CHECK_EQUAL(0, kill(-first, 0));
	kill(-first, SIGINT);
	while (waitpid(-first, &st, 0) > 0)
		n += WIFSIGNALED(st) && WTERMSIG(st) == SIGINT;
	CHECK_EQUAL(3, n);
	CHECK_ERRNO(ESRCH, kill(-first, 0));
}

int main(void)
{
	senders();
	masks();
	real_time();
	restarting();
	action_flags();
	waiting();
	faults();
	job_control();
	orphaned_group();
	threads();
	killing();
	sent_to_groups();
	test_end();
}
