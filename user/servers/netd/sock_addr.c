/* Addresses: struct sockaddr of both families, and lwIP's. An IPv4 peer of an IPv6 socket is ::ffff:a.b.c.d (RFC 4291, 2.5.5.2). */
#include <netinet/in.h>
#include <string.h>

#include "sock.h"

/* LwIP has names of its own for what <netinet/in.h> has too: only this file sees the C library's. */

u8_t ip_type_of(const struct sock *s)
{
	return s->domain == AF_INET ? IPADDR_TYPE_V4 : s->v6only ? IPADDR_TYPE_V6 : IPADDR_TYPE_ANY;
}

static long addr6_in(const struct sock *s, const struct sockaddr_in6 *a, ip_addr_t *ip, u16_t *port)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	u32_t words[4];

	*port = ntohs(a->sin6_port);
	memcpy(words, &a->sin6_addr, 16);
	if (!memcmp(&a->sin6_addr, mapped, 12)) {
		if (s->v6only)
			return -ENETUNREACH;
		ip_addr_set_ip4_u32(ip, words[3]);
		return 0;
	}
	if (!words[0] && !words[1] && !words[2] && !words[3]) {
		*ip = s->v6only ? *IP6_ADDR_ANY : *IP_ANY_TYPE;
		return 0;
	}
	ip6_addr_t v6;

	IP6_ADDR(&v6, words[0], words[1], words[2], words[3]);
	ip6_addr_clear_zone(&v6);
	if (ip6_addr_has_scope(&v6, IP6_UNKNOWN))
		ip6_addr_set_zone(&v6, (u8_t)a->sin6_scope_id);
	ip_addr_copy_from_ip6(*ip, v6);
	return 0;
}

long addr_in(const struct sock *s, const void *addr, uint32_t len, ip_addr_t *ip, u16_t *port)
{
	struct sockaddr_in6 six = { 0 };
	struct sockaddr_in four = { 0 };
	sa_family_t family;

	if (len < sizeof(family))
		return -EINVAL;
	memcpy(&family, addr, sizeof(family));
	if (family == AF_INET) {
		if (len < sizeof(four))
			return -EINVAL;
		if (s->domain == AF_INET6 && s->v6only)
			return -EAFNOSUPPORT;
		memcpy(&four, addr, sizeof(four));
		*port = ntohs(four.sin_port);
		ip_addr_set_ip4_u32(ip, four.sin_addr.s_addr);
		return 0;
	}
	if (family != AF_INET6 || s->domain != AF_INET6)
		return -EAFNOSUPPORT;
	if (len < 24)			/* without the scope: RFC 2133's */
		return -EINVAL;
	memcpy(&six, addr, len < sizeof(six) ? len : sizeof(six));
	return addr6_in(s, &six, ip, port);
}

uint32_t addr_out(int domain, const ip_addr_t *ip, u16_t port, void *out)
{
	if (domain == AF_INET) {
		struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };

		if (IP_IS_V4(ip))
			four.sin_addr.s_addr = ip4_addr_get_u32(ip_2_ip4(ip));
		memcpy(out, &four, sizeof(four));
		return sizeof(four);
	}
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	if (IP_IS_V6_VAL(*ip)) {
		memcpy(&six.sin6_addr, ip_2_ip6(ip)->addr, 16);
		six.sin6_scope_id = ip6_addr_zone(ip_2_ip6(ip));
	} else if (IP_IS_V4_VAL(*ip) && !ip4_addr_isany(ip_2_ip4(ip))) {
		u32_t v4 = ip4_addr_get_u32(ip_2_ip4(ip));

		six.sin6_addr.s6_addr[10] = six.sin6_addr.s6_addr[11] = 0xff;
		memcpy(&six.sin6_addr.s6_addr[12], &v4, 4);
	}
	memcpy(out, &six, sizeof(six));
	return sizeof(six);
}
