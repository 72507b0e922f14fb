/*
 * Interrupts from the vector on: who gets it, when it is acknowledged. Which pin an ISA line has is the affair of
 * kernel/x86/ioapic.c (or pic.c on a machine without ACPI).
 */
#include "kernel/x86/irq.h"
#include "kernel/errno.h"
#include "kernel/preempt.h"
#include "kernel/printk.h"
#include "kernel/rcu.h"
#include "kernel/sched.h"
#include "kernel/spinlock.h"
#include "kernel/x86/apic.h"
#include "kernel/x86/ioapic.h"
#include "kernel/x86/smp_calls.h"
#include "mm/tlb.h"

DEFINE_PER_CPU(u64, irq_counts[256]);

/* Lists only grow (ISA) or are swapped whole (dynamic), so handlers run without the lock. */
static struct irq_action *actions[256];		/* irq_lock to write */
static bool vector_taken[256];			/* irq_lock */
static struct spinlock irq_lock = SPINLOCK_INIT(LOCK_LEAF_IRQ);

static void (*irq_work_func[8])(void);		/* set at boot */
static DEFINE_PER_CPU(u32, irq_work_pending);
static bool irq_work_ready;

void irq_init(void)
{
	if (ioapic_init())
		pr_info("interrupts: I/O APIC, 8259s masked");
	else
		pr_info("interrupts: no I/O APIC, using the 8259s");
	irq_work_ready = true;
}

int irq_request_isa(unsigned int irq, struct irq_action *action)
{
	if (irq >= NR_ISA_IRQS)
		return -ENODEV;

	unsigned int vector = VECTOR_ISA_BASE + irq;
	unsigned long flags = spin_lock_irqsave(&irq_lock);
	action->next = actions[vector];
	__atomic_store_n(&actions[vector], action, __ATOMIC_RELEASE);
	int err = isa_irq_enable(irq, vector);
	spin_unlock_irqrestore(&irq_lock, flags);
	return err;
}

int irq_alloc_vectors(unsigned int n)
{
	unsigned int align = 1;

	while (align < n)
		align *= 2;
	unsigned long flags = spin_lock_irqsave(&irq_lock);
	int found = -ENOSPC;
	for (unsigned int v = ALIGN_UP(VECTOR_DYNAMIC_FIRST, align); v + n - 1 <= VECTOR_DYNAMIC_LAST && found < 0; v += align) {
		bool free = true;
		for (unsigned int i = 0; i < n; i++)
			free &= !vector_taken[v + i];
		if (free)
			found = (int)v;
	}
	for (unsigned int i = 0; found >= 0 && i < n; i++)
		vector_taken[found + (int)i] = true;
	spin_unlock_irqrestore(&irq_lock, flags);
	return found;
}

void irq_free_vectors(unsigned int vector, unsigned int n)
{
	unsigned long flags = spin_lock_irqsave(&irq_lock);

	for (unsigned int i = 0; i < n; i++)
		vector_taken[vector + i] = false;
	spin_unlock_irqrestore(&irq_lock, flags);
}

void irq_set_handler(unsigned int vector, struct irq_action *action)
{
	__atomic_store_n(&actions[vector], action, __ATOMIC_RELEASE);
}

const char *irq_name(unsigned int vector)
{
	static const char *const own[16] = { "timer", "reschedule", "TLB shoot-down", "function call", "self", [14] = "APIC error",
					     [15] = "spurious" };

	if (vector >= VECTOR_TIMER)
		return own[vector - VECTOR_TIMER];
	struct irq_action *a = __atomic_load_n(&actions[vector], __ATOMIC_ACQUIRE);
	return a ? a->name : NULL;
}

static void run_actions(unsigned int vector)
{
	for (struct irq_action *a = __atomic_load_n(&actions[vector], __ATOMIC_ACQUIRE); a; a = a->next)
		a->handler(a->arg);
}

static void run_irq_work(void)
{
	u32 kinds = __atomic_exchange_n(this_cpu_ptr(&irq_work_pending), 0, __ATOMIC_ACQ_REL);

	for (unsigned int i = 0; i < ARRAY_SIZE(irq_work_func); i++) {
		if ((kinds & 1u << i) && irq_work_func[i])
			irq_work_func[i]();
	}
}

void irq_work_set(unsigned int kind, void (*func)(void))
{
	irq_work_func[kind] = func;
}

void irq_work_raise(unsigned int kind)
{
	if (!irq_work_ready)
		return;
	preempt_disable();
	u32 old = __atomic_fetch_or(this_cpu_ptr(&irq_work_pending), 1u << kind, __ATOMIC_ACQ_REL);
	if (!old)			/* else one is on its way already */
		apic_send_self(VECTOR_IRQ_WORK);
	preempt_enable_no_resched();	/* perhaps deep inside the scheduler; the interrupt itself may preempt */
}

void irq_dispatch(unsigned int vector, bool user_mode)
{
	cpu_local_write(preempt_count, preempt_count() + HARDIRQ_OFFSET);
	rcu_irq_enter();
	(*this_cpu_ptr(&irq_counts))[vector]++;

	/*
	 * Our own interrupts are acknowledged first: the handler may end in a switch to another task only after we return,
	 * but a second one of its kind should be able to queue up meanwhile. ISA lines may be level-triggered: after.
	 */
	switch (vector) {
	case VECTOR_TIMER:
		apic_eoi();
		sched_timer_interrupt(user_mode);
		break;
	case VECTOR_RESCHEDULE:
		apic_eoi();
		sched_ipi();
		break;
	case VECTOR_TLB:
		apic_eoi();
		tlb_flush_ipi();
		break;
	case VECTOR_CALL:
		apic_eoi();
		smp_call_ipi();
		break;
	case VECTOR_IRQ_WORK:
		apic_eoi();
		run_irq_work();
		break;
	case VECTOR_ERROR:
		apic_error();
		apic_eoi();
		break;
	case VECTOR_SPURIOUS:		/* never in service: no EOI */
		break;
	default:
		if (vector < VECTOR_ISA_BASE + NR_ISA_IRQS) {
			if (!isa_irq_is_spurious(vector - VECTOR_ISA_BASE))
				run_actions(vector);
			isa_irq_eoi(vector - VECTOR_ISA_BASE);
		} else {
			run_actions(vector);
			apic_eoi();
		}
	}
	rcu_irq_exit();
	cpu_local_write(preempt_count, preempt_count() - HARDIRQ_OFFSET);
}
