/* Fixed-width types and the few macros that every file needs. Includes nothing of ours. */
#ifndef KERNEL_TYPES_H
#define KERNEL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdarg.h>

typedef uint8_t  u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t   s8;
typedef int16_t  s16;
typedef int32_t  s32;
typedef int64_t  s64;
typedef int64_t  ssize_t;
typedef int64_t  loff_t;

typedef u64 phys_addr_t;	/* a physical byte address */
typedef u64 pfn_t;		/* a physical frame number: phys >> PAGE_SHIFT */
typedef u64 cpumask_t;		/* bit n = CPU n; NR_CPUS is 64, so one word is enough */

#define NR_CPUS		64

#define PAGE_SHIFT	12
#define PAGE_SIZE	(1UL << PAGE_SHIFT)
#define PAGE_MASK	(~(PAGE_SIZE - 1))

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))
#define ALIGN_UP(x, a)		(((x) + ((typeof(x))(a) - 1)) & ~((typeof(x))(a) - 1))
#define ALIGN_DOWN(x, a)	((x) & ~((typeof(x))(a) - 1))
#define IS_ALIGNED(x, a)	(((x) & ((typeof(x))(a) - 1)) == 0)
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define min(a, b)	({ typeof(a) _a = (a); typeof(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b)	({ typeof(a) _a = (a); typeof(b) _b = (b); _a > _b ? _a : _b; })
#define clamp(v, lo, hi)	min(max(v, lo), hi)

#define __packed	__attribute__((packed))
#define __aligned(n)	__attribute__((aligned(n)))
#define __noreturn	__attribute__((noreturn))
#define __section(s)	__attribute__((section(s)))
#define __used		__attribute__((used))
#define __unused	__attribute__((unused))
#define __noinline	__attribute__((noinline))
#define __must_check	__attribute__((warn_unused_result))
#define __printf(f, a)	__attribute__((format(printf, f, a)))
#define __user				/* a pointer that came from user space: only mm/uaccess.h may follow it */
#define __init		__attribute__((section(".init.text"), cold))

#define BIT(n)		(1UL << (n))

/* One access, not torn, repeated or invented by the compiler. Orders nothing by itself. */
#define READ_ONCE(x)		(*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v)	(*(volatile typeof(x) *)&(x) = (v))
#define barrier()		__asm__ volatile("" ::: "memory")

/* Pointers that carry a small negative errno instead, as in Linux. */
#define MAX_ERRNO	4095
static inline void *ERR_PTR(long error) { return (void *)error; }
static inline long PTR_ERR(const void *ptr) { return (long)ptr; }
static inline bool IS_ERR_VALUE(unsigned long v) { return v >= (unsigned long)-MAX_ERRNO; }
static inline bool IS_ERR(const void *ptr) { return IS_ERR_VALUE((unsigned long)ptr); }
static inline bool IS_ERR_OR_NULL(const void *ptr) { return !ptr || IS_ERR(ptr); }

#endif
