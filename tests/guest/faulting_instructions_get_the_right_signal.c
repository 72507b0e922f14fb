/*
 * What user code may not do gets a signal with the siginfo that Linux gives, and the kernel goes on.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdint.h>
#include <sys/mman.h>

#include "test.h"

static sigjmp_buf back;
static volatile int got_signal, got_code;
static void *volatile got_addr;

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)context;
	got_signal = sig;
	got_code = info->si_code;
	got_addr = info->si_addr;
	siglongjmp(back, 1);
}

#define EXPECT(sig, code, address, ...)							\
	do {										\
		got_signal = got_code = 0; got_addr = (void *)-1;			\
		if (sigsetjmp(back, 1) == 0) {						\
			__VA_ARGS__;							\
		}									\
		CHECK_EQUAL(sig, got_signal);						\
		CHECK_EQUAL(code, got_code);						\
		if ((uintptr_t)(address) != (uintptr_t)-1)				\
			CHECK_EQUAL((uintptr_t)(address), (uintptr_t)got_addr);		\
	} while (0)

#define ANY ((uintptr_t)-1)

static void jump(uintptr_t to)
{
	((void (*)(void))to)();
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER };
	int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };
	char *rw = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile int zero = 0, one = 1;
	volatile uintptr_t low = 0x10;

	MUST(rw != MAP_FAILED && ro != MAP_FAILED && none != MAP_FAILED);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &sa, NULL);

	EXPECT(SIGSEGV, SEGV_MAPERR, 0x10, *(volatile int *)low = 1);
	EXPECT(SIGSEGV, SEGV_ACCERR, ro + 5, *(volatile char *)(ro + 5) = 1);
	EXPECT(SIGSEGV, SEGV_ACCERR, none, (void)*(volatile char *)none);
	EXPECT(SIGSEGV, SEGV_ACCERR, rw, jump((uintptr_t)rw));
	EXPECT(SIGSEGV, SEGV_MAPERR, 0xffffffff80200000, *(volatile char *)0xffffffff80200000 = 1);
	EXPECT(SIGSEGV, SEGV_MAPERR, 0xffffffff80200000, (void)*(volatile char *)0xffffffff80200000);
	EXPECT(SIGSEGV, SEGV_MAPERR, 0xffffffff80200000, jump(0xffffffff80200000));
	EXPECT(SIGSEGV, SI_KERNEL, 0, (void)*(volatile char *)0x1234567812345678);		/* not canonical */
	EXPECT(SIGSEGV, SI_KERNEL, 0, jump(0x1234567812345678));
	EXPECT(SIGSEGV, SI_KERNEL, 0, asm volatile("hlt"));
	EXPECT(SIGSEGV, SI_KERNEL, 0, asm volatile("cli"));
	EXPECT(SIGSEGV, SI_KERNEL, 0, asm volatile("mov %%cr0, %%rax" ::: "rax"));
	EXPECT(SIGSEGV, SI_KERNEL, 0, asm volatile("wrmsr" :: "c"(0x10), "a"(0), "d"(0)));
	EXPECT(SIGSEGV, SI_KERNEL, 0, asm volatile("outb %%al, $0x80" :: "a"(0)));
	EXPECT(SIGSEGV, SI_KERNEL, 0, asm volatile("int $0x33"));
	EXPECT(SIGSEGV, SI_KERNEL, 0, asm volatile("lidt (%0)" :: "r"(rw)));
	EXPECT(SIGILL, ILL_ILLOPN, ANY, asm volatile("ud2"));
	EXPECT(SIGFPE, FPE_INTDIV, ANY, { volatile int x = one / zero; (void)x; });
	EXPECT(SIGTRAP, SI_KERNEL, ANY, asm volatile("int3"));
	EXPECT(SIGTRAP, TRAP_TRACE, ANY, asm volatile("pushfq; orq $0x100, (%%rsp); popfq; nop" ::: "memory", "cc"));

	/* A stack pointer that leads nowhere: no handler can run on it, so the child dies of it. */
	signal(SIGSEGV, SIG_DFL);
	pid_t pid = fork();
	if (pid == 0) {
		asm volatile("movq $0x4000, %rsp; pushq $1");
		_exit(0);
	}
	int status;
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);

	/*
	 * A return to a selector that is not a code segment. QEMU before 9.1 reads the stack for it as a supervisor, which
	 * SMAP refuses: not the fault this should be, and no page can be brought in to end it. Linux kills such a program
	 * with an oops (SIGKILL).
	 */
	pid = fork();
	if (pid == 0) {
		alarm(5);
		asm volatile("pushq $0; leaq 1f(%%rip), %%rax; pushq %%rax; lretq; 1:" ::: "rax", "memory");
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGKILL));
	test_end();
}
