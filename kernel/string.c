/*
 * The C string functions. Copies use REP MOVSQ: the fastest way on every CPU with fast strings, and one counted
 * instruction per eight bytes under emulation; a short or odd tail is done with overlapping eight-byte accesses.
 *
 * Compiled without the checks of mm/kasan.c, since they would not see the copies; the functions check whole ranges themselves.
 */
#include "kernel/string.h"
#include "kernel/errno.h"
#include "mm/kasan.h"

#define RET_IP	((uintptr_t)__builtin_return_address(0))

typedef u64 __attribute__((aligned(1), may_alias)) unaligned_u64;
typedef u32 __attribute__((aligned(1), may_alias)) unaligned_u32;
typedef u16 __attribute__((aligned(1), may_alias)) unaligned_u16;

/* Up to 16 bytes: two accesses that may overlap. All loads come before the stores, so it also serves memmove. */
static inline void copy_small(void *dst, const void *src, size_t n)
{
	if (n >= 8) {
		u64 a = *(const unaligned_u64 *)src;
		u64 b = *(const unaligned_u64 *)((const char *)src + n - 8);
		*(unaligned_u64 *)dst = a;
		*(unaligned_u64 *)((char *)dst + n - 8) = b;
	} else if (n >= 4) {
		u32 a = *(const unaligned_u32 *)src;
		u32 b = *(const unaligned_u32 *)((const char *)src + n - 4);
		*(unaligned_u32 *)dst = a;
		*(unaligned_u32 *)((char *)dst + n - 4) = b;
	} else if (n >= 2) {
		u16 a = *(const unaligned_u16 *)src;
		u16 b = *(const unaligned_u16 *)((const char *)src + n - 2);
		*(unaligned_u16 *)dst = a;
		*(unaligned_u16 *)((char *)dst + n - 2) = b;
	} else if (n) {
		*(char *)dst = *(const char *)src;
	}
}

static inline void check_copy(const void *dst, const void *src, size_t n, uintptr_t caller)
{
	kasan_check(src, n, false, caller);
	kasan_check(dst, n, true, caller);
}

void *memcpy(void *dst, const void *src, size_t n)
{
	check_copy(dst, src, n, RET_IP);
	if (n <= 16) {
		copy_small(dst, src, n);
		return dst;
	}
	u64 tail = *(const unaligned_u64 *)((const char *)src + n - 8);
	void *d = dst;
	size_t words = (n - 1) / 8;	/* the last 1 to 8 bytes are the tail's */
	__asm__ volatile("rep movsq" : "+D"(d), "+S"(src), "+c"(words) : : "memory");
	*(unaligned_u64 *)((char *)dst + n - 8) = tail;
	return dst;
}

void *memmove(void *dst, const void *src, size_t n)
{
	check_copy(dst, src, n, RET_IP);
	if (n <= 16) {
		copy_small(dst, src, n);
		return dst;
	}
	if ((uintptr_t)dst - (uintptr_t)src >= n)	/* dst before src, or no overlap: forwards is safe */
		return memcpy(dst, src, n);

	u64 head = *(const unaligned_u64 *)src;
	const char *s = (const char *)src + n - 8;
	char *d = (char *)dst + n - 8;
	size_t words = (n - 1) / 8;
	__asm__ volatile("std; rep movsq; cld" : "+D"(d), "+S"(s), "+c"(words) : : "memory", "cc");
	*(unaligned_u64 *)dst = head;
	return dst;
}

void *memset(void *dst, int c, size_t n)
{
	u64 pattern = (u8)c * 0x0101010101010101ul;

	kasan_check(dst, n, true, RET_IP);
	if (n < 8) {
		char *p = dst;
		while (n--) {
			*p++ = (char)c;
			barrier();	/* keeps the compiler from turning this loop into a call of memset */
		}
		return dst;
	}
	void *d = dst;
	size_t words = n / 8;
	__asm__ volatile("rep stosq" : "+D"(d), "+c"(words) : "a"(pattern) : "memory");
	*(unaligned_u64 *)((char *)dst + n - 8) = pattern;
	return dst;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const u8 *p = a, *q = b;

	kasan_check(a, n, false, RET_IP);
	kasan_check(b, n, false, RET_IP);
	while (n >= 8 && *(const unaligned_u64 *)p == *(const unaligned_u64 *)q) {
		p += 8;
		q += 8;
		n -= 8;
	}
	for (; n; n--, p++, q++) {
		if (*p != *q)
			return *p - *q;
	}
	return 0;
}

void *memchr(const void *s, int c, size_t n)
{
	const u8 *p = s;

	for (; n; n--, p++) {
		if (*p == (u8)c)
			return (void *)p;
	}
	return NULL;
}

size_t strlen(const char *s)
{
	const char *p = s;

	while (*p) {
		p++;
		barrier();
	}
	kasan_check(s, (size_t)(p - s) + 1, false, RET_IP);
	return (size_t)(p - s);
}

size_t strnlen(const char *s, size_t max)
{
	size_t n = 0;

	while (n < max && s[n])
		n++;
	kasan_check(s, min(n + 1, max), false, RET_IP);
	return n;
}

int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return (u8)*a - (u8)*b;
}

int strncmp(const char *a, const char *b, size_t n)
{
	while (n && *a && *a == *b) {
		a++;
		b++;
		n--;
	}
	return n ? (u8)*a - (u8)*b : 0;
}

char *strchr(const char *s, int c)
{
	for (;; s++) {
		if (*s == (char)c)
			return (char *)s;
		if (!*s)
			return NULL;
	}
}

char *strrchr(const char *s, int c)
{
	const char *found = NULL;

	for (;; s++) {
		if (*s == (char)c)
			found = s;
		if (!*s)
			return (char *)found;
	}
}

char *strstr(const char *hay, const char *needle)
{
	size_t n = strlen(needle);

	for (; strncmp(hay, needle, n) != 0; hay++) {
		if (!*hay)
			return NULL;
	}
	return (char *)hay;
}

ssize_t strscpy(char *dst, const char *src, size_t size)
{
	if (!size)
		return -E2BIG;
	size_t n = strnlen(src, size);
	if (n == size) {
		memcpy(dst, src, size - 1);
		dst[size - 1] = '\0';
		return -E2BIG;
	}
	memcpy(dst, src, n + 1);
	return (ssize_t)n;
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'Z')
		return c - 'A' + 10;
	return 99;
}

int kstrtou64(const char *s, unsigned int base, u64 *out)
{
	u64 v = 0;

	if (*s == '+')
		s++;
	if (base == 0) {
		base = 10;
		if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
			base = 16;
		else if (s[0] == '0')
			base = 8;
	}
	if (base == 16 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		s += 2;
	if (!*s || *s == '\n')
		return -EINVAL;
	for (; *s && !(*s == '\n' && !s[1]); s++) {
		unsigned int d = (unsigned int)digit_value(*s);
		if (d >= base)
			return -EINVAL;
		if (__builtin_mul_overflow(v, (u64)base, &v) || __builtin_add_overflow(v, (u64)d, &v))
			return -ERANGE;
	}
	*out = v;
	return 0;
}

/* The power of 1024 that a suffix stands for, or -1. */
static int size_suffix(char c)
{
	const char *suffixes = "kmgtpe", *found = c ? strchr(suffixes, c | 0x20) : NULL;

	return found ? (int)(found - suffixes) + 1 : -1;
}

u64 memparse(const char *s, const char **end)
{
	unsigned int base = 10, d;
	int power;
	u64 v = 0;

	if (s[0] == '0' && (s[1] | 0x20) == 'x' && digit_value(s[2]) < 16) {
		base = 16;
		s += 2;
	} else if (s[0] == '0') {
		base = 8;
	}
	for (; (d = (unsigned int)digit_value(*s)) < base; s++)
		v = v * base + d;
	power = size_suffix(*s);
	if (power > 0) {
		v <<= 10 * power;
		s++;
	}
	*end = s;
	return v;
}

/* What __builtin_popcountll becomes for a CPU without POPCNT: halves, quarters ... added up in parallel. */
int __popcountdi2(long v);
int __popcountdi2(long v)
{
	u64 x = (u64)v;

	x -= x >> 1 & 0x5555555555555555ul;
	x = (x & 0x3333333333333333ul) + (x >> 2 & 0x3333333333333333ul);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0ful;
	return (int)(x * 0x0101010101010101ul >> 56);
}
