/* Names of kernel functions by address, for backtraces. The table is made from the linked kernel (boot/ksyms.sh). */
#ifndef KERNEL_KSYM_H
#define KERNEL_KSYM_H

#include "kernel/types.h"

/* The function that contains @addr: its name, offset into it and size. False if @addr is no kernel code. Any context. */
bool ksym_lookup(uintptr_t addr, const char **name, size_t *offset, size_t *size);
bool is_kernel_text(uintptr_t addr);

#endif
