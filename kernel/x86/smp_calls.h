/* The interrupt side of kernel/smp.h. */
#ifndef KERNEL_X86_SMP_CALLS_H
#define KERNEL_X86_SMP_CALLS_H
void smp_call_ipi(void);
#endif
