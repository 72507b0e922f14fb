/*
 * Intrusive pairing heap: smallest first. Insert O(1), take out the first or any other O(log n) amortised, no memory of
 * its own, so nothing can fail. Used where order matters only at the front: run queues and timers.
 *
 * Every node heads a subtree of nodes that are not smaller. Children form a list through next; prev points to the left
 * sibling, or to the parent for a first child. The caller supplies the locking and keeps the key constant while linked.
 */
#ifndef KERNEL_HEAP_H
#define KERNEL_HEAP_H

#include "kernel/types.h"

struct heap_node {
	struct heap_node *child, *next;
	struct heap_node *prev;		/* the root points to itself; NULL: not linked */
};
struct heap { struct heap_node *root; };

typedef bool (*heap_less_t)(const struct heap_node *a, const struct heap_node *b);

static inline bool heap_linked(const struct heap_node *n) { return n->prev; }
static inline struct heap_node *heap_first(const struct heap *h) { return h->root; }

/* Joins two trees; on a tie @a stays first, so equal keys that are inserted later come later as long as nothing is removed. */
static inline __attribute__((always_inline)) struct heap_node *
__heap_meld(struct heap_node *a, struct heap_node *b, heap_less_t less)
{
	if (less(b, a)) {
		struct heap_node *t = a;
		a = b;
		b = t;
	}
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	b->prev = a;
	a->child = b;
	a->next = NULL;
	return a;
}

static inline __attribute__((always_inline)) void heap_insert(struct heap *h, struct heap_node *n, heap_less_t less)
{
	n->child = n->next = NULL;
	h->root = h->root ? __heap_meld(h->root, n, less) : n;
	h->root->prev = h->root;
}

/* The two passes: meld siblings in pairs from the left, then the pairs from the right. */
static inline __attribute__((always_inline)) struct heap_node *__heap_merge_children(struct heap_node *first, heap_less_t less)
{
	struct heap_node *pairs = NULL;

	while (first) {
		struct heap_node *a = first, *b = a->next;
		if (b) {
			first = b->next;
			a = __heap_meld(a, b, less);
		} else {
			first = NULL;
		}
		a->next = pairs;
		pairs = a;
	}
	if (!pairs)
		return NULL;

	struct heap_node *root = pairs;
	pairs = pairs->next;
	while (pairs) {
		struct heap_node *next = pairs->next;
		root = __heap_meld(root, pairs, less);
		pairs = next;
	}
	root->next = NULL;
	return root;
}

static inline __attribute__((always_inline)) void heap_remove(struct heap *h, struct heap_node *n, heap_less_t less)
{
	struct heap_node *sub = __heap_merge_children(n->child, less);

	if (n == h->root) {
		h->root = sub;
	} else {
		if (n->prev->child == n)
			n->prev->child = n->next;
		else
			n->prev->next = n->next;
		if (n->next)
			n->next->prev = n->prev;
		if (sub)
			h->root = __heap_meld(h->root, sub, less);
	}
	if (h->root)
		h->root->prev = h->root;
	n->child = n->next = n->prev = NULL;
}

/* Pre-order successor, for walks over all nodes in no particular order; NULL at the end. */
static inline struct heap_node *heap_walk_next(const struct heap *h, const struct heap_node *n)
{
	if (n->child)
		return n->child;
	while (n != h->root) {
		if (n->next)
			return n->next;
		while (n->prev->child != n)	/* back to the first sibling, whose prev is the parent */
			n = n->prev;
		n = n->prev;
	}
	return NULL;
}

#endif
