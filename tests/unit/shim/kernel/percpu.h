/* Host tests: one CPU, no GS. Found before the kernel's own header because the shim directory comes first on the path. */
#ifndef KERNEL_PERCPU_H
#define KERNEL_PERCPU_H

#include "kernel/types.h"

struct task;
#define DEFINE_PER_CPU(type, name)	__typeof__(type) name
#define DECLARE_PER_CPU(type, name)	extern __typeof__(type) name
#define cpu_local_read(field)		0
#define cpu_local_write(field, v)	do { } while (0)
#define this_cpu_ptr(var)		(var)
#define per_cpu_ptr(var, cpu)		(var)
#define smp_processor_id()		0u
#define current				((struct task *)0)

#endif
