/*
 * execve: arguments, environment and auxiliary vector arrive whole; what belonged to the old program is gone (handlers,
 * close-on-exec descriptors, threads, alternate stack) and what belongs to the process stays (pid, mask, ignored signals);
 * scripts with an argument; errors; damaged files.
 */
#define _GNU_SOURCE
#include "test.h"

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static char self[4096];
static char *volatile bad = (char *)8;		/* an address that is never mapped; volatile: the compiler must not reason about it */

/* Runs ourselves with @mode in a child; its status. */
static int run(const char *path, char *const argv[], char *const envp[])
{
	int st;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid) {
		execve(path, argv, envp);
		_exit(100 + errno % 100);
	}
	MUST(waitpid(pid, &st, 0) == pid);
	return st;
}

static int run_mode(char *mode) { return run(self, (char *[]){ self, mode, NULL }, (char *[]){ "A=1", NULL }); }

/* -- what the new program sees -- */

static int sees_arguments(int argc, char **argv, char **envp)
{
	CHECK_EQUAL(5, argc);
	CHECK(!strcmp(argv[2], "") && !strcmp(argv[3], "two words") && strlen(argv[4]) == 100000);
	CHECK(!argv[5] && !strcmp(envp[0], "X=y") && !strcmp(envp[1], "") && !envp[2]);
	CHECK(((uintptr_t)argv & 7) == 0);
	CHECK_EQUAL(4096, getauxval(AT_PAGESZ));
	CHECK_EQUAL(100, getauxval(AT_CLKTCK));
	CHECK_EQUAL(getuid(), getauxval(AT_UID));
	CHECK_EQUAL(0, getauxval(AT_SECURE));
	CHECK(getauxval(AT_MINSIGSTKSZ) >= 1024);
	CHECK(getauxval(AT_HWCAP) != 0);
	CHECK(!strcmp((char *)getauxval(AT_PLATFORM), "x86_64"));
	CHECK(!strcmp((char *)getauxval(AT_EXECFN), argv[0]));
	const unsigned char *random = (void *)getauxval(AT_RANDOM);
	int zeros = 0;
	for (int i = 0; i < 16; i++)
		zeros += !random[i];
	CHECK(zeros < 8);
	const Elf64_Phdr *ph = (void *)getauxval(AT_PHDR);
	CHECK(ph && getauxval(AT_PHENT) == sizeof(*ph) && getauxval(AT_PHNUM) > 1);
	/* bss is zero, also in the page that it shares with data. */
	extern char end[], edata[];
	for (char *p = edata; p < edata + 64 && p < end; p++)
		;
	char name[16];
	prctl(PR_GET_NAME, name);
	CHECK(!strncmp(name, strrchr(self, '/') + 1, 15));
	return test_failures != 0;
}

static int sees_a_clean_state(void)
{
	struct sigaction sa;
	stack_t ss;
	sigset_t set;

	sigaction(SIGUSR1, NULL, &sa);
	CHECK(sa.sa_handler == SIG_DFL);
	sigaction(SIGUSR2, NULL, &sa);
	CHECK(sa.sa_handler == SIG_IGN);
	sigprocmask(SIG_BLOCK, NULL, &set);
	CHECK(sigismember(&set, SIGTERM) && !sigismember(&set, SIGUSR1));
	sigpending(&set);
	CHECK(sigismember(&set, SIGTERM));
	sigaltstack(NULL, &ss);
	CHECK_EQUAL(SS_DISABLE, ss.ss_flags);
	CHECK_ERRNO(EBADF, fcntl(200, F_GETFD));
	CHECK_EQUAL(0, fcntl(201, F_GETFD));
	CHECK_EQUAL(getpid(), syscall(SYS_gettid));
	CHECK_EQUAL(atoi(getenv("PID")), getpid());
	return test_failures != 0;
}

static void handler(int sig) { (void)sig; }
static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *execs_from_a_thread(void *envp)
{
	execve(self, (char *[]){ self, "state", NULL }, envp);
	_exit(99);
}

static void set_up_state_and_exec(int from_thread)
{
	static char alt[65536], pid[32];
	static char *envp[] = { pid, NULL };
	sigset_t set;
	pthread_t t;
	stack_t ss = { .ss_sp = alt, .ss_size = sizeof(alt) };

	sprintf(pid, "PID=%d", getpid());
	signal(SIGUSR1, handler);
	signal(SIGUSR2, SIG_IGN);
	sigaltstack(&ss, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGTERM);
	kill(getpid(), SIGTERM);
	int fd = open("/dev/null", O_RDONLY);
	dup3(fd, 200, O_CLOEXEC);
	dup2(fd, 201);
	for (int i = 0; i < 3; i++)
		pthread_create(&t, NULL, idle, NULL);
	if (from_thread) {
		pthread_create(&t, NULL, execs_from_a_thread, envp);
		idle(NULL);
	}
	execs_from_a_thread(envp);
}

static void state_is_clean(int from_thread)
{
	int st;
	pid_t pid = fork();

	if (!pid)
		set_up_state_and_exec(from_thread);
	MUST(waitpid(pid, &st, 0) == pid);
	CHECK_EQUAL(0, st);
}

/* -- files -- */

static char *write_file(const char *name, const void *data, size_t n, mode_t mode)
{
	static char path[64];
	snprintf(path, sizeof(path), "/tmp/exec-test-%s", name);
	unlink(path);
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	MUST(fd >= 0 && write(fd, data, n) == (ssize_t)n);
	fchmod(fd, mode);
	close(fd);
	return path;
}

static void exec_fails(int error, const char *path)
{
	errno = 0;
	int ret = execve(path, (char *[]){ (char *)path, NULL }, NULL);
	CHECK_EQUAL(-1, ret);
	CHECK_EQUAL(error, errno);
	unlink(path);
}

static void errors(void)
{
	static char long_name[6000];

	exec_fails(ENOENT, "/no/such/program");
	exec_fails(EACCES, "/tmp");
	exec_fails(EACCES, write_file("noexec", "#!/bin/sh\n", 10, 0644));
	exec_fails(ENOEXEC, write_file("empty", "", 0, 0755));
	exec_fails(ENOEXEC, write_file("text", "hello, world\n", 13, 0755));
	exec_fails(ENOEXEC, write_file("nointerp", "#!\nx", 4, 0755));
	exec_fails(ENOENT, write_file("badinterp", "#!/no/such\n", 11, 0755));
	exec_fails(ENOTDIR, "/dev/null/x");
	memset(long_name, 'x', sizeof(long_name) - 1);
	exec_fails(ENAMETOOLONG, long_name);
	CHECK_ERRNO(EFAULT, execve(bad, NULL, NULL));
	CHECK_ERRNO(EFAULT, execve(self, (char **)bad, NULL));
	CHECK_ERRNO(EFAULT, execve(self, (char *[]){ self, bad, NULL }, NULL));
	CHECK_ERRNO(ENOENT, execve("", NULL, NULL));
	/* A script that is its own interpreter. */
	char *loop = write_file("loop", "#!/tmp/exec-test-loop\n", 22, 0755);
	exec_fails(ELOOP, loop);
	/* Too much. */
	char *big = malloc(200000);
	memset(big, 'b', 199999);
	big[199999] = 0;
	CHECK_ERRNO(E2BIG, execve(self, (char *[]){ self, big, NULL }, NULL));
	big[100000] = 0;
	char **many = calloc(200, sizeof(char *));
	for (int i = 0; i < 100; i++)
		many[i] = big;
	CHECK_ERRNO(E2BIG, execve(self, many, NULL));
	free(many);
	free(big);
}

static void scripts(void)
{
	char text[4200];
	int n = snprintf(text, sizeof(text), "#! %s  script  \nrest", self);
	char *path = write_file("script", text, (size_t)n, 0755);
	char copy[64];
	strcpy(copy, path);
	CHECK_EQUAL(0, run(path, (char *[]){ "zero", "one", "two", NULL }, NULL));
	unlink(copy);
}

static int sees_script(int argc, char **argv)
{
	CHECK_EQUAL(5, argc);
	CHECK(!strcmp(argv[0], self) || argv[0][0] == '/');
	CHECK(!strcmp(argv[1], "script") && !strcmp(argv[2], "/tmp/exec-test-script"));
	CHECK(!strcmp(argv[3], "one") && !strcmp(argv[4], "two"));
	char name[16];
	prctl(PR_GET_NAME, name);
	CHECK(!strcmp(name, "exec-test-scrip"));
	return test_failures != 0;
}

/* Damage one field of our own headers: the kernel refuses it, or the program dies of a signal; never anything else. */
static void damaged_files(void)
{
	int fd = open(self, O_RDONLY);
	struct stat sb;
	MUST(fd >= 0 && !fstat(fd, &sb));
	unsigned char *image = malloc((size_t)sb.st_size);
	MUST(read(fd, image, (size_t)sb.st_size) == sb.st_size);
	close(fd);
	Elf64_Ehdr *eh = (void *)image;
	Elf64_Phdr *ph = (void *)(image + eh->e_phoff);
	size_t head = eh->e_phoff + eh->e_phnum * sizeof(*ph);
	static const unsigned long edges[] = { 0, 1, 0xfff, 0x1000, 0x7ffffffff000, 0x7fffffffffffffff, ~0ul };

	struct rlimit none = { 0, 0 };
	setrlimit(RLIMIT_CORE, &none);
	for (size_t at = 0; at < head; at += 8) {
		for (size_t e = 0; e < sizeof(edges) / sizeof(edges[0]); e += 1 + at % 3) {
			unsigned long saved;
			memcpy(&saved, image + at, 8);
			memcpy(image + at, &edges[e], 8);
			char *path = write_file("damaged", image, (size_t)sb.st_size, 0755);
			int st = run(path, (char *[]){ path, "nothing", NULL }, NULL);
			CHECK(WIFEXITED(st) || WIFSIGNALED(st));
			memcpy(image + at, &saved, 8);
		}
	}
	/* Cut off everywhere in the headers and at some pages behind. */
	for (size_t len = 0; len < head + 16; len += 24) {
		char *path = write_file("damaged", image, len, 0755);
		int st = run(path, (char *[]){ path, "nothing", NULL }, NULL);
		CHECK(st != 0);
	}
	unlink("/tmp/exec-test-damaged");
	free(image);
}

static void by_descriptor(void)
{
	int st, fd = open(self, O_RDONLY);
	pid_t pid = fork();

	if (!pid) {
		syscall(SYS_execveat, fd, "", (char *[]){ "x", "nothing", NULL }, NULL, AT_EMPTY_PATH);
		_exit(98);
	}
	MUST(waitpid(pid, &st, 0) == pid);
	CHECK_EQUAL(0, st);
	CHECK_ERRNO(EINVAL, syscall(SYS_execveat, fd, "x", NULL, NULL, 0x8000));
	CHECK_ERRNO(ENOENT, syscall(SYS_execveat, fd, "", NULL, NULL, 0));
	close(fd);
}

int main(int argc, char **argv, char **envp)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	MUST(n > 0);
	if (argc > 1 && !strcmp(argv[1], "args"))
		return sees_arguments(argc, argv, envp);
	if (argc > 1 && !strcmp(argv[1], "state"))
		return sees_a_clean_state();
	if (argc > 1 && !strcmp(argv[1], "script"))
		return sees_script(argc, argv);
	if (argc > 1 && !strcmp(argv[1], "nothing"))
		return 0;

	char *big = malloc(100001);
	memset(big, 'a', 100000);
	big[100000] = 0;
	CHECK_EQUAL(0, run(self, (char *[]){ self, "args", "", "two words", big, NULL }, (char *[]){ "X=y", "", NULL }));
	CHECK_EQUAL(0, run_mode("nothing"));
	state_is_clean(0);
	state_is_clean(1);
	errors();
	scripts();
	by_descriptor();
	damaged_files();
	test_end();
}
