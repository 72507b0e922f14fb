/*
 * GDT and TSS. Long mode needs almost nothing of them: one kernel and one user code segment, flat data, and the TSS for
 * the stacks. There is no 32-bit user code segment, so user code can never be in compatibility mode.
 * Intel SDM vol. 3, 3.4.5, 7.7.
 */
#include "kernel/x86/gdt.h"
#include "kernel/percpu.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/entry_offsets.h"

struct tss {
	u32	reserved0;
	u64	rsp[3];
	u64	reserved1;
	u64	ist[7];
	u64	reserved2;
	u16	reserved3;
	u16	iomap_base;
} __packed;
_Static_assert(sizeof(struct tss) == 104, "64-bit TSS");

struct cpu_tables {
	u64		gdt[10] __aligned(16);
	struct tss	tss __aligned(16);
	uintptr_t	ist_base;	/* lowest address of the NR_IST - 1 stacks */
};

static DEFINE_PER_CPU(struct cpu_tables, cpu_tables);
static u8 boot_ist[(NR_IST - 1) * IST_STACK_SIZE] __aligned(IST_STACK_SIZE);

struct table_pointer {
	u16	limit;
	u64	base;
} __packed;

static const u64 gdt_template[] = {
	[SEL_KERNEL_CS / 8]	= 0x00af9b000000ffff,
	[SEL_KERNEL_DS / 8]	= 0x00cf93000000ffff,
	[SEL_USER_DS / 8]	= 0x00cff3000000ffff,
	[SEL_USER_CS / 8]	= 0x00affb000000ffff,
};

void gdt_set_ist_memory(unsigned int cpu, void *mem)
{
	per_cpu_ptr(&cpu_tables, cpu)->ist_base = (uintptr_t)mem;
}

static void tss_init(struct cpu_tables *t)
{
	t->tss.iomap_base = sizeof(struct tss);		/* no I/O bitmap: IN and OUT fault in user mode */
	for (unsigned int ist = 1; ist < NR_IST; ist++) {
		uintptr_t bottom = t->ist_base + (ist - 1) * IST_STACK_SIZE;
		/* The lowest word names the CPU: an NMI cannot trust GS (kernel/x86/entry.S). */
		*(uintptr_t *)bottom = cpu_local_read(self);
		t->tss.ist[ist - 1] = bottom + IST_STACK_SIZE;
	}
	u64 base = (uintptr_t)&t->tss, limit = sizeof(struct tss) - 1;
	t->gdt[SEL_TSS / 8] = limit | (base & 0xffffff) << 16 | 0x89ul << 40 | (base >> 24 & 0xff) << 56;
	t->gdt[SEL_TSS / 8 + 1] = base >> 32;
}

void gdt_init_cpu(unsigned int cpu)
{
	struct cpu_tables *t = this_cpu_ptr(&cpu_tables);

	if (cpu == 0)
		t->ist_base = (uintptr_t)boot_ist;
	for (unsigned int i = 0; i < sizeof(gdt_template) / 8; i++)
		t->gdt[i] = gdt_template[i];
	tss_init(t);

	struct table_pointer ptr = { sizeof(t->gdt) - 1, (uintptr_t)t->gdt };
	u64 gs = rdmsr(MSR_GS_BASE);
	__asm__ volatile(
		"lgdt %0\n\t"
		"pushq %1\n\t"
		"leaq 1f(%%rip), %%rax\n\t"
		"pushq %%rax\n\t"
		"lretq\n"
		"1:\tmov %2, %%ds\n\t"
		"mov %2, %%es\n\t"
		"mov %2, %%ss\n\t"
		"mov %3, %%fs\n\t"
		"mov %3, %%gs"
		: : "m"(ptr), "i"(SEL_KERNEL_CS), "r"(SEL_KERNEL_DS), "r"(0) : "rax", "memory");
	wrmsr(MSR_GS_BASE, gs);			/* loading the selector cleared it */
	wrmsr(MSR_KERNEL_GS_BASE, 0);
	__asm__ volatile("ltr %w0" : : "r"(SEL_TSS));
}

void tss_set_rsp0(uintptr_t rsp)
{
	this_cpu_ptr(&cpu_tables)->tss.rsp[0] = rsp;
}

bool ist_stack_contains(unsigned int cpu, uintptr_t addr, uintptr_t *end)
{
	uintptr_t base = per_cpu_ptr(&cpu_tables, cpu)->ist_base;

	if (!base || addr < base || addr >= base + (NR_IST - 1) * IST_STACK_SIZE)
		return false;
	*end = ALIGN_DOWN(addr, IST_STACK_SIZE) + IST_STACK_SIZE;
	return true;
}
