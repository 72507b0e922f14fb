/*
 * only: faultline
 * timeout: 120
 *
 * Fuzz: a server of files whose answers are spoiled at random, by seed, and which dies at random; clients that make every call there is
 * on its tree. Whatever comes back, everybody ends, the kernel stays, and nothing is left over. ROUNDS servers.
 */
#include "fake_tree.h"

#ifndef ROUNDS
#define ROUNDS	40
#endif
#define CALLS	30		/* of each of two clients, for each server */

static uint64_t state;

static uint32_t any(uint32_t below)
{
	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return (uint32_t)((state >> 33) % below);
}

static uint64_t odd_number(void)
{
	static const uint64_t some[] = { 0, 1, 2, 3, 4, 5, 4095, 4096, 4097, 1ul << 20, INT32_MAX, UINT32_MAX, INT64_MAX, INT64_MAX - 4095, INT64_MIN, UINT64_MAX, -5ul, -12ul, -516ul };

	return any(3) ? some[any(sizeof(some) / sizeof(some[0]))] : (uint64_t)any(1u << 31) << any(33);
}

/* Most answers are right, so that something gets going. */
static int spoil_at_random(const struct fl_fs_req *r, struct fl_msg *m, char *buf, struct fl_fs_ans *a)
{
	if (any(4) == 0 && (r->op == FL_FS_LOOKUP || r->op == FL_FS_CREATE)) {
		a->result = 0;
		describe(a, 2 + any(4));		/* something is there: another file than last time, perhaps a directory in a circle */
		return SEND;
	}
	if (any(5))
		return SEND;
	switch (any(8)) {
	case 0: a->result = (int64_t)odd_number(); break;
	case 1: a->node = odd_number(); a->result = 0; break;
	case 2: a->size = odd_number(); break;
	case 3: a->mode = (uint32_t)odd_number(); break;
	case 4:					/* bytes that nobody wanted, or not these */
		m->len = any(FL_INLINE_MAX);
		for (uint32_t i = 0; i < m->len; i++)
			buf[i] = (char)any(256);
		break;
	case 5:
		for (uint32_t i = 0; i < sizeof(*a); i++)
			((char *)a)[i] = (char)any(256);
		break;
	case 6:
		if (m->len)
			((char *)buf)[any(m->len)] ^= (char)(1 << any(8));
		break;
	case 7:
		if (any(6) == 0)
			_exit(0);
		break;
	}
	return SEND;
}

static const char *a_name(void)
{
	static const char *const names[] = { TREE "/f", TREE "/d", TREE "/d/g", TREE "/d/x/y", TREE "/new", TREE "/d/d/d/d/f", TREE, TREE "/d/.." };

	return names[any(sizeof(names) / sizeof(names[0]))];
}

static void one_call(int fd, char *p)
{
	static char buf[5000];
	struct stat st;
	int other;

	switch (any(17)) {
	case 0: (void)!stat(a_name(), &st); break;
	case 1: (void)!mkdir(a_name(), 0755); break;
	case 2: (void)!unlink(a_name()); break;
	case 3: (void)!rmdir(a_name()); break;
	case 4: (void)!rename(a_name(), a_name()); break;
	case 5: (void)!syscall(SYS_renameat2, AT_FDCWD, a_name(), AT_FDCWD, a_name(), 2); break;
	case 6: (void)!truncate(a_name(), (off_t)any(30000)); break;
	case 7: (void)!chmod(a_name(), any(07777)); break;
	case 8: (void)!chdir(any(2) ? a_name() : "/"); break;
	case 9: (void)!pread(fd, buf, any(sizeof(buf)), (off_t)any(20000)); break;
	case 10: (void)!pwrite(fd, buf, any(sizeof(buf)), (off_t)any(20000)); break;
	case 11: (void)!fsync(fd); break;
	case 12: is_bus_error(p + any(8 * PAGE), (int)any(2)); break;
	case 13: (void)!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); break;
	case 14: (void)!msync(p, 8 * PAGE, MS_SYNC); break;
	case 15:
		other = open(a_name(), any(2) ? O_RDONLY : O_RDWR | O_CREAT, 0644);
		for (int i = 0; i < 3; i++)
			(void)!syscall(SYS_getdents64, other, buf, sizeof(buf));
		close(other);
		break;
	case 16: (void)!ftruncate(fd, (off_t)any(40000)); break;
	}
}

static void client(unsigned int seed)
{
	int fd = -1;
	char *p;

	state = seed;
	for (int i = 0; i < 10 && fd < 0; i++)
		fd = open(TREE "/f", O_RDWR);
	p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || p == MAP_FAILED)
		_exit(0);
	for (int i = 0; i < CALLS; i++)
		one_call(fd, p);
	_exit(0);
}

int main(void)
{
	int status;

	for (unsigned int round = 1; round <= ROUNDS; round++) {
		pid_t clients[2];

		state = round;
		pid_t server = start_fake(spoil_at_random);

		for (int i = 0; i < 2; i++) {
			fflush(stdout);
			clients[i] = fork();
			MUST(clients[i] >= 0);
			if (clients[i] == 0)
				client(round * 2 + (unsigned int)i);
		}
		for (int i = 0; i < 2; i++) {
			CHECK(waitpid(clients[i], &status, 0) == clients[i]);
			if (status)
				printf("seed %u, client %d\n", round, i);
			CHECK_EQUAL(0, status);
		}
		stop_fake(server);
		if (round % 8 == 0)
			CHECK_EQUAL(0, umount(TREE));
	}
	if (ROUNDS % 8)
		CHECK_EQUAL(0, umount(TREE));
	test_end();
}
