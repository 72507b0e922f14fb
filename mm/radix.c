/*
 * The radix tree of the page cache. See radix.h for who may read what.
 *
 * The rule that is easy to break: no node is empty while it is in a tree, and none is linked before every node that
 * the insert needs is at hand. So an insert that fails leaves nothing behind, and a tree without items has no nodes.
 */
#include "mm/radix.h"

#include "kernel/errno.h"
#include "kernel/panic.h"
#include "mm/slab.h"

static struct kmem_cache *node_cache;

void radix_init(void)
{
	node_cache = kmem_cache_create("radix_node", sizeof(struct radix_node), 64);
}

/* The shift of the lowest root that reaches @index. */
static unsigned int shift_for(u64 index)
{
	unsigned int shift = 0;

	while (index > radix_max_index(shift))
		shift += RADIX_SHIFT;
	return shift;
}

void *radix_lookup(const struct radix_tree *t, u64 index)
{
	void **slot = radix_lookup_slot(t, index);

	return slot ? rcu_dereference(*slot) : NULL;
}

/* -- inserting -- */

static unsigned int nodes_missing(const struct radix_tree *t, u64 index)
{
	const struct radix_node *node = t->root;
	unsigned int top = shift_for(index);

	if (!node)
		return top / RADIX_SHIFT + 1;
	if (top > node->shift)		/* new roots above the old one, then a path that shares only the topmost */
		return (top - node->shift) / RADIX_SHIFT + top / RADIX_SHIFT;
	while (node->shift) {
		const struct radix_node *child = node->slots[radix_slot_of(node, index)];
		if (!child)
			return node->shift / RADIX_SHIFT;
		node = child;
	}
	return 0;
}

static struct radix_node *pool_take(struct radix_pool *pool)
{
	struct radix_node *node = pool->nodes;

	pool->nodes = (struct radix_node *)node->rcu.next;
	pool->nr--;
	node->rcu.next = NULL;
	return node;
}

static void link_child(struct radix_node *parent, unsigned int i, struct radix_node *child)
{
	child->parent = parent;
	child->offset = (u8)i;
	parent->count++;
	rcu_assign_pointer(parent->slots[i], (void *)child);
}

/* Puts one more root above the present one, or makes the first. */
static void add_root(struct radix_tree *t, u64 index, struct radix_pool *pool)
{
	struct radix_node *old = t->root, *root = pool_take(pool);

	root->shift = (u8)(old ? (unsigned int)old->shift + RADIX_SHIFT : shift_for(index));
	if (old) {
		for (int tag = 0; tag < NR_RADIX_TAGS; tag++)
			root->tags[tag] = old->tags[tag] ? 1 : 0;
		link_child(root, 0, old);
	}
	rcu_assign_pointer(t->root, root);
}

static void fill_slot(struct radix_node *leaf, u64 index, void *item)
{
	leaf->count++;
	rcu_assign_pointer(leaf->slots[index & (RADIX_SLOTS - 1)], item);
}

int radix_insert(struct radix_tree *t, u64 index, void *item, struct radix_pool *pool)
{
	struct radix_node *leaf = radix_leaf(t, index);

	if (likely(leaf)) {		/* 63 times of 64 */
		if (leaf->slots[index & (RADIX_SLOTS - 1)])
			return -EEXIST;
		fill_slot(leaf, index, item);
		return 0;
	}
	pool->want = nodes_missing(t, index);
	if (pool->want > pool->nr)
		return -EAGAIN;

	/* Nothing below this line can fail. */
	while (!t->root || index > radix_max_index(t->root->shift))
		add_root(t, index, pool);

	struct radix_node *node = t->root;
	while (node->shift) {
		unsigned int i = radix_slot_of(node, index);
		if (!node->slots[i]) {
			struct radix_node *child = pool_take(pool);
			child->shift = (u8)(node->shift - RADIX_SHIFT);
			link_child(node, i, child);
		}
		node = node->slots[i];
	}
	fill_slot(node, index, item);
	return 0;
}

int radix_pool_fill(struct radix_pool *pool, unsigned int gfp)
{
	while (pool->nr < pool->want) {
		struct radix_node *node = kmem_cache_alloc(node_cache, gfp | GFP_ZERO);
		if (!node)
			return -ENOMEM;
		node->rcu.next = (struct rcu_head *)pool->nodes;
		pool->nodes = node;
		pool->nr++;
	}
	return 0;
}

void radix_pool_drain(struct radix_pool *pool)
{
	while (pool->nr)
		kmem_cache_free(node_cache, pool_take(pool));
}

/* -- removing -- */

static void node_free_rcu(struct rcu_head *head)
{
	kmem_cache_free(node_cache, container_of(head, struct radix_node, rcu));
}

static void tag_clear_from(struct radix_node *node, unsigned int i, enum radix_tag tag)
{
	for (; node; node = node->parent) {
		node->tags[tag] &= ~(1ul << i);
		if (node->tags[tag])
			break;		/* another one below here still has it */
		i = node->offset;
	}
}

/* Unlinks nodes from @node upwards as long as they are empty. */
static void unlink_empty(struct radix_tree *t, struct radix_node *node)
{
	while (node && !node->count) {
		struct radix_node *parent = node->parent;
		if (parent) {
			WRITE_ONCE(parent->slots[node->offset], NULL);
			parent->count--;
		} else {
			WRITE_ONCE(t->root, NULL);
		}
		call_rcu(&node->rcu, node_free_rcu);
		node = parent;
	}
}

/* A root with nothing but its first child is a detour. Readers on their way through it still get to the child. */
static void drop_detours(struct radix_tree *t)
{
	for (;;) {
		struct radix_node *root = t->root;
		if (!root || !root->shift || root->count != 1 || !root->slots[0])
			return;
		struct radix_node *child = root->slots[0];
		child->parent = NULL;
		rcu_assign_pointer(t->root, child);
		call_rcu(&root->rcu, node_free_rcu);
	}
}

void *radix_remove(struct radix_tree *t, u64 index)
{
	struct radix_node *node = radix_leaf(t, index);
	unsigned int i = index & (RADIX_SLOTS - 1);
	void *item = node ? node->slots[i] : NULL;

	if (!item)
		return NULL;
	for (int tag = 0; tag < NR_RADIX_TAGS; tag++)
		if (node->tags[tag] & 1ul << i)
			tag_clear_from(node, i, tag);
	WRITE_ONCE(node->slots[i], NULL);
	node->count--;
	unlink_empty(t, node);
	drop_detours(t);
	return item;
}

/* -- walking -- */

void *radix_next(const struct radix_tree *t, u64 *indexp, enum radix_tag tag)
{
	u64 index = *indexp;

	/* One turn looks through one path; a node that has nothing left sends us to the first index after it. */
	for (;;) {
		struct radix_node *node = rcu_dereference(t->root);
		if (!node || index > radix_max_index(node->shift))
			return NULL;
		for (;;) {
			unsigned int i = radix_slot_of(node, index), first = i;
			void *entry = NULL;
			for (; i < RADIX_SLOTS; i++) {
				if (tag != RADIX_ANY && !(READ_ONCE(node->tags[tag]) >> i & 1))
					continue;
				entry = rcu_dereference(node->slots[i]);
				if (entry)
					break;
			}
			u64 base = index & ~radix_max_index(node->shift);
			if (!entry) {
				index = base + radix_max_index(node->shift) + 1;
				break;
			}
			if (i != first)
				index = base | (u64)i << node->shift;
			if (!node->shift) {
				*indexp = index;
				return entry;
			}
			node = entry;
		}
		if (!index)
			return NULL;	/* wrapped: that was the last node */
	}
}

u64 radix_next_hole(const struct radix_tree *t, u64 index)
{
	while (radix_lookup(t, index) && index != ~0ul)
		index++;
	return index;
}

/* -- tags -- */

void radix_tag_set(struct radix_tree *t, u64 index, enum radix_tag tag)
{
	struct radix_node *node = radix_leaf(t, index);
	unsigned int i = index & (RADIX_SLOTS - 1);

	BUG_ON(!node || !node->slots[i]);
	for (; node && !(node->tags[tag] >> i & 1); node = node->parent) {
		node->tags[tag] |= 1ul << i;
		i = node->offset;
	}
}

void radix_tag_clear(struct radix_tree *t, u64 index, enum radix_tag tag)
{
	struct radix_node *node = radix_leaf(t, index);

	BUG_ON(!node || !node->slots[index & (RADIX_SLOTS - 1)]);
	tag_clear_from(node, index & (RADIX_SLOTS - 1), tag);
}
