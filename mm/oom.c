/*
 * Out of memory. The user-fault path comes here when a page cannot be had even after all caches were drained: somebody
 * has to die, and it is the process that gives most back. Never a panic, never from a system call (those return
 * -ENOMEM), and never with a lock held that the victim needs to die: nobody calls this with mmap_lock or a VMA lock.
 *
 * One victim at a time. Until its memory is back (or it has hung for a while: it may sleep uninterruptibly, then the
 * next best must do) the others wait for it instead of choosing again, or one burst of faults would kill half of
 * the system.
 */
#include "mm/frame.h"

#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "mm/mm.h"
#include "mm/slab.h"
#include "mm/vmstat.h"

#define VICTIM_PATIENCE	(2 * NSEC_PER_SEC)
#define POLL_INTERVAL	(2 * NSEC_PER_MSEC)
#define OOM_ADJ_NEVER	(-1000)

static bool choosing;			/* atomic: the one who set it owns the three below */
static struct mm *victim_mm;		/* its structure is held by refs */
static u64 victim_deadline;
static int victim_tgid;

/* The mm of @p, held by refs; NULL if it has none, or is not to be killed. */
static struct mm *process_mm_grab(struct process *p)
{
	struct mm *mm = NULL;
	struct task *t;

	if (p == &kernel_process || p->tgid == 1)
		return NULL;
	/* A leader may have exited before its threads. */
	for (t = next_thread_get(p, 0); t && !mm; ) {
		struct task *next;

		mm = task_mm_get(t);
		next = mm ? NULL : next_thread_get(p, t->tid + 1);
		task_put(t);
		t = next;
	}
	if (!mm)
		return NULL;
	mm_grab(mm);
	mm_put(mm);	/* if that was the last user, the memory is free now and all the better */
	return mm;
}

/* Pages that its death gives back, moved by oom_score_adj (thousandths of memory); 0: not this one. */
static u64 badness(const struct process *p, const struct mm *mm)
{
	s64 adj = p->oom_score_adj;
	s64 points = (s64)(mm_rss(mm) + (u64)READ_ONCE(mm->pgtables_bytes) / PAGE_SIZE);

	if (adj <= OOM_ADJ_NEVER || refcount_read(&mm->users) == 0)
		return 0;
	points += adj * (s64)(nr_total_pages() / 1000);
	return points > 0 ? (u64)points : 1;
}

/* The process that gives most back, counted, and its mm, held by refs. NULL: nobody may be killed. */
static struct process *choose_victim(struct mm **mmp)
{
	struct process *best = NULL, *p;
	u64 most = 0;
	int tgid = 1;

	*mmp = NULL;
	for (; (p = next_process_get(tgid)); ) {
		struct mm *mm = process_mm_grab(p);
		u64 points = mm ? badness(p, mm) : 0;

		tgid = p->tgid + 1;
		if (points > most) {
			if (best) {
				mm_drop(*mmp);
				process_put(best);
			}
			best = p;
			*mmp = mm;
			most = points;
			continue;
		}
		if (mm)
			mm_drop(mm);
		process_put(p);
	}
	return best;
}

/* Everybody who runs in @mm must die, or the memory stays. */
static void kill_users_of(const struct mm *mm)
{
	struct process *p;
	int tgid = 1;

	while ((p = next_process_get(tgid))) {
		struct mm *its = process_mm_grab(p);

		tgid = p->tgid + 1;
		if (its == mm)
			send_signal_process(p, SIGKILL, NULL);
		if (its)
			mm_drop(its);
		process_put(p);
	}
}

static bool victim_is_on_its_way(void)
{
	if (!victim_mm)
		return false;
	if ((refcount_read(&victim_mm->users) || mm_rss(victim_mm)) && ktime_get_ns() < victim_deadline)
		return true;
	if (refcount_read(&victim_mm->users))
		pr_warn("out of memory: process %d does not die, looking for another", victim_tgid);
	mm_drop(victim_mm);
	victim_mm = NULL;
	return false;
}

static void sleep_a_little(void)
{
	set_current_state(TASK_UNINTERRUPTIBLE);
	schedule_until(ktime_get_ns() + POLL_INTERVAL);
}

/* It has come back meanwhile (or the failure was an injected one), or lay idle in caches of this and other CPUs. */
static bool memory_came_back(void)
{
	if (memory_is_available())
		return true;
	pgtable_drain();
	slab_drain();
	kernel_stack_drain();
	drain_frame_caches();
	return memory_is_available();
}

/*
 * Process context, no lock held; sleeps. True: memory has come back or will (or current itself is to die): try again.
 * False: there is nobody left to kill.
 */
bool out_of_memory(void)
{
	bool found = true;

	might_sleep();
	if (task_is_dying(current))
		return true;			/* its own end will help; the retry ends with the signal */
	if (memory_came_back())
		return true;
	if (!__atomic_exchange_n(&choosing, true, __ATOMIC_ACQUIRE)) {
		if (!victim_is_on_its_way()) {
			struct process *p = choose_victim(&victim_mm);

			found = p != NULL;
			if (found) {
				victim_tgid = p->tgid;
				victim_deadline = ktime_get_ns() + VICTIM_PATIENCE;
				vm_count(VM_oom_kill);
				printk("Out of memory: Killed process %d (%s) rss:%lukB pgtables:%lukB oom_score_adj:%d",
				       p->tgid, p->leader->comm, mm_rss(victim_mm) * PAGE_SIZE / 1024,
				       (u64)victim_mm->pgtables_bytes / 1024, p->oom_score_adj);
				kill_users_of(victim_mm);
				process_put(p);
			}
		}
		__atomic_store_n(&choosing, false, __ATOMIC_RELEASE);
	}
	if (found && !task_is_dying(current))
		sleep_a_little();
	return found;
}
