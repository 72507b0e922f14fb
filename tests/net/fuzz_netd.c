/*
 * Hostile input for netd, on the host and under sanitizers:
 *
 *	frames		a recorded conversation (ARP, ICMP, UDP, TCP handshake and data, fragments, IPv6, DHCP), each frame mutated
 *	requests	of the kernel's protocol, with ids, lengths, addresses and options that do not fit
 *	virtio, e1000e	a card whose rings say anything at all
 *
 *	fuzz_netd KIND SEED ROUNDS
 *
 * Nothing may be read or written out of bounds, no assertion of the stack may fail, and at the end the stack still answers a ping.
 */
#include "hosted.h"

#include <pthread.h>

#include "lwip/ip4_frag.h"
#include "lwip/ip6_frag.h"

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return below ? (uint32_t)((seed >> 20) % below) : 0;
}

/* Mostly small, sometimes at an edge. */
static uint32_t number(void)
{
	static const uint32_t edges[] = { 0, 1, 2, 3, 7, 8, 15, 16, 28, 127, 128, 255, 256, 1460, 1500, 4095, 4096, 65535, 65536, 0x7fffffff, 0x80000000u, 0xffffffffu };

	switch (rnd(3)) {
	case 0:  return edges[rnd(sizeof(edges) / sizeof(edges[0]))];
	case 1:  return rnd(64);
	default: return (uint32_t)seed;
	}
}

/* -- frames -- */

struct frame { uint8_t data[1514]; size_t len; };

static uint32_t peer_seq, their_seq;	/* of the TCP conversation: what the stack has sent us */
static unsigned int pongs;

static uint16_t sum(const uint8_t *p, size_t n, uint32_t start)
{
	uint32_t s = start;

	for (size_t i = 0; i < n; i++)
		s += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (uint16_t)~s;
}

static void put16(uint8_t *p, uint32_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
static void put32(uint8_t *p, uint32_t v) { put16(p, v >> 16); put16(p + 2, v); }

/* Ethernet and IPv4 around @n bytes of payload that are there already; sums of both. */
static void finish4(struct frame *f, uint8_t proto, size_t n, uint16_t frag)
{
	static const uint8_t ether[14] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0 };
	uint8_t *ip = f->data + 14, *up = ip + 20;

	memcpy(f->data, ether, 14);
	memset(ip, 0, 20);
	ip[0] = 0x45;
	put16(ip + 2, (uint32_t)(20 + n));
	put16(ip + 4, 77);
	put16(ip + 6, frag);
	ip[8] = 64;
	ip[9] = proto;
	put32(ip + 12, 0x0a000009);
	put32(ip + 16, 0x0a000002);
	put16(ip + 10, sum(ip, 20, 0));
	if ((proto == 6 || proto == 17) && !(frag & 0x3fff)) {
		uint8_t *at = up + (proto == 6 ? 16 : 6);
		uint32_t pseudo = 0x0a00 + 0x0009 + 0x0a00 + 0x0002 + proto + (uint32_t)n;

		put16(at, 0);
		put16(at, sum(up, n, pseudo));
	}
	f->len = 34 + n;
}

static void make_arp(struct frame *f)
{
	static const uint8_t arp[42] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 2, 0, 0, 0, 0, 1, 10, 0, 0, 2 };

	memcpy(f->data, arp, f->len = sizeof(arp));
}

static void make_ping(struct frame *f)
{
	uint8_t *m = f->data + 34;

	memset(m, 0x55, 64);
	m[0] = 8;
	m[1] = 0;
	put16(m + 2, 0);
	put16(m + 2, sum(m, 64, 0));
	finish4(f, 1, 64, 0);
}

static void make_udp(struct frame *f)
{
	uint8_t *u = f->data + 34;
	size_t n = 8 + rnd(300);

	put16(u, 1 + rnd(3000));
	put16(u + 2, rnd(2) ? 2000 : 68);
	put16(u + 4, (uint32_t)n);
	for (size_t i = 8; i < n; i++)
		u[i] = (uint8_t)rnd(256);
	finish4(f, 17, n, 0);
}

static void make_fragment(struct frame *f)
{
	size_t n = 8 * (1 + rnd(100));

	memset(f->data + 34, 0x77, n);
	finish4(f, rnd(2) ? 17 : 1, n, (uint16_t)((rnd(2) << 13) | rnd(700)));
}

static void make_tcp(struct frame *f)
{
	uint8_t *t = f->data + 34;
	size_t options = 4 * rnd(11), data = rnd(3) ? 0 : rnd(1000), n = 20 + options + data;

	memset(t, 0, n);
	put16(t, 5000 + rnd(2));
	put16(t + 2, rnd(8) ? 80 : rnd(65536));
	put32(t + 4, peer_seq + (rnd(3) ? 0 : rnd(3000)));
	put32(t + 8, rnd(4) ? their_seq : number());
	t[12] = (uint8_t)((20 + options) / 4 << 4);
	t[13] = (uint8_t)(rnd(3) ? 0x10 : rnd(4) ? 0x02 : rnd(256));
	put16(t + 14, rnd(65536));
	for (size_t i = 0; i < options; i++)
		t[20 + i] = (uint8_t)(rnd(2) ? rnd(9) : rnd(256));
	finish4(f, 6, n, 0);
	if (!(t[13] & 2))
		peer_seq += (uint32_t)data;
	else
		peer_seq++;
}

static void make_ip6(struct frame *f)
{
	uint8_t *ip = f->data + 14;
	size_t n = 8 + rnd(200);

	memcpy(f->data, "\2\0\0\0\0\1\2\0\0\0\0\11\x86\xdd", 14);
	memset(ip, 0, 40 + n);
	ip[0] = 0x60;
	put16(ip + 4, (uint32_t)n);
	ip[6] = (uint8_t)(rnd(2) ? 58 : rnd(2) ? 44 : rnd(2) ? 0 : rnd(256));
	ip[7] = 255;
	memcpy(ip + 8, "\xfe\x80\0\0\0\0\0\0\0\0\0\xff\xfe\0\0\11", 16);
	memcpy(ip + 24, rnd(2) ? "\xff\2\0\0\0\0\0\0\0\0\0\0\0\0\0\1" : "\xfe\x80\0\0\0\0\0\0\0\0\0\xff\xfe\0\0\1", 16);
	for (size_t i = 0; i < n; i++)
		ip[40 + i] = (uint8_t)(rnd(3) ? rnd(8) : rnd(256));
	if (ip[6] == 58) {
		uint32_t pseudo = 58 + (uint32_t)n;

		ip[40] = (uint8_t)(rnd(4) ? 130 + rnd(8) : 128);
		for (int i = 8; i < 40; i += 2)
			pseudo += (uint32_t)ip[i] << 8 | ip[i + 1];
		put16(ip + 42, 0);
		put16(ip + 42, sum(ip + 40, n, pseudo));
	}
	f->len = 54 + n;
}

static void mutate(struct frame *f)
{
	for (uint32_t n = rnd(6); n; n--) {
		switch (rnd(5)) {
		case 0: f->data[rnd((uint32_t)f->len)] = (uint8_t)rnd(256); break;
		case 1: f->data[rnd((uint32_t)f->len)] ^= (uint8_t)(1u << rnd(8)); break;
		case 2: f->len = rnd((uint32_t)f->len + 1); break;
		case 3: put16(f->data + rnd((uint32_t)f->len), number()); break;
		case 4: f->len = f->len + rnd(40) <= sizeof(f->data) ? f->len + rnd(40) : f->len; break;
		}
		if (f->len > sizeof(f->data))
			f->len = sizeof(f->data);
		if (!f->len)
			f->len = 1;
	}
}

/* A block of its exact size: every byte read too many is seen. */
static void input(const struct frame *f)
{
	uint8_t *copy = malloc(f->len);

	memcpy(copy, f->data, f->len);
	nic_input(&fake_nic, copy, f->len);
	free(copy);
}

static void note_answer(const uint8_t *frame, size_t len)
{
	if (len >= 54 && frame[12] == 8 && frame[13] == 0 && frame[23] == 6)
		their_seq = ((uint32_t)frame[38] << 24 | (uint32_t)frame[39] << 16 | (uint32_t)frame[40] << 8 | frame[41]) + 1;
	if (len >= 42 && frame[12] == 8 && frame[13] == 0 && frame[23] == 1 && frame[34] == 0)
		pongs++;
}

static void one_frame(void)
{
	static void (*const make[])(struct frame *) = { make_arp, make_ping, make_udp, make_fragment, make_tcp, make_tcp, make_tcp, make_ip6 };
	struct frame f = { .len = 0 };

	make[rnd(sizeof(make) / sizeof(make[0]))](&f);
	if (rnd(3))
		mutate(&f);
	input(&f);
}

/* -- requests -- */

static void one_request(void)
{
	struct fl_req r = { 0 };
	uint8_t in[FL_INLINE_MAX];
	uint32_t len = rnd(3) ? rnd(64) : rnd(FL_INLINE_MAX + 1);

	r.op = rnd(30) ? 1 + rnd(FL_OP_CLOSE) : number();
	r.flags = rnd(8);
	r.id = 1 + rnd(24);
	r.id2 = 1 + rnd(24);
	for (int i = 0; i < 4; i++)
		r.arg[i] = (int32_t)number();
	if (r.op == FL_OP_SOCKET) {
		r.arg[0] = rnd(2) ? AF_INET : AF_INET6;
		r.arg[1] = 1 + (int)rnd(3);
		r.arg[2] = rnd(3) ? 0 : (int)rnd(140);
	}
	if (r.op == FL_OP_SETOPT || r.op == FL_OP_GETOPT) {
		static const int levels[] = { SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6, 255 };

		r.arg[0] = levels[rnd(5)];
		r.arg[1] = (int)rnd(40);
	}
	if (r.op == FL_OP_IOCTL)
		r.arg[0] = (int)(0x8900 + rnd(64));
	r.addr_len = rnd(3) ? 16 : number();
	r.size = number();
	r.msg_flags = number();
	for (uint32_t i = 0; i < len; i++)
		in[i] = (uint8_t)rnd(256);
	if (len >= 28 && rnd(4)) {
		in[0] = rnd(3) ? AF_INET : AF_INET6;
		in[1] = 0;
		in[2] = 0;
		in[3] = (uint8_t)(80 + rnd(3));
		if (in[0] == AF_INET)
			memcpy(in + 4, rnd(2) ? "\177\0\0\1" : rnd(2) ? "\0\0\0\0" : "\12\0\0\11", 4);
	}
	lent_broken = !rnd(10);
	request(&r, in, len);
	CHECK(answer_len <= FL_INLINE_MAX && ans.addr_len <= answer_len);
}

static void drain_changes(void)
{
	struct fl_ready v[8];

	while (sock_take_changes(v, 8))
		;
}

/* -- cards -- */

/* Capabilities of a modern virtio device: common at 0, notify at 0x3000, device configuration at 0x2000. */
static uint32_t virtio_config(unsigned int offset, unsigned int size)
{
	static uint8_t space[256];

	if (!space[0x34]) {
		static const struct { uint8_t type; uint32_t at, len; } caps[] = { { 1, 0, 64 }, { 2, 0x3000, 64 }, { 4, 0x2000, 16 } };

		space[0x34] = 0x40;
		for (int i = 0; i < 3; i++) {
			uint8_t *c = space + 0x40 + i * 20;

			c[0] = 9;
			c[1] = (uint8_t)(i < 2 ? 0x40 + (i + 1) * 20 : 0);
			c[3] = caps[i].type;
			memcpy(c + 8, &caps[i].at, 4);
			memcpy(c + 12, &caps[i].len, 4);
		}
	}
	uint32_t v = 0;
	memcpy(&v, space + offset, size);
	return v;
}

static volatile bool stop_clearing;

/* The reset bit of the e1000e goes out by itself, on a card. */
static void *clear_reset(void *unused)
{
	(void)unused;
	while (!stop_clearing)
		__atomic_fetch_and((uint32_t *)fake_window, ~(1u << 26), __ATOMIC_RELAXED);
	return NULL;
}

static void hostile_card(const struct nic_driver *driver, unsigned int rounds)
{
	struct nic nic = { .driver = driver, .link = true };
	struct pbuf *p = pbuf_alloc(PBUF_RAW, 1000, PBUF_RAM);
	pthread_t helper;
	uint32_t one = 1;
	uint16_t size = 256;

	fake_window = calloc(1, 0x10000);
	memset(p->payload, 0, 1000);
	fake_config = virtio_config;
	memcpy(fake_window + 4, &one, 4);		/* features offered, in both halves: the upper one is VERSION_1 */
	memcpy(fake_window + 24, &size, 2);
	pthread_create(&helper, NULL, clear_reset, NULL);
	CHECK(driver->start(&nic));
	stop_clearing = true;
	pthread_join(helper, NULL);
	for (unsigned int i = 0; i < rounds && !failures; i++) {
		/* Rings are the small allocations; anything in them, in pieces or all over, and the indexes near what is expected too. */
		for (unsigned int d = 0; d < nr_fake_dma; d++) {
			uint8_t *mem = fake_dma[d].mem;

			if (fake_dma[d].size > 32768)
				continue;
			for (uint32_t n = rnd(40); n; n--) {
				uint32_t at = rnd((uint32_t)fake_dma[d].size - 4) & ~1u, v = number();

				memcpy(mem + at, &v, 2u << rnd(2));
			}
			if (driver == &virtio_net_driver) {
				uint16_t *used_idx = (uint16_t *)(mem + 256 * 16 + 1024 + 2);

				*used_idx = (uint16_t)(*used_idx + rnd(300));
			} else {
				for (uint32_t n = 0; n < 256; n++)
					mem[n * 16 + 12] |= (uint8_t)rnd(4);
			}
		}
		driver->receive(&nic, 128);
		for (uint32_t n = rnd(20); n; n--)
			driver->send(&nic, p);
		driver->kick(&nic);
		driver->room(&nic);
	}
	pbuf_free(p);
	for (unsigned int d = 0; d < nr_fake_dma; d++)
		free(fake_dma[d].mem);
	free(fake_window);
	free(nic.state);
}

/* -- the end: still alive -- */

static void still_answers(void)
{
	struct frame f = { .len = 0 };

	make_arp(&f);
	input(&f);
	pongs = 0;
	make_ping(&f);
	input(&f);
	pump();
	CHECK_EQUAL(1, pongs);
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: fuzz_netd frames|requests|virtio|e1000e SEED ROUNDS\n");
		return 2;
	}
	unsigned int rounds = (unsigned int)strtoul(argv[3], NULL, 0);

	seed = strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15ull + 1;
	start_stack();
	on_frame = note_answer;
	if (!strcmp(argv[1], "virtio")) {
		hostile_card(&virtio_net_driver, rounds);
	} else if (!strcmp(argv[1], "e1000e")) {
		hostile_card(&e1000e_driver, rounds);
	} else {
		struct fl_req listener[] = { { .op = FL_OP_SOCKET, .id = 1, .arg = { AF_INET, SOCK_STREAM } }, { .op = FL_OP_BIND, .id = 1, .addr_len = 16 },
					     { .op = FL_OP_LISTEN, .id = 1, .arg = { 5 } } };
		struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(80) };

		for (int i = 0; i < 3; i++)
			CHECK_EQUAL(0, request(&listener[i], &a, i == 1 ? sizeof(a) : 0));
		for (unsigned int i = 0; i < rounds && !failures; i++) {
			one_frame();
			if (!strcmp(argv[1], "requests"))
				one_request();
			if (!rnd(4))
				pump();
			if (!rnd(16))
				drain_changes();
		}
		sock_close_all();
	}
	pump();
	/* The fuzzer may have taken the interface down, or given it another address: as the kernel's caller it was privileged. */
	ip4_addr_t ip, mask, gw;
	IP4_ADDR(&ip, 10, 0, 0, 2);
	IP4_ADDR(&mask, 255, 255, 255, 0);
	IP4_ADDR(&gw, 10, 0, 0, 1);
	netif_set_addr(ether_netif, &ip, &mask, &gw);
	netif_set_up(ether_netif);
	netif_set_link_up(ether_netif);
	still_answers();
	/* Fragments whose rest never comes are forgotten; lwIP holds them by pointers that the leak checker cannot see. */
	for (int i = 0; i < 200; i++) {
		ip_reass_tmr();
		ip6_reass_tmr();
	}
	if (failures)
		printf("again with: %s %s %s\n", argv[1], argv[2], argv[3]);
	return failures != 0;
}
