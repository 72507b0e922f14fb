/* Reading what the loader left. */
#ifndef KERNEL_X86_BOOT_INFO_H
#define KERNEL_X86_BOOT_INFO_H

#include "kernel/boot_info.h"

/* First call of kmain, no console yet: fills boot_info. False if @magic is of no loader that we know. */
bool boot_info_init(u32 magic, phys_addr_t info);
void boot_info_log(void);

/* A page below 1 MiB, RAM and ours for good, where other CPUs start. 0: none. */
extern phys_addr_t boot_trampoline_page;

#endif
