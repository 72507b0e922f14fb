/* `killall -USR1 netd` writes what netd knows to /run/netd/state: interfaces, connections, sockets. For people and for tests. */
#include <stdio.h>
#include <stdlib.h>

#include "ether.h"
#include "lwip/priv/tcp_priv.h"
#include "sock.h"
#include "state.h"

static void interfaces(FILE *f)
{
	struct netif *n;

	NETIF_FOREACH(n)
		fprintf(f, "interface %c%c%u %s%s\n", n->name[0], n->name[1], n->num, ip4addr_ntoa(netif_ip4_addr(n)),
			netif_is_link_up(n) ? "" : " no link");
	ether_state(f);
}

static unsigned int segments(const struct tcp_seg *s)
{
	unsigned int n = 0;

	for (; s; s = s->next)
		n++;
	return n;
}

static void connections(FILE *f)
{
	for (struct tcp_pcb_listen *l = tcp_listen_pcbs.listen_pcbs; l; l = l->next)
		fprintf(f, "tcp listen %s:%u pending %u of %u\n", ipaddr_ntoa(&l->local_ip), l->local_port, l->accepts_pending, l->backlog);
	for (struct tcp_pcb *p = tcp_active_pcbs; p; p = p->next) {
		fprintf(f, "tcp %s:%u", ipaddr_ntoa(&p->local_ip), p->local_port);
		fprintf(f, " %s:%u state %d", ipaddr_ntoa(&p->remote_ip), p->remote_port, (int)p->state);
		fprintf(f, " una %u nxt %u unsent %u unacked %u room %u queue %u cwnd %u wnd %u rto %d rtime %d nrtx %u flags %x persist %u ooseq %u\n", p->lastack,
			p->snd_nxt, segments(p->unsent), segments(p->unacked), (unsigned int)p->snd_buf, tcp_sndqueuelen(p),
			(unsigned int)p->cwnd, (unsigned int)p->snd_wnd, p->rto, p->rtime, p->nrtx, p->flags, p->persist_backoff, segments(p->ooseq));
	}
	unsigned int waiting = 0;

	for (struct tcp_pcb *p = tcp_tw_pcbs; p; p = p->next)
		waiting++;
	fprintf(f, "tcp time-wait %u\nsockets %u\n", waiting, sock_count());
}

void write_state(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return;
	interfaces(f);
	connections(f);
	if (!fclose(f))
		write_file("state", text);
	free(text);
}
