/* How lwIP is built into netd: one thread, memory from malloc, every protocol that sockets of unmodified programs need. */
#ifndef NETD_LWIPOPTS_H
#define NETD_LWIPOPTS_H

/* One event loop, the raw interface: nothing is ever called from two threads. */
#define NO_SYS				1
#define SYS_LIGHTWEIGHT_PROT		0
#define LWIP_NETCONN			0
#define LWIP_SOCKET			0

/*
 * Memory. Fixed pools would be limits that no program expects, and malloc's blocks are checked by a sanitizer in the hosted
 * tests. What a peer can make us hold is bounded by windows, queues and the limits below.
 */
#define MEM_LIBC_MALLOC			1
#define MEMP_MEM_MALLOC			1
#define MEM_ALIGNMENT			8
#define PBUF_POOL_BUFSIZE		1536

#define LWIP_IPV4			1
#define LWIP_IPV6			1
#define LWIP_ARP			1
#define ARP_TABLE_SIZE			64
#define ARP_QUEUEING			1
#define ARP_QUEUE_LEN			32
#define IP_FORWARD			0
#define IP_REASSEMBLY			1
#define IP_REASS_MAX_PBUFS		256
#define IP_FRAG				1
#define LWIP_ICMP			1
#define LWIP_ICMP6			1
#define LWIP_IGMP			1
#define LWIP_MULTICAST_TX_OPTIONS	1
#define LWIP_IPV6_MLD			1
#define LWIP_IPV6_AUTOCONFIG		1
#define LWIP_IPV6_FRAG			1
#define LWIP_IPV6_REASS			1
#define IPV6_FRAG_COPYHEADER		1	/* pointers are wider than the header that they are put over */
#define LWIP_ND6_NUM_NEIGHBORS		32
#define LWIP_ND6_NUM_DESTINATIONS	32
#define LWIP_RAW			1
#define LWIP_DHCP			1
#define LWIP_DHCP_DOES_ACD_CHECK	0	/* costs seconds before the first packet */
#define LWIP_DNS			1	/* only to learn the servers from DHCP; programs ask by themselves */
#define DNS_MAX_SERVERS			3

#define LWIP_UDP			1
#define LWIP_TCP			1
#define TCP_MSS				1460
#define LWIP_WND_SCALE			1
#define TCP_RCV_SCALE			3
#define TCP_WND				(256 * 1024)
#define TCP_SND_BUF			(256 * 1024)
#define TCP_SND_QUEUELEN		1024
#define TCP_SNDLOWAT			(32 * 1024)
#define TCP_QUEUE_OOSEQ			1
#define TCP_OOSEQ_MAX_PBUFS		512
#define LWIP_TCP_SACK_OUT		1
#define TCP_LISTEN_BACKLOG		1
#define TCP_MSL				15000UL
#define LWIP_TCP_KEEPALIVE		1
#define LWIP_RANDOMIZE_INITIAL_LOCAL_PORTS 1
#define SO_REUSE			1
#define IP_SOF_BROADCAST		1

#define LWIP_NETIF_HOSTNAME		1
#define LWIP_NETIF_STATUS_CALLBACK	1
#define LWIP_NETIF_LINK_CALLBACK	1
#define LWIP_NETIF_API			0
#define LWIP_HAVE_LOOPIF		1
#define LWIP_NETIF_LOOPBACK		1
#define LWIP_LOOPBACK_MAX_PBUFS		2048

/* Sums are made while data is copied anyway, eight bytes at a time where not (arch/cc.h). */
#define LWIP_CHECKSUM_ON_COPY		1

/* RFC 6528: initial sequence numbers that nobody can guess. */
#define LWIP_HOOK_FILENAME		"arch/hooks.h"
#define LWIP_HOOK_TCP_ISN		netd_tcp_isn

#define LWIP_DONT_PROVIDE_BYTEORDER_FUNCTIONS 1	/* the C library does */
#define LWIP_STATS			0
#define LWIP_DBG_MIN_LEVEL		0

#endif
