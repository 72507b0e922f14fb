/* x86-64 instructions as one-line wrappers, and control-register bits. Intel SDM vol. 2 and 3 name them. */
#ifndef KERNEL_X86_CPU_H
#define KERNEL_X86_CPU_H

#include "kernel/types.h"

#define RFLAGS_CF	BIT(0)
#define RFLAGS_TF	BIT(8)
#define RFLAGS_IF	BIT(9)
#define RFLAGS_DF	BIT(10)
#define RFLAGS_NT	BIT(14)
#define RFLAGS_RF	BIT(16)
#define RFLAGS_AC	BIT(18)
#define RFLAGS_ID	BIT(21)

static inline unsigned long read_flags(void)
{
	unsigned long f;
	__asm__ volatile("pushfq; pop %0" : "=r"(f) : : "memory");
	return f;
}
static inline void local_irq_disable(void) { __asm__ volatile("cli" ::: "memory"); }
static inline void local_irq_enable(void) { __asm__ volatile("sti" ::: "memory"); }
static inline bool irqs_disabled(void) { return !(read_flags() & RFLAGS_IF); }
static inline unsigned long local_irq_save(void)
{
	unsigned long f = read_flags();
	local_irq_disable();
	return f;
}
static inline void local_irq_restore(unsigned long flags)
{
	if (flags & RFLAGS_IF)
		local_irq_enable();
}
static inline void cpu_relax(void) { __asm__ volatile("pause" ::: "memory"); }
static inline void clflush(const void *p) { __asm__ volatile("clflush %0" : : "m"(*(const char *)p) : "memory"); }
/* sti takes effect after the next instruction, so no wake-up is lost between the two. */
static inline void sti_hlt(void) { __asm__ volatile("sti; hlt" ::: "memory"); }

static inline u64 rdtsc(void)
{
	u32 lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (u64)hi << 32 | lo;
}
static inline u64 rdmsr(u32 msr)
{
	u32 lo, hi;
	__asm__ volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr));
	return (u64)hi << 32 | lo;
}
static inline void wrmsr(u32 msr, u64 v)
{
	__asm__ volatile("wrmsr" : : "c"(msr), "a"((u32)v), "d"((u32)(v >> 32)) : "memory");
}
static inline void cpuid(u32 leaf, u32 sub, u32 *a, u32 *b, u32 *c, u32 *d)
{
	__asm__ volatile("cpuid" : "=a"(*a), "=b"(*b), "=c"(*c), "=d"(*d) : "a"(leaf), "c"(sub));
}

static inline u8 inb(u16 port) { u8 v; __asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port)); return v; }
static inline u16 inw(u16 port) { u16 v; __asm__ volatile("inw %1, %0" : "=a"(v) : "Nd"(port)); return v; }
static inline u32 inl(u16 port) { u32 v; __asm__ volatile("inl %1, %0" : "=a"(v) : "Nd"(port)); return v; }
static inline void outb(u16 port, u8 v) { __asm__ volatile("outb %0, %1" : : "a"(v), "Nd"(port)); }
static inline void outw(u16 port, u16 v) { __asm__ volatile("outw %0, %1" : : "a"(v), "Nd"(port)); }
static inline void outl(u16 port, u32 v) { __asm__ volatile("outl %0, %1" : : "a"(v), "Nd"(port)); }

#define READ_CR(n) static inline u64 read_cr##n(void) \
	{ u64 v; __asm__ volatile("mov %%cr" #n ", %0" : "=r"(v) : : "memory"); return v; }
#define WRITE_CR(n) static inline void write_cr##n(u64 v) \
	{ __asm__ volatile("mov %0, %%cr" #n : : "r"(v) : "memory"); }
READ_CR(0) READ_CR(2) READ_CR(3) READ_CR(4)
WRITE_CR(0) WRITE_CR(3) WRITE_CR(4)

#define CR0_PE		BIT(0)
#define CR0_MP		BIT(1)
#define CR0_EM		BIT(2)
#define CR0_TS		BIT(3)
#define CR0_NE		BIT(5)
#define CR0_WP		BIT(16)
#define CR0_AM		BIT(18)
#define CR0_PG		BIT(31)
#define CR4_PAE		BIT(5)
#define CR4_MCE		BIT(6)
#define CR4_PGE		BIT(7)
#define CR4_OSFXSR	BIT(9)
#define CR4_OSXMMEXCPT	BIT(10)
#define CR4_UMIP	BIT(11)
#define CR4_FSGSBASE	BIT(16)
#define CR4_PCIDE	BIT(17)
#define CR4_OSXSAVE	BIT(18)
#define CR4_SMEP	BIT(20)
#define CR4_SMAP	BIT(21)
#define EFER_SCE	BIT(0)
#define EFER_LME	BIT(8)
#define EFER_LMA	BIT(10)
#define EFER_NXE	BIT(11)

static inline void invlpg(uintptr_t addr) { __asm__ volatile("invlpg (%0)" : : "r"(addr) : "memory"); }
/* Open and close the window in which kernel code may touch user pages; become no-ops without SMAP (patched flag). */
extern bool cpu_has_smap;
static inline __attribute__((always_inline)) void stac(void) { if (cpu_has_smap) __asm__ volatile("stac" ::: "memory", "cc"); }
static inline __attribute__((always_inline)) void clac(void) { if (cpu_has_smap) __asm__ volatile("clac" ::: "memory", "cc"); }

/*
 * Memory types, as Linux programs the PAT: of a 4 KiB entry PWT alone is write-combining, PCD alone uncached unless
 * the MTRRs say WC, PCD|PWT strictly uncached. The PAT bit itself is never needed.
 */
#define PAT_VALUE	0x0407050600070106ul	/* WB WC UC- UC WB WP UC- WT */

#define MSR_EFER		0xc0000080
#define MSR_STAR		0xc0000081
#define MSR_LSTAR		0xc0000082
#define MSR_SFMASK		0xc0000084
#define MSR_FS_BASE		0xc0000100
#define MSR_GS_BASE		0xc0000101
#define MSR_KERNEL_GS_BASE	0xc0000102
#define MSR_PAT			0x277
#define MSR_APIC_BASE		0x1b
#define MSR_TSC_DEADLINE	0x6e0

#endif
