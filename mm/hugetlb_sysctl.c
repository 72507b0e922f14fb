/*
 * What the administrator sees of the pools: /proc/sys/vm/{nr_hugepages,nr_overcommit_hugepages,hugetlb_shm_group} for the default
 * size, /sys/kernel/mm/hugepages/hugepages-*kB/ for each, and their lines in /proc/meminfo.
 *
 * A write of nr_hugepages does what it can and succeeds (D2): read it again to learn how far it came.
 */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/hugetlb_internal.h"
#include "mm/mmap.h"

u32 sysctl_hugetlb_shm_group;

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/*
 * /proc/sys takes the first word of what is written, in the base that its digits begin with, and says how much it has used: that word and
 * the space around it. No sign. Bytes, or -EINVAL.
 */
static ssize_t parse_word(const char *buf, size_t n, u64 *out)
{
	char word[32];
	size_t used = 0, len = 0;

	while (used < n && is_space(buf[used]))
		used++;
	while (used < n && len < sizeof(word) - 1 && buf[used] && !is_space(buf[used]))
		word[len++] = buf[used++];
	word[len] = '\0';
	if (word[0] == '+' || kstrtou64(word, 0, out))
		return -EINVAL;
	while (used < n && is_space(buf[used]))
		used++;
	return (ssize_t)used;
}

static int set_overcommit(struct hstate *h, u64 pages)
{
	if (h->order > HUGETLB_MAX_SURPLUS_ORDER)
		return -EINVAL;		/* pages of that size are not made in passing */
	hugetlb_pool_set_overcommit(h, pages);
	return 0;
}

/* -- /proc/sys/vm -- */

static ssize_t show_max(void *arg, char *buf, size_t size)
{
	struct hugetlb_counts c;

	(void)arg;
	hugetlb_pool_counts(default_hstate, &c);
	return scnprintf(buf, size, "%lu\n", c.max);
}

static ssize_t store_max(void *arg, const char *buf, size_t n)
{
	u64 count;
	ssize_t used = parse_word(buf, n, &count);

	(void)arg;
	if (used >= 0)
		hugetlb_pool_resize(default_hstate, count);
	return used;
}

static ssize_t show_default_overcommit(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "%lu\n", READ_ONCE(default_hstate->overcommit));
}

static ssize_t store_default_overcommit(void *arg, const char *buf, size_t n)
{
	u64 pages;
	ssize_t used = parse_word(buf, n, &pages);
	int err = used < 0 ? (int)used : set_overcommit(default_hstate, pages);

	(void)arg;
	return err ? err : used;
}

/* A group; to the file it is an int, as on Linux, so a minus sign is nothing special. */
static ssize_t show_shm_group(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "%d\n", (s32)READ_ONCE(sysctl_hugetlb_shm_group));
}

static ssize_t store_shm_group(void *arg, const char *buf, size_t n)
{
	size_t sign = 0;
	u64 v;

	(void)arg;
	while (sign < n && is_space(buf[sign]))
		sign++;
	bool negative = sign < n && buf[sign] == '-';
	size_t skip = negative ? sign + 1 : 0;
	if (skip < n && negative && is_space(buf[skip]))
		return -EINVAL;
	ssize_t used = parse_word(buf + skip, n - skip, &v);
	if (used < 0)
		return used;
	if (v > (u64)INT32_MAX + negative)
		return -EINVAL;
	WRITE_ONCE(sysctl_hugetlb_shm_group, negative ? -(u32)v : (u32)v);
	return (ssize_t)skip + used;
}

static const struct text_file_ops max_ops = { show_max, store_max };
static const struct text_file_ops shm_group_ops = { show_shm_group, store_shm_group };
static const struct text_file_ops default_overcommit_ops = { show_default_overcommit, store_default_overcommit };

/* -- /sys/kernel/mm/hugepages -- */

#define SHOW(field)									\
static ssize_t show_##field(void *arg, char *buf, size_t size)				\
{											\
	struct hugetlb_counts c;							\
											\
	hugetlb_pool_counts(arg, &c);							\
	return scnprintf(buf, size, "%lu\n", c.field);					\
}
SHOW(nr)
SHOW(free)
SHOW(resv)
SHOW(surplus)
SHOW(overcommit)
#undef SHOW

static ssize_t store_nr(void *arg, const char *buf, size_t n)
{
	u64 count;
	int err = kstrtou64(buf, 10, &count);

	if (err)
		return err;
	hugetlb_pool_resize(arg, count);
	return (ssize_t)n;
}

static ssize_t store_overcommit(void *arg, const char *buf, size_t n)
{
	struct hstate *h = arg;
	u64 pages;
	int err;

	if (h->order > HUGETLB_MAX_SURPLUS_ORDER)
		return -EINVAL;
	err = kstrtou64(buf, 10, &pages);
	if (!err)
		err = set_overcommit(h, pages);
	return err ? err : (ssize_t)n;
}

static const struct text_file_ops nr_ops = { show_nr, store_nr };
static const struct text_file_ops free_ops = { show_free, NULL };
static const struct text_file_ops resv_ops = { show_resv, NULL };
static const struct text_file_ops surplus_ops = { show_surplus, NULL };
static const struct text_file_ops overcommit_ops = { show_overcommit, store_overcommit };

static const struct { const char *name; u32 mode; const struct text_file_ops *ops; } files[] = {
	{ "nr_hugepages", 0644, &nr_ops },
	{ "free_hugepages", 0444, &free_ops },
	{ "resv_hugepages", 0444, &resv_ops },
	{ "surplus_hugepages", 0444, &surplus_ops },
	{ "nr_overcommit_hugepages", 0644, &overcommit_ops },
};

static void add_file(struct dentry *root, const char *path, u32 mode, const struct text_file_ops *ops, void *arg)
{
	if (IS_ERR(pseudo_text_file(root, path, mode, ops, arg)))
		pr_err("hugetlb: no memory for %s", path);
}

/* After procfs and sysfs. */
void hugetlb_sysctl_init(void)
{
	char path[96];

	add_file(proc_root, "sys/vm/nr_hugepages", 0644, &max_ops, NULL);
	add_file(proc_root, "sys/vm/nr_overcommit_hugepages", 0644, &default_overcommit_ops, NULL);
	add_file(proc_root, "sys/vm/hugetlb_shm_group", 0644, &shm_group_ops, NULL);
	for (unsigned int i = 0; i < NR_HSTATES; i++) {
		if (!hstates[i].order)
			continue;
		for (unsigned int f = 0; f < ARRAY_SIZE(files); f++) {
			snprintf(path, sizeof(path), "kernel/mm/hugepages/%s/%s", hstates[i].name, files[f].name);
			add_file(sysfs_root, path, files[f].mode, files[f].ops, &hstates[i]);
		}
	}
}

/* The counts of the default size; Hugetlb is the memory in pools of every size. */
size_t hugetlb_meminfo(char *buf, size_t size)
{
	struct hugetlb_counts c, d = { 0 };
	u64 kib = 0;

	for (unsigned int i = 0; i < NR_HSTATES; i++) {
		if (!hstates[i].order)
			continue;
		hugetlb_pool_counts(&hstates[i], &c);
		kib += c.nr * (huge_page_size(&hstates[i]) >> 10);
		if (&hstates[i] == default_hstate)
			d = c;
	}
	return (size_t)scnprintf(buf, size,
		"HugePages_Total:   %5lu\n"
		"HugePages_Free:    %5lu\n"
		"HugePages_Rsvd:    %5lu\n"
		"HugePages_Surp:    %5lu\n"
		"Hugepagesize:   %8lu kB\n"
		"Hugetlb:        %8lu kB\n",
		d.nr, d.free, d.resv, d.surplus, huge_page_size(default_hstate) >> 10, kib);
}
