/*
 * The radix tree against a plain model: random inserts, removes, tags and walks over dense, sparse and huge indices,
 * allocation failures, and no node left when the tree is empty. The kernel file itself is compiled in.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#undef assert		/* the kernel brings its own */

#include "mm/radix.c"

static long nodes_alive, fail_after = -1;

void panic(const char *fmt, ...) { fprintf(stderr, "panic: %s\n", fmt); abort(); }
struct kmem_cache *kmem_cache_create(const char *name, size_t size, size_t align) { (void)name; (void)size; (void)align; return NULL; }
void *kmem_cache_alloc(struct kmem_cache *c, unsigned int gfp)
{
	(void)c; (void)gfp;
	if (fail_after >= 0 && fail_after-- == 0)
		return NULL;
	nodes_alive++;
	return calloc(1, sizeof(struct radix_node));
}
void kmem_cache_free(struct kmem_cache *c, void *obj) { (void)c; nodes_alive--; free(obj); }
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *)) { func(head); }	/* nobody reads beside us */

#define CHECK(cond) do { if (!(cond)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); exit(1); } } while (0)

#define N 600
static struct entry { u64 index; bool present, tag[NR_RADIX_TAGS]; } model[N];

static int cmp(const void *a, const void *b)
{
	u64 x = ((const struct entry *)a)->index, y = ((const struct entry *)b)->index;
	return x < y ? -1 : x > y;
}

static int insert(struct radix_tree *t, u64 index, void *item)
{
	struct radix_pool pool = {};
	int err;

	while ((err = radix_insert(t, index, item, &pool)) == -EAGAIN)
		if (radix_pool_fill(&pool, 0)) {
			err = -ENOMEM;
			break;
		}
	radix_pool_drain(&pool);
	return err;
}

static void check_all(struct radix_tree *t)
{
	for (int tag = -1; tag < NR_RADIX_TAGS; tag++) {
		u64 index = 0;
		void *item;
		for (int i = 0; i < N; i++) {
			if (!model[i].present || (tag >= 0 && !model[i].tag[tag]))
				continue;
			item = radix_next(t, &index, tag);
			CHECK(item == &model[i] && index == model[i].index);
			if (!++index)
				return;
		}
		CHECK(!radix_next(t, &index, tag));
	}
	for (int i = 0; i < N; i++)
		CHECK(radix_lookup(t, model[i].index) == (model[i].present ? &model[i] : NULL));
}

static void random_run(unsigned int seed, int kind)
{
	struct radix_tree t = {};

	srand(seed);
	for (int i = 0; i < N; i++) {
		u64 r = (u64)rand() << 40 ^ (u64)rand() << 20 ^ (u64)rand();
		model[i] = (struct entry){ .index = kind == 0 ? (u64)i : kind == 1 ? r % 5000000 : r };
	}
	if (kind == 2)
		model[0].index = ~0ul, model[1].index = 0;
	qsort(model, N, sizeof(model[0]), cmp);
	for (int i = 1; i < N; i++)
		if (model[i].index <= model[i - 1].index)
			model[i].index = model[i - 1].index + 1;

	for (int step = 0; step < 6000; step++) {
		struct entry *e = &model[rand() % N];
		switch (rand() % 6) {
		case 0: case 1:
			CHECK(insert(&t, e->index, e) == (e->present ? -EEXIST : 0));
			e->present = true;
			break;
		case 2:
			CHECK(radix_remove(&t, e->index) == (e->present ? e : NULL));
			*e = (struct entry){ .index = e->index };
			break;
		case 3: case 4:
			if (e->present) {
				int tag = rand() % NR_RADIX_TAGS;
				radix_tag_set(&t, e->index, tag);
				e->tag[tag] = true;
			}
			break;
		case 5:
			if (e->present) {
				int tag = rand() % NR_RADIX_TAGS;
				radix_tag_clear(&t, e->index, tag);
				e->tag[tag] = false;
			}
		}
		if (step % 500 == 0)
			check_all(&t);
	}
	check_all(&t);
	for (int i = 0; i < N; i++)
		radix_remove(&t, model[i].index);
	CHECK(!t.root && nodes_alive == 0);
}

/* An insert that runs out of memory at node n changes nothing. */
static void failing_inserts(void)
{
	for (long n = 0; n < 12; n++) {
		struct radix_tree t = {};
		int a;

		CHECK(insert(&t, 5, &a) == 0);
		struct radix_node *root = t.root;
		fail_after = n;
		int err = insert(&t, ~0ul - 3, &a);
		fail_after = -1;
		CHECK(err == 0 || (err == -ENOMEM && t.root == root && nodes_alive == 1));
		CHECK(radix_lookup(&t, ~0ul - 3) == (err ? NULL : &a));
		radix_remove(&t, ~0ul - 3);
		CHECK(t.root == root || nodes_alive == 1);	/* the detours are gone again */
		radix_remove(&t, 5);
		CHECK(!t.root && nodes_alive == 0);
	}
}

static void holes(void)
{
	struct radix_tree t = {};
	int a;

	for (u64 i = 10; i < 200; i++)
		CHECK(insert(&t, i, &a) == 0);
	CHECK(radix_next_hole(&t, 0) == 0 && radix_next_hole(&t, 10) == 200 && radix_next_hole(&t, 500) == 500);
	for (u64 i = 10; i < 200; i++)
		radix_remove(&t, i);
	CHECK(nodes_alive == 0);
}

int main(void)
{
	radix_init();
	for (unsigned int seed = 1; seed <= 20; seed++)
		for (int kind = 0; kind < 3; kind++)
			random_run(seed, kind);
	failing_inserts();
	holes();
	puts("radix: ok");
	return 0;
}
