/*
 * Radix tree: u64 index -> pointer, 64 children per node, for the page cache. Writers are serialised by the owner's
 * lock; readers need only an RCU read section, because a node's shift never changes, a slot is one word, and a node
 * that left the tree is freed after a grace period with its slots empty.
 *
 * Two tags per item (one bit each, or-ed upwards) let writeback find the few dirty pages of a large file.
 */
#ifndef MM_RADIX_H
#define MM_RADIX_H

#include "kernel/rcu.h"

#define RADIX_SHIFT	6
#define RADIX_SLOTS	(1u << RADIX_SHIFT)

enum radix_tag { RADIX_ANY = -1, RADIX_DIRTY, RADIX_WRITEBACK, NR_RADIX_TAGS };

/*   I  set before the node can be found, then constant   T  owner's lock   R  T to write, RCU to read */
struct radix_node {
	u8			 shift;		/* I  of the index: slot i covers [i << shift, (i + 1) << shift) */
	u8			 offset;	/* T  our slot in parent */
	u8			 count;		/* T  used slots; > 0 while in a tree */
	struct radix_node	*parent;	/* T  NULL: the root */
	u64			 tags[NR_RADIX_TAGS];	/* T  bit i: slot i, or something below it, has the tag */
	struct rcu_head		 rcu;		/* once out of the tree; links a pool before that */
	void			*slots[RADIX_SLOTS];	/* R  nodes, or items where shift == 0 */
};

struct radix_tree { struct radix_node *root; };	/* R  NULL: empty */

/* Nodes allocated before the lock is taken, so that an insert under a spin lock does not allocate. */
struct radix_pool {
	struct radix_node	*nodes;
	unsigned int		 nr, want;
};

void radix_init(void);			/* boot, once */

static inline unsigned int radix_slot_of(const struct radix_node *node, u64 index)
{
	return (index >> node->shift) & (RADIX_SLOTS - 1);
}

/* The largest index below a node of this shift. The topmost possible node has shift 60 and uses only 16 slots. */
static inline u64 radix_max_index(unsigned int shift)
{
	return shift + RADIX_SHIFT >= 64 ? ~0ul : (1ul << (shift + RADIX_SHIFT)) - 1;
}

/* The lowest node for @index, or NULL. RCU or the lock. Inline: every fault on a file comes through here. */
static inline struct radix_node *radix_leaf(const struct radix_tree *t, u64 index)
{
	struct radix_node *node = rcu_dereference(t->root);

	if (!node || index > radix_max_index(node->shift))
		return NULL;
	while (node && node->shift)
		node = rcu_dereference(node->slots[radix_slot_of(node, index)]);
	return node;
}

/* Where @index lives, or NULL. RCU or the lock. The slot may be cleared at any moment: read it once, or compare again. */
static inline void **radix_lookup_slot(const struct radix_tree *t, u64 index)
{
	struct radix_node *leaf = radix_leaf(t, index);

	return leaf ? &leaf->slots[index & (RADIX_SLOTS - 1)] : NULL;
}

void *radix_lookup(const struct radix_tree *t, u64 index);

/* 0; -EEXIST; -EAGAIN: unlock, radix_pool_fill(), try again. Nothing is changed unless 0. Lock held. */
int __must_check radix_insert(struct radix_tree *t, u64 index, void *item, struct radix_pool *pool);
int __must_check radix_pool_fill(struct radix_pool *pool, unsigned int gfp);	/* 0 or -ENOMEM */
void radix_pool_drain(struct radix_pool *pool);		/* frees what was not used */
void *radix_remove(struct radix_tree *t, u64 index);	/* the item, or NULL. Lock held */

/* First item at or after *index (with the tag unless RADIX_ANY): sets *index. NULL: no more. RCU or the lock. */
void *radix_next(const struct radix_tree *t, u64 *index, enum radix_tag tag);
/* Smallest index >= @index without an item. RCU or the lock. */
u64 radix_next_hole(const struct radix_tree *t, u64 index);

/* Lock held; the item must exist. */
void radix_tag_set(struct radix_tree *t, u64 index, enum radix_tag tag);
void radix_tag_clear(struct radix_tree *t, u64 index, enum radix_tag tag);

#endif
