/* What lwIP asks of the C environment. */
#ifndef NETD_ARCH_CC_H
#define NETD_ARCH_CC_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define LWIP_ERRNO_INCLUDE	<errno.h>
#define LWIP_TIMEVAL_PRIVATE	0

void netd_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint32_t netd_random(void);
uint16_t netd_checksum(const void *data, int len);
_Noreturn void netd_assert_failed(const char *what, const char *file, int line);

#define LWIP_PLATFORM_DIAG(x)	do { netd_log x; } while (0)
/* A broken invariant ends the process: it is restarted in a known state, which is what servers are for. */
#define LWIP_PLATFORM_ASSERT(x)	netd_assert_failed(x, __FILE__, __LINE__)
#define LWIP_RAND()		netd_random()
#define LWIP_CHKSUM		netd_checksum

#endif
