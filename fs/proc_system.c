/* /proc files about the whole system: one show function each, in the table at the end. */
#include "fs/procfs.h"

#include "fs/internal.h"
#include "kernel/boot_info.h"
#include "kernel/console.h"
#include "kernel/errno.h"
#include "kernel/lock_stat.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/smp.h"
#include "kernel/string.h"
#include "kernel/trace.h"
#include "kernel/x86/features.h"
#include "kernel/x86/irq.h"
#include "mm/hugetlb.h"
#include "mm/mmap.h"
#include "mm/slab.h"
#include "mm/vmstat.h"

#define USER_HZ		100u
#define NSEC_PER_TICK	(NSEC_PER_SEC / USER_HZ)

static u64 kib(s64 pages) { return pages > 0 ? (u64)pages << (PAGE_SHIFT - 10) : 0; }

static ssize_t show_meminfo(void *arg, char *buf, size_t size)
{
	u64 total = nr_total_pages(), free = nr_free_pages();
	s64 file = vm_counter_read(VM_nr_file_pages), shmem = vm_counter_read(VM_nr_shmem);
	s64 reclaimable = file - shmem;		/* page cache that a store could give back */

	(void)arg;
	ssize_t n = scnprintf(buf, size,
		"MemTotal:       %8lu kB\n"
		"MemFree:        %8lu kB\n"
		"MemAvailable:   %8lu kB\n"
		"Buffers:        %8u kB\n"
		"Cached:         %8lu kB\n"
		"SwapCached:     %8u kB\n"
		"SwapTotal:      %8u kB\n"
		"SwapFree:       %8u kB\n"
		"Dirty:          %8lu kB\n"
		"Writeback:      %8lu kB\n"
		"AnonPages:      %8lu kB\n"
		"Mapped:         %8lu kB\n"
		"Shmem:          %8lu kB\n"
		"Slab:           %8lu kB\n"
		"KernelStack:    %8lu kB\n"
		"PageTables:     %8lu kB\n"
		"Mlocked:        %8lu kB\n"
		"CommitLimit:    %8lu kB\n"
		"Committed_AS:   %8lu kB\n",
		kib((s64)total), kib((s64)free), kib((s64)free + (reclaimable > 0 ? reclaimable : 0)), 0u,
		kib(file), 0u, 0u, 0u,
		kib(vm_counter_read(VM_nr_dirty)), kib(vm_counter_read(VM_nr_writeback)),
		kib(vm_counter_read(VM_nr_anon_pages)), kib(vm_counter_read(VM_nr_mapped)), kib(shmem),
		kib(vm_counter_read(VM_nr_slab)), kib(vm_counter_read(VM_nr_kernel_stack)),
		kib(vm_counter_read(VM_nr_page_table_pages)), kib(vm_counter_read(VM_nr_mlock)),
		kib((s64)vm_commit_limit()), kib((s64)vm_committed()));
	return n + (ssize_t)hugetlb_meminfo(buf + n, size - (size_t)n);
}

static ssize_t show_vmstat(void *arg, char *buf, size_t size)
{
	(void)arg;
	return (ssize_t)vmstat_format(buf, size);
}

struct cpu_times { u64 user, system, idle; };

/* Sums over all processes: what exited ones used is in their parents' totals. */
static struct cpu_times total_times(void)
{
	struct cpu_times t = { 0, 0, 0 };
	struct process *p;
	int tgid = 1;

	while ((p = next_process_get(tgid))) {
		struct rusage_sum r;

		task_rusage(p, &r);
		t.user += r.utime_ns + p->dead_children.utime_ns;
		t.system += r.stime_ns + p->dead_children.stime_ns;
		tgid = p->tgid + 1;
		process_put(p);
	}
	unsigned int cpu;
	for_each_cpu(cpu, cpu_online_mask)
		t.idle += sched_idle_ns(cpu);
	return t;
}

static u64 irq_count(unsigned int vector)
{
	u64 n = 0;
	unsigned int cpu;

	for_each_cpu(cpu, cpu_online_mask)
		n += (*per_cpu_ptr(&irq_counts, cpu))[vector];
	return n;
}

/* One line per vector in use: its number, the count on each CPU, and who handles it. */
static ssize_t show_interrupts(void *arg, char *buf, size_t size)
{
	unsigned int cpu;
	int len = scnprintf(buf, size, "    ");

	(void)arg;
	for_each_cpu(cpu, cpu_online_mask)
		len += scnprintf(buf + len, size - (size_t)len, "  %6s%-3u", "CPU", cpu);
	len += scnprintf(buf + len, size - (size_t)len, "\n");
	for (unsigned int v = VECTOR_ISA_BASE; v < 256; v++) {
		const char *name = irq_name(v);

		if (!name)
			continue;
		len += scnprintf(buf + len, size - (size_t)len, "%3u:", v);
		for_each_cpu(cpu, cpu_online_mask)
			len += scnprintf(buf + len, size - (size_t)len, " %10lu", (*per_cpu_ptr(&irq_counts, cpu))[v]);
		len += scnprintf(buf + len, size - (size_t)len, "  %s\n", name);
	}
	return len;
}

static ssize_t show_stat(void *arg, char *buf, size_t size)
{
	struct cpu_times t = total_times();
	unsigned int cpu;
	size_t len;
	u64 now = ktime_get_ns();
	u64 interrupts = 0;

	(void)arg;
	for (unsigned int v = VECTOR_ISA_BASE; v < 256; v++)
		interrupts += irq_count(v);
	len = (size_t)scnprintf(buf, size, "cpu  %lu 0 %lu %lu 0 0 0 0 0 0\n", (t.user / NSEC_PER_TICK),
				(t.system / NSEC_PER_TICK), (t.idle / NSEC_PER_TICK));
	for_each_cpu(cpu, cpu_online_mask) {
		u64 idle = sched_idle_ns(cpu);
		u64 busy = now > idle ? now - idle : 0;

		/* Per CPU only the idle time is measured; the rest is shown as user time. */
		len += (size_t)scnprintf(buf + len, size - len, "cpu%u %lu 0 0 %lu 0 0 0 0 0 0\n", cpu,
					 (busy / NSEC_PER_TICK), (idle / NSEC_PER_TICK));
	}
	len += (size_t)scnprintf(buf + len, size - len,
		"intr %lu\nctxt %lu\nbtime %lu\nprocesses %d\nprocs_running %lu\nprocs_blocked 0\n",
		interrupts, sched_nr_switches(), ((ktime_get_real_ns() - now) / NSEC_PER_SEC),
		last_pid(), max(sched_nr_running(), 1ul));
	return (ssize_t)len;
}

static ssize_t show_uptime(void *arg, char *buf, size_t size)
{
	u64 up = ktime_get_ns(), idle = 0;
	unsigned int cpu;

	(void)arg;
	for_each_cpu(cpu, cpu_online_mask)
		idle += sched_idle_ns(cpu);
	return scnprintf(buf, size, "%lu.%02lu %lu.%02lu\n", (up / NSEC_PER_SEC),
			 (up / (NSEC_PER_SEC / 100) % 100), (idle / NSEC_PER_SEC),
			 (idle / (NSEC_PER_SEC / 100) % 100));
}

static ssize_t show_loadavg(void *arg, char *buf, size_t size)
{
	u64 avg[3];

	(void)arg;
	sched_loadavg(avg);
	int len = 0;
	for (int i = 0; i < 3; i++)
		len += scnprintf(buf + len, size - (size_t)len, "%lu.%02lu ", (avg[i] >> 11),
				 ((avg[i] & 2047) * 100 >> 11));
	return len + scnprintf(buf + len, size - (size_t)len, "%lu/%u %d\n", max(sched_nr_running(), 1ul), nr_tasks(), last_pid());
}

static ssize_t show_version(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "Faultline, a teaching microkernel with Linux's system calls (uname says Linux %s), built with %s\n",
			 UTS_RELEASE, __VERSION__);
}

static ssize_t show_cmdline(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "%s\n", boot_info.cmdline);
}

/* The flags that programs and the selftests look for, under Linux's names. */
static size_t cpu_info(char *buf, size_t size)
{
	const struct cpu_features *c = &cpu_features;
	const struct { bool has; const char *name; } flags[] = {
		{ true, "fpu tsc msr pae cx8 apic cmov fxsr sse sse2 syscall lm" }, { c->nx, "nx" }, { c->pge, "pge" }, { c->pat, "pat" },
		{ c->gib_pages, "pdpe1gb" }, { c->pcid, "pcid" }, { c->invpcid, "invpcid" }, { c->x2apic, "x2apic" },
		{ c->tsc_deadline, "tsc_deadline_timer" }, { c->invariant_tsc, "constant_tsc nonstop_tsc" }, { c->hypervisor, "hypervisor" },
		{ c->smep, "smep" }, { c->smap, "smap" }, { c->umip, "umip" }, { c->fsgsbase, "fsgsbase" }, { c->xsave, "xsave" },
		{ c->xsaveopt, "xsaveopt" }, { c->avx, "avx" }, { c->rdrand, "rdrand" }, { c->rdseed, "rdseed" }, { c->la57, "la57" },
	};
	int len = scnprintf(buf, size, "vendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\nmodel name\t: %s\nstepping\t: %u\nflags\t\t:",
			    c->vendor, c->family, c->model, c->brand, c->stepping);

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (flags[i].has)
			len += scnprintf(buf + len, size - (size_t)len, " %s", flags[i].name);
	len += scnprintf(buf + len, size - (size_t)len, "\naddress sizes\t: %u bits physical, %u bits virtual\n", c->phys_bits, c->virt_bits);
	return (size_t)len;
}

static ssize_t show_cpuinfo(void *arg, char *buf, size_t size)
{
	unsigned int cpu;
	size_t len = 0;

	(void)arg;
	for_each_cpu(cpu, cpu_online_mask) {
		len += (size_t)scnprintf(buf + len, size - len, "processor\t: %u\n", cpu);
		len += cpu_info(buf + len, size - len);
		len += (size_t)scnprintf(buf + len, size - len, "\n");
	}
	return (ssize_t)len;
}

static ssize_t show_filesystems(void *arg, char *buf, size_t size)
{
	(void)arg;
	return (ssize_t)proc_filesystems_format(buf, size);
}

static ssize_t show_buddyinfo(void *arg, char *buf, size_t size)
{
	u64 counts[MAX_ORDER + 1];
	int len = scnprintf(buf, size, "Node 0, zone   Normal ");

	(void)arg;
	frame_free_counts(counts);
	for (int i = 0; i <= MAX_ORDER; i++)
		len += scnprintf(buf + len, size - (size_t)len, "%6lu ", counts[i]);
	return len + scnprintf(buf + len, size - (size_t)len, "\n");
}

static ssize_t show_slabinfo(void *arg, char *buf, size_t size)
{
	(void)arg;
	return (ssize_t)slab_format(buf, size);
}

static ssize_t show_swaps(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
}

static ssize_t show_partitions(void *arg, char *buf, size_t size)
{
	(void)arg;
	return scnprintf(buf, size, "major minor  #blocks  name\n\n");
}

static ssize_t show_lock_stat(void *arg, char *buf, size_t size)
{
	(void)arg;
	return (ssize_t)lock_stat_format(buf, size);
}

static ssize_t store_lock_stat(void *arg, const char *buf, size_t n)
{
	(void)arg;
	if (!n || buf[0] != '0')
		return -EINVAL;
	lock_stat_clear();
	return (ssize_t)n;
}

static ssize_t show_trace(void *arg, char *buf, size_t size)
{
	(void)arg;
	char more[TRACE_MAX_LINE + 1];
	u64 pos = 0;
	size_t n = trace_format(buf, size, &pos);

	/* A buffer that is too small asks for a larger one. */
	return trace_format(more, sizeof(more), &pos) ? (ssize_t)size : (ssize_t)n;
}

static ssize_t store_trace(void *arg, const char *buf, size_t n)
{
	(void)arg;
	if (!n || (buf[0] != '0' && buf[0] != '1'))
		return -EINVAL;
	int ret = trace_enable(buf[0] == '1');

	return ret ? ret : (ssize_t)n;
}

/* For tests of what happens in a panic: root only, as on Linux. */
static ssize_t store_sysrq(void *arg, const char *buf, size_t n)
{
	(void)arg;
	if (n && buf[0] == 'c')
		panic("sysrq-trigger: crash asked for by root");
	return (ssize_t)n;
}

static ssize_t show_nothing(void *arg, char *buf, size_t size)
{
	(void)arg, (void)buf, (void)size;
	return -EIO;
}

struct system_file {
	const char		*path;
	u32			 mode;
	struct text_file_ops	 ops;
};

static const struct system_file files[] = {
	{ "meminfo",		0444, { show_meminfo, NULL } },
	{ "vmstat",		0444, { show_vmstat, NULL } },
	{ "stat",		0444, { show_stat, NULL } },
	{ "interrupts",		0444, { show_interrupts, NULL } },
	{ "uptime",		0444, { show_uptime, NULL } },
	{ "loadavg",		0444, { show_loadavg, NULL } },
	{ "version",		0444, { show_version, NULL } },
	{ "cmdline",		0444, { show_cmdline, NULL } },
	{ "cpuinfo",		0444, { show_cpuinfo, NULL } },
	{ "filesystems",	0444, { show_filesystems, NULL } },
	{ "buddyinfo",		0444, { show_buddyinfo, NULL } },
	{ "slabinfo",		0400, { show_slabinfo, NULL } },
	{ "swaps",		0444, { show_swaps, NULL } },
	{ "partitions",		0444, { show_partitions, NULL } },
	{ "lock_stat",		0644, { show_lock_stat, store_lock_stat } },
	{ "sysrq-trigger",	0200, { show_nothing, store_sysrq } },
	{ "trace",		0600, { show_trace, store_trace } },
};

void proc_system_init(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (IS_ERR(pseudo_text_file(proc_root, files[i].path, files[i].mode, &files[i].ops, NULL)))
			pr_err("proc: no memory for /proc/%s\n", files[i].path);
	pseudo_dir(proc_root, "net");
}
