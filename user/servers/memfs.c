/*
 * memfs: a file system in ring 3, the example for servers of files (user/include/fl_fs.h, docs/servers.md).
 *
 *	driver-run --own /run/memfs --mount /srv --uid netd -- /sbin/memfs /run/memfs/image
 *
 * Its memory is a mapped file, the image, so that what it knows survives it: kill it at any instruction, and the next one goes on.
 * That is the whole difficulty, and the rule that is easy to break: every change becomes valid by one store, its last.
 *
 *	a node exists		when its mode is not 0		rename		when the journal is marked valid: it is done again at the start
 *	a block is of a file	when its tag is set		truncate	when the size is stored: blocks behind it are dropped at the start
 *
 * The image holds only what cannot be found out from the rest of it. Tables to find things fast are made at the start, in ordinary memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/include/fl_fs.h"
#include "user/include/port.h"

#define MAGIC	0x7366656d6c66u		/* "flmefs": a version would go here */
#define NODES	2048u			/* node 0 is none, 1 the root */
#define BLOCKS	8192u
#define BLOCK	4096u

struct name { uint32_t parent; uint32_t len; char text[256]; };	/* parent 0: none; the node waits for FORGET */

struct node {
	uint32_t mode, generation;	/* mode 0: free */
	uint32_t uid, gid;
	uint64_t size, time;
	struct name name;
};

static struct image {
	uint64_t magic;
	struct { uint32_t valid, node[2]; struct name name[2]; } journal;	/* these nodes are to have these names */
	struct node node[NODES];
	uint64_t tag[BLOCKS];		/* node << 32 | index in the file; 0: free */
	char	 block[BLOCKS][BLOCK];
} *img;

static uint32_t name_head[NODES], name_next[NODES], children[NODES], subdirs[NODES];
static uint32_t block_head[BLOCKS], block_next[BLOCKS];	/* 0: end; so block 0 is not used */
static char kept[NODES];
static int fd, started;

#define order()	__atomic_signal_fence(__ATOMIC_SEQ_CST)	/* we die between instructions: only the compiler can mix them up */

/* -- finding -- */

static uint32_t *name_bucket(uint32_t parent, const char *text, uint32_t len)
{
	uint64_t h = parent + 0xcbf29ce484222325u;

	while (len--)
		h = (h ^ (unsigned char)*text++) * 0x100000001b3u;
	return &name_head[(h ^ h >> 32) % NODES];
}

static uint32_t find(uint32_t parent, const char *text, uint32_t len)
{
	uint32_t n = *name_bucket(parent, text, len);

	while (n && (img->node[n].name.parent != parent || img->node[n].name.len != len || memcmp(img->node[n].name.text, text, len)))
		n = name_next[n];
	return n;
}

/* The name of @n, as it stands in the image, goes into the tables, or out of them. */
static void index_name(uint32_t n, int in)
{
	struct name *name = &img->node[n].name;
	uint32_t *slot = name_bucket(name->parent, name->text, name->len), change = in ? 1 : -1u;

	if (!name->parent)
		return;
	children[name->parent] += change;
	subdirs[name->parent] += S_ISDIR(img->node[n].mode) ? change : 0;
	if (in) {
		name_next[n] = *slot;
		*slot = n;
		return;
	}
	while (*slot != n)
		slot = &name_next[*slot];
	*slot = name_next[n];
}

static uint32_t *block_bucket(uint64_t tag)
{
	return &block_head[(tag * 0x9e3779b97f4a7c15u) >> 51];
}
_Static_assert(BLOCKS == 1u << (64 - 51), "the hash has as many buckets");

/* The block of @tag; 0: a hole. */
static uint32_t find_block(uint64_t tag)
{
	uint32_t b = *block_bucket(tag);

	while (b && img->tag[b] != tag)
		b = block_next[b];
	return b;
}

static void index_block(uint32_t b)
{
	uint32_t *slot = block_bucket(img->tag[b]);

	block_next[b] = *slot;
	*slot = b;
}

static void free_block(uint32_t b)
{
	uint32_t *slot = block_bucket(img->tag[b]);

	while (*slot != b)
		slot = &block_next[*slot];
	*slot = block_next[b];
	img->tag[b] = 0;
}

/* -- changing -- */

/* What lies behind the end of the file is not kept. */
static void trim(uint32_t n)
{
	uint64_t size = img->node[n].size;
	uint32_t b;

	for (b = 1; b < BLOCKS; b++)
		if (img->tag[b] >> 32 == n && (img->tag[b] & 0xffffffffu) * BLOCK >= size)
			free_block(b);
	if (size % BLOCK && (b = find_block((uint64_t)n << 32 | size / BLOCK)))
		memset(img->block[b] + size % BLOCK, 0, BLOCK - size % BLOCK);
}

static void free_node(uint32_t n)
{
	img->node[n].size = 0;
	trim(n);
	img->node[n].generation++;	/* first: an id that was told is not used again */
	order();
	img->node[n].mode = 0;
}

static void carry_out_journal(void)
{
	for (int i = 0; i < 2; i++) {
		if (img->journal.node[i])
			img->node[img->journal.node[i]].name = img->journal.name[i];
	}
	order();
	img->journal.valid = 0;
}

/* Nodes @a and @b (0: none) get these names, both or neither, whatever happens to us. */
static void set_names(uint32_t a, const struct name *name_a, uint32_t b, const struct name *name_b)
{
	index_name(a, 0);
	if (b)
		index_name(b, 0);
	img->journal.node[0] = a;
	img->journal.name[0] = *name_a;
	img->journal.node[1] = b;
	if (b)
		img->journal.name[1] = *name_b;
	order();
	img->journal.valid = 1;
	order();
	carry_out_journal();
	index_name(a, 1);
	if (b)
		index_name(b, 1);
}

/* Makes the tables, and ends what our predecessor had begun. */
static void start(const char *path)
{
	int image = open(path, O_RDWR | O_CREAT, 0600);

	if (image < 0 || ftruncate(image, sizeof(*img)) ||
	    (img = mmap(NULL, sizeof(*img), PROT_READ | PROT_WRITE, MAP_SHARED, image, 0)) == MAP_FAILED) {
		perror("memfs: image");
		exit(1);
	}
	if (img->magic != MAGIC) {
		img->node[FL_FS_ROOT].mode = S_IFDIR | 0755;
		order();
		img->magic = MAGIC;
	}
	if (img->journal.valid)
		carry_out_journal();
	for (uint32_t b = 1; b < BLOCKS; b++)
		if (img->tag[b])
			index_block(b);
	for (uint32_t n = 1; n < NODES; n++) {
		if (img->node[n].mode)
			index_name(n, 1);
		if (S_ISREG(img->node[n].mode) || !img->node[n].mode)
			trim(n);
	}
}

/* After HELLO and KEEP: what has no name and is not in use either goes. */
static void drop_orphans(void)
{
	for (uint32_t n = FL_FS_ROOT + 1; n < NODES; n++)
		if (img->node[n].mode && !img->node[n].name.parent && !kept[n])
			free_node(n);
	started = 1;
}

/* -- requests -- */

/* Which node is meant: 0 if there is no such node any more. */
static uint32_t node_of(uint64_t id)
{
	uint32_t n = (uint32_t)id;

	return n && n < NODES && img->node[n].mode && img->node[n].generation == id >> 32 ? n : 0;
}

static uint64_t id_of(uint32_t n)
{
	return (uint64_t)img->node[n].generation << 32 | n;
}

static int64_t tell(uint32_t n, struct fl_fs_ans *a)
{
	const struct node *node = &img->node[n];

	a->node = id_of(n);
	a->size = node->size;
	a->time = node->time;
	a->mode = node->mode;
	a->uid = node->uid;
	a->gid = node->gid;
	a->nlink = S_ISDIR(node->mode) ? 2 + subdirs[n] : 1;
	return 0;
}

static struct name make_name(uint32_t parent, const char *text, uint32_t len)
{
	struct name name = { .parent = parent, .len = len };

	memcpy(name.text, text, len);
	return name;
}

static int64_t create(uint32_t dir, const struct fl_fs_req *r, const char *text, struct fl_fs_ans *a)
{
	uint32_t n = FL_FS_ROOT + 1;

	if (find(dir, text, r->name_len))
		return -EEXIST;
	while (n < NODES && img->node[n].mode)
		n++;
	if (n == NODES)
		return -ENOSPC;
	struct node *node = &img->node[n];

	node->name = make_name(dir, text, r->name_len);
	node->uid = r->uid;
	node->gid = r->gid;
	node->size = 0;
	node->time = r->time;
	order();
	node->mode = r->mode;
	index_name(n, 1);
	return tell(n, a);
}

static int64_t unlink_node(uint32_t dir, const struct fl_fs_req *r, const char *text)
{
	uint32_t n = find(dir, text, r->name_len);

	if (!n || n != node_of(r->node2))
		return -ENOENT;
	if (r->op == FL_FS_RMDIR && children[n])
		return -ENOTEMPTY;
	index_name(n, 0);
	img->node[n].name.parent = 0;
	return 0;
}

static int64_t rename_node(uint32_t dir, const struct fl_fs_req *r, const char *text)
{
	uint32_t to = node_of(r->node2), n = find(dir, text, r->name_len);
	uint32_t there = to ? find(to, text + r->name_len, r->name2_len) : 0;
	int exchange = r->flags & FL_FS_EXCHANGE;

	if (!to || !n || (exchange && !there))
		return -ENOENT;
	if (there && !exchange && children[there])
		return -ENOTEMPTY;
	struct name name = make_name(to, text + r->name_len, r->name2_len), other = { 0 };

	if (exchange)
		other = img->node[n].name;
	else if (there)
		other.parent = 0;
	set_names(n, &name, there, &other);
	return 0;
}

static int64_t read_node(uint32_t n, const struct fl_fs_req *r, uint64_t token)
{
	static const char zeros[BLOCK];
	uint64_t end = img->node[n].size, at = r->offset;

	if (at >= end)
		return 0;
	end = end - at < r->size ? end : at + r->size;
	while (at < end) {
		uint32_t b = find_block((uint64_t)n << 32 | at / BLOCK), in = at % BLOCK;
		uint64_t k = end - at < BLOCK - in ? end - at : BLOCK - in;

		if (port_lent_write(fd, token, at - r->offset, (b ? img->block[b] : zeros) + in, k) != (long)k)
			return -EIO;
		at += k;
	}
	return (int64_t)(end - r->offset);
}

/* A block for @tag, of zeros and not yet in the file; 0: full. */
static uint32_t new_block(void)
{
	static uint32_t last;

	for (uint32_t i = 1; i < BLOCKS; i++) {
		last = last % (BLOCKS - 1) + 1;
		if (!img->tag[last]) {
			memset(img->block[last], 0, BLOCK);
			return last;
		}
	}
	return 0;
}

static int64_t write_node(uint32_t n, const struct fl_fs_req *r, uint64_t token)
{
	uint64_t at = r->offset, end = at + r->size;

	if (end < at || end > (uint64_t)BLOCKS * BLOCK * 256)
		return -EFBIG;
	while (at < end) {
		uint64_t tag = (uint64_t)n << 32 | at / BLOCK, in = at % BLOCK;
		uint64_t k = end - at < BLOCK - in ? end - at : BLOCK - in;
		uint32_t there = find_block(tag), b = there ? there : new_block();

		if (!b)
			return -ENOSPC;
		if (port_lent_read(fd, token, at - r->offset, img->block[b] + in, k) != (long)k)
			return -EIO;
		order();
		if (!there) {
			img->tag[b] = tag;
			index_block(b);
		}
		at += k;
	}
	if (end > img->node[n].size)
		img->node[n].size = end;
	img->node[n].time = r->time;
	return r->size;
}

static int64_t setattr(uint32_t n, const struct fl_fs_req *r)
{
	struct node *node = &img->node[n];

	if (r->valid & FL_FS_SET_MODE)
		node->mode = (node->mode & S_IFMT) | (r->mode & 07777);
	if (r->valid & FL_FS_SET_OWNER) {
		node->uid = r->uid;
		node->gid = r->gid;
	}
	if (r->valid & FL_FS_SET_TIME)
		node->time = r->time;
	if (r->valid & FL_FS_SET_SIZE) {
		node->size = r->offset;
		order();
		trim(n);
	}
	return 0;
}

/* Positions are node numbers, so a name that is renamed meanwhile is met once. */
static int64_t readdir_node(uint32_t dir, const struct fl_fs_req *r, char *out, uint32_t *len)
{
	for (uint64_t n = r->offset; n < NODES; n++) {
		const struct name *name = &img->node[n].name;
		struct fl_fs_entry e = { .node = id_of(n), .next = n + 1, .name_len = name->len, .type = img->node[n].mode & S_IFMT };
		uint32_t size = (sizeof(e) + name->len + 7) & ~7u;

		if (!img->node[n].mode || name->parent != dir)
			continue;
		if (*len + size > FL_INLINE_MAX)
			break;
		memset(out + *len, 0, size);
		memcpy(out + *len, &e, sizeof(e));
		memcpy(out + *len + sizeof(e), name->text, name->len);
		*len += size;
	}
	return 0;
}

static int64_t answer(const struct fl_fs_req *r, struct fl_msg *m, char *buf, struct fl_fs_ans *a)
{
	uint32_t n = node_of(r->node);

	if (!started && r->op > FL_FS_KEEP)
		drop_orphans();
	if (!n)
		return -ESTALE;
	switch (r->op) {
	case FL_FS_HELLO:
		return 0;
	case FL_FS_KEEP:
		return kept[n] = 1;
	case FL_FS_LOOKUP:
		n = find(n, buf, r->name_len);
		return n ? tell(n, a) : -ENOENT;
	case FL_FS_CREATE:
		return create(n, r, buf, a);
	case FL_FS_UNLINK:
	case FL_FS_RMDIR:
		return unlink_node(n, r, buf);
	case FL_FS_RENAME:
		return rename_node(n, r, buf);
	case FL_FS_READ:
		return read_node(n, r, m->token);
	case FL_FS_WRITE:
		return write_node(n, r, m->token);
	case FL_FS_READDIR:
		return readdir_node(n, r, buf, &m->len);
	case FL_FS_SETATTR:
		return setattr(n, r);
	case FL_FS_FORGET:
		if (!img->node[n].name.parent && n != FL_FS_ROOT)
			free_node(n);
		return 0;
	}
	return -ENOSYS;
}

int main(int argc, char **argv)
{
	static char buf[FL_INLINE_MAX];
	struct fl_msg m = { .buf = (uintptr_t)buf, .room = sizeof(buf) };
	const char *port = getenv("FL_PORT");

	if (argc != 2 || !port) {
		fprintf(stderr, "usage: memfs IMAGE, with a port in FL_PORT (driver-run --mount)\n");
		return 1;
	}
	fd = atoi(port);
	start(argv[1]);
	while (!port_reply_receive(fd, &m, -1)) {
		struct fl_fs_ans a = { 0 };
		struct fl_fs_req r;

		memcpy(&r, m.word, sizeof(r));
		m.len = 0;
		m.nr_fds = 0;
		if (r.op == FL_FS_BYE)
			return 0;
		a.result = answer(&r, &m, buf, &a);
		memcpy(m.word, &a, sizeof(a));
	}
	return 1;
}
