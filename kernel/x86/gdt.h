/* Segments, task-state segment and interrupt stacks of each CPU. */
#ifndef KERNEL_X86_GDT_H
#define KERNEL_X86_GDT_H

#include "kernel/types.h"

/*
 * Interrupt stack table: these exceptions may hit at an instruction where no kernel stack is valid (before SWAPGS or
 * the stack switch of the system-call entry, or because the stack overflowed). Everything else uses the task's stack.
 */
enum ist { IST_NONE, IST_DOUBLE_FAULT, IST_NMI, IST_MACHINE_CHECK, IST_DEBUG, NR_IST };

#define IST_STACK_SHIFT	13
#define IST_STACK_SIZE	(1ul << IST_STACK_SHIFT)	/* aligned to its size: paranoid_entry finds the bottom by masking */

/* APs: memory for the interrupt stacks, allocated by the boot CPU. @mem: (NR_IST - 1) * IST_STACK_SIZE, so aligned. */
void gdt_set_ist_memory(unsigned int cpu, void *mem);
/* This CPU: loads GDT, TSS and null segments. GS base is kept. */
void gdt_init_cpu(unsigned int cpu);
/* Where exceptions and interrupts from user mode put their frame. This CPU, interrupts off. */
void tss_set_rsp0(uintptr_t rsp);
/* True if @addr is in an interrupt stack of @cpu; *end is its upper end. For backtraces. */
bool ist_stack_contains(unsigned int cpu, uintptr_t addr, uintptr_t *end);

#endif
