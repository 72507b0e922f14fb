/*
 * Trace rings (kernel/trace.h). Each CPU writes its own ring with interrupts off, so a record is whole for its writer; a
 * reader on another CPU copies it and looks at its sequence before and after, as with a seqcount. The sequence comes from
 * one shared counter: it gives all records one order, and only tracing pays for the shared line.
 */
#include "kernel/trace.h"
#include "kernel/boot_info.h"
#include "kernel/errno.h"
#include "kernel/percpu.h"
#include "kernel/printk.h"
#include "kernel/task.h"
#include "kernel/time.h"
#include "kernel/x86/cpu.h"
#include "mm/slab.h"

#define RING_RECORDS	8192u		/* a power of two; 512 KiB per CPU */

struct record {
	u64	seq;			/* 0: being written or never used */
	u64	time_ns;
	u64	arg[4];
	s32	tid;
	u16	id;
	u16	cpu;
	u64	pad;
};
_Static_assert(sizeof(struct record) == 64, "one cache line");

struct ring {
	struct record	*records;	/* NULL until tracing was first enabled */
	u64		 head;		/* own CPU: records written so far */
};

bool trace_on;
static struct ring rings[NR_CPUS];
static u64 last_seq;			/* atomic */
static struct mutex enable_lock = MUTEX_INIT(enable_lock, LOCK_KMUTEX);

static const struct { const char *name; const char *key[4]; } events[] = {
#define TRACE_TEXT(id, name, a, b, c, d) [id] = { name, { a, b, c, d } },
	TRACE_EVENTS(TRACE_TEXT)
#undef TRACE_TEXT
};

void __trace_event(enum trace_id id, u64 a, u64 b, u64 c, u64 d)
{
	unsigned long flags = local_irq_save();
	unsigned int cpu = smp_processor_id();
	struct ring *ring = &rings[cpu];

	if (ring->records) {
		struct record *r = &ring->records[ring->head++ % RING_RECORDS];

		__atomic_store_n(&r->seq, 0, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_RELEASE);
		r->time_ns = ktime_get_ns();
		r->arg[0] = a;
		r->arg[1] = b;
		r->arg[2] = c;
		r->arg[3] = d;
		r->tid = current ? current->tid : 0;
		r->id = (u16)id;
		r->cpu = (u16)cpu;
		__atomic_store_n(&r->seq, __atomic_add_fetch(&last_seq, 1, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
	}
	local_irq_restore(flags);
}

int trace_enable(bool on)
{
	int error = 0;
	unsigned int cpu;

	mutex_lock(&enable_lock);
	for_each_cpu(cpu, on ? cpu_online_mask : 0) {
		if (rings[cpu].records)
			continue;
		struct record *records = vmalloc(RING_RECORDS * sizeof(struct record), GFP_KERNEL | GFP_ZERO);
		if (!records) {
			error = -ENOMEM;
			break;
		}
		__atomic_store_n(&rings[cpu].records, records, __ATOMIC_RELEASE);
	}
	if (!error)
		WRITE_ONCE(trace_on, on);
	mutex_unlock(&enable_lock);
	return error;
}

/* Rings stay allocated: a writer may be inside at any time. */
void trace_clear(void)
{
	for (unsigned int cpu = 0; cpu < NR_CPUS; cpu++)
		for (u32 i = 0; rings[cpu].records && i < RING_RECORDS; i++)
			WRITE_ONCE(rings[cpu].records[i].seq, 0);
}

void trace_init(void)
{
	if (cmdline_on("trace", false) && trace_enable(true))
		pr_warn("trace=on: not enough memory for the rings\n");
}

static bool copy_record(const struct record *from, struct record *to)
{
	u64 seq = __atomic_load_n(&from->seq, __ATOMIC_ACQUIRE);

	*to = *(const volatile struct record *)from;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return seq && __atomic_load_n(&from->seq, __ATOMIC_RELAXED) == seq;
}

/* The record of @ring with the smallest sequence >= @pos. Sequences rise from the oldest record on, so this is a search. */
static bool find_record(const struct ring *ring, u64 pos, struct record *out)
{
	u64 head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	u64 lo = head > RING_RECORDS ? head - RING_RECORDS : 0, hi = head;

	while (lo < hi) {
		u64 mid = lo + (hi - lo) / 2;
		u64 seq = __atomic_load_n(&ring->records[mid % RING_RECORDS].seq, __ATOMIC_ACQUIRE);

		if (seq && seq >= pos)
			hi = mid;
		else
			lo = mid + 1;	/* too old, cleared, or just being overwritten: then old as well */
	}
	for (; lo < head; lo++)
		if (copy_record(&ring->records[lo % RING_RECORDS], out) && out->seq >= pos)
			return true;
	return false;
}

static size_t format_record(char *buf, size_t size, const struct record *r)
{
	size_t n = scnprintf(buf, size, "{\"seq\":%lu,\"ts\":%lu,\"cpu\":%u,\"tid\":%d,\"event\":\"%s\"", r->seq, r->time_ns,
			     r->cpu, r->tid, events[r->id].name);

	for (int i = 0; i < 4 && events[r->id].key[i]; i++)
		n += scnprintf(buf + n, size - n, ",\"%s\":%lu", events[r->id].key[i], r->arg[i]);
	return n + scnprintf(buf + n, size - n, "}\n");
}

size_t trace_format(char *buf, size_t size, u64 *pos)
{
	u64 next[NR_CPUS];		/* sequence of each ring's next record; 0: none */
	struct record r;
	size_t n = 0;
	unsigned int cpu;

	for (cpu = 0; cpu < NR_CPUS; cpu++)
		next[cpu] = rings[cpu].records && find_record(&rings[cpu], *pos, &r) ? r.seq : 0;
	while (size - n > TRACE_MAX_LINE) {
		unsigned int first = NR_CPUS;

		for (cpu = 0; cpu < NR_CPUS; cpu++)
			if (next[cpu] && (first == NR_CPUS || next[cpu] < next[first]))
				first = cpu;
		if (first == NR_CPUS)
			break;
		/* Found again: it may have been overwritten, then the ring goes on with what it has now. */
		if (find_record(&rings[first], next[first], &r) && r.seq == next[first]) {
			n += format_record(buf + n, size - n, &r);
			*pos = r.seq + 1;
		}
		next[first] = find_record(&rings[first], max(*pos, next[first] + 1), &r) ? r.seq : 0;
	}
	return n;
}

#define DUMP_RECORDS 16u

void trace_dump(void)
{
	static char line[TRACE_MAX_LINE + 1];		/* one record fits, two do not */
	u64 end = __atomic_load_n(&last_seq, __ATOMIC_RELAXED), pos = end > DUMP_RECORDS ? end - DUMP_RECORDS + 1 : 1;

	if (end)
		printk("last %u trace records:", DUMP_RECORDS);
	while (trace_format(line, sizeof(line), &pos))
		printk("  %s", line);
}
