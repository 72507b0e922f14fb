/*
 * System V shared memory: keys, rights, attaching and detaching, removal with the last detach, what maps shows.
 * timeout: 30
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "test.h"

#define PAGE	4096ul
#define KEY	0x5eed

static int nattch(int id)
{
	struct shmid_ds ds;

	return shmctl(id, IPC_STAT, &ds) ? -1 : (int)ds.shm_nattch;
}

static int maps_line(const char *name)
{
	char line[512];
	int n = 0;
	FILE *f = fopen("/proc/self/maps", "r");

	MUST(f != NULL);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, name) != NULL;
	fclose(f);
	return n;
}

static void writes_and_exits(void *arg)
{
	CHECK_EQUAL(2, nattch(*(int *)arg));
	char *p = shmat(*(int *)arg, NULL, 0);

	MUST(p != (char *)-1);
	CHECK_EQUAL(3, nattch(*(int *)arg));
	p[1] = 11;
}

static void not_the_owner(void *arg)
{
	int id = *(int *)arg;

	MUST(!setgid(1000) && !setuid(1000));
	CHECK_ERRNO(EACCES, (long)shmat(id, NULL, 0));
	CHECK_ERRNO(EACCES, shmget(KEY, 0, 0600));
	CHECK_ERRNO(EPERM, shmctl(id, IPC_RMID, NULL));
}

int main(void)
{
	struct shmid_ds ds;
	int id, other;
	char *p, *q;

	CHECK_ERRNO(ENOENT, shmget(KEY, PAGE, 0));
	CHECK_ERRNO(EINVAL, shmget(KEY, 0, IPC_CREAT | 0600));
	id = shmget(KEY, PAGE + 1, IPC_CREAT | 0600);
	MUST(id >= 0);
	CHECK_EQUAL(id, shmget(KEY, PAGE, IPC_CREAT | 0600));
	CHECK_ERRNO(EEXIST, shmget(KEY, PAGE, IPC_CREAT | IPC_EXCL | 0600));
	CHECK_ERRNO(EINVAL, shmget(KEY, 5 * PAGE, 0));
	other = shmget(IPC_PRIVATE, PAGE, 0600);
	CHECK(other >= 0 && other != id);
	CHECK_EQUAL(0, shmctl(other, IPC_RMID, NULL));
	CHECK_ERRNO(EINVAL, shmctl(other, IPC_STAT, &ds));

	CHECK_ERRNO(EINVAL, (long)shmat(-1, NULL, 0));
	CHECK_ERRNO(EINVAL, (long)shmat(id, (void *)0x100000000123, 0));
	p = shmat(id, NULL, 0);
	MUST(p != (char *)-1);
	p[0] = 5;
	CHECK_ERRNO(EINVAL, (long)shmat(id, p, 0));
	q = shmat(id, (void *)0x100000000123, SHM_RND | SHM_RDONLY);
	CHECK_EQUAL(0x100000000000, (long)q);
	CHECK_EQUAL(5, q[0]);
	CHECK_ERRNO(EACCES, mprotect(q, PAGE, PROT_READ | PROT_WRITE));
	CHECK_EQUAL(2, nattch(id));
	CHECK_EQUAL(2, maps_line("/SYSV00005eed (deleted)"));
	CHECK_EQUAL(0, shmctl(id, IPC_STAT, &ds));
	CHECK_EQUAL(PAGE + 1, ds.shm_segsz);
	CHECK_EQUAL(0600, ds.shm_perm.mode & 0777);
	CHECK_EQUAL(getpid(), ds.shm_cpid);
	CHECK_EQUAL(0, in_child(not_the_owner, &id));

	/* A child inherits the attaches: 2 more while it lives, then its own. */
	CHECK_EQUAL(0, shmdt(q));
	CHECK_ERRNO(EINVAL, shmdt(q));
	CHECK_EQUAL(1, nattch(id));
	CHECK_EQUAL(0, in_child(writes_and_exits, &id));
	CHECK_EQUAL(11, p[1]);
	CHECK_EQUAL(1, nattch(id));

	/* Removal waits for the last detach; the key is free at once. */
	CHECK_EQUAL(0, shmctl(id, IPC_RMID, NULL));
	CHECK_EQUAL(1, nattch(id));
	CHECK_ERRNO(ENOENT, shmget(KEY, PAGE, 0));
	p[2] = 7;
	mprotect(p + PAGE, PAGE, PROT_READ);		/* now two VMAs: one detach takes both */
	CHECK_EQUAL(2, nattch(id));
	CHECK_EQUAL(0, shmdt(p));
	CHECK_ERRNO(EINVAL, shmctl(id, IPC_STAT, &ds));
	CHECK_EQUAL(0, maps_line("/SYSV00005eed"));
	test_end();
}
