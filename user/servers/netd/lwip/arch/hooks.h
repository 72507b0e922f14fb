/* Hooks that lwIP calls; see lwipopts.h. */
#ifndef NETD_ARCH_HOOKS_H
#define NETD_ARCH_HOOKS_H

#include "lwip/ip_addr.h"

u32_t netd_tcp_isn(const ip_addr_t *local_ip, u16_t local_port, const ip_addr_t *remote_ip, u16_t remote_port);

#endif
