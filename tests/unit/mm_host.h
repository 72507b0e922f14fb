/*
 * The bottom of mm/ on the host: a few simulated CPUs, run one at a time by one thread (test_cpu says which), interrupts
 * that are a flag, physical memory and struct pages in two anonymous mappings. Include before any kernel header: it
 * takes the place of those that only make sense on the machine.
 */
#ifndef MM_HOST_H
#define MM_HOST_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernel/types.h"

#define TEST_CPUS	4u
#define TEST_PHYS	(6ul << 30)	/* simulated physical address space; only what is touched costs memory */

#define FAIL(...) do { fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); fprintf(stderr, __VA_ARGS__); fputc('\n', stderr); exit(1); } while (0)
#define CHECK(cond) do { if (!(cond)) FAIL("%s", #cond); } while (0)

/* -- kernel/percpu.h -- */
#define KERNEL_PERCPU_H
struct task;
static unsigned int test_cpu;
static cpumask_t cpu_online_mask = (1ul << TEST_CPUS) - 1;
extern char __start_percpu_vars[], __stop_percpu_vars[];
static char *test_percpu[TEST_CPUS];
static inline uintptr_t test_percpu_addr(const void *var, unsigned int cpu)
{
	return (uintptr_t)test_percpu[cpu] + ((uintptr_t)var - (uintptr_t)__start_percpu_vars);
}
#define DEFINE_PER_CPU(type, name)	__section("percpu_vars") __typeof__(type) name
#define DECLARE_PER_CPU(type, name)	extern __typeof__(type) name
#define this_cpu_ptr(var)		((__typeof__(var))test_percpu_addr(var, test_cpu))
#define per_cpu_ptr(var, cpu)		((__typeof__(var))test_percpu_addr(var, cpu))
#define smp_processor_id()		test_cpu
#define current				((struct task *)0)
#define for_each_cpu(cpu, mask) \
	for (cpumask_t _m = (mask); _m && ((cpu) = (unsigned)__builtin_ctzll(_m), 1); _m &= _m - 1)

/* -- kernel/x86/cpu.h -- */
#define KERNEL_X86_CPU_H
static bool test_irqs_off;
static inline void local_irq_disable(void) { test_irqs_off = true; }
static inline void local_irq_enable(void) { test_irqs_off = false; }
static inline bool irqs_disabled(void) { return test_irqs_off; }
static inline unsigned long local_irq_save(void) { unsigned long f = test_irqs_off; test_irqs_off = true; return f; }
static inline void local_irq_restore(unsigned long flags) { test_irqs_off = flags; }
static void (*test_relax)(void);	/* what the others do while we spin */
static inline void cpu_relax(void) { if (test_relax) test_relax(); }

/* -- mm/layout.h -- */
#define MM_LAYOUT_H
#define TASK_SIZE		0x00007ffffffff000ul
static char *test_memory, *test_pages;
#define VMEMMAP_BASE		((uintptr_t)test_pages)
static inline void *phys_to_virt(phys_addr_t p) { return test_memory + p; }
static inline phys_addr_t virt_to_phys(const void *v) { return (uintptr_t)v - (uintptr_t)test_memory; }

/* -- kernel/preempt.h beyond the shim -- */
#include "kernel/preempt.h"
static inline bool in_interrupt(void) { return false; }

/* -- kernel/panic.c -- */
static jmp_buf test_panic_jump;
static bool test_panic_expected;
static char test_panic_text[512];
void panic(const char *fmt, ...) __noreturn;
void panic(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(test_panic_text, sizeof(test_panic_text), fmt, ap);
	va_end(ap);
	if (test_panic_expected)
		longjmp(test_panic_jump, 1);
	fprintf(stderr, "panic: %s\n", test_panic_text);
	abort();
}
/* True if @statement panics; its text is in test_panic_text. */
#define PANICS(statement) ({								\
	test_panic_expected = true;							\
	bool _panicked = setjmp(test_panic_jump) != 0;					\
	if (!_panicked) { statement; }							\
	test_panic_expected = false;							\
	test_irqs_off = false;								\
	_panicked; })
void halt_with_message(const char *fmt, ...) __noreturn;
void halt_with_message(const char *fmt, ...) { fprintf(stderr, "halt: %s\n", fmt); abort(); }
void warn_at(const char *cond, const char *file, int line) { FAIL("%s:%d: %s", file, line, cond); }
void printk(const char *fmt, ...) { (void)fmt; }
int scnprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(buf, size, fmt, ap);
	va_end(ap);
	return n < (int)size ? n : (int)size - 1;
}

/* -- locks: one thread, so they must always be free -- */
#include "kernel/spinlock.h"
bool lock_stat_enabled;
void lock_stat_spin_acquired(const struct spinlock *lock) { (void)lock; }
void spin_lock_contended(struct spinlock *lock) { FAIL("lock of class %u taken twice", lock->class); }
#ifdef DEBUG
void lock_rank_acquire(const void *lock, enum lock_class class, bool nested, bool try_lock, uintptr_t caller)
{
	(void)lock; (void)class; (void)nested; (void)try_lock; (void)caller;
}
void lock_rank_release(const void *lock, enum lock_class class) { (void)lock; (void)class; }
#endif

/* -- kernel/smp.c -- */
#include "kernel/smp.h"
void smp_call_function(cpumask_t mask, void (*fn)(void *arg), void *arg, bool wait)
{
	unsigned int self = test_cpu, cpu;

	(void)wait;
	CHECK(!test_irqs_off);
	for_each_cpu(cpu, mask) {
		test_cpu = cpu;
		test_irqs_off = true;
		fn(arg);
		test_irqs_off = false;
	}
	test_cpu = self;
}

static inline void mm_host_init(void)
{
	size_t size = (size_t)(__stop_percpu_vars - __start_percpu_vars);

	for (unsigned int cpu = 0; cpu < TEST_CPUS; cpu++)
		test_percpu[cpu] = aligned_alloc(64, ALIGN_UP(size, 64ul)), memset(test_percpu[cpu], 0, size);
	test_memory = mmap(NULL, TEST_PHYS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	test_pages = mmap(NULL, TEST_PHYS / PAGE_SIZE * 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(test_memory != MAP_FAILED && test_pages != MAP_FAILED);
}

/* A generator of our own, so that a seed gives the same run everywhere. */
static u64 test_seed = 1;
static inline u64 test_random(void)
{
	test_seed ^= test_seed << 13;
	test_seed ^= test_seed >> 7;
	test_seed ^= test_seed << 17;
	return test_seed * 0x2545f4914f6cdd1dul >> 16;
}

/* There are no pools of huge pages here. */
struct page;
void hugetlb_free_page(struct page *page);
void hugetlb_free_page(struct page *page) { FAIL("page %p is of no pool", (void *)page); }

#endif
