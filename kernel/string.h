/* The C string functions that the kernel uses; kernel/string.c. Same contracts as the C standard. */
#ifndef KERNEL_STRING_H
#define KERNEL_STRING_H

#include "kernel/types.h"

void *memcpy(void *dst, const void *src, size_t n);
void *memmove(void *dst, const void *src, size_t n);
void *memset(void *dst, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
void *memchr(const void *s, int c, size_t n);
size_t strlen(const char *s);
size_t strnlen(const char *s, size_t max);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
char *strchr(const char *s, int c);
char *strrchr(const char *s, int c);
char *strstr(const char *hay, const char *needle);
/* Copies at most size-1 bytes and always terminates; returns the length copied, or -E2BIG when it was cut. */
ssize_t strscpy(char *dst, const char *src, size_t size);
/*
 * Parses an unsigned number, perhaps with a plus sign (0x, 0 and decimal prefixes as strtoull base 0 when base is 0). 0, -EINVAL
 * or -ERANGE.
 */
int kstrtou64(const char *s, unsigned int base, u64 *out);
/*
 * A size as parameters and mount options give it: a number (0x and 0 prefixes too), then perhaps one of KMGTPE for powers of
 * 1024. *end: what comes behind it; the start if there is no number. What does not fit in 64 bits is cut to them, as on Linux.
 */
u64 memparse(const char *s, const char **end);

#endif
