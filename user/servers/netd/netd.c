/*
 * netd: the network, in one process and one loop. It sleeps in one place, until the kernel has a request (user/include/fl_server.h), the
 * card an interrupt, or lwIP a timer; then it works off what there is and tells the kernel which sockets have become ready.
 *
 *	FL_PORT	descriptor: the receiving end of the port that serves AF_INET and AF_INET6; not set: it only answers the network
 *	FL_PCI	descriptors of the card (device.h); not set: loopback only
 *
 * It holds these descriptors and nothing else: no ids, no capabilities, no rights to files but its own directory in /run. It may
 * be killed at any moment. init starts it again, the kernel replays what sockets were bound and listening.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ether.h"
#include "lwip/init.h"
#include "lwip/timeouts.h"
#include "nic.h"
#include "sock.h"
#include "state.h"
#include "user/include/port.h"

#define REQUEST_BUDGET	64	/* requests between two looks at the card */
#define LONGEST_SLEEP	1000	/* ms */

static int port_fd = -1;
static struct nic nic;
static volatile sig_atomic_t state_wanted;

/* -- requests -- */

static long lent_read(struct call *c, uint64_t offset, void *buf, uint64_t len)
{
	return port_lent_read(port_fd, c->token, offset, buf, len);
}

static long lent_write(struct call *c, uint64_t offset, const void *buf, uint64_t len)
{
	return port_lent_write(port_fd, c->token, offset, buf, len);
}

/* The message in @m becomes its answer. @in and @out: FL_INLINE_MAX bytes each. */
static void answer(struct fl_msg *m, const uint8_t *in, uint8_t *out)
{
	struct fl_req req;
	struct fl_ans ans;
	struct call c = {
		.req = &req, .ans = &ans, .in = in, .in_len = m->len, .out = out,
		.lent_read = lent_read, .lent_write = lent_write, .token = m->token,
	};

	memcpy(&req, m->word, sizeof(req));
	sock_request(&c);
	memcpy(m->word, &ans, sizeof(ans));
	m->buf = (uint64_t)(uintptr_t)out;
	m->len = c.out_len;
	m->nr_fds = 0;
	m->flags = 0;
}

/* True: there may be more. */
static bool work_off_requests(void)
{
	static uint8_t in[FL_INLINE_MAX], out[FL_INLINE_MAX];
	struct fl_msg m;

	for (int i = 0; port_fd >= 0 && i < REQUEST_BUDGET; i++) {
		memset(&m, 0, sizeof(m));
		m.buf = (uint64_t)(uintptr_t)in;
		m.room = sizeof(in);
		m.flags = FL_FDS_CLOEXEC;
		long err = port_receive(port_fd, &m, 0);

		if (err == -EAGAIN || err == -EINTR || err == -ETIMEDOUT)
			return false;
		if (err < 0) {
			netd_log("the port is broken: %s", strerror((int)-err));
			exit(1);
		}
		for (uint32_t n = 0; n < m.nr_fds && n < FL_MAX_FDS; n++)
			close(m.fd[n]);		/* nobody sends us any */
		uint64_t token = m.token;

		answer(&m, in, out);
		m.token = token;
		if (token)
			port_reply(port_fd, &m);	/* a caller that has gone is no concern of ours */
	}
	return port_fd >= 0;
}

static void tell_readiness(void)
{
	struct fl_ready v[FL_READY_MAX];
	unsigned int n;

	while ((n = sock_take_changes(v, FL_READY_MAX)))
		family_ready(port_fd, v, n);
}

/* -- the loop -- */

static void start_card(void)
{
	static const struct nic_driver *const drivers[] = { &virtio_net_driver, &e1000e_driver };

	if (!device_open(&nic.dev))
		return;
	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		for (int n = 0; n < 4 && drivers[i]->device[n]; n++)
			if (drivers[i]->vendor == nic.dev.vendor && drivers[i]->device[n] == nic.dev.device)
				nic.driver = drivers[i];
	if (!nic.driver || !nic.driver->start(&nic)) {
		netd_log("device %s (%04x:%04x) cannot be driven", nic.dev.slot, nic.dev.vendor, nic.dev.device);
		nic.driver = NULL;
		return;
	}
	if (!ether_start(&nic)) {
		netd_log("no memory for an interface");
		exit(1);
	}
	netd_log("%s at %s, %02x:%02x:%02x:%02x:%02x:%02x", nic.driver->name, nic.dev.slot, nic.mac[0], nic.mac[1], nic.mac[2],
		 nic.mac[3], nic.mac[4], nic.mac[5]);
}

static void on_usr1(int sig)
{
	(void)sig;
	state_wanted = 1;
}

static void take_interrupts(void)
{
	uint64_t fired;

	while (read(nic.dev.irq, &fired, sizeof(fired)) == sizeof(fired))
		;
}

static int sleep_ms(bool busy)
{
	u32_t next = sys_timeouts_sleeptime();

	return busy ? 0 : next < LONGEST_SLEEP ? (int)next : LONGEST_SLEEP;
}

static void loop(void)
{
	struct pollfd p[2] = { { .fd = port_fd, .events = POLLIN }, { .fd = nic.driver ? nic.dev.irq : -1, .events = POLLIN } };
	bool busy = true;

	for (;;) {
		if (poll(p, 2, sleep_ms(busy)) < 0 && errno != EINTR) {
			netd_log("poll: %s", strerror(errno));
			exit(1);
		}
		if (state_wanted) {
			state_wanted = 0;
			write_state();
		}
		if (p[1].revents & POLLIN)
			take_interrupts();
		busy = ether_poll();
		busy |= work_off_requests();
		sys_check_timeouts();
		netif_poll_all();
		ether_flush();
		tell_readiness();
	}
}

int main(void)
{
	const char *port = getenv("FL_PORT");

	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, on_usr1);
	if (port)
		port_fd = atoi(port);
	lwip_init();
	if (!dgram_init()) {
		netd_log("no memory");
		return 1;
	}
	start_card();
	loop();
}
