/*
 * kernel/rwsem.c with threads of the host: readers and writers of all forms, waiters that are killed, downgrades.
 *	gcc -O1 -g -fsanitize=address,undefined -Itests/unit/shim -I. -o /tmp/t tests/unit/test_rwsem.c -lpthread && /tmp/t [seed]
 *
 * Checked: never a writer with anybody else; two words that writers change one after the other are seen equal; nothing is
 * lost or left behind; everybody gets on (the alarm is the failure).
 */
#include "lock_harness.h"
#include "kernel/rwsem.c"

#define THREADS	6
#define ROUNDS	20000

static struct rwsem sem;
static struct task tasks[THREADS];
static int readers, writers;
static volatile u64 word_a, word_b;
static int running = THREADS;

static void read_section(void)
{
	__atomic_fetch_add(&readers, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&writers, __ATOMIC_SEQ_CST))
		FAIL("reader beside a writer");
	if (word_a != word_b)
		FAIL("reader sees half a write");
	if (random_below(16) == 0)
		sched_yield();
	__atomic_fetch_sub(&readers, 1, __ATOMIC_SEQ_CST);
}

static void write_section(void)
{
	if (__atomic_add_fetch(&writers, 1, __ATOMIC_SEQ_CST) != 1 || __atomic_load_n(&readers, __ATOMIC_SEQ_CST))
		FAIL("writer not alone");
	if (!rwsem_is_write_held(&sem))
		FAIL("writer is not the owner");
	word_a++;
	if (random_below(16) == 0)
		sched_yield();
	word_b++;
	__atomic_fetch_sub(&writers, 1, __ATOMIC_SEQ_CST);
}

static void one_round(void)
{
	switch (random_below(7)) {
	case 0:
	case 1:
		down_read(&sem);
		read_section();
		up_read(&sem);
		break;
	case 2:
		if (down_read_killable(&sem)) {
			__atomic_store_n(&current->fatal, false, __ATOMIC_RELEASE);
			break;
		}
		read_section();
		up_read(&sem);
		break;
	case 3:
		down_write(&sem);
		write_section();
		up_write(&sem);
		break;
	case 4:
		if (down_write_killable(&sem)) {
			__atomic_store_n(&current->fatal, false, __ATOMIC_RELEASE);
			break;
		}
		write_section();
		up_write(&sem);
		break;
	case 5:
		down_write(&sem);
		write_section();
		downgrade_write(&sem);
		read_section();
		up_read(&sem);
		break;
	case 6:
		if (random_below(2) ? down_read_trylock(&sem) : false) {
			read_section();
			up_read(&sem);
		} else if (down_write_trylock(&sem)) {
			write_section();
			up_write(&sem);
		}
		break;
	}
}

static void *thread(void *arg)
{
	current = arg;
	for (int i = 0; i < ROUNDS; i++)
		one_round();
	__atomic_fetch_sub(&running, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	pthread_t t[THREADS];

	alarm(120);
	rwsem_init(&sem, LOCK_MMAP);
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
	if (sem.count || !list_empty(&sem.waiters) || sem.owner)
		FAIL("left behind: count %lx", (unsigned long)sem.count);
	printf("ok: rwsem\n");
	return 0;
}
