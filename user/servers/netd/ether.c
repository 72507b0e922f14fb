/*
 * Between lwIP and a card: frames to and fro, DHCP, and the name servers that it brought, in a file for everybody's resolver.
 */
#define _GNU_SOURCE
#include "ether.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lwip/dhcp.h"
#include "lwip/dns.h"
#include "lwip/etharp.h"
#include "lwip/ethip6.h"
#include "lwip/ip6_addr.h"
#include "netif/ethernet.h"

/*
 * On a wire no frame is shorter; virtual cards do without the padding. lwIP looks at the headers of ARP and IPv6 before it looks
 * at the length, and relies on this minimum (tests/net/fuzz_netd.c found out).
 */
#define FRAME_MIN	60u
#define RECEIVE_BUDGET	128u
#define WAITING_MAX	512u		/* frames that wait for room in the card's ring */

static struct netif card;
static struct nic *card_nic;
struct netif *ether_netif;

static struct pbuf *waiting[WAITING_MAX];	/* a ring, each counted */
static unsigned int waiting_first, nr_waiting;

/* -- out -- */

/*
 * lwIP keeps the right to change a frame as soon as we return, unless we count it: TCP looks at the count before it sends a
 * segment again (tcp_output_segment_busy).
 */
static err_t output(struct netif *netif, struct pbuf *p)
{
	(void)netif;
	if (!nr_waiting && card_nic->driver->send(card_nic, p))
		return ERR_OK;
	if (nr_waiting == WAITING_MAX)
		return ERR_MEM;
	pbuf_ref(p);
	waiting[(waiting_first + nr_waiting++) % WAITING_MAX] = p;
	return ERR_OK;
}

void ether_flush(void)
{
	if (!card_nic)
		return;
	while (nr_waiting && card_nic->driver->send(card_nic, waiting[waiting_first])) {
		pbuf_free(waiting[waiting_first]);
		waiting_first = (waiting_first + 1) % WAITING_MAX;
		nr_waiting--;
	}
	if (card_nic->unkicked)
		card_nic->driver->kick(card_nic);
}

/* -- in -- */

void nic_input(struct nic *nic, const void *frame, size_t len)
{
	size_t padded = len < FRAME_MIN ? FRAME_MIN : len;

	(void)nic;
	if (len < SIZEOF_ETH_HDR || len > NIC_BUFFER)
		return;
	struct pbuf *p = pbuf_alloc(PBUF_RAW, (u16_t)padded, PBUF_RAM);

	if (!p)
		return;			/* as a network may */
	memcpy(p->payload, frame, len);
	memset((char *)p->payload + len, 0, padded - len);
	if (card.input(p, &card) != ERR_OK)
		pbuf_free(p);
}

bool ether_poll(void)
{
	return card_nic && card_nic->driver->receive(card_nic, RECEIVE_BUDGET);
}

void nic_link_changed(struct nic *nic, bool up)
{
	(void)nic;
	if (up)
		netif_set_link_up(&card);
	else
		netif_set_link_down(&card);
}

/* -- who we are -- */

/* Written aside and renamed: a resolver never sees half of it. */
void write_file(const char *name, const char *text)
{
	char path[64], aside[64];
	int fd;

	snprintf(path, sizeof(path), STATE_DIRECTORY "/%s", name);
	snprintf(aside, sizeof(aside), STATE_DIRECTORY "/.%s", name);
	fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	bool good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	if (good)
		rename(aside, path);
}

static void write_resolver(void)
{
	char text[256];
	int n = 0;

	text[0] = 0;
	for (u8_t i = 0; i < DNS_MAX_SERVERS; i++) {
		const ip_addr_t *server = dns_getserver(i);

		if (!ip_addr_isany(server))
			n += snprintf(text + n, sizeof(text) - (size_t)n, "nameserver %s\n", ipaddr_ntoa(server));
	}
	write_file("resolv.conf", text);
}

/* The address came, changed or went. */
static void on_status(struct netif *netif)
{
	char text[128];

	if (ip4_addr_isany_val(*netif_ip4_addr(netif)))
		return;
	write_resolver();
	snprintf(text, sizeof(text), "%s\n", ip4addr_ntoa(netif_ip4_addr(netif)));
	write_file("address", text);
}

static err_t init_card(struct netif *netif)
{
	netif->name[0] = 'e';
	netif->name[1] = 't';
	netif->hostname = "faultline";
	netif->mtu = 1500;
	netif->hwaddr_len = ETH_HWADDR_LEN;
	memcpy(netif->hwaddr, card_nic->mac, ETH_HWADDR_LEN);
	netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_IGMP | NETIF_FLAG_MLD6;
	netif->output = etharp_output;
	netif->output_ip6 = ethip6_output;
	netif->linkoutput = output;
	return ERR_OK;
}

/* NETD_ADDRESS=ADDRESS/PREFIX[,GATEWAY[,NAMESERVER]]: a network without a DHCP server. False: not given, or not understood. */
static bool static_address(void)
{
	const char *given = getenv("NETD_ADDRESS");
	char address[32], gateway[32] = "0.0.0.0", server[32] = "";
	unsigned int prefix;
	ip4_addr_t a, m, g;
	ip_addr_t dns;

	if (!given || sscanf(given, "%31[0-9.]/%u,%31[0-9.],%31[0-9.]", address, &prefix, gateway, server) < 2 || prefix > 32)
		return false;
	if (!ip4addr_aton(address, &a) || !ip4addr_aton(gateway, &g))
		return false;
	if (server[0] && ipaddr_aton(server, &dns))
		dns_setserver(0, &dns);
	m.addr = prefix ? lwip_htonl(~0u << (32 - prefix)) : 0;
	netif_set_addr(&card, &a, &m, &g);
	on_status(&card);
	return true;
}

bool ether_start(struct nic *nic)
{
	card_nic = nic;
	if (!netif_add(&card, IP4_ADDR_ANY4, IP4_ADDR_ANY4, IP4_ADDR_ANY4, nic, init_card, ethernet_input))
		return false;
	ether_netif = &card;
	netif_set_default(&card);
	netif_set_status_callback(&card, on_status);
	netif_create_ip6_linklocal_address(ether_netif, 1);
	netif_set_ip6_autoconfig_enabled(ether_netif, 1);
	if (nic->link)
		netif_set_link_up(&card);
	netif_set_up(&card);
	return static_address() || dhcp_start(&card) == ERR_OK;
}

void ether_state(FILE *f)
{
	if (card_nic)
		fprintf(f, "card %s waiting %u%s\n", card_nic->driver->name, nr_waiting, card_nic->unkicked ? " unkicked" : "");
}
