/*
 * The VMA tree (contract and reasoning: mm/vma_tree.h).
 *
 * A node is 512 bytes: up to 15 entries, each an interval [start, end), a slot, and in inner nodes the largest gap
 * inside the child's interval. A leaf's slots are VMAs; an inner node's entry describes its child exactly: start of the
 * first VMA below it, end of the last. All nodes but the root are at least a third full, all leaves have level 0, so 60,000
 * VMAs need five or six levels and an ordinary process one or two.
 *
 * The rule that is easy to break: RCU readers look at level, end[] and slot[] only. The level is constant, the other two are
 * written by whole-word WRITE_ONCE inside the sequence count; start[] and gap[] belong to holders of mmap_lock, which is why the
 * RCU head of a dead node may lie over start[].
 */
#include "mm/vma_tree.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/rcu.h"
#include "mm/layout.h"
#include "mm/slab.h"
#include "mm/vma.h"

#define NODE_MAX	15
#define NODE_MIN	5		/* of a node that is not the root */
#define NO_ENTRY	(~0ul)
#define MAX_LEVELS	12		/* 5^12 VMAs: more than fit into memory */

struct vma_node {
	u16		 count;
	u16		 level;		/* 0: leaf. Constant while the node can be found */
	u32		 reserved;
	uintptr_t	 end[NODE_MAX + 1];	/* NO_ENTRY from count on, and in the last place for ever: it ends every search */
	union {
		uintptr_t	 start[NODE_MAX];
		struct rcu_head	 rcu;	/* once unlinked */
	};
	void		*slot[NODE_MAX + 1];	/* struct vma (leaf) or struct vma_node; NULL from count on */
	uintptr_t	 gap[NODE_MAX];	/* inner: largest gap between two VMAs below this entry */
};
_Static_assert(sizeof(struct vma_node) <= 512, "eight cache lines");

/* The way from the root to a leaf: node[l] is at level l, and idx[l] the entry taken (or the place to insert, at level 0). */
struct tree_path {
	struct vma_node	*node[MAX_LEVELS];
	unsigned int	 idx[MAX_LEVELS];
};

static struct kmem_cache *node_cache;

static void write_begin(struct vma_tree *t)
{
	preempt_disable();		/* readers spin while the count is odd */
	write_seqbegin(&t->seq);
}

static void write_end(struct vma_tree *t)
{
	write_seqend(&t->seq);
	preempt_enable();
}

/* -- looking -- */

/* First entry with end > @addr; an unused one, whose slot is NULL, if there is none. @addr is below NO_ENTRY. */
static inline unsigned int node_find(const struct vma_node *n, uintptr_t addr)
{
	unsigned long i = 0;

	while (READ_ONCE(n->end[i]) <= addr)
		i++;
	return (unsigned int)i;
}

struct vma *vma_tree_find(const struct vma_tree *t, uintptr_t addr)
{
	if (unlikely(addr >= TASK_SIZE))
		return NULL;
	for (;;) {
		u32 seq = read_seqbegin(&t->seq);
		const struct vma_node *n = rcu_dereference(t->root);
		void *found = NULL;

		while (n) {
			found = READ_ONCE(n->slot[node_find(n, addr)]);
			if (!n->level)
				break;
			n = found;
		}
		if (!read_seqretry(&t->seq, seq))
			return found;
		/* A writer was there. It works for some dozens of instructions with preemption off, so this ends. */
	}
}

struct vma *vma_tree_prev(const struct vma_tree *t, uintptr_t addr)
{
	const struct vma_node *n = t->root;

	while (n) {
		unsigned int i = n->count;

		while (i && n->start[i - 1] >= addr)
			i--;
		if (!i)
			return NULL;	/* at the root: below every VMA. Deeper levels always have one: the parent's start told so */
		if (!n->level)
			return n->slot[i - 1];
		n = n->slot[i - 1];
	}
	return NULL;
}

struct vma *vma_tree_neighbours(const struct vma_tree *t, uintptr_t addr, struct vma **prev)
{
	const struct vma_node *n = t->root, *before = NULL;
	unsigned int i = 0, before_i = 0;

	if (unlikely(addr >= TASK_SIZE)) {
		*prev = vma_tree_prev(t, TASK_SIZE);
		return NULL;
	}
	for (; n; n = n->slot[i]) {
		i = node_find(n, addr);
		if (i) {
			before = n;	/* the deepest level at which there is something on the left */
			before_i = i - 1;
		}
		if (!n->level)
			break;
	}
	for (; before && before->level; before_i = before->count - 1)
		before = before->slot[before_i];
	*prev = before ? before->slot[before_i] : NULL;
	return n ? n->slot[i] : NULL;
}

void vma_tree_around(const struct vma_tree *t, const struct vma *vma, struct vma **prev, struct vma **next)
{
	const struct vma_node *n = t->root;
	unsigned int i;

	while (n->level)
		n = n->slot[node_find(n, vma->start)];
	i = node_find(n, vma->start);
	*prev = i ? n->slot[i - 1] : vma_tree_prev(t, vma->start);
	*next = i + 1 < n->count ? n->slot[i + 1] : vma_tree_find(t, vma->end);
}

/* To the entry of the VMA that contains @addr, or to the place where one that starts at @addr belongs. */
static void path_to(const struct vma_tree *t, uintptr_t addr, struct tree_path *p)
{
	struct vma_node *n = t->root;

	for (;;) {
		unsigned int i = node_find(n, addr);
		unsigned int level = n->level;

		p->node[level] = n;
		if (!level) {
			p->idx[0] = i;
			return;
		}
		if (i == n->count)
			i--;
		p->idx[level] = i;
		n = n->slot[i];
	}
}

/* -- one node -- */

static inline void set_entry(struct vma_node *n, unsigned int i, uintptr_t start, uintptr_t end, void *slot, uintptr_t gap)
{
	WRITE_ONCE(n->end[i], end);
	n->start[i] = start;
	WRITE_ONCE(n->slot[i], slot);
	n->gap[i] = gap;
}

static inline void clear_entry(struct vma_node *n, unsigned int i)
{
	WRITE_ONCE(n->end[i], NO_ENTRY);
	WRITE_ONCE(n->slot[i], NULL);
}

static inline void copy_entry(struct vma_node *to, unsigned int i, const struct vma_node *from, unsigned int j)
{
	set_entry(to, i, from->start[j], from->end[j], from->slot[j], from->gap[j]);
}

static void open_entry(struct vma_node *n, unsigned int i)
{
	for (unsigned int j = n->count; j > i; j--)
		copy_entry(n, j, n, j - 1);
	n->count++;
}

static void close_entry(struct vma_node *n, unsigned int i)
{
	unsigned int last = n->count - 1u;

	for (; i < last; i++)
		copy_entry(n, i, n, i + 1);
	n->count = (u16)last;
	clear_entry(n, last);
}

/* Moves the first (or last) @nr entries of @right (@left) to its neighbour. */
static void move_left(struct vma_node *left, struct vma_node *right, unsigned int nr)
{
	unsigned int rest = right->count - nr;

	for (unsigned int i = 0; i < nr; i++)
		copy_entry(left, left->count + i, right, i);
	left->count = (u16)(left->count + nr);
	for (unsigned int i = 0; i < rest; i++)
		copy_entry(right, i, right, i + nr);
	for (unsigned int i = rest; i < rest + nr; i++)
		clear_entry(right, i);
	right->count = (u16)rest;
}

static void move_right(struct vma_node *left, struct vma_node *right, unsigned int nr)
{
	unsigned int rest = left->count - nr;

	for (unsigned int i = right->count; i-- > 0; )
		copy_entry(right, i + nr, right, i);
	for (unsigned int i = 0; i < nr; i++)
		copy_entry(right, i, left, rest + i);
	right->count = (u16)(right->count + nr);
	left->count = (u16)rest;
	for (unsigned int i = rest; i < rest + nr; i++)
		clear_entry(left, i);
}

static uintptr_t node_gap(const struct vma_node *n)
{
	uintptr_t gap = 0;

	for (unsigned int i = 0; i < n->count; i++) {
		if (n->level && n->gap[i] > gap)
			gap = n->gap[i];
		if (i && n->start[i] - n->end[i - 1] > gap)
			gap = n->start[i] - n->end[i - 1];
	}
	return gap;
}

/* Makes entry @i of @parent tell the truth about its child. */
static void describe(struct vma_node *parent, unsigned int i, struct vma_node *child)
{
	set_entry(parent, i, child->start[0], child->end[child->count - 1], child, node_gap(child));
}

/* The node of @p at @level changed: carry its bounds and gap up to the root. */
static void describe_up(struct vma_tree *t, struct tree_path *p, unsigned int level)
{
	for (; p->node[level] != t->root; level++)
		describe(p->node[level + 1], p->idx[level + 1], p->node[level]);
}

static void node_free_rcu(struct rcu_head *head)
{
	kmem_cache_free(node_cache, container_of(head, struct vma_node, rcu));
}

static void node_retire(struct vma_node *n)
{
	call_rcu(&n->rcu, node_free_rcu);
}

/* -- reserved nodes -- */

static struct vma_node *take_spare(struct vma_tree *t, unsigned int level)
{
	struct vma_node *n = t->spare;

	BUG_ON(!n);
	t->spare = n->slot[0];
	t->nr_spare--;
	n->count = 0;
	n->level = (u16)level;
	for (unsigned int i = 0; i <= NODE_MAX; i++)
		clear_entry(n, i);
	return n;
}

int vma_tree_reserve(struct vma_tree *t, unsigned int nr_inserts)
{
	unsigned int height = t->root ? t->root->level + 1u : 0, need;

	if (height == 1 && t->root->count + nr_inserts <= NODE_MAX)
		return 0;
	/* Each insert may split a node of every level; the root can grow only once, a new one has room for 13 splits. */
	BUG_ON(nr_inserts > 8);
	need = height ? nr_inserts * height + 1 : 1;
	while (t->nr_spare < need) {
		struct vma_node *n = kmem_cache_alloc(node_cache, GFP_KERNEL);

		if (!n)
			return -ENOMEM;	/* what was got stays for the next attempt */
		n->slot[0] = t->spare;
		t->spare = n;
		t->nr_spare++;
	}
	return 0;
}

/* -- changing -- */

/* Splits p->node[level] if it is full, its ancestors first where they are full too; @p then leads to the right half. */
static void make_room(struct vma_tree *t, struct tree_path *p, unsigned int level)
{
	struct vma_node *n = p->node[level], *parent, *right;

	if (n->count < NODE_MAX)
		return;
	if (n == t->root) {
		parent = take_spare(t, level + 1);
		parent->count = 1;
		describe(parent, 0, n);
		p->node[level + 1] = parent;
		p->idx[level + 1] = 0;
		rcu_assign_pointer(t->root, parent);
	} else {
		make_room(t, p, level + 1);
		parent = p->node[level + 1];
	}
	right = take_spare(t, level);
	move_right(n, right, NODE_MAX / 2);
	open_entry(parent, p->idx[level + 1] + 1);
	describe(parent, p->idx[level + 1], n);
	describe(parent, p->idx[level + 1] + 1, right);
	if (p->idx[level] >= n->count) {
		p->idx[level] -= n->count;
		p->node[level] = right;
		p->idx[level + 1]++;
	}
}

void vma_tree_insert(struct vma_tree *t, struct vma *vma)
{
	struct tree_path p;

	write_begin(t);
	if (!t->root)
		rcu_assign_pointer(t->root, take_spare(t, 0));
	path_to(t, vma->start, &p);
	make_room(t, &p, 0);
	open_entry(p.node[0], p.idx[0]);
	set_entry(p.node[0], p.idx[0], vma->start, vma->end, vma, 0);
	describe_up(t, &p, 0);
	t->count++;
	write_end(t);
}

/* p->node[level], not the root, has become too small: fill it from a sibling, or join the two and shrink the parent. */
static void rebalance(struct vma_tree *t, struct tree_path *p, unsigned int level)
{
	struct vma_node *parent = p->node[level + 1];
	unsigned int li = p->idx[level + 1] ? p->idx[level + 1] - 1 : 0;
	struct vma_node *left = parent->slot[li], *right = parent->slot[li + 1];
	unsigned int sum = left->count + right->count;

	if (sum > NODE_MAX) {
		if (left->count < right->count)
			move_left(left, right, sum / 2 - left->count);
		else
			move_right(left, right, sum / 2 - right->count);
		describe(parent, li, left);
		describe(parent, li + 1, right);
		return;
	}
	move_left(left, right, right->count);
	close_entry(parent, li + 1);
	describe(parent, li, left);
	node_retire(right);
	p->node[level] = left;
	p->idx[level + 1] = li;
	if (parent == t->root) {
		if (parent->count == 1) {
			rcu_assign_pointer(t->root, left);
			node_retire(parent);
		}
	} else if (parent->count < NODE_MIN) {
		rebalance(t, p, level + 1);
	}
}

void vma_tree_remove(struct vma_tree *t, struct vma *vma)
{
	struct tree_path p;
	struct vma_node *leaf;

	write_begin(t);
	path_to(t, vma->start, &p);
	leaf = p.node[0];
	BUG_ON(p.idx[0] == leaf->count || leaf->slot[p.idx[0]] != vma);
	close_entry(leaf, p.idx[0]);
	t->count--;
	if (leaf == t->root) {
		if (!leaf->count) {
			rcu_assign_pointer(t->root, NULL);
			node_retire(leaf);
		}
	} else {
		/* First the truth all the way up with the old shape, then the new shape: each join keeps what is above it true. */
		describe_up(t, &p, 0);
		if (leaf->count < NODE_MIN)
			rebalance(t, &p, 0);
	}
	write_end(t);
}

void vma_tree_set_bounds(struct vma_tree *t, struct vma *vma, uintptr_t start, uintptr_t end)
{
	struct tree_path p;
	struct vma_node *leaf;
	unsigned int i;

	assert(start < end);
	write_begin(t);
	path_to(t, vma->start, &p);
	leaf = p.node[0];
	i = p.idx[0];
	BUG_ON(i == leaf->count || leaf->slot[i] != vma);
	assert(i == 0 || leaf->end[i - 1] <= start);
	assert(i + 1 == leaf->count || end <= leaf->start[i + 1]);
	WRITE_ONCE(vma->start, start);
	WRITE_ONCE(vma->end, end);
	set_entry(leaf, i, start, end, vma, 0);
	describe_up(t, &p, 0);
	write_end(t);
}

void vma_tree_replace(struct vma_tree *t, struct vma *old, struct vma *new)
{
	struct tree_path p;

	assert(old->start == new->start && old->end == new->end);
	write_begin(t);
	path_to(t, old->start, &p);
	BUG_ON(p.idx[0] == p.node[0]->count || p.node[0]->slot[p.idx[0]] != old);
	WRITE_ONCE(p.node[0]->slot[p.idx[0]], new);
	write_end(t);
}

static void node_destroy(struct vma_node *n)
{
	if (n->level)
		for (unsigned int i = 0; i < n->count; i++)
			node_destroy(n->slot[i]);
	kmem_cache_free(node_cache, n);
}

void vma_tree_destroy(struct vma_tree *t)
{
	if (t->root)
		node_destroy(t->root);
	while (t->spare) {
		struct vma_node *n = t->spare;

		t->spare = n->slot[0];
		kmem_cache_free(node_cache, n);
	}
	*t = (struct vma_tree){ .root = NULL };
}

/* -- gaps -- */

struct gap_query {
	size_t		len;
	size_t		need;		/* len plus what alignment may eat */
	uintptr_t	low, high;
	uintptr_t	align, offset;
};

/* Tries the free range [lo, hi). True with *addr. */
static bool gap_fits_high(const struct gap_query *q, uintptr_t lo, uintptr_t hi, uintptr_t *addr)
{
	lo = max(lo, q->low);
	hi = min(hi, q->high);
	if (hi < lo || hi - lo < q->need)
		return false;
	uintptr_t a = hi - q->len;
	*addr = a - ((a - q->offset) & (q->align - 1));
	return true;
}

static bool gap_fits_low(const struct gap_query *q, uintptr_t lo, uintptr_t hi, uintptr_t *addr)
{
	lo = max(lo, q->low);
	hi = min(hi, q->high);
	if (hi < lo || hi - lo < q->need)
		return false;
	*addr = lo + ((q->offset - lo) & (q->align - 1));
	return true;
}

/*
 * The gaps between VMAs below @n, highest first. A child is entered only if it has a gap that is large enough; such a
 * gap can still lie outside [low, high), but only at the two edges of that window, so few children are entered in vain.
 */
static bool search_down(const struct vma_node *n, const struct gap_query *q, uintptr_t *addr)
{
	for (unsigned int i = n->count; i-- > 0; ) {
		if (n->end[i] <= q->low)
			return false;
		if (n->level && n->gap[i] >= q->need && n->start[i] < q->high && search_down(n->slot[i], q, addr))
			return true;
		if (i && gap_fits_high(q, n->end[i - 1], n->start[i], addr))
			return true;
	}
	return false;
}

static bool search_up(const struct vma_node *n, const struct gap_query *q, uintptr_t *addr)
{
	for (unsigned int i = 0; i < n->count; i++) {
		if (i && gap_fits_low(q, n->end[i - 1], n->start[i], addr))
			return true;
		if (n->start[i] >= q->high)
			return false;
		if (n->level && n->gap[i] >= q->need && n->end[i] > q->low && search_up(n->slot[i], q, addr))
			return true;
	}
	return false;
}

uintptr_t vma_tree_find_gap(const struct vma_tree *t, size_t len, uintptr_t low, uintptr_t high,
			    uintptr_t align, uintptr_t align_offset, bool topdown)
{
	const struct vma_node *root = t->root;
	struct gap_query q = { .len = len, .need = len + align - PAGE_SIZE, .low = low, .high = high,
			       .align = align, .offset = align_offset };
	uintptr_t addr;

	if (q.need < len || low > high)
		return (uintptr_t)-ENOMEM;
	if (topdown) {
		if (gap_fits_high(&q, root ? root->end[root->count - 1] : 0, high, &addr) ||
		    (root && (search_down(root, &q, &addr) || gap_fits_high(&q, 0, root->start[0], &addr))))
			return addr;
	} else {
		if (gap_fits_low(&q, 0, root ? root->start[0] : high, &addr) ||
		    (root && (search_up(root, &q, &addr) || gap_fits_low(&q, root->end[root->count - 1], high, &addr))))
			return addr;
	}
	return (uintptr_t)-ENOMEM;
}

/* -- the walker -- */

#define CHECK(cond, rule) do { if (!(cond)) panic("vma tree: %s (%s)", rule, #cond); } while (0)

static u32 check_node(const struct vma_node *n, unsigned int level, bool root, uintptr_t *last_end)
{
	u32 vmas = 0;

	CHECK(n->level == level, "all leaves are at level 0");
	CHECK(n->count <= NODE_MAX, "a node is not overfull");
	CHECK(n->count >= (root ? (level ? 2 : 1) : NODE_MIN), "a node is not too empty");
	for (unsigned int i = 0; i < n->count; i++) {
		CHECK(n->start[i] < n->end[i] && n->start[i] >= *last_end, "intervals are disjoint and ascending");
		if (level) {
			const struct vma_node *child = n->slot[i];

			vmas += check_node(child, level - 1, false, last_end);
			CHECK(child->start[0] == n->start[i] && child->end[child->count - 1] == n->end[i],
			      "an inner entry has its child's bounds");
			CHECK(node_gap(child) == n->gap[i], "an inner entry has its child's largest gap");
		} else {
			const struct vma *vma = n->slot[i];

			CHECK(vma->start == n->start[i] && vma->end == n->end[i], "a leaf entry has the VMA's bounds");
			vmas++;
		}
		*last_end = n->end[i];
	}
	for (unsigned int i = n->count; i <= NODE_MAX; i++)
		CHECK(!n->slot[i] && n->end[i] == NO_ENTRY, "unused entries are empty");
	return vmas;
}

void vma_tree_check(const struct vma_tree *t)
{
	uintptr_t last_end = 0;
	u32 vmas = t->root ? check_node(t->root, t->root->level, true, &last_end) : 0;

	CHECK(vmas == t->count, "the count is right");
	CHECK(!(t->seq.seq & 1), "no edit is under way");
}

void vma_tree_init(void)
{
	node_cache = kmem_cache_create("vma_node", sizeof(struct vma_node), 64);
}
