/* /sys: CPUs, the switches of the kernel, and the few nodes that programs look for. */
#include "fs/procfs.h"

#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/race.h"
#include "mm/fault.h"
#include "mm/hugetlb_sync.h"
#include "mm/uffd.h"

/* "0-3,5" */
static ssize_t show_mask(cpumask_t mask, char *buf, size_t size)
{
	int len = 0;

	for (unsigned int i = 0; i < NR_CPUS; i++) {
		if (!(mask & BIT(i)))
			continue;
		unsigned int last = i;
		while (last + 1 < NR_CPUS && mask & BIT(last + 1))
			last++;
		len += scnprintf(buf + len, size - (size_t)len, last > i ? "%s%u-%u" : "%s%u", len ? "," : "", i, last);
		i = last;
	}
	return len + scnprintf(buf + len, size - (size_t)len, "\n");
}

static ssize_t show_online(void *arg, char *buf, size_t size)
{
	(void)arg;
	return show_mask(cpu_online_mask, buf, size);
}

static ssize_t show_constant(void *arg, char *buf, size_t size) { return scnprintf(buf, size, "%s\n", (const char *)arg); }
static ssize_t show_switch(void *arg, char *buf, size_t size) { return scnprintf(buf, size, "%s\n", *(bool *)arg ? "on" : "off"); }

static const struct text_file_ops online_ops = { show_online, NULL };
static const struct text_file_ops constant_ops = { show_constant, NULL };
static const struct text_file_ops switch_ops = { show_switch, NULL };

#ifdef DEBUG
static ssize_t show_race(void *arg, char *buf, size_t size)
{
	(void)arg;
	return (ssize_t)race_format(buf, size);
}

static ssize_t store_race(void *arg, const char *buf, size_t n)
{
	int ret = race_command(buf);

	(void)arg;
	return ret ? ret : (ssize_t)n;
}

static const struct text_file_ops race_ops = { show_race, store_race };
#endif

void sysfs_init(void)
{
	unsigned int cpu;
	char path[64];

	pseudo_text_file(sysfs_root, "devices/system/cpu/online", 0444, &online_ops, NULL);
	pseudo_text_file(sysfs_root, "devices/system/cpu/possible", 0444, &online_ops, NULL);
	pseudo_text_file(sysfs_root, "devices/system/cpu/present", 0444, &online_ops, NULL);
	for_each_cpu(cpu, cpu_online_mask) {
		snprintf(path, sizeof(path), "devices/system/cpu/cpu%u", cpu);
		pseudo_dir(sysfs_root, path);
	}
	pseudo_text_file(sysfs_root, "devices/system/node/online", 0444, &constant_ops, "0");
	pseudo_text_file(sysfs_root, "kernel/mm/transparent_hugepage/enabled", 0444, &constant_ops, "always madvise [never]");
	pseudo_text_file(sysfs_root, "kernel/mm/transparent_hugepage/shmem_enabled", 0444, &constant_ops, "always within_size advise [never] deny force");
	pseudo_text_file(sysfs_root, "kernel/mm/transparent_hugepage/hpage_pmd_size", 0444, &constant_ops, "2097152");
	pseudo_text_file(sysfs_root, "kernel/faultline/mm.vma_lock", 0444, &switch_ops, &vma_lock_enabled);
	pseudo_text_file(sysfs_root, "kernel/faultline/mm.fault_completed", 0444, &switch_ops, &fault_completed_enabled);
	hugetlb_sync_sysfs_init();
	pseudo_text_file(sysfs_root, "kernel/faultline/uffd.lock", 0444, &constant_ops, (void *)uffd_locking_name());
#ifdef DEBUG
	pseudo_text_file(sysfs_root, "kernel/faultline/race", 0600, &race_ops, NULL);
#endif
	pseudo_dir(sysfs_root, "block");
	pseudo_dir(sysfs_root, "bus");
	pseudo_dir(sysfs_root, "class");
}
