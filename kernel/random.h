/* Random numbers: ASLR, AT_RANDOM, getrandom(2), /dev/urandom. kernel/random.c. */
#ifndef KERNEL_RANDOM_H
#define KERNEL_RANDOM_H

#include "kernel/types.h"

/* Any context; never sleeps, never fails. */
void get_random_bytes(void *buf, size_t n);
u64 get_random_u64(void);
/* Mixes in something an outsider cannot know: times of interrupts, bytes written to /dev/random. Any context. */
void add_random_bytes(const void *buf, size_t n);

#endif
