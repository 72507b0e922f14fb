/*
 * memfs: a file system in ring 3, the example for servers of files (user/include/fl_fs.h, docs/servers.md).
 *
 *	driver-run --own /run/memfs --mount /srv --uid memfs -- /sbin/memfs /run/memfs/image
 *
 * Its memory is a mapped file, the image, so that what it knows survives it: kill it at any instruction, and the next one goes on.
 * The rule that is easy to break: every change becomes valid by one store, its last.
 *
 *	a node exists		when its mode is not 0		rename		when the journal is valid: done again at the start
 *	a block is of a file	when it is in the file's map	truncate	when the size is stored: blocks behind it go at the start
 *
 * It is small so that it can be read in one go: names are found by looking at all of them.
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

#define NODES		1024u		/* 0 is none, 1 the root */
#define BLOCKS		8192u		/* of all files; 0 is a hole */
#define FILE_BLOCKS	512u		/* of one */
#define BLOCK		4096u

struct name { uint32_t parent, len; char text[256]; };	/* parent 0: no name; the node waits for FORGET */

/* The attributes as they are told. mode 0: free, and then the map is empty. The upper half of its number counts how often it was used. */
struct node { struct fl_fs_ans attr; struct name name; };

static struct image {
	struct { uint32_t valid, node[2]; struct name name[2]; } journal;	/* these nodes are to have these names */
	struct node node[NODES];
	uint32_t map[NODES][FILE_BLOCKS];
	char	 block[BLOCKS][BLOCK];
} *img;

/* What can be found out from the image is not in it. */
static char used[BLOCKS], kept[NODES];
static int fd, started;

#define order()	__atomic_signal_fence(__ATOMIC_SEQ_CST)	/* we die between instructions: only the compiler could mix them up */

/* A node in @dir: with this name, or (NULL) the first from @from on. 0: none. */
static uint32_t find(uint32_t dir, const char *text, uint32_t len, uint32_t from)
{
	for (uint32_t n = from; n < NODES; n++) {
		const struct name *name = &img->node[n].name;

		if (img->node[n].attr.mode && name->parent == dir && (!text || (name->len == len && !memcmp(name->text, text, len))))
			return n;
	}
	return 0;
}

/* What lies behind the end of the file is not kept. */
static void trim(uint32_t n)
{
	uint64_t size = img->node[n].attr.size, first = (size + BLOCK - 1) / BLOCK;

	for (uint64_t i = first; i < FILE_BLOCKS; i++) {
		if (img->map[n][i]) {
			used[img->map[n][i]] = 0;
			img->map[n][i] = 0;
		}
	}
	if (size % BLOCK && img->map[n][first - 1])
		memset(img->block[img->map[n][first - 1]] + size % BLOCK, 0, BLOCK - size % BLOCK);
}

static void free_node(uint32_t n)
{
	img->node[n].attr.size = 0;
	trim(n);
	img->node[n].attr.node += 1ul << 32;	/* first: a number that was told is not used again */
	order();
	img->node[n].attr.mode = 0;
}

static void carry_out_journal(void)
{
	for (int i = 0; i < 2; i++)
		if (img->journal.node[i])
			img->node[img->journal.node[i]].name = img->journal.name[i];
	order();
	img->journal.valid = 0;
}

/* Opens the image, and ends what our predecessor had begun. An empty one is an empty tree. */
static void start(const char *path)
{
	int image = open(path, O_RDWR | O_CREAT, 0600);

	if (image < 0 || ftruncate(image, sizeof(*img)) ||
	    (img = mmap(NULL, sizeof(*img), PROT_READ | PROT_WRITE, MAP_SHARED, image, 0)) == MAP_FAILED) {
		perror("memfs: image");
		exit(1);
	}
	img->node[FL_FS_ROOT].attr = (struct fl_fs_ans){ .node = FL_FS_ROOT, .mode = S_IFDIR | 0755 };
	if (img->journal.valid)
		carry_out_journal();
	for (uint32_t n = FL_FS_ROOT + 1; n < NODES; n++) {
		for (uint32_t i = 0; img->node[n].attr.mode && i < FILE_BLOCKS; i++)
			used[img->map[n][i]] = 1;
		if (img->node[n].attr.mode)
			trim(n);
	}
}

/* After HELLO and KEEP: what has no name and is not in use either goes. */
static void drop_orphans(void)
{
	for (uint32_t n = FL_FS_ROOT + 1; n < NODES; n++)
		if (img->node[n].attr.mode && !img->node[n].name.parent && !kept[n])
			free_node(n);
	started = 1;
}

/* 0: there is no such node any more. */
static uint32_t node_of(uint64_t id)
{
	uint32_t n = (uint32_t)id;

	return n < NODES && img->node[n].attr.mode && img->node[n].attr.node == id ? n : 0;
}

static int64_t tell(uint32_t n, struct fl_fs_ans *a)
{
	*a = img->node[n].attr;
	a->nlink = S_ISDIR(a->mode) ? 2 : 1;
	for (uint32_t sub = 0; S_ISDIR(a->mode) && (sub = find(n, NULL, 0, sub + 1)); )
		a->nlink += S_ISDIR(img->node[sub].attr.mode);
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

	while (n < NODES && img->node[n].attr.mode)
		n++;
	if (n == NODES)
		return -ENOSPC;
	if (find(dir, text, r->name_len, 1))
		return -EEXIST;
	img->node[n].name = make_name(dir, text, r->name_len);
	img->node[n].attr = (struct fl_fs_ans){ .node = (img->node[n].attr.node & ~0xfffffffful) | n, .uid = r->uid, .gid = r->gid, .time = r->time };
	order();
	img->node[n].attr.mode = r->mode;
	return tell(n, a);
}

static int64_t unlink_node(uint32_t dir, const struct fl_fs_req *r, const char *text)
{
	uint32_t n = find(dir, text, r->name_len, 1);

	if (!n || n != node_of(r->node2))
		return -ENOENT;
	if (find(n, NULL, 0, 1))
		return -ENOTEMPTY;
	img->node[n].name.parent = 0;
	return 0;
}

static int64_t rename_node(uint32_t dir, const struct fl_fs_req *r, const char *text)
{
	uint32_t to = node_of(r->node2), n = find(dir, text, r->name_len, 1);
	uint32_t there = find(to, text + r->name_len, r->name2_len, 1);
	int exchange = r->flags & FL_FS_EXCHANGE;

	if (!to || !n || (exchange && !there))
		return -ENOENT;
	if (there && !exchange && find(there, NULL, 0, 1))
		return -ENOTEMPTY;
	img->journal.node[0] = n;
	img->journal.name[0] = make_name(to, text + r->name_len, r->name2_len);
	img->journal.node[1] = there;
	img->journal.name[1] = exchange ? img->node[n].name : (struct name){ 0 };
	order();
	img->journal.valid = 1;
	order();
	carry_out_journal();
	return 0;
}

/* The kernel asks for pages: no request crosses the border of one. */
static int64_t read_node(uint32_t n, const struct fl_fs_req *r, uint64_t token)
{
	uint64_t left = r->offset < img->node[n].attr.size ? img->node[n].attr.size - r->offset : 0, in = r->offset % BLOCK;

	if (in + r->size > BLOCK)
		return -EINVAL;
	return left ? port_lent_write(fd, token, 0, img->block[img->map[n][r->offset / BLOCK]] + in, left < r->size ? left : r->size) : 0;
}

/* A block of zeros; 0: full. */
static uint32_t new_block(void)
{
	for (uint32_t b = 1; b < BLOCKS; b++)
		if (!used[b])
			return memset(img->block[b], 0, BLOCK), b;
	return 0;
}

static int64_t write_node(uint32_t n, const struct fl_fs_req *r, uint64_t token)
{
	uint64_t i = r->offset / BLOCK, in = r->offset % BLOCK, end = r->offset + r->size;

	if (in + r->size > BLOCK)
		return -EINVAL;
	if (i >= FILE_BLOCKS)
		return -EFBIG;
	uint32_t b = img->map[n][i] ? img->map[n][i] : new_block();

	if (!b)
		return -ENOSPC;
	if (port_lent_read(fd, token, 0, img->block[b] + in, r->size) != (long)r->size)
		return -EIO;
	used[b] = 1;
	order();
	img->map[n][i] = b;
	order();
	if (end > img->node[n].attr.size)
		img->node[n].attr.size = end;
	img->node[n].attr.time = r->time;
	return r->size;
}

static int64_t setattr(uint32_t n, const struct fl_fs_req *r)
{
	struct fl_fs_ans *attr = &img->node[n].attr;

	if ((r->valid & FL_FS_SET_SIZE) && r->offset > FILE_BLOCKS * BLOCK)
		return -EFBIG;
	if (r->valid & FL_FS_SET_MODE)
		attr->mode = (attr->mode & S_IFMT) | (r->mode & 07777);
	if (r->valid & FL_FS_SET_OWNER) {
		attr->uid = r->uid;
		attr->gid = r->gid;
	}
	if (r->valid & FL_FS_SET_TIME)
		attr->time = r->time;
	if (r->valid & FL_FS_SET_SIZE) {
		attr->size = r->offset;
		order();
		trim(n);
	}
	return 0;
}

/* Positions are node numbers, so a file that is renamed meanwhile is met once. */
static int64_t readdir_node(uint32_t dir, const struct fl_fs_req *r, char *out, uint32_t *len)
{
	for (uint32_t n = r->offset < NODES ? r->offset : NODES; (n = find(dir, NULL, 0, n)); n++) {
		const struct name *name = &img->node[n].name;
		const struct fl_fs_entry e = { .node = img->node[n].attr.node, .next = n + 1, .name_len = name->len, .type = img->node[n].attr.mode & S_IFMT };
		uint32_t size = (sizeof(e) + name->len + 7) & ~7u;

		if (*len + size > FL_INLINE_MAX)
			break;
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
	case FL_FS_KEEP:
		return kept[n] = 1;
	case FL_FS_LOOKUP:
		n = find(n, buf, r->name_len, 1);
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
	return r->op == FL_FS_HELLO ? 0 : -ENOSYS;
}

int main(int argc, char **argv)
{
	static char buf[FL_INLINE_MAX];
	struct fl_msg m = { .buf = (uintptr_t)buf, .room = sizeof(buf) };

	if (argc != 2 || !getenv("FL_PORT")) {
		fprintf(stderr, "usage: memfs IMAGE, with a port in FL_PORT (driver-run --mount)\n");
		return 1;
	}
	fd = atoi(getenv("FL_PORT"));
	start(argv[1]);
	while (!port_reply_receive(fd, &m, -1)) {
		struct fl_fs_ans a = { 0 };
		struct fl_fs_req r;

		memcpy(&r, m.word, sizeof(r));
		if (r.op == FL_FS_BYE)
			return 0;
		m.len = 0;
		a.result = answer(&r, &m, buf, &a);
		memcpy(m.word, &a, sizeof(a));
	}
	return 1;
}
