/*
 * What files have promised: two bits for each index, in chunks that exist only where there is something to tell. What the bits
 * mean, and when they change, is told at the top of mm/hugetlb_reserve.c.
 */
#include "mm/hugetlb_internal.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "mm/mapping.h"
#include "mm/slab.h"

/*
 * C: the map's lock. 512 indexes: a GiB of 2 MiB pages. Pinned while somebody between two holds of the lock relies on its being there; an empty
 * one that nobody pins is freed, so that the map is no larger than what it tells of.
 */
#define CHUNK_PAGES	512u
struct map_chunk {
	u32	pins;				/* C */
	u64	promised[CHUNK_PAGES / 64];	/* C */
	u64	used[CHUNK_PAGES / 64];		/* C */
};

void hugetlb_file_map_init(struct hugetlb_file_map *map)
{
	spin_lock_init(&map->lock, LOCK_HUGETLB_POOL);
	map->chunks.root = NULL;
}

/* Lock held. NULL: nothing is promised or used around there. */
static struct map_chunk *chunk_of(struct hugetlb_file_map *map, u64 idx)
{
	return radix_lookup(&map->chunks, idx / CHUNK_PAGES);
}

/* Lock held. Frees it if it says nothing. */
static void chunk_prune(struct hugetlb_file_map *map, struct map_chunk *c, u64 number)
{
	u64 any = c->pins;

	for (unsigned int i = 0; i < CHUNK_PAGES / 64; i++)
		any |= c->promised[i] | c->used[i];
	if (any)
		return;
	radix_remove(&map->chunks, number);
	kfree(c);
}

/* Makes chunk @number exist until it is unpinned. Sleeps. 0 or -ENOMEM. */
static int chunk_pin(struct hugetlb_file_map *map, u64 number)
{
	struct radix_pool pool = { 0 };
	struct map_chunk *new = NULL, *c;
	int err = 0;

	for (;;) {
		spin_lock(&map->lock);
		c = radix_lookup(&map->chunks, number);
		if (!c && new) {
			err = radix_insert(&map->chunks, number, new, &pool);
			if (!err) {
				c = new;
				new = NULL;
			}
		}
		if (c)
			c->pins++;
		spin_unlock(&map->lock);
		if (c)
			break;
		if (!new)
			new = kzalloc(sizeof(*new), GFP_KERNEL);
		if (!new || (err == -EAGAIN && radix_pool_fill(&pool, GFP_KERNEL))) {
			err = -ENOMEM;
			break;
		}
	}
	radix_pool_drain(&pool);
	kfree(new);
	return c ? 0 : err;
}

/* Chunks [first, end). */
static void chunks_unpin(struct hugetlb_file_map *map, u64 first, u64 end)
{
	for (u64 number = first; number < end; number++) {
		spin_lock(&map->lock);
		struct map_chunk *c = radix_lookup(&map->chunks, number);

		c->pins--;
		chunk_prune(map, c, number);
		spin_unlock(&map->lock);
	}
}

static int chunks_pin(struct hugetlb_file_map *map, u64 first, u64 end)
{
	for (u64 number = first; number < end; number++) {
		int err = chunk_pin(map, number);

		if (err) {
			chunks_unpin(map, first, number);
			return err;
		}
	}
	return 0;
}

/*
 * Lock held, chunks pinned. Indexes of [from, to) that need a promise and have none; with @mark they get it. A word at a time: mapping
 * a file that is all there must not cost something for each of its pages.
 */
static u64 count_missing(struct hugetlb_file_map *map, u64 from, u64 to, bool mark)
{
	u64 missing = 0, n;

	for (u64 idx = from; idx < to; idx += n) {
		struct map_chunk *c = chunk_of(map, idx);
		u64 word = idx % CHUNK_PAGES / 64, bit = idx % 64;

		n = min(to - idx, 64 - bit);
		u64 lack = (~0ul >> (64 - n) << bit) & ~(c->promised[word] | c->used[word]);
		if (mark)
			c->promised[word] |= lack;
		for (; lack; lack &= lack - 1)
			missing++;
	}
	return missing;
}

/*
 * Counts, charges, and looks again: if more is missing now (a page was punched), more is charged; once the charge suffices the
 * bits are set under the same hold of the lock, and what was too much goes back (R21).
 */
int hugetlb_reserve_shared(struct inode *inode, u64 from, u64 to)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	struct hugetlb_subpool *sp = hugetlbfs_subpool(inode);
	struct hstate *h = hstate_inode(inode);
	u64 first = from / CHUNK_PAGES, end = DIV_ROUND_UP(to, CHUNK_PAGES), charged = 0, missing;
	int err;

	/* Each index has a page, a promise, or needs one: more than that there cannot be. */
	if (to - from > 2 * hugetlb_pool_ceiling(h))
		return -ENOMEM;
	err = chunks_pin(map, first, end);
	if (err)
		return err;
	for (;;) {
		spin_lock(&map->lock);
		missing = count_missing(map, from, to, false);
		if (missing <= charged)
			count_missing(map, from, to, true);
		spin_unlock(&map->lock);
		if (missing <= charged)
			break;
		race_window("hugetlb_reserve_counted");
		err = hugetlb_charge(h, sp, missing - charged);
		if (err) {
			missing = 0;
			break;
		}
		charged = missing;
	}
	hugetlb_uncharge(h, sp, charged - missing);
	chunks_unpin(map, first, end);
	return err;
}

/*
 * The file ends before @from now, or is about to go. Pages of the range were removed; one that is still on its way into the
 * file will find that it is too late (i_size), so nothing is kept for it.
 */
void hugetlb_unreserve_pages(struct inode *inode, u64 from, u64 to)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	u64 number = from / CHUNK_PAGES, promises = 0;
	struct map_chunk *c;

	spin_lock(&map->lock);
	for (; (c = radix_next(&map->chunks, &number, RADIX_ANY)) && number * CHUNK_PAGES < to; number++) {
		u64 base = number * CHUNK_PAGES;

		for (u64 i = from > base ? from - base : 0; i < CHUNK_PAGES && base + i < to; i++) {
			promises += test_bit64(c->promised, i);
			clear_bit64(c->promised, i);
			clear_bit64(c->used, i);
		}
		chunk_prune(map, c, number);
	}
	spin_unlock(&map->lock);
	hugetlb_uncharge(hstate_inode(inode), hugetlbfs_subpool(inode), promises);
}

/* -- pages of the file -- */

struct page *hugetlb_alloc_page_file(struct inode *inode, u64 idx)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	struct hugetlb_subpool *sp = hugetlbfs_subpool(inode);
	struct hstate *h = hstate_inode(inode);
	struct map_chunk *c;
	bool promised;

	spin_lock(&map->lock);
	c = chunk_of(map, idx);
	promised = c && test_bit64(c->promised, idx % CHUNK_PAGES);
	if (promised) {
		clear_bit64(c->promised, idx % CHUNK_PAGES);
		set_bit64(c->used, idx % CHUNK_PAGES);
	}
	spin_unlock(&map->lock);
	return promised ? hugetlb_take_promised(h, sp) : hugetlb_take_unpromised(h, sp);
}

static enum hugetlb_promise promise_in(const struct map_chunk *c, u64 i)
{
	return test_bit64(c->promised, i) ? HUGETLB_PROMISED : test_bit64(c->used, i) ? HUGETLB_TAKEN : HUGETLB_NONE;
}

enum hugetlb_promise hugetlb_file_promise(struct inode *inode, u64 idx, u64 end, u64 *n)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	enum hugetlb_promise promise = HUGETLB_NONE;
	u64 number = idx / CHUNK_PAGES, i = idx % CHUNK_PAGES, same = 1;
	struct map_chunk *c;

	*n = end - idx;
	spin_lock(&map->lock);
	c = radix_next(&map->chunks, &number, RADIX_ANY);
	if (c && number > idx / CHUNK_PAGES) {
		*n = min(*n, number * CHUNK_PAGES - idx);	/* a gap between chunks */
	} else if (c) {
		promise = promise_in(c, i);
		while (i + same < CHUNK_PAGES && promise_in(c, i + same) == promise)
			same++;
		*n = min(*n, same);
	}
	spin_unlock(&map->lock);
	return promise;
}

bool hugetlb_file_map_redeem(struct inode *inode, u64 idx)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	u64 i = idx % CHUNK_PAGES;
	bool wanted;

	spin_lock(&map->lock);
	struct map_chunk *c = chunk_of(map, idx);

	wanted = c && test_bit64(c->used, i);
	if (wanted) {
		clear_bit64(c->used, i);
		set_bit64(c->promised, i);
	}
	spin_unlock(&map->lock);
	return wanted;
}

int hugetlb_add_to_page_cache(struct page *page, struct inode *inode, u64 idx)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	u64 number = idx / CHUNK_PAGES;
	bool met = false;
	int err = chunk_pin(map, number);

	if (err)
		return err;
	race_window("hugetlb_before_insert");
	err = mapping_add_page(&inode->mapping, page, idx);
	if (!err) {
		spin_lock(&map->lock);
		struct map_chunk *c = radix_lookup(&map->chunks, number);

		/* Promised while we came without: the promise is met by this page. */
		met = test_bit64(c->promised, idx % CHUNK_PAGES);
		clear_bit64(c->promised, idx % CHUNK_PAGES);
		set_bit64(c->used, idx % CHUNK_PAGES);
		spin_unlock(&map->lock);
		hugetlb_page_is_used(page);
	}
	chunks_unpin(map, number, number + 1);
	hugetlb_uncharge(hstate_inode(inode), hugetlbfs_subpool(inode), met);
	return err;
}

void hugetlb_remove_from_page_cache(struct page *page)
{
	struct inode *inode = page->mapping->host;
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	u64 idx = page->index;

	mapping_remove_page(page);
	spin_lock(&map->lock);
	struct map_chunk *c = chunk_of(map, idx);

	if (c) {
		clear_bit64(c->used, idx % CHUNK_PAGES);
		chunk_prune(map, c, idx / CHUNK_PAGES);
	}
	spin_unlock(&map->lock);
}
