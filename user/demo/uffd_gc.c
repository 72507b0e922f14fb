/*
 * A compacting garbage collector that runs beside its program. Four mutators each keep a list, drop cells from it, add new ones, map
 * and unmap memory, and check at every step that the cells are those they have put there; one collector moves everything
 * together whenever the heap is three quarters full. How: gc_heap.h.
 *
 *	uffd_gc [MiB] [CYCLES]
 */
#define _GNU_SOURCE
#include "gc_heap.h"

#include "arguments.h"

#define MUTATORS	4

static volatile bool stop;
static volatile long steps[MUTATORS], wrong;

static uint32_t check_of(const struct cell *c)
{
	return (c->owner * 2654435761u ^ c->serial * 40503u) + c->payload[59];
}

/* Walks its list, takes out every fifth cell, and puts a new one in front. The serial numbers fall along the list. */
static void step(uint32_t id, uint32_t serial)
{
	uint32_t last = UINT32_MAX, n = gc.roots[id], *link = NULL;

	for (int length = 0; n; n = gc.cells[n].next, length++) {
		struct cell *c = &gc.cells[n];

		wrong += c->owner != id || c->serial >= last || c->check != check_of(c);
		last = c->serial;
		c->payload[59] = serial + (uint32_t)length;		/* a write to every page of the list */
		c->check = check_of(c);
		if (link && length % 5 == 4 && length > 40)
			*link = c->next;
		link = &c->next;
	}
	n = gc_alloc();
	if (!n)
		return;
	struct cell *c = &gc.cells[n];
	*c = (struct cell){ .next = gc.roots[id], .owner = id, .serial = serial };
	c->check = check_of(c);
	gc.roots[id] = n;
}

static void *mutator(void *arg)
{
	uint32_t id = (uint32_t)(uintptr_t)arg;

	for (uint32_t serial = 1; !stop; serial++) {
		if (gc_is_full()) {		/* wait for the collector outside of the world */
			usleep(1000);
			continue;
		}
		gc_enter();
		for (int i = 0; i < 8; i++)
			step(id, serial * 8 + (uint32_t)i);
		gc_leave();
		if (steps[id]++ % 4 == 0) {
			char *p = gc_map(4 * GC_PAGE);

			p[0] = p[3 * GC_PAGE] = 1;
			munmap(p, 4 * GC_PAGE);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const char line[] = "uffd_gc [MiB] [CYCLES]";
	size_t mib = number_argument(argc, argv, 1, 1, 1024, line), made = 0;
	int cycles = (int)number_argument(argc, argv, 2, 4, 100000, line);
	pthread_t thread[MUTATORS];

	if (argc > 3)
		usage(line);
	gc_init(mib << 20);
	gc_take_over();
	for (uintptr_t i = 0; i < MUTATORS; i++)
		if (pthread_create(&thread[i], NULL, mutator, (void *)i))
			gc_die("pthread_create");
	for (int done = 0; done < cycles; ) {
		gc_serve(2);
		if (gc_is_full()) {
			made += gc_cycle();
			done++;
		}
	}
	stop = true;
	for (int i = 0; i < MUTATORS; ) {		/* some may still wait for a page */
		gc_serve(1);
		if (pthread_tryjoin_np(thread[i], NULL) == 0)
			i++;
	}
	printf("%d cycles, %zu pages compacted, %zu faults served, %zu pages of zeros; steps %ld %ld %ld %ld, wrong cells %ld\n", cycles, made,
	       gc.by_fault, gc.zeroed, steps[0], steps[1], steps[2], steps[3], wrong);
	return wrong != 0 || !steps[0] || !steps[3] || !gc.by_fault;
}
