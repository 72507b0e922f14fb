/* Options that every kind passes in the same form, and ioctl(2) on interfaces (netdevice(7)). */
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>

#include "sock.h"

#include "lwip/netif.h"

#define SIOCGIFNAME_	0x8910
#define SIOCGIFINDEX_	0x8933
#define ARPHRD_ETHER_	1
#define ARPHRD_LOOPBACK_ 772

/* An int, or any shorter prefix of one that is at least a byte: programs do both. */
bool option_int(const void *value, uint32_t len, int *out)
{
	if (!len)
		return false;
	*out = 0;
	memcpy(out, value, len < sizeof(*out) ? len : sizeof(*out));
	return true;
}

long put_int(void *value, uint32_t room, int v)
{
	room = room < sizeof(v) ? room : sizeof(v);
	memcpy(value, &v, room);
	return (long)room;
}

/* -- interfaces -- */

/* Programs expect lo and eth0; lwIP says lo0 and et1. */
static void name_of(const struct netif *n, char name[IFNAMSIZ])
{
	memset(name, 0, IFNAMSIZ);
	strcpy(name, n->name[0] == 'l' ? "lo" : "eth0");
}

static struct netif *by_name(const char *name)
{
	char have[IFNAMSIZ];
	struct netif *n;

	NETIF_FOREACH(n) {
		name_of(n, have);
		if (!strncmp(name, have, IFNAMSIZ))
			return n;
	}
	return NULL;
}

static short flags_of(const struct netif *n)
{
	int flags = 0;

	if (netif_is_up(n))
		flags |= IFF_UP;
	if (netif_is_up(n) && netif_is_link_up(n))
		flags |= IFF_RUNNING;
	if (n->name[0] == 'l')
		return (short)(flags | IFF_LOOPBACK | IFF_RUNNING);
	return (short)(flags | IFF_BROADCAST | IFF_MULTICAST);
}

static void put_ip4(struct sockaddr *to, u32_t addr)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = addr };

	memcpy(to, &a, sizeof(a));
}

static bool take_ip4(const struct sockaddr *from, ip4_addr_t *out)
{
	struct sockaddr_in a;

	memcpy(&a, from, sizeof(a));
	out->addr = a.sin_addr.s_addr;
	return a.sin_family == AF_INET;
}

size_t netif_conf(void *out, size_t room)
{
	struct ifreq r;
	struct netif *n;
	size_t done = 0;

	NETIF_FOREACH(n) {
		if (done + sizeof(r) > room || ip4_addr_isany_val(*netif_ip4_addr(n)))
			continue;
		memset(&r, 0, sizeof(r));
		name_of(n, r.ifr_name);
		put_ip4(&r.ifr_addr, netif_ip4_addr(n)->addr);
		memcpy((char *)out + done, &r, sizeof(r));
		done += sizeof(r);
	}
	return done;
}

static long get_netif(struct netif *n, unsigned int command, struct ifreq *r)
{
	switch (command) {
	case SIOCGIFADDR:
		if (ip4_addr_isany_val(*netif_ip4_addr(n)))
			return -EADDRNOTAVAIL;
		put_ip4(&r->ifr_addr, netif_ip4_addr(n)->addr);
		return 0;
	case SIOCGIFNETMASK:
		put_ip4(&r->ifr_netmask, netif_ip4_netmask(n)->addr);
		return 0;
	case SIOCGIFBRDADDR:
		put_ip4(&r->ifr_broadaddr, n->name[0] == 'l' ? 0 : netif_ip4_addr(n)->addr | ~netif_ip4_netmask(n)->addr);
		return 0;
	case SIOCGIFFLAGS:
		r->ifr_flags = flags_of(n);
		return 0;
	case SIOCGIFMTU:
		r->ifr_mtu = n->mtu ? n->mtu : 65535;
		return 0;
	case SIOCGIFMETRIC:
		r->ifr_metric = 0;
		return 0;
	case SIOCGIFINDEX_:
		r->ifr_ifindex = netif_get_index(n);
		return 0;
	case SIOCGIFHWADDR:
		memset(&r->ifr_hwaddr, 0, sizeof(r->ifr_hwaddr));
		r->ifr_hwaddr.sa_family = n->name[0] == 'l' ? ARPHRD_LOOPBACK_ : ARPHRD_ETHER_;
		memcpy(r->ifr_hwaddr.sa_data, n->hwaddr, n->hwaddr_len <= 6 ? n->hwaddr_len : 6);
		return 0;
	}
	return -ENOTTY;
}

static long set_netif(struct netif *n, unsigned int command, const struct ifreq *r)
{
	ip4_addr_t a;

	switch (command) {
	case SIOCSIFADDR:
		if (!take_ip4(&r->ifr_addr, &a))
			return -EINVAL;
		netif_set_ipaddr(n, &a);
		return 0;
	case SIOCSIFNETMASK:
		if (!take_ip4(&r->ifr_netmask, &a))
			return -EINVAL;
		netif_set_netmask(n, &a);
		return 0;
	case SIOCSIFBRDADDR:		/* it follows from the mask */
		return take_ip4(&r->ifr_broadaddr, &a) && (a.addr == (netif_ip4_addr(n)->addr | ~netif_ip4_netmask(n)->addr)) ? 0 : -EINVAL;
	case SIOCSIFFLAGS:
		if (r->ifr_flags & IFF_UP)
			netif_set_up(n);
		else
			netif_set_down(n);
		return 0;
	case SIOCSIFMTU:
		if (r->ifr_mtu < 576 || r->ifr_mtu > 1500 || n->name[0] == 'l')
			return -EINVAL;
		n->mtu = (u16_t)r->ifr_mtu;
		return 0;
	}
	return -ENOTTY;
}

/* SIOCADDRT, SIOCDELRT: the default route only; lwIP knows no other. struct rtentry as the C library has it on x86-64. */
static long change_route(struct call *c, bool add)
{
	struct { unsigned long pad; struct sockaddr dst, gateway, mask; unsigned short flags; char rest[64]; } rt = { 0 };
	ip4_addr_t dst, gateway, mask;

	if (c->in_len < 8 + 3 * sizeof(struct sockaddr))
		return -EINVAL;
	memcpy(&rt, c->in, c->in_len < sizeof(rt) ? c->in_len : sizeof(rt));
	if (!take_ip4(&rt.dst, &dst) || !take_ip4(&rt.gateway, &gateway) || !take_ip4(&rt.mask, &mask))
		return -EINVAL;
	if (dst.addr || mask.addr || !netif_default)
		return -EOPNOTSUPP;
	if (!add) {
		if (ip4_addr_isany_val(*netif_ip4_gw(netif_default)))
			return -ESRCH;
		gateway.addr = 0;
	}
	netif_set_gw(netif_default, &gateway);
	return 0;
}

long netif_ioctl(struct call *c)
{
	unsigned int command = (unsigned int)c->req->arg[0];
	struct ifreq r;
	struct netif *n;
	long err;

	if (command == SIOCGIFCONF) {
		c->out_len = (uint32_t)netif_conf(c->out, FL_INLINE_MAX);
		return 0;
	}
	bool changes = command == SIOCADDRT || command == SIOCDELRT || command == SIOCSIFADDR || command == SIOCSIFNETMASK ||
		       command == SIOCSIFBRDADDR || command == SIOCSIFFLAGS || command == SIOCSIFMTU;

	if (changes && !(c->req->flags & FL_REQ_PRIVILEGED))
		return -EPERM;
	if (command == SIOCADDRT || command == SIOCDELRT)
		return change_route(c, command == SIOCADDRT);
	if (command >> 8 != 0x89 || c->in_len < sizeof(r))
		return -ENOTTY;
	memcpy(&r, c->in, sizeof(r));
	if (command == SIOCGIFNAME_) {
		n = r.ifr_ifindex > 0 && r.ifr_ifindex < 256 ? netif_get_by_index((u8_t)r.ifr_ifindex) : NULL;
		if (!n)
			return -ENODEV;
		name_of(n, r.ifr_name);
		err = 0;
	} else {
		n = by_name(r.ifr_name);
		if (!n)
			return -ENODEV;
		err = changes ? set_netif(n, command, &r) : get_netif(n, command, &r);
	}
	if (!err) {
		memcpy(c->out, &r, sizeof(r));
		c->out_len = sizeof(r);
	}
	return err;
}
