/*
 * Race windows (kernel/race.h), debug builds only. Two uses: random delays from a seed, and hand-shakes in which one task
 * waits at a window until another has come to a second one.
 *
 * The tables are under a lock of their own and no rule survives its use, so a forgotten rule cannot hang the machine: a held
 * task goes on after HOLD_LIMIT_NS whatever happens, and race_format() shows that its rule expired.
 */
#include "kernel/race.h"

#ifdef DEBUG
#include "kernel/boot_info.h"
#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/sched.h"
#include "kernel/spinlock.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/time.h"
#include "kernel/wait.h"

#define MAX_RULES	16
#define NAME_LEN	32
#define HOLD_LIMIT_NS	(5 * NSEC_PER_SEC)
#define MAX_DELAY_NS	(200 * NSEC_PER_USEC)

struct point { char name[NAME_LEN]; int tid; };		/* tid 0: any */

enum rule_state { RULE_FREE, RULE_ARMED, RULE_HOLDING, RULE_RELEASED, RULE_EXPIRED };
static const char *const state_names[] = { "free", "armed", "holding", "released", "expired" };

struct rule {
	struct point	 hold, until;
	enum rule_state	 state;
	bool		 reached;	/* @until has been passed */
};

static struct spinlock rules_lock = SPINLOCK_INIT(LOCK_LEAF_IRQ);
static struct rule rules[MAX_RULES];		/* rules_lock */
static u32 nr_rules;				/* rules in use; read without the lock to keep the rest cheap */
static u64 seed;				/* 0: no random delays */
static struct wait_queue race_wait = WAIT_QUEUE_INIT(race_wait);

static bool point_matches(const struct point *p, const char *name)
{
	return !strcmp(p->name, name) && (!p->tid || (current && p->tid == current->tid));
}

/* Marks what this window releases; returns the rule that holds this task, or NULL. */
static struct rule *pass_window(const char *name)
{
	struct rule *held = NULL;
	bool wake = false;
	unsigned long flags = spin_lock_irqsave(&rules_lock);

	for (struct rule *r = rules; r < rules + MAX_RULES; r++) {
		if (r->state == RULE_FREE)
			continue;
		if (!r->reached && point_matches(&r->until, name))
			r->reached = wake = true;
		if (r->state == RULE_ARMED && point_matches(&r->hold, name)) {
			r->state = RULE_HOLDING;
			held = r;
		}
	}
	spin_unlock_irqrestore(&rules_lock, flags);
	if (wake)
		wake_up_all(&race_wait);
	return held;
}

/* A hold in atomic context spins: the other side must then run on another CPU. */
static void hold(struct rule *r, bool atomic)
{
	u64 deadline = ktime_get_ns() + HOLD_LIMIT_NS;

	while (!READ_ONCE(r->reached) && READ_ONCE(r->state) == RULE_HOLDING && ktime_get_ns() < deadline) {
		if (atomic) {
			cpu_relax();
			continue;
		}
		struct wait_entry e;
		wait_entry_init(&e);
		prepare_to_wait(&race_wait, &e, TASK_UNINTERRUPTIBLE);
		if (!READ_ONCE(r->reached) && READ_ONCE(r->state) == RULE_HOLDING)
			schedule_until(deadline);
		finish_wait(&race_wait, &e);
	}

	unsigned long flags = spin_lock_irqsave(&rules_lock);
	if (r->state == RULE_HOLDING)
		r->state = r->reached ? RULE_RELEASED : RULE_EXPIRED;
	spin_unlock_irqrestore(&rules_lock, flags);
}

/* xorshift64*: repeatable for one seed as far as the order of events is, which under -icount it is entirely. */
static u64 next_random(void)
{
	u64 x = READ_ONCE(seed);

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	WRITE_ONCE(seed, x);
	return x * 0x2545f4914f6cdd1dul;
}

static void random_delay(bool atomic)
{
	u64 r = next_random();

	switch (r >> 60) {
	case 0:				/* 1 in 16: let others in for a while */
		if (!atomic) {
			set_current_state(TASK_UNINTERRUPTIBLE);
			schedule_until(ktime_get_ns() + r % MAX_DELAY_NS);
			break;
		}
		__attribute__((fallthrough));
	case 1:
		for (u64 end = ktime_get_ns() + r % (MAX_DELAY_NS / 16); ktime_get_ns() < end; )
			cpu_relax();
		break;
	case 2:
	case 3:
		if (!atomic)
			yield();
		break;
	}
}

void race_window(const char *name)
{
	bool atomic = !current || preempt_count() || irqs_disabled() || READ_ONCE(current->state) != TASK_RUNNING;

	if (READ_ONCE(nr_rules)) {
		struct rule *r = pass_window(name);
		if (r)
			hold(r, atomic);
	}
	if (READ_ONCE(seed))
		random_delay(atomic);
}

/* -- commands -------------------------------------------------------------------------------------------------------- */

static const char *next_word(const char *s, char *word, size_t size)
{
	size_t n = 0;

	while (*s == ' ' || *s == '\n')
		s++;
	while (*s && *s != ' ' && *s != '\n') {
		if (n + 1 < size)
			word[n++] = *s;
		s++;
	}
	word[n] = '\0';
	return s;
}

static int parse_point(char *word, struct point *p)
{
	char *colon = strchr(word, ':');
	u64 tid = 0;

	if (colon) {
		*colon = '\0';
		if (kstrtou64(colon + 1, 10, &tid) || !tid || tid > INT32_MAX)
			return -EINVAL;
	}
	p->tid = (int)tid;
	return *word && strscpy(p->name, word, sizeof(p->name)) > 0 ? 0 : -EINVAL;
}

static int add_rule(const struct rule *new)
{
	int error = -ENOSPC;
	unsigned long flags = spin_lock_irqsave(&rules_lock);

	for (struct rule *r = rules; r < rules + MAX_RULES; r++) {
		if (r->state == RULE_ARMED || r->state == RULE_HOLDING)
			continue;
		if (r->state == RULE_FREE)
			nr_rules++;
		*r = *new;
		error = 0;
		break;
	}
	spin_unlock_irqrestore(&rules_lock, flags);
	return error;
}

static void clear_rules(void)
{
	unsigned long flags = spin_lock_irqsave(&rules_lock);

	for (struct rule *r = rules; r < rules + MAX_RULES; r++)
		r->state = RULE_FREE;
	nr_rules = 0;
	spin_unlock_irqrestore(&rules_lock, flags);
	wake_up_all(&race_wait);
}

int race_command(const char *command)
{
	char word[2 * NAME_LEN];
	const char *s = next_word(command, word, sizeof(word));

	if (!strcmp(word, "clear")) {
		clear_rules();
		return 0;
	}
	if (!strcmp(word, "seed")) {
		u64 n;
		next_word(s, word, sizeof(word));
		if (kstrtou64(word, 0, &n))
			return -EINVAL;
		WRITE_ONCE(seed, n);
		return 0;
	}
	if (!strcmp(word, "pass")) {
		next_word(s, word, NAME_LEN);
		race_window(word);
		return 0;
	}
	if (strcmp(word, "hold"))
		return -EINVAL;

	struct rule r = { .state = RULE_ARMED };
	s = next_word(s, word, sizeof(word));
	if (parse_point(word, &r.hold))
		return -EINVAL;
	s = next_word(s, word, sizeof(word));
	if (strcmp(word, "until"))
		return -EINVAL;
	next_word(s, word, sizeof(word));
	if (parse_point(word, &r.until))
		return -EINVAL;
	return add_rule(&r);
}

size_t race_format(char *buf, size_t size)
{
	size_t n = scnprintf(buf, size, "seed %lu\n", READ_ONCE(seed));
	unsigned long flags = spin_lock_irqsave(&rules_lock);

	for (const struct rule *r = rules; r < rules + MAX_RULES; r++)
		if (r->state != RULE_FREE)
			n += scnprintf(buf + n, size - n, "hold %s:%d until %s:%d %s%s\n", r->hold.name, r->hold.tid,
				       r->until.name, r->until.tid, state_names[r->state], r->reached ? " reached" : "");
	spin_unlock_irqrestore(&rules_lock, flags);
	return n;
}

void race_init(void)
{
	char value[24];
	u64 n;

	if (!cmdline_get("race.seed", value, sizeof(value)))
		return;
	if (kstrtou64(value, 0, &n))
		pr_warn("race.seed=%s is not a number, ignored\n", value);
	else
		seed = n;
	pr_info("race.seed=%lu\n", seed);
}
#endif
