/*
 * Numbers of tcp(7). The C library's <netinet/tcp.h> has them too, but some of its other names are lwIP's own (TCP_MSS), so the two cannot
 * be seen together.
 */
#ifndef NETD_LINUX_TCP_H
#define NETD_LINUX_TCP_H

#include <stdint.h>

#define TCP_NODELAY	1
#define TCP_MAXSEG	2
#define TCP_KEEPIDLE	4
#define TCP_KEEPINTVL	5
#define TCP_KEEPCNT	6
#define TCP_INFO	11

/* The part that every version of the structure has. */
struct tcp_info {
	uint8_t	 tcpi_state, tcpi_ca_state, tcpi_retransmits, tcpi_probes, tcpi_backoff, tcpi_options, tcpi_wscale, tcpi_flags;
	uint32_t tcpi_rto, tcpi_ato, tcpi_snd_mss, tcpi_rcv_mss, tcpi_unacked, tcpi_sacked, tcpi_lost, tcpi_retrans, tcpi_fackets;
	uint32_t tcpi_last_data_sent, tcpi_last_ack_sent, tcpi_last_data_recv, tcpi_last_ack_recv;
	uint32_t tcpi_pmtu, tcpi_rcv_ssthresh, tcpi_rtt, tcpi_rttvar, tcpi_snd_ssthresh, tcpi_snd_cwnd, tcpi_advmss, tcpi_reordering;
	uint32_t tcpi_rcv_rtt, tcpi_rcv_space, tcpi_total_retrans;
};
_Static_assert(sizeof(struct tcp_info) == 104, "Linux ABI");

#endif
