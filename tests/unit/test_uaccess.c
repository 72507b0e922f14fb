/*
 * mm/uaccess.c and mm/uaccess_asm.S on the host: the same instructions, with SIGSEGV in the role of the page fault
 * handler, which looks into the same exception table.
 *
 * Each routine is run at every alignment and length around a page that ends in nothing: what was copied, what is
 * reported as left, and that not a byte beyond is touched.
 *
 * sources: mm/uaccess.c mm/uaccess_asm.S
 * flags: -Wl,-T,tests/unit/ex_table.ld
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "mm/uaccess.h"

#define CHECK(cond) do { if (!(cond)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); exit(1); } } while (0)

bool cpu_has_smap;		/* stac would fault here */
extern char __ex_table_start[], __ex_table_end[];
static unsigned long faults;
static char *page, *edge;	/* a page, and the first byte behind it, where nothing is */

void panic(const char *fmt, ...) { fprintf(stderr, "panic: %s\n", fmt); abort(); }

static void on_fault(int sig, siginfo_t *info, void *context)
{
	greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	uintptr_t fixup = search_exception_table((uintptr_t)*rip);

	(void)sig; (void)info;
	if (!fixup) {
		static const char text[] = "fault at an instruction without a fix-up\n";
		if (write(2, text, sizeof(text) - 1) < 0) { }
		_exit(1);
	}
	faults++;
	*rip = (greg_t)fixup;
}

static void setup(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	uintptr_t first = (uintptr_t)__ex_table_start & ~4095ul;

	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED && !munmap(page + 4096, 4096));
	edge = page + 4096;
	CHECK(!mprotect((void *)first, (uintptr_t)__ex_table_end - first, PROT_READ | PROT_WRITE));
	exception_table_init();
	for (struct exception_entry *e = (void *)__ex_table_start; e + 1 < (struct exception_entry *)__ex_table_end; e++)
		CHECK((uintptr_t)&e[0].insn + (uintptr_t)(s64)e[0].insn < (uintptr_t)&e[1].insn + (uintptr_t)(s64)e[1].insn);
	sigaction(SIGSEGV, &sa, NULL);
}

static void copies(void)
{
	char buf[256], expect[256];

	for (size_t have = 0; have <= 64; have++) {		/* bytes up to the edge */
		for (size_t n = 0; n <= 80; n++) {
			for (size_t shift = 0; shift < 9; shift++) {
				size_t copied = n < have ? n : have;
				char *user = edge - have;

				for (size_t i = 0; i < have; i++)
					user[i] = (char)(i * 3 + 1);
				memset(buf, 0x55, sizeof(buf));
				memset(expect, 0x55, sizeof(expect));
				memset(expect + shift, 0, n);		/* copy_from_user zeroes what it could not read */
				memcpy(expect + shift, user, copied);
				CHECK(copy_from_user(buf + shift, user, n) == n - copied);
				CHECK(!memcmp(buf, expect, sizeof(buf)));

				memset(page, 0x77, 4096);
				for (size_t i = 0; i < n; i++)
					buf[shift + i] = (char)(i + 9);
				CHECK(copy_to_user(user, buf + shift, n) == n - copied);
				CHECK(!memcmp(user, buf + shift, copied));
				for (char *p = page; p < edge; p++)
					CHECK((p >= user && p < user + copied) || *p == 0x77);
			}
			memset(page, 0x77, 4096);
			CHECK(clear_user(edge - have, n) == n - (n < have ? n : have));
			for (char *p = page; p < edge; p++)
				CHECK(*p == (p >= edge - have && p < edge - have + n ? 0 : 0x77));
		}
	}
	CHECK(copy_from_user(buf, (void *)(TASK_SIZE - 3), 8) == 8);
	CHECK(copy_to_user((void *)0xffff888000000000ul, buf, 8) == 8);
	CHECK(copy_to_user((void *)0x8000000000000000ul, buf, ~0ul) == ~0ul);
	CHECK(copy_in(buf, NULL, 1) == -EFAULT && copy_in(buf, NULL, 0) == 0);
}

static void strings(void)
{
	char dst[128];

	for (size_t have = 1; have <= 40; have++) {
		for (size_t len = 0; len <= 48; len++) {	/* length of the string; over the edge if >= have */
			char *src = edge - have;

			memset(src, 'x', have);
			if (len < have)
				src[len] = '\0';
			for (size_t size = 0; size <= 56; size++) {
				ssize_t expect;

				if (len < have && len < size)
					expect = (ssize_t)len;
				else if (size <= have)
					expect = -ENAMETOOLONG;
				else
					expect = len < have ? (ssize_t)len : -EFAULT;
				memset(dst, 0x55, sizeof(dst));
				CHECK(strncpy_from_user(dst, src, size) == expect);
				if (expect >= 0)
					CHECK(!memcmp(dst, src, len + 1));
				CHECK(dst[size] == 0x55);	/* nothing beyond the room given */

				size_t n = strnlen_user(src, size);
				if (len < have && len < size)
					CHECK(n == len + 1);
				else
					CHECK(n == (size <= have ? size + 1 : 0));
			}
		}
	}
	CHECK(strncpy_from_user(dst, (char *)TASK_SIZE, 10) == -EFAULT);
	CHECK(strncpy_from_user(dst, (char *)~0ul, 10) == -EFAULT);
	CHECK(strnlen_user((char *)~0ul, 10) == 0);
}

static void scalars(void)
{
	u8 b = 9;
	u16 h = 9;
	s32 w = 9;
	u64 q = 9;
	void *ptr = &ptr;

	memset(edge - 8, 0x81, 8);
	CHECK(!get_user(b, (u8 *)(edge - 1)) && b == 0x81);
	CHECK(!get_user(h, (u16 *)(edge - 2)) && h == 0x8181);
	CHECK(!get_user(w, (s32 *)(edge - 4)) && w == (s32)0x81818181);
	CHECK(!get_user(q, (u64 *)(edge - 8)) && q == 0x8181818181818181ul);
	CHECK(!get_user(ptr, (void **)(edge - 8)) && ptr == (void *)0x8181818181818181ul);
	CHECK(get_user(b, (u8 *)edge) == -EFAULT && b == 0);
	CHECK(get_user(q, (u64 *)(edge - 7)) == -EFAULT && q == 0);
	CHECK(get_user(w, (s32 *)(TASK_SIZE - 3)) == -EFAULT && get_user(w, (s32 *)~0ul) == -EFAULT);
	CHECK(!put_user(-2, (s32 *)(edge - 4)) && *(s32 *)(edge - 4) == -2);
	CHECK(!put_user(0x1234567890ul, (u64 *)(edge - 8)) && *(u64 *)(edge - 8) == 0x1234567890ul);
	CHECK(!put_user(7, (u8 *)(edge - 1)) && edge[-1] == 7);
	CHECK(put_user(7, (u16 *)(edge - 1)) == -EFAULT && put_user(7ul, (u64 *)0xffff888000000000ul) == -EFAULT);

	int __cmpxchg_user_u32(u32 *uaddr, u32 old, u32 new_val, u32 *cur);
	u32 *word = (u32 *)(edge - 4), cur = 0;
	*word = 5;
	CHECK(!__cmpxchg_user_u32(word, 4, 6, &cur) && cur == 5 && *word == 5);
	CHECK(!__cmpxchg_user_u32(word, 5, 6, &cur) && cur == 5 && *word == 6);
	CHECK(__cmpxchg_user_u32((u32 *)edge, 5, 6, &cur) == -EFAULT);
}

int main(void)
{
	setup();
	scalars();
	strings();
	copies();
	CHECK(faults > 1000);
	return 0;
}
