/*
 * kernel/mutex.c with threads of the host: all forms of locking, waiters that are interrupted or killed.
 *	gcc -O1 -g -fsanitize=address,undefined -Itests/unit/shim -I. -o /tmp/t tests/unit/test_mutex.c -lpthread && /tmp/t [seed]
 */
#include "lock_harness.h"
#include "kernel/mutex.c"

#define THREADS	6
#define ROUNDS	40000

static struct mutex m;
static struct task tasks[THREADS];
static int inside, running = THREADS;
static u64 sum, expected;

static void section(void)
{
	if (__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) != 1)
		FAIL("two inside");
	if (!mutex_is_held(&m))
		FAIL("not the owner");
	sum++;
	if (random_below(16) == 0)
		sched_yield();
	__atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
	mutex_unlock(&m);
	__atomic_fetch_add(&expected, 1, __ATOMIC_RELAXED);
}

static void *thread(void *arg)
{
	current = arg;
	for (int i = 0; i < ROUNDS; i++) {
		int error = 0;

		switch (random_below(5)) {
		case 0:
		case 1:
			mutex_lock(&m);
			break;
		case 2:
			error = mutex_lock_interruptible(&m);
			break;
		case 3:
			error = mutex_lock_killable(&m);
			break;
		case 4:
			error = mutex_trylock(&m) ? 0 : -EBUSY;
			break;
		}
		if (!error)
			section();
		else if (error != -EBUSY)
			__atomic_store_n(&current->fatal, false, __ATOMIC_RELEASE);
	}
	__atomic_fetch_sub(&running, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	pthread_t t[THREADS];

	alarm(120);
	mutex_init(&m, LOCK_KMUTEX);
	for (int i = 0; i < THREADS; i++) {
		task_setup(&tasks[i], seed * 100 + (unsigned)i);
		pthread_create(&t[i], NULL, thread, &tasks[i]);
	}
	while (__atomic_load_n(&running, __ATOMIC_SEQ_CST)) {
		usleep(200);
		kill_task(&tasks[(unsigned)rand() % THREADS]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	if (m.owner || !list_empty(&m.waiters) || sum != expected)
		FAIL("left behind: owner %lx, %lu of %lu", (unsigned long)m.owner, (unsigned long)sum, (unsigned long)expected);
	printf("ok: mutex\n");
	return 0;
}
