/* /proc/sys: tunables as a table of numbers with bounds, and a few strings. */
#include "fs/procfs.h"

#include "fs/internal.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/random.h"
#include "kernel/string.h"
#include "kernel/sysctl.h"
#include "mm/hugetlb.h"
#include "mm/mmap.h"
#include "mm/slab.h"
#include "mm/uffd.h"
#include "mm/vma.h"

/*
 * One number. @size is that of the variable; a read-only one has mode 0444. Where a change needs more than a store,
 * @changed runs after it.
 */
struct sysctl_number {
	const char	*path;		/* below /proc/sys */
	u32		 mode;
	void		*var;		/* u32 or u64, naturally aligned: single reads and writes need no lock */
	u32		 size;
	u64		 min, max;
	int		(*changed)(u64 value);	/* NULL: nothing to do. -errno undoes nothing: check bounds by min and max */
};

static ssize_t show_number(void *arg, char *buf, size_t size)
{
	const struct sysctl_number *s = arg;
	u64 v = s->size == 4 ? READ_ONCE(*(u32 *)s->var) : READ_ONCE(*(u64 *)s->var);

	return scnprintf(buf, size, "%lu\n", v);
}

static ssize_t store_number(void *arg, const char *buf, size_t n)
{
	const struct sysctl_number *s = arg;
	char word[32];
	size_t len = 0;
	u64 v;

	while (len < n && len < sizeof(word) - 1 && buf[len] > ' ')
		len++;
	memcpy(word, buf, len);
	word[len] = '\0';
	if (!len || word[0] == '+' || kstrtou64(word, 10, &v) || v < s->min || v > s->max)
		return -EINVAL;
	if (s->size == 4)
		WRITE_ONCE(*(u32 *)s->var, (u32)v);
	else
		WRITE_ONCE(*(u64 *)s->var, v);
	if (s->changed) {
		int ret = s->changed(v);

		if (ret)
			return ret;
	}
	return (ssize_t)n;
}

static const struct text_file_ops number_ops = { show_number, store_number };
static const struct text_file_ops number_ro_ops = { show_number, NULL };

static u32 randomize_va_space_ro = 2;
static u32 ngroups_max = NGROUPS_MAX, cap_last_cap = 40;
static u64 file_max = 1ul << 20, nr_open = 1ul << 20, pipe_max_size = 1ul << 20;
static u64 mmap_min_addr = MMAP_MIN_ADDR;
static u32 somaxconn = 4096, zero_panic, drop_caches;

/* RAM files cannot be dropped; what can be given back is what each CPU keeps for itself. */
static int drop_caches_now(u64 value)
{
	(void)value;
	drain_all_caches();
	return 0;
}

static struct sysctl_number numbers[] = {
	{ "vm/max_map_count",		0644, &sysctl_max_map_count, 4, 0, INT32_MAX, NULL },
	{ "vm/overcommit_memory",	0644, &sysctl_overcommit_memory, 4, 0, 2, NULL },
	{ "vm/overcommit_ratio",	0644, &sysctl_overcommit_ratio, 4, 0, 10000, NULL },
	{ "vm/mmap_min_addr",		0444, &mmap_min_addr, 8, 0, 0, NULL },
	{ "vm/dirty_bytes",		0644, &sysctl_dirty_bytes, 8, 0, 1ul << 50, NULL },
	{ "vm/dirty_background_bytes",	0644, &sysctl_dirty_background_bytes, 8, 0, 1ul << 50, NULL },
	{ "vm/unprivileged_userfaultfd", 0644, &sysctl_unprivileged_userfaultfd, 4, 0, 1, NULL },
	{ "vm/drop_caches",		0200, &drop_caches, 4, 1, 7, drop_caches_now },
	{ "kernel/pid_max",		0644, &sysctl_pid_max, 4, RESERVED_PIDS + 1, PID_MAX_LIMIT, NULL },
	{ "kernel/threads-max",		0644, &sysctl_threads_max, 4, 20, INT32_MAX, NULL },
	{ "kernel/ngroups_max",		0444, &ngroups_max, 4, 0, 0, NULL },
	{ "kernel/cap_last_cap",	0444, &cap_last_cap, 4, 0, 0, NULL },
	{ "kernel/randomize_va_space",	0444, &randomize_va_space_ro, 4, 0, 0, NULL },
	{ "kernel/panic",		0444, &zero_panic, 4, 0, 0, NULL },
	{ "kernel/tainted",		0444, &zero_panic, 4, 0, 0, NULL },
	{ "fs/file-max",		0444, &file_max, 8, 0, 0, NULL },
	{ "fs/nr_open",			0444, &nr_open, 8, 0, 0, NULL },
	{ "fs/pipe-max-size",		0444, &pipe_max_size, 8, 0, 0, NULL },
	{ "net/core/somaxconn",		0444, &somaxconn, 4, 0, 0, NULL },
};

/* -- strings -- */

static ssize_t show_string(void *arg, char *buf, size_t size) { return scnprintf(buf, size, "%s\n", (const char *)arg); }

/* arg is a char[65] of the utsname. */
static ssize_t store_uts(void *arg, const char *buf, size_t n)
{
	size_t len = strnlen(buf, n);

	while (len && buf[len - 1] == '\n')
		len--;
	if (len > 64)
		return -EINVAL;
	memcpy(arg, buf, len);
	((char *)arg)[len] = '\0';
	return (ssize_t)n;
}

static ssize_t show_uuid(void *arg, char *buf, size_t size)
{
	u8 fresh[16], *u = arg;

	if (!u) {
		get_random_bytes(fresh, sizeof(fresh));
		u = fresh;
	}
	return scnprintf(buf, size, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n",
			 u[0], u[1], u[2], u[3], u[4], u[5], (u[6] & 0x0f) | 0x40, u[7], (u[8] & 0x3f) | 0x80, u[9],
			 u[10], u[11], u[12], u[13], u[14], u[15]);
}

static ssize_t show_file_nr(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "%lu\t0\t%lu\n", slab_objects("file"), file_max);
}

static const struct text_file_ops string_ops = { show_string, NULL };
static const struct text_file_ops uts_ops = { show_string, store_uts };
static const struct text_file_ops uuid_ops = { show_uuid, NULL };
static const struct text_file_ops file_nr_ops = { show_file_nr, NULL };
static u8 boot_id[16];

static void add(const char *path, u32 mode, const struct text_file_ops *ops, void *arg)
{
	if (IS_ERR(pseudo_text_file(proc_root, path, mode, ops, arg)))
		pr_err("proc: no memory for /proc/%s\n", path);
}

void proc_sys_init(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct sysctl_number *s = &numbers[i];
		char path[64];

		snprintf(path, sizeof(path), "sys/%s", s->path);
		add(path, s->mode, s->mode & 0222 ? &number_ops : &number_ro_ops, s);
	}
	get_random_bytes(boot_id, sizeof(boot_id));
	add("sys/kernel/ostype", 0444, &string_ops, "Linux");
	add("sys/kernel/osrelease", 0444, &string_ops, UTS_RELEASE);
	add("sys/kernel/version", 0444, &string_ops, "#1 SMP PREEMPT");
	add("sys/kernel/core_pattern", 0444, &string_ops, "core");
	add("sys/kernel/hostname", 0644, &uts_ops, utsname_nodename);
	add("sys/kernel/domainname", 0644, &uts_ops, utsname_domainname);
	add("sys/kernel/random/uuid", 0444, &uuid_ops, NULL);
	add("sys/kernel/random/boot_id", 0444, &uuid_ops, boot_id);
	add("sys/kernel/random/entropy_avail", 0444, &string_ops, "256");
	add("sys/fs/file-nr", 0444, &file_nr_ops, NULL);
}
