/*
 * kernel/heap.h against a flat model: random inserts, removal of the first and of any, equal keys, walks over all nodes.
 *	gcc -O1 -g -fsanitize=address,undefined -Itests/unit/shim -I. -o /tmp/t tests/unit/test_heap.c && /tmp/t [seed]
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernel/heap.h"

#define FAIL(...) do { fprintf(stderr, __VA_ARGS__); fputc('\n', stderr); abort(); } while (0)
#define N 2000

struct item { struct heap_node node; unsigned key; bool in; };
static struct item items[N];
static struct heap heap;

static bool less(const struct heap_node *a, const struct heap_node *b)
{
	return container_of(a, struct item, node)->key < container_of(b, struct item, node)->key;
}

static unsigned count_in(unsigned *min_key)
{
	unsigned n = 0;

	*min_key = ~0u;
	for (int i = 0; i < N; i++)
		if (items[i].in) {
			n++;
			if (items[i].key < *min_key)
				*min_key = items[i].key;
		}
	return n;
}

static void check(void)
{
	unsigned min_key, n = count_in(&min_key), walked = 0;

	for (struct heap_node *h = heap_first(&heap); h; h = heap_walk_next(&heap, h)) {
		struct item *it = container_of(h, struct item, node);
		if (!it->in || !heap_linked(h))
			FAIL("walk met an item that is not in");
		for (struct heap_node *c = h->child; c; c = c->next)
			if (less(c, h))
				FAIL("child before its parent");
		walked++;
	}
	if (walked != n)
		FAIL("walk met %u of %u", walked, n);
	if (n && container_of(heap_first(&heap), struct item, node)->key != min_key)
		FAIL("first is not the smallest");
	for (int i = 0; i < N; i++)
		if (items[i].in != heap_linked(&items[i].node))
			FAIL("linked is wrong");
}

static void insert(struct item *it, unsigned range)
{
	it->key = (unsigned)rand() % range;
	it->in = true;
	heap_insert(&heap, &it->node, less);
}

static void take(struct item *it)
{
	heap_remove(&heap, &it->node, less);
	it->in = false;
}

static void random_operations(unsigned range, int grow)
{
	for (int i = 0; i < 4000; i++) {
		struct item *it = &items[rand() % N];
		struct heap_node *first = heap_first(&heap);

		if (!it->in && rand() % 100 < grow)
			insert(it, range);
		else if (it->in && rand() % 3)
			take(it);
		else if (first)
			take(container_of(first, struct item, node));
		if (i % 64 == 0)
			check();
	}
}

static void drain_sorted(void)
{
	unsigned last = 0;
	struct heap_node *first;

	while ((first = heap_first(&heap))) {
		struct item *it = container_of(first, struct item, node);
		if (it->key < last)
			FAIL("not drained in order");
		last = it->key;
		take(it);
	}
	check();
}

int main(int argc, char **argv)
{
	unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;

	srand(seed);
	for (int round = 0; round < 20; round++) {
		random_operations(round % 2 ? 10 : 1000000, round % 3 ? 90 : 50);
		drain_sorted();
	}
	for (int i = 0; i < N; i++)		/* the worst shape: all inserted, then all taken */
		insert(&items[i], 1000000);
	check();
	drain_sorted();
	printf("ok: heap\n");
	return 0;
}
