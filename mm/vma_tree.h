/*
 * The VMA tree: a B-tree of disjoint intervals. Writers are serialised by mmap_lock; readers need no lock.
 *
 * Why in place and not copy-on-write. The first design rebuilt every node on the path to a change and published it with
 * one store. That costs an allocation, a 512-byte copy and an RCU callback per level and change, a third of the whole
 * price of mapping, touching and unmapping a few pages. So nodes are edited where they lie, inside a sequence count
 * (vma_tree.seq, odd for the few dozen instructions of an edit, preemption off): a reader that overlaps an edit may see
 * any mixture of old and new entries, notices it by the count, and looks again. What makes the mixture harmless:
 *
 *   1. every slot holds NULL or a pointer of the right kind, at each instant: entries are moved by whole-word stores,
 *      a vacated slot is cleared, and a node's level never changes while it exists;
 *   2. what a slot pointed to is freed only after an RCU grace period, nodes and VMAs alike;
 *   3. so a lookup always ends after `level` steps in live memory, and its answer counts only if the sequence held.
 *
 * Readers without mmap_lock use vma_tree_find() inside an RCU read section; what is found may be changing or detached
 * (mm/vma_lock.c tells). Everything else here needs mmap_lock, in any mode to look and for write to change.
 */
#ifndef MM_VMA_TREE_H
#define MM_VMA_TREE_H

#include "kernel/seqcount.h"
#include "kernel/types.h"

struct vma;
struct vma_node;

/*   W  mmap_lock for write; RCU to read    w  mmap_lock for write */
struct vma_tree {
	struct vma_node	*root;		/* W  NULL: empty */
	struct seqcount	 seq;		/* W  odd during an edit */
	u32		 count;		/* w  VMAs */
	struct vma_node	*spare;		/* w  reserved nodes, linked by their first slot; kept for the next change */
	u32		 nr_spare;	/* w */
};

struct vma *vma_tree_find(const struct vma_tree *t, uintptr_t addr);	/* first with end > addr, or NULL */
struct vma *vma_tree_prev(const struct vma_tree *t, uintptr_t addr);	/* last with start < addr, or NULL; mmap_lock */
/* As vma_tree_find, and in *prev the last with end <= addr, or NULL: the two sides of a gap in one descent. mmap_lock. */
struct vma *vma_tree_neighbours(const struct vma_tree *t, uintptr_t addr, struct vma **prev);
/* The neighbours of @vma, which is in the tree, on both sides; NULL: none. One descent, if the leaf holds them too. mmap_lock. */
void vma_tree_around(const struct vma_tree *t, const struct vma *vma, struct vma **prev, struct vma **next);

/*
 * Makes sure that the next @nr_inserts inserts cannot fail; removes and new bounds never do. What is not used stays in
 * the tree for later. mmap_lock for write (or a tree nobody else sees). 0 or -ENOMEM. Does not sleep for long: slab only.
 */
int __must_check vma_tree_reserve(struct vma_tree *t, unsigned int nr_inserts);
/* Neither fails nor sleeps. [vma->start, vma->end) must be free; reserved before. */
void vma_tree_insert(struct vma_tree *t, struct vma *vma);
void vma_tree_remove(struct vma_tree *t, struct vma *vma);
/* vma->start and end become the new bounds, in the VMA and in the tree; they must not overlap a neighbour. */
void vma_tree_set_bounds(struct vma_tree *t, struct vma *vma, uintptr_t start, uintptr_t end);
/* Puts @new in the place of @old, which has the same bounds: one store, no moment without either. */
void vma_tree_replace(struct vma_tree *t, struct vma *old, struct vma *new);
/* Frees all nodes; nobody reads any more. VMAs are the caller's. */
void vma_tree_destroy(struct vma_tree *t);

/*
 * Highest (or lowest) address a with [a, a+len) free inside [low, high) and a % align == align_offset; -ENOMEM as an
 * address if there is none. As in Linux, only gaps of at least len + align - PAGE_SIZE are looked at (where alignment
 * cannot spoil them), which keeps the search O(log n).
 */
uintptr_t vma_tree_find_gap(const struct vma_tree *t, size_t len, uintptr_t low, uintptr_t high,
			    uintptr_t align, uintptr_t align_offset, bool topdown);
/* Debug walker: order, disjointness, fill, gap values, count. Panics with the rule that is broken. */
void vma_tree_check(const struct vma_tree *t);
void vma_tree_init(void);		/* slab cache; once, after mm_init's slab */

#endif
