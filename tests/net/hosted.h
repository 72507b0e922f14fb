/*
 * netd without its kernel, on the host: requests go straight to sock_request(), the card is a function that keeps what it is
 * given. Programs that include this are linked with netd's sockets, its interface code and lwIP, under ASan and UBSan (Makefile).
 */
#ifndef TESTS_NET_HOSTED_H
#define TESTS_NET_HOSTED_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lwip/init.h"
#include "lwip/timeouts.h"
#include "user/servers/netd/ether.h"
#include "user/servers/netd/sock.h"

static int failures;

#define CHECK(condition) do { if (!(condition)) { printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); failures++; } } while (0)
#define CHECK_EQUAL(expected, got) do { long long e_ = (long long)(expected), g_ = (long long)(got); \
	if (e_ != g_) { printf("%s:%d: %s: expected %lld, got %lld\n", __FILE__, __LINE__, #got, e_, g_); failures++; } } while (0)

/* -- the caller's side of a request -- */

static uint8_t lent[LENT_MAX];		/* what the caller lends */
static bool lent_broken;		/* it has gone: copies fail */
static struct fl_ans ans;		/* the last answer */
static uint8_t answer_data[FL_INLINE_MAX];
static uint32_t answer_len;

static long fake_lent_read(struct call *c, uint64_t offset, void *buf, uint64_t len)
{
	(void)c;
	if (lent_broken || offset + len > sizeof(lent))
		return -EFAULT;
	memcpy(buf, lent + offset, len);
	return (long)len;
}

static long fake_lent_write(struct call *c, uint64_t offset, const void *buf, uint64_t len)
{
	(void)c;
	if (lent_broken || offset + len > sizeof(lent))
		return -EFAULT;
	memcpy(lent + offset, buf, len);
	return (long)len;
}

/* @in is copied to a block of its exact size, so that the sanitizer sees every byte too many. */
static long request(struct fl_req *req, const void *in, uint32_t in_len)
{
	uint8_t *copy = malloc(in_len ? in_len : 1);
	struct call c = {
		.req = req, .ans = &ans, .in = copy, .in_len = in_len, .out = answer_data,
		.lent_read = fake_lent_read, .lent_write = fake_lent_write, .token = 1,
	};

	if (in_len)
		memcpy(copy, in, in_len);
	sock_request(&c);
	answer_len = c.out_len;
	free(copy);
	return (long)ans.result;
}

/* -- the card -- */

static struct nic fake_nic = { .mac = { 2, 0, 0, 0, 0, 1 }, .link = true };
static void (*on_frame)(const uint8_t *frame, size_t len);	/* what the stack has sent */

static bool fake_send(struct nic *nic, const struct pbuf *p)
{
	uint8_t frame[2048];

	(void)nic;
	if (p->tot_len <= sizeof(frame) && on_frame)
		on_frame(frame, pbuf_copy_partial(p, frame, p->tot_len, 0));
	return true;
}

static void fake_kick(struct nic *nic) { nic->unkicked = false; }
static bool fake_receive(struct nic *nic, unsigned int budget) { (void)nic, (void)budget; return false; }
static bool fake_room(struct nic *nic) { (void)nic; return true; }
static const struct nic_driver fake_driver = { .name = "fake", .send = fake_send, .kick = fake_kick, .receive = fake_receive, .room = fake_room };

/* -- the device behind a driver: memory that only looks like registers -- */

static uint8_t *fake_window;		/* whatever the driver maps */
static uint32_t (*fake_config)(unsigned int offset, unsigned int size);
static struct dma fake_dma[8];		/* what it has allocated */
static unsigned int nr_fake_dma;

uint32_t device_config_read(const struct device *d, unsigned int offset, unsigned int size)
{
	(void)d;
	return fake_config ? fake_config(offset, size) : 0;
}

bool device_config_write(const struct device *d, unsigned int offset, unsigned int size, uint32_t value)
{
	(void)d, (void)offset, (void)size, (void)value;
	return true;
}

bool device_open(struct device *d) { (void)d; return false; }
void device_enable(const struct device *d) { (void)d; }
bool device_irqs(const struct device *d, uint32_t vectors) { (void)d, (void)vectors; return true; }

volatile void *device_map(const struct device *d, unsigned int bar, uint64_t offset, uint64_t size)
{
	(void)d, (void)bar;
	return offset + size <= 0x10000 ? fake_window + offset : NULL;
}

/* "bus" is the address itself. */
bool device_dma(const struct device *d, struct dma *out, size_t size)
{
	(void)d;
	if (nr_fake_dma == 8)
		return false;
	out->mem = calloc(1, size);
	out->bus = (uint64_t)(uintptr_t)out->mem;
	out->size = size;
	fake_dma[nr_fake_dma++] = *out;
	return out->mem;
}

/* The stack with loopback and a card at 10.0.0.2/24. */
static void start_stack(void)
{
	setenv("NETD_ADDRESS", "10.0.0.2/24,10.0.0.1", 1);
	lwip_init();
	CHECK(dgram_init());
	fake_nic.driver = &fake_driver;
	CHECK(ether_start(&fake_nic));
}

static void pump(void)
{
	for (int i = 0; i < 3; i++) {
		sys_check_timeouts();
		netif_poll_all();
		ether_flush();
	}
}

#endif
