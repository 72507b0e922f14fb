/*
 * shmctl(IPC_STAT) into memory that is there, that is not there yet, that a stack must grow to, and that does not exist; while another thread
 * attaches and detaches.
 * build: debug
 * budget: 2000
 */
#include "tests/labs/lab_test.h"

#include <sys/ipc.h>
#include <sys/shm.h>

static int id;
static volatile int stop;

static void *attach(void *unused)
{
	(void)unused;
	while (!stop) {
		void *p = shmat(id, NULL, 0);

		MUST(p != (void *)-1 && shmdt(p) == 0);
		relax();
	}
	return NULL;
}

int main(void)
{
	struct shmid_ds here;
	char *fresh = map_alone(4, RW);
	pthread_t thread;

	id = shmget(IPC_PRIVATE, 3 * PAGE, 0600 | IPC_CREAT);
	MUST(id >= 0);
	CHECK_EQUAL(0, shmctl(id, IPC_STAT, &here));
	CHECK_EQUAL(3 * PAGE, here.shm_segsz);
	MUST(pthread_create(&thread, NULL, attach, NULL) == 0);
	for (size_t i = 0; i < 4; i++) {
		struct shmid_ds *there = (void *)(fresh + i * PAGE);

		CHECK_EQUAL(0, shmctl(id, IPC_STAT, there));
		CHECK_EQUAL(3 * PAGE, there->shm_segsz);
	}
	struct shmid_ds *deep = (void *)((uintptr_t)__builtin_frame_address(0) - (1ul << 20));

	CHECK_EQUAL(0, shmctl(id, IPC_STAT, deep));
	CHECK_EQUAL(3 * PAGE, deep->shm_segsz);
	CHECK_ERRNO(EFAULT, shmctl(id, IPC_STAT, (void *)PAGE));
	stop = 1;
	pthread_join(thread, NULL);
	CHECK_EQUAL(0, shmctl(id, IPC_RMID, NULL));
	test_end();
}
