/*
 * mm/vma_tree.c on the host, under ASan and UBSan:
 *	gcc -O1 -g -fsanitize=address,undefined -Itests/unit/shim -I. -o /tmp/t tests/unit/test_vma_tree.c -lpthread && /tmp/t [seed]
 *
 * 1. random inserts, removes and new bounds against a flat model; find, prev and gap search compared after each
 * 2. 60,000 VMAs, in rising, falling and random order
 * 3. reservations: inserts that were reserved succeed when the allocator has nothing more
 * 4. readers without locks, while a writer splits, joins and frees: a VMA that never changes is found every time, and
 *    nothing freed is ever touched (ASan watches; frees are deferred by a small RCU)
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mm/vma_tree.c"

#define FAIL(...) do { fprintf(stderr, __VA_ARGS__); fputc('\n', stderr); abort(); } while (0)

void panic(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	abort();
}

/* -- allocator -- */
static long nodes_alive, alloc_budget = -1;

struct kmem_cache *kmem_cache_create(const char *name, size_t size, size_t align)
{
	(void)name; (void)align;
	return (struct kmem_cache *)size;
}
void *kmem_cache_alloc(struct kmem_cache *c, unsigned int gfp)
{
	(void)gfp;
	if (!alloc_budget)
		return NULL;
	if (alloc_budget > 0)
		alloc_budget--;
	__atomic_fetch_add(&nodes_alive, 1, __ATOMIC_RELAXED);
	return memset(malloc((size_t)c), 0x5a, (size_t)c);
}
void kmem_cache_free(struct kmem_cache *c, void *obj)
{
	(void)c;
	__atomic_fetch_sub(&nodes_alive, 1, __ATOMIC_RELAXED);
	free(obj);
}

/* -- RCU: a counter per reader, odd inside a section; the writer waits until each is even or has moved -- */
#define NR_READERS 4
static unsigned long reader_count[NR_READERS][8];
static __thread int reader_id = -1;
static struct rcu_head *pending;
static long nr_pending;

void rcu_read_lock(void) { __atomic_fetch_add(&reader_count[reader_id][0], 1, __ATOMIC_SEQ_CST); }
void rcu_read_unlock(void) { __atomic_fetch_add(&reader_count[reader_id][0], 1, __ATOMIC_SEQ_CST); }
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	head->func = func;
	head->next = pending;
	pending = head;
	nr_pending++;
}
void synchronize_rcu(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (int i = 0; i < NR_READERS; i++) {
		unsigned long seen = __atomic_load_n(&reader_count[i][0], __ATOMIC_SEQ_CST);

		while ((seen & 1) && __atomic_load_n(&reader_count[i][0], __ATOMIC_SEQ_CST) == seen)
			sched_yield();
	}
	while (pending) {
		struct rcu_head *h = pending;

		pending = h->next;
		h->func(h);
	}
	nr_pending = 0;
}

/* -- random numbers -- */
static u64 rng = 88172645463325252ul;
static u64 rnd(u64 n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % n;
}

/* -- the model: which VMA owns each page of a small space -- */
#define PAGES 3000
static struct vma *owner[PAGES];
static struct vma_tree tree;

static uintptr_t addr_of(unsigned int page) { return (uintptr_t)page << PAGE_SHIFT; }

static struct vma *vma_new(uintptr_t start, uintptr_t end)
{
	struct vma *v = calloc(1, sizeof(*v));

	v->start = start;
	v->end = end;
	return v;
}

static void paint(struct vma *v, uintptr_t start, uintptr_t end)
{
	for (uintptr_t a = start; a < end; a += PAGE_SIZE)
		owner[a >> PAGE_SHIFT] = v;
}

static struct vma *model_find(unsigned int page)
{
	for (; page < PAGES; page++)
		if (owner[page])
			return owner[page];
	return NULL;
}

static struct vma *model_prev(unsigned int page)
{
	while (page-- > 0)
		if (owner[page])
			return owner[page];
	return NULL;
}

static uintptr_t model_gap(size_t len, uintptr_t low, uintptr_t high, uintptr_t align, uintptr_t offset, bool topdown)
{
	uintptr_t best = (uintptr_t)-ENOMEM;

	for (unsigned int p = 0; p < PAGES; ) {
		unsigned int q = p;

		if (owner[p]) {
			p++;
			continue;
		}
		while (q < PAGES && !owner[q])
			q++;
		uintptr_t lo = max(addr_of(p), low), hi = min(addr_of(q), high);
		p = q;
		if (hi < lo || hi - lo < len + align - PAGE_SIZE)
			continue;
		for (uintptr_t a = lo; a + len <= hi; a += PAGE_SIZE)
			if ((a & (align - 1)) == offset) {
				best = a;
				if (!topdown)
					return best;
			}
	}
	return best;
}

static void compare(void)
{
	unsigned int page = rnd(PAGES);
	uintptr_t align = PAGE_SIZE << rnd(5), offset = rnd(align >> PAGE_SHIFT) << PAGE_SHIFT;
	uintptr_t low = addr_of(rnd(PAGES)), high = addr_of(rnd(PAGES + 1));
	size_t len = addr_of(1 + rnd(rnd(4) ? 6 : 60));
	bool down = rnd(2);

	if (rnd(3) == 0)
		low = 0, high = addr_of(PAGES);
	if (vma_tree_find(&tree, addr_of(page)) != model_find(page))
		FAIL("find differs at page %u", page);
	if (vma_tree_prev(&tree, addr_of(page)) != model_prev(page))
		FAIL("prev differs at page %u", page);
	struct vma *before, *after = vma_tree_neighbours(&tree, addr_of(page), &before);
	struct vma *here = owner[page];
	if (after != model_find(page) || before != (here ? model_prev(here->start >> PAGE_SHIFT) : model_prev(page)))
		FAIL("neighbours differ at page %u", page);
	if (here) {
		vma_tree_around(&tree, here, &before, &after);
		unsigned int end = here->end >> PAGE_SHIFT;
		if (before != model_prev(here->start >> PAGE_SHIFT) || after != (end < PAGES ? model_find(end) : NULL))
			FAIL("what is around page %u differs", page);
	}
	uintptr_t want = low <= high ? model_gap(len, low, high, align, offset, down) : (uintptr_t)-ENOMEM;
	uintptr_t got = vma_tree_find_gap(&tree, len, low, high, align, offset, down);
	if (want != got)
		FAIL("gap len %lx in [%lx,%lx) align %lx+%lx down %d: want %lx got %lx", len, low, high, align, offset, down, want, got);
}

static void random_operations(unsigned long n, unsigned int keep)
{
	for (unsigned long k = 0; k < n; k++) {
		unsigned int page = rnd(PAGES);
		struct vma *v = owner[page];

		if (!v && tree.count < keep * 2) {
			unsigned int end = page + 1;

			for (unsigned int more = rnd(4); more && end < PAGES && !owner[end]; more--)
				end++;
			v = vma_new(addr_of(page), addr_of(end));
			if (vma_tree_reserve(&tree, 1))
				FAIL("no memory");
			vma_tree_insert(&tree, v);
			paint(v, v->start, v->end);
		} else if (v && rnd(keep) < tree.count / 2) {
			vma_tree_remove(&tree, v);
			paint(NULL, v->start, v->end);
			free(v);
		} else if (v) {
			struct vma *prev = model_prev(v->start >> PAGE_SHIFT), *next = model_find(v->end >> PAGE_SHIFT);
			unsigned int lo = prev ? prev->end >> PAGE_SHIFT : 0, hi = next ? next->start >> PAGE_SHIFT : PAGES;
			unsigned int s = lo + rnd(hi - lo), e = s + 1 + rnd(min(hi - s, 5u));

			paint(NULL, v->start, v->end);
			vma_tree_set_bounds(&tree, v, addr_of(s), addr_of(e));
			paint(v, v->start, v->end);
		}
		compare();
		if (k % 64 == 0) {
			vma_tree_check(&tree);
			synchronize_rcu();
		}
	}
}

static void clear_tree(void)
{
	for (unsigned int p = 0; p < PAGES; p++)
		if (owner[p]) {
			struct vma *v = owner[p];

			vma_tree_remove(&tree, v);
			paint(NULL, v->start, v->end);
			free(v);
			vma_tree_check(&tree);
		}
	synchronize_rcu();
	vma_tree_destroy(&tree);
	if (nodes_alive)
		FAIL("%ld nodes leaked", nodes_alive);
}

/* order: 0 rising, 1 falling, 2 random */
static void many(unsigned int n, int order)
{
	struct vma **v = calloc(n, sizeof(*v));
	unsigned int *perm = calloc(n, sizeof(*perm));

	for (unsigned int i = 0; i < n; i++)
		perm[i] = order == 1 ? n - 1 - i : i;
	for (unsigned int i = n; order == 2 && i > 1; i--) {
		unsigned int j = rnd(i), x = perm[i - 1];

		perm[i - 1] = perm[j];
		perm[j] = x;
	}
	for (unsigned int i = 0; i < n; i++) {
		unsigned int k = perm[i];

		v[k] = vma_new(addr_of(2 * k + 1), addr_of(2 * k + 2));
		if (vma_tree_reserve(&tree, 1))
			FAIL("no memory");
		vma_tree_insert(&tree, v[k]);
	}
	vma_tree_check(&tree);
	if (tree.root->level > 6)
		FAIL("%u VMAs made %u levels", n, tree.root->level + 1u);
	for (unsigned int i = 0; i < n; i++) {
		if (vma_tree_find(&tree, addr_of(2 * i)) != v[i] || vma_tree_find(&tree, addr_of(2 * i + 1)) != v[i])
			FAIL("VMA %u of %u not found", i, n);
		if (vma_tree_prev(&tree, addr_of(2 * i + 2)) != v[i])
			FAIL("VMA %u of %u is not before its end", i, n);
	}
	if (vma_tree_find_gap(&tree, 2 * PAGE_SIZE, 0, addr_of(2 * n), PAGE_SIZE, 0, true) != (uintptr_t)-ENOMEM)
		FAIL("a gap that is not there");
	struct vma *hole = v[n / 3];
	vma_tree_remove(&tree, hole);
	if (vma_tree_find_gap(&tree, 3 * PAGE_SIZE, 0, addr_of(2 * n), PAGE_SIZE, 0, true) != hole->start - PAGE_SIZE)
		FAIL("the only gap was not found");
	if (vma_tree_find_gap(&tree, 3 * PAGE_SIZE, 0, addr_of(2 * n), PAGE_SIZE, 0, false) != hole->start - PAGE_SIZE)
		FAIL("the only gap was not found upwards");
	vma_tree_insert(&tree, hole);
	for (unsigned int i = 0; i < n; i++) {
		unsigned int k = perm[(i * 7919ul) % n];

		if (!v[k])
			continue;
		vma_tree_remove(&tree, v[k]);
		free(v[k]);
		v[k] = NULL;
		if (i % 4096 == 0)
			vma_tree_check(&tree);
	}
	for (unsigned int k = 0; k < n; k++)
		if (v[k]) {
			vma_tree_remove(&tree, v[k]);
			free(v[k]);
		}
	vma_tree_check(&tree);
	free(v);
	free(perm);
	clear_tree();
}

static void reservations(void)
{
	for (unsigned int page = 1, k = 0; page + 8 < PAGES; page += 8, k++) {
		unsigned int n = 1 + rnd(4);

		alloc_budget = rnd(3);
		if (vma_tree_reserve(&tree, n)) {
			alloc_budget = -1;
			if (vma_tree_reserve(&tree, n))
				FAIL("no memory");
		}
		alloc_budget = 0;
		for (unsigned int i = 0; i < n; i++) {
			struct vma *v = vma_new(addr_of(page + 2 * i), addr_of(page + 2 * i + 1));

			vma_tree_insert(&tree, v);
			paint(v, v->start, v->end);
		}
		alloc_budget = -1;
		vma_tree_check(&tree);
	}
	clear_tree();
}

/* -- readers -- */
#define FIXED_STRIDE 40
static bool stop;
static unsigned long lookups[NR_READERS];

static void *reader(void *arg)
{
	u64 x = 0x9e3779b97f4a7c15ul * (reader_id = (int)(long)arg, reader_id + 1);

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		unsigned int page;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		page = (unsigned int)(x % (PAGES / FIXED_STRIDE)) * FIXED_STRIDE;
		rcu_read_lock();
		struct vma *v = vma_tree_find(&tree, addr_of(page));
		if (!v || v->start != addr_of(page) || v->flags != 1)
			FAIL("reader: page %u has a VMA that never changes, and it was not found", page);
		v = vma_tree_find(&tree, addr_of(page + 1 + x % (FIXED_STRIDE - 1)));
		if (v && v->flags > 2)
			FAIL("reader: a freed VMA");
		rcu_read_unlock();
		lookups[reader_id]++;
	}
	return NULL;
}

static void vma_free_cb(struct rcu_head *head)
{
	struct vma *v = container_of(head, struct vma, rcu);

	v->flags = 99;
	free(v);
}

static void concurrent(unsigned long rounds)
{
	pthread_t t[NR_READERS];

	for (unsigned int page = 0; page < PAGES; page += FIXED_STRIDE) {
		struct vma *v = vma_new(addr_of(page), addr_of(page + 1));

		v->flags = 1;
		if (vma_tree_reserve(&tree, 1))
			FAIL("no memory");
		vma_tree_insert(&tree, v);
		paint(v, v->start, v->end);
	}
	for (long i = 0; i < NR_READERS; i++)
		pthread_create(&t[i], NULL, reader, (void *)i);
	for (unsigned long k = 0; k < rounds; k++) {
		/* Waves: grow to many small VMAs, shrink again, so that nodes split and join all the time. */
		bool grow = (k / 4000) % 2 == 0;
		unsigned int page = rnd(PAGES);
		struct vma *v = owner[page];

		if (grow && !v) {
			v = vma_new(addr_of(page), addr_of(page + 1));
			v->flags = 2;
			if (vma_tree_reserve(&tree, 1))
				FAIL("no memory");
			vma_tree_insert(&tree, v);
			owner[page] = v;
		} else if (!grow && v && v->flags == 2) {
			vma_tree_remove(&tree, v);
			owner[page] = NULL;
			call_rcu(&v->rcu, vma_free_cb);
		}
		if (nr_pending > 64)
			synchronize_rcu();
		if (k % 16384 == 0)
			vma_tree_check(&tree);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	unsigned long sum = 0;
	for (int i = 0; i < NR_READERS; i++) {
		pthread_join(t[i], NULL);
		sum += lookups[i];
	}
	if (!sum)
		FAIL("the readers never ran");
	clear_tree();
}

int main(int argc, char **argv)
{
	if (argc > 1)
		rng ^= strtoul(argv[1], NULL, 0) * 0x9e3779b97f4a7c15ul;
	vma_tree_init();
	random_operations(4000, 10);
	clear_tree();
	random_operations(3000, 700);
	clear_tree();
	for (int order = 0; order < 3; order++)
		many(60000, order);
	reservations();
	concurrent(100000);
	return 0;
}
