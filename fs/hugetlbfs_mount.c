/*
 * Mounts of hugetlbfs: their options (D16), limits (D17) and what statfs says (D18); and one mount of our own for each size of
 * page, where files without a name live (fs/hugetlbfs.c).
 */
#include "fs/hugetlbfs.h"

#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/slab.h"

#define HUGETLBFS_MAGIC		0x958458f6u

struct mount *hugetlbfs_internal_mounts[NR_HSTATES];

enum size_kind { SIZE_NONE, SIZE_BYTES, SIZE_PERCENT };
struct mount_size { enum size_kind kind; u64 value; };

struct mount_options {
	struct hstate		*h;
	struct mount_size	 size, min_size, nr_inodes;
	u32			 mode, uid, gid;
};

/* A number, a suffix or a percent sign; what comes behind that is not looked at. 0 or -EINVAL. */
static int parse_size(const char *s, struct mount_size *out)
{
	const char *end;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	out->value = memparse(s, &end);
	out->kind = *end == '%' ? SIZE_PERCENT : SIZE_BYTES;
	return 0;
}

static int parse_u32(const char *s, unsigned int base, u32 *out)
{
	u64 v;

	if (kstrtou64(s, base, &v) || v > UINT32_MAX)
		return -EINVAL;
	*out = (u32)v;
	return 0;
}

/* All ones are nobody's number. */
static int parse_id(const char *s, u32 *out)
{
	u32 id;

	if (parse_u32(s, 0, &id) || id == UINT32_MAX)
		return -EINVAL;
	*out = id;
	return 0;
}

static int parse_option(void *arg, const char *name, const char *value)
{
	struct mount_options *o = arg;
	const char *end;

	if (!strcmp(name, "pagesize")) {
		o->h = hstate_of_size(memparse(value, &end));
		return o->h ? 0 : -EINVAL;
	}
	if (!strcmp(name, "size"))
		return parse_size(value, &o->size);
	if (!strcmp(name, "min_size"))
		return parse_size(value, &o->min_size);
	if (!strcmp(name, "nr_inodes")) {
		int err = parse_size(value, &o->nr_inodes);
		if ((s64)o->nr_inodes.value < 0)
			o->nr_inodes = (struct mount_size){ SIZE_NONE, 0 };	/* as many as one likes */
		return err;
	}
	if (!strcmp(name, "uid"))
		return parse_id(value, &o->uid);
	if (!strcmp(name, "gid"))
		return parse_id(value, &o->gid);
	if (!strcmp(name, "mode")) {
		if (parse_u32(value, 8, &o->mode))
			return -EINVAL;
		o->mode &= 01777;
		return 0;
	}
	return -EINVAL;
}

/* In huge pages, rounded down. Percent are of the pool as the administrator sized it. In 64 bits, as Linux computes it: an absurd number wraps. */
static u64 size_in_pages(const struct mount_size *size, struct hstate *h)
{
	u64 bytes = size->value;

	if (size->kind == SIZE_NONE)
		return SUBPOOL_NO_LIMIT;
	if (size->kind == SIZE_PERCENT)
		bytes = (bytes << huge_page_shift(h)) * READ_ONCE(h->max) / 100;
	return bytes >> huge_page_shift(h);
}

static size_t hugetlbfs_show_options(struct super_block *sb, char *buf, size_t size)
{
	const struct hugetlbfs_sb *info = hugetlbfs_sb(sb);
	u64 kib = huge_page_size(info->h) >> 10;
	size_t n = 0;

	if (info->uid)
		n += (size_t)scnprintf(buf + n, size - n, ",uid=%u", info->uid);
	if (info->gid)
		n += (size_t)scnprintf(buf + n, size - n, ",gid=%u", info->gid);
	if (info->mode != 0755)
		n += (size_t)scnprintf(buf + n, size - n, ",mode=%o", info->mode);
	if (sb->max_inodes)
		n += (size_t)scnprintf(buf + n, size - n, ",nr_inodes=%lu", sb->max_inodes);
	n += (size_t)scnprintf(buf + n, size - n, ",pagesize=%lu%c", kib < 1024 ? kib : kib >> 10, kib < 1024 ? 'K' : 'M');
	if (info->max != SUBPOOL_NO_LIMIT)
		n += (size_t)scnprintf(buf + n, size - n, ",size=%lu", info->max << huge_page_shift(info->h));
	if (info->min != SUBPOOL_NO_LIMIT)
		n += (size_t)scnprintf(buf + n, size - n, ",min_size=%lu", info->min << huge_page_shift(info->h));
	return n;
}

/* D18. A mount without limits says zeros; without a maximum, all ones. */
static int hugetlbfs_statfs(struct super_block *sb, struct statfs64 *out)
{
	struct hugetlbfs_sb *info = hugetlbfs_sb(sb);
	u64 max, used;

	if (!info->subpool)
		return 0;
	hugetlb_subpool_limits(info->subpool, &max, &used);
	out->f_blocks = (s64)max;
	out->f_bfree = out->f_bavail = (s64)(max - used);
	out->f_files = sb->max_inodes ? (s64)sb->max_inodes : -1;
	out->f_ffree = sb->max_inodes ? (s64)sb->max_inodes - READ_ONCE(sb->used_inodes) : -1;
	return 0;
}

/* Looked at and forgotten: what a mount was promised and may use is settled when it is made. */
static int hugetlbfs_remount(struct super_block *sb, const char *options)
{
	struct mount_options o = { .h = hugetlbfs_sb(sb)->h };

	return mount_parse_options(options, parse_option, &o);
}

static void hugetlbfs_kill(struct super_block *sb)
{
	hugetlb_subpool_put(hugetlbfs_sb(sb)->subpool);
	kfree(sb->private);
}

/* 0 or -EINVAL, -ENOMEM; the subpool of @info then exists if it needs one. */
static int set_limits(struct hugetlbfs_sb *info, const struct mount_options *o)
{
	info->max = size_in_pages(&o->size, o->h);
	info->min = size_in_pages(&o->min_size, o->h);
	if (o->size.kind != SIZE_NONE && o->min_size.kind != SIZE_NONE && info->min > info->max)
		return -EINVAL;
	if (o->size.kind == SIZE_NONE && o->min_size.kind == SIZE_NONE)
		return 0;
	struct hugetlb_subpool *sp = hugetlb_subpool_create(o->h, info->max, info->min);

	if (IS_ERR(sp))
		return (int)PTR_ERR(sp);
	info->subpool = sp;
	return 0;
}

/* ERR_PTR. */
static struct super_block *create_super(const struct mount_options *o)
{
	struct hugetlbfs_sb *info = kzalloc(sizeof(*info), GFP_KERNEL);
	struct super_block *sb = info ? super_alloc("hugetlbfs", HUGETLBFS_MAGIC) : NULL;
	int err;

	if (!sb) {
		kfree(info);
		return ERR_PTR(-ENOMEM);
	}
	info->h = o->h;
	info->mode = o->mode;
	info->uid = o->uid;
	info->gid = o->gid;
	sb->private = info;
	sb->block_size = (u32)huge_page_size(o->h);
	sb->max_inodes = o->nr_inodes.value;
	sb->kill = hugetlbfs_kill;
	sb->show_options = hugetlbfs_show_options;
	sb->statfs = hugetlbfs_statfs;
	sb->remount = hugetlbfs_remount;
	err = set_limits(info, o);
	if (err)
		goto fail;
	err = -ENOMEM;
	if (o->nr_inodes.kind != SIZE_NONE && !sb->max_inodes)
		goto fail;		/* not even for a root; to the file system's count 0 would be no limit */

	struct inode *root = hugetlbfs_new_inode(sb, S_IFDIR | o->mode, 0);

	if (!root)
		goto fail;
	root->uid = o->uid;
	root->gid = o->gid;
	err = super_make_root(sb, root);
	if (err)
		goto fail;
	return sb;
fail:
	super_put(sb);
	return ERR_PTR(err);
}

static struct super_block *hugetlbfs_mount(const char *source, const char *options, u32 flags)
{
	struct access_ids ids = current_ids();
	struct mount_options o = { .h = default_hstate, .mode = 0755, .uid = ids.uid, .gid = ids.gid };
	int err = options ? mount_parse_options(options, parse_option, &o) : 0;

	(void)source, (void)flags;
	return err ? ERR_PTR(err) : create_super(&o);
}

static struct fs_type hugetlbfs_type = { .name = "hugetlbfs", .nodev = true, .mount = hugetlbfs_mount };

void hugetlbfs_init(void)
{
	register_filesystem(&hugetlbfs_type);
	for (unsigned int i = 0; i < NR_HSTATES; i++) {
		struct mount_options o = { .h = &hstates[i], .mode = 0755 };

		if (!hstates[i].order)
			continue;
		struct super_block *sb = create_super(&o);

		if (!IS_ERR(sb))
			hugetlbfs_internal_mounts[i] = mount_internal(sb);
		if (!hugetlbfs_internal_mounts[i])
			panic("no memory for hugetlbfs");
	}
}
