/* The MSRs behind the SYSCALL instruction. */
#ifndef KERNEL_X86_SYSCALL_SETUP_H
#define KERNEL_X86_SYSCALL_SETUP_H
void syscall_init_cpu(void);		/* each CPU */
#endif
