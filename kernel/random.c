/*
 * The random number generator: ChaCha20 with fast key erasure.
 *
 * One 256-bit key, under a lock that interrupts may take. Each request makes one block; its first half becomes the next
 * key at once, so that whoever reads the memory later cannot learn earlier output, and the second half is the answer, or
 * for longer requests the key of a private stream that needs no lock.
 *
 * Sources: RDSEED and RDRAND when the CPU has them, the time-stamp counter at every step of the mixing, and whatever
 * add_random_bytes() brings. Without a hardware source the numbers of an emulator's first milliseconds can be guessed:
 * this is not a security boundary (DESIGN section 10). random.seed=N makes the whole sequence repeatable, for tests.
 */
#include "kernel/random.h"

#include "kernel/boot_info.h"
#include "kernel/errno.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "kernel/spinlock.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/time.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/features.h"
#include "mm/uaccess.h"

#define KEY_WORDS	8
#define RESEED_NS	(60 * NSEC_PER_SEC)

static struct spinlock random_lock = SPINLOCK_INIT(LOCK_LEAF_IRQ);
static u32 random_key[KEY_WORDS];	/* random_lock */
static u64 random_counter;		/* random_lock */
static u64 reseed_at;			/* random_lock  ktime; 0: never seeded */
static bool fixed_seed;			/* random_lock  random.seed= was given */

/* -- ChaCha20, RFC 8439 section 2.3, with a 64-bit counter -- */

static u32 rotl(u32 v, int n) { return v << n | v >> (32 - n); }

static void quarter_round(u32 *a, u32 *b, u32 *c, u32 *d)
{
	*a += *b; *d = rotl(*d ^ *a, 16);
	*c += *d; *b = rotl(*b ^ *c, 12);
	*a += *b; *d = rotl(*d ^ *a, 8);
	*c += *d; *b = rotl(*b ^ *c, 7);
}

static void chacha_block(const u32 key[KEY_WORDS], u64 counter, u32 out[16])
{
	u32 in[16] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };	/* "expand 32-byte k" */

	memcpy(in + 4, key, KEY_WORDS * sizeof(u32));
	in[12] = (u32)counter;
	in[13] = (u32)(counter >> 32);
	memcpy(out, in, sizeof(in));
	for (int i = 0; i < 10; i++) {
		quarter_round(&out[0], &out[4], &out[8], &out[12]);
		quarter_round(&out[1], &out[5], &out[9], &out[13]);
		quarter_round(&out[2], &out[6], &out[10], &out[14]);
		quarter_round(&out[3], &out[7], &out[11], &out[15]);
		quarter_round(&out[0], &out[5], &out[10], &out[15]);
		quarter_round(&out[1], &out[6], &out[11], &out[12]);
		quarter_round(&out[2], &out[7], &out[8], &out[13]);
		quarter_round(&out[3], &out[4], &out[9], &out[14]);
	}
	for (int i = 0; i < 16; i++)
		out[i] += in[i];
}

/* -- sources -- */

/* False: the instruction is not there, or has nothing to give just now. */
static bool hardware_random(u64 *v)
{
	bool ok = false;

	if (cpu_features.rdseed)
		__asm__ volatile("rdseed %0" : "=r"(*v), "=@ccc"(ok) : : "cc");
	for (int tries = 0; !ok && cpu_features.rdrand && tries < 10; tries++)
		__asm__ volatile("rdrand %0" : "=r"(*v), "=@ccc"(ok) : : "cc");
	return ok;
}

/* One word into the key: xor, then a round through the cipher so that every bit of the key depends on it. */
static void mix_locked(u64 v)
{
	u32 block[16];

	random_key[0] ^= (u32)v;
	random_key[1] ^= (u32)(v >> 32);
	chacha_block(random_key, random_counter++, block);
	memcpy(random_key, block, sizeof(random_key));
}

static void reseed_locked(u64 now)
{
	bool first = !reseed_at;
	char text[24];
	u64 v;

	reseed_at = now + RESEED_NS;
	if (first && cmdline_get("random.seed", text, sizeof(text)) && !kstrtou64(text, 0, &v)) {
		fixed_seed = true;
		mix_locked(v);
		return;
	}
	/* The first time take more: the time between two reads of the counter varies with caches, interrupts, host load. */
	for (int i = 0; i < (first ? 64 : 8); i++) {
		mix_locked(rdtsc());
		if (hardware_random(&v))
			mix_locked(v);
	}
	mix_locked(ktime_get_ns());
}

/* The next block; its first half has become the key and is no longer in it. */
static void next_block(u32 out[KEY_WORDS])
{
	u32 block[16];
	unsigned long flags = spin_lock_irqsave(&random_lock);
	u64 now = ktime_get_ns();

	if (unlikely(!reseed_at || (now >= reseed_at && !fixed_seed)))
		reseed_locked(now);
	chacha_block(random_key, random_counter++, block);
	memcpy(random_key, block, sizeof(random_key));
	spin_unlock_irqrestore(&random_lock, flags);
	memcpy(out, block + KEY_WORDS, KEY_WORDS * sizeof(u32));
}

void add_random_bytes(const void *buf, size_t n)
{
	unsigned long flags = spin_lock_irqsave(&random_lock);

	/* What comes from outside must not disturb a sequence that somebody wants repeatable. */
	for (size_t i = 0; i < n && !fixed_seed && reseed_at; i += sizeof(u64)) {
		u64 v = rdtsc();
		u64 word = 0;

		memcpy(&word, (const u8 *)buf + i, min(n - i, sizeof(word)));
		mix_locked(v + word);
	}
	spin_unlock_irqrestore(&random_lock, flags);
}

/* -- numbers -- */

/* A stream with a key of its own, for more than one block. */
struct random_stream { u32 key[KEY_WORDS]; u64 counter; };

static void stream_read(struct random_stream *s, void *buf, size_t n)
{
	u32 block[16];

	while (n) {
		size_t part = min(n, sizeof(block));

		chacha_block(s->key, s->counter++, block);
		memcpy(buf, block, part);
		buf = (u8 *)buf + part;
		n -= part;
	}
}

void get_random_bytes(void *buf, size_t n)
{
	struct random_stream s = { .counter = 0 };

	next_block(s.key);
	if (n <= sizeof(s.key))
		memcpy(buf, s.key, n);
	else
		stream_read(&s, buf, n);
}

u64 get_random_u64(void)
{
	u64 v;

	get_random_bytes(&v, sizeof(v));
	return v;
}

#define GRND_NONBLOCK	1u
#define GRND_RANDOM	2u
#define GRND_INSECURE	4u

SYSCALL_DEFINE(getrandom, void __user *ubuf, size_t n, unsigned int flags)
{
	struct random_stream s = { .counter = 0 };
	u8 buf[256];
	size_t done = 0;

	if (flags & ~(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE))
		return -EINVAL;
	if ((flags & (GRND_RANDOM | GRND_INSECURE)) == (GRND_RANDOM | GRND_INSECURE))
		return -EINVAL;
	n = min(n, (size_t)INT32_MAX & PAGE_MASK);
	next_block(s.key);
	while (done < n) {
		size_t part = min(n - done, sizeof(buf));

		stream_read(&s, buf, part);
		size_t left = copy_to_user((u8 __user *)ubuf + done, buf, part);

		done += part - left;
		if (left)
			return done ? (long)done : -EFAULT;
		/* Small requests are never cut short, as the manual promises. */
		if (!(done % PAGE_SIZE)) {
			if (signal_pending())
				break;
			cond_resched();
		}
	}
	return (long)done;
}
