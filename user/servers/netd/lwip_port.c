/*
 * What lwIP needs from below: time, random numbers, sums, and what to do when it finds itself broken.
 */
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "arch/hooks.h"
#include "lwip/init.h"
#include "lwip/sys.h"

void netd_log(const char *format, ...)
{
	char text[400];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (n > (int)sizeof(text) - 1)
		n = sizeof(text) - 1;
	(void)!write(STDERR_FILENO, "netd: ", 6);
	(void)!write(STDERR_FILENO, text, (size_t)n);
	if (!n || text[n - 1] != '\n')
		(void)!write(STDERR_FILENO, "\n", 1);
}

void netd_assert_failed(const char *what, const char *file, int line)
{
	netd_log("%s:%d: %s", file, line, what);
	abort();
}

/* Milliseconds; wraps, and lwIP knows. */
u32_t sys_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u32_t)((uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000);
}

/* A block of the kernel's generator at a time. */
uint32_t netd_random(void)
{
	static uint32_t block[64];
	static unsigned int left;

	if (!left) {
		if (getrandom(block, sizeof(block), 0) != sizeof(block))
			netd_assert_failed("no random numbers", __FILE__, __LINE__);
		left = 64;
	}
	return block[--left];
}

/* The Internet checksum, not inverted, in memory order: words of the stream added with end-around carry (RFC 1071). */
uint16_t netd_checksum(const void *data, int len)
{
	const uint8_t *p = data;
	uint64_t sum = 0, word;
	uint32_t half = 0;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&word, p, 8);
		sum += word;
		sum += sum < word;
	}
	word = 0;
	memcpy(&word, p, (size_t)len);
	sum += word;
	sum += sum < word;
	half = (uint32_t)(sum >> 32);
	word = (uint64_t)half + (uint32_t)sum;
	word = (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32);
	word = (word & 0xffff) + (word >> 16);
	word = (word & 0xffff) + (word >> 16);
	return (uint16_t)word;
}

/* -- initial sequence numbers: a clock of 4 us plus a keyed hash of the connection (RFC 6528) -- */

static uint64_t rotate(uint64_t v, int n) { return v << n | v >> (64 - n); }

/* SipHash-2-4 of @len bytes (a multiple of 8). */
static uint64_t siphash(const uint64_t key[2], const void *data, size_t len)
{
	uint64_t v[4] = { key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u };

	for (size_t i = 0; i <= len / 8; i++) {
		uint64_t m = (uint64_t)len << 56;

		if (i < len / 8)
			memcpy(&m, (const uint8_t *)data + i * 8, 8);
		v[3] ^= m;
		for (int round = 0; round < (i < len / 8 ? 2 : 6); round++) {
			if (round == 2) {		/* the last word is in: finalise */
				v[0] ^= m;
				v[2] ^= 0xff;
			}
			v[0] += v[1]; v[1] = rotate(v[1], 13) ^ v[0]; v[0] = rotate(v[0], 32);
			v[2] += v[3]; v[3] = rotate(v[3], 16) ^ v[2];
			v[0] += v[3]; v[3] = rotate(v[3], 21) ^ v[0];
			v[2] += v[1]; v[1] = rotate(v[1], 17) ^ v[2]; v[2] = rotate(v[2], 32);
		}
		if (i < len / 8)
			v[0] ^= m;
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

u32_t netd_tcp_isn(const ip_addr_t *local_ip, u16_t local_port, const ip_addr_t *remote_ip, u16_t remote_port)
{
	static uint64_t key[2];
	struct { uint8_t local[16], remote[16]; uint16_t ports[4]; } who = { .ports = { local_port, remote_port } };
	struct timespec t;

	if (!key[0] && getrandom(key, sizeof(key), 0) != sizeof(key))
		netd_assert_failed("no random numbers", __FILE__, __LINE__);
	memcpy(who.local, local_ip, IP_IS_V6(local_ip) ? 16 : 4);
	memcpy(who.remote, remote_ip, IP_IS_V6(remote_ip) ? 16 : 4);
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u32_t)siphash(key, &who, sizeof(who)) + (u32_t)((uint64_t)t.tv_sec * 250000 + (uint64_t)t.tv_nsec / 4000);
}
