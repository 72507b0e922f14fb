/* Small system calls about the system and the identity of processes: uname, getpid, sessions, prctl, reboot. */
#include "fs/tty.h"
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/smp.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/version.h"
#include "kernel/x86/power.h"
#include "kernel/x86/thread.h"
#include "mm/frame.h"
#include "mm/mm.h"
#include "mm/uaccess.h"

/* -- the system -- */

char utsname_nodename[65] = "faultline";
char utsname_domainname[65] = "(none)";
static struct spinlock uts_lock = SPINLOCK_INIT(LOCK_LEAF_IRQ);

struct utsname { char sysname[65], nodename[65], release[65], version[65], machine[65], domainname[65]; };

SYSCALL_DEFINE(uname, struct utsname __user *uname)
{
	struct utsname u = { .sysname = "Linux", .release = UTS_RELEASE, .version = "#1 SMP PREEMPT " KERNEL_BUILD, .machine = "x86_64" };
	unsigned long flags = spin_lock_irqsave(&uts_lock);

	memcpy(u.nodename, utsname_nodename, sizeof(u.nodename));
	memcpy(u.domainname, utsname_domainname, sizeof(u.domainname));
	spin_unlock_irqrestore(&uts_lock, flags);
	/* Programs that only know Linux up to 2.6: setarch --uname-2.6. */
	if (current->process->personality & 0x0020000)
		strscpy(u.release, "2.6.60-faultline", sizeof(u.release));
	return copy_out(uname, &u, sizeof(u));
}

static long set_uts_name(char to[65], const char __user *name, int len)
{
	char buf[65] = { 0 };

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (len < 0 || len > 64)
		return -EINVAL;
	if (copy_in(buf, name, (size_t)len))
		return -EFAULT;
	unsigned long flags = spin_lock_irqsave(&uts_lock);

	memcpy(to, buf, sizeof(buf));
	spin_unlock_irqrestore(&uts_lock, flags);
	return 0;
}

SYSCALL_DEFINE(sethostname, const char __user *name, int len) { return set_uts_name(utsname_nodename, name, len); }
SYSCALL_DEFINE(setdomainname, const char __user *name, int len) { return set_uts_name(utsname_domainname, name, len); }

struct sysinfo {
	s64 uptime;
	u64 loads[3], totalram, freeram, sharedram, bufferram, totalswap, freeswap;
	u16 procs, pad;
	u64 totalhigh, freehigh;
	u32 mem_unit;
};
_Static_assert(sizeof(struct sysinfo) == 112, "user ABI");

SYSCALL_DEFINE(sysinfo, struct sysinfo __user *uinfo)
{
	struct sysinfo info = { .mem_unit = 1 };
	u64 loads[3];

	sched_loadavg(loads);
	for (int i = 0; i < 3; i++)
		info.loads[i] = loads[i] << 5;	/* 11 fraction bits to 16 */
	info.uptime = (s64)DIV_ROUND_UP(ktime_get_ns(), NSEC_PER_SEC);
	info.totalram = nr_total_pages() * PAGE_SIZE;
	info.freeram = nr_free_pages() * PAGE_SIZE;
	info.procs = (u16)min(nr_tasks(), 65535u);
	return copy_out(uinfo, &info, sizeof(info));
}

#define REBOOT_MAGIC1 0xfee1dead

SYSCALL_DEFINE(reboot, u32 magic1, u32 magic2, u32 cmd, void __user *arg)
{
	(void)arg;
	if (!capable(CAP_SYS_BOOT))
		return -EPERM;
	if (magic1 != REBOOT_MAGIC1 || (magic2 != 672274793 && magic2 != 85072278 && magic2 != 369367448 && magic2 != 537993216))
		return -EINVAL;
	switch (cmd) {
	case 0x01234567:	/* RESTART */
	case 0xa1b2c3d4:	/* RESTART2: the text is for firmware that we do not have */
		printk("Restarting\n");
		machine_restart();
	case 0xcdef0123:	/* HALT */
		printk("System halted\n");
		machine_halt();
	case 0x4321fedc:	/* POWER_OFF */
		printk("Power down\n");
		machine_power_off();
	case 0x89abcdef:	/* CAD_ON, CAD_OFF: Ctrl-Alt-Del is never more than a key here */
	case 0:
		return 0;
	default:
		return -EINVAL;
	}
}

SYSCALL_DEFINE(personality, u32 personality)
{
	struct process *p = current->process;
	u32 old = p->personality;

	if (personality != 0xffffffff)
		p->personality = personality;
	return old;
}

SYSCALL_DEFINE(arch_prctl, int code, unsigned long addr) { return thread_arch_prctl(current, code, addr); }

/* -- who am I -- */

SYSCALL_DEFINE(getpid, void) { return current->process->tgid; }
SYSCALL_DEFINE(gettid, void) { return current->tid; }

SYSCALL_DEFINE(getppid, void)
{
	rcu_read_lock();
	int ppid = rcu_dereference(current->process->parent)->tgid;

	rcu_read_unlock();
	return ppid;
}

/* -- groups and sessions -- */

/* pgid or sid of a process by pid; 0 is ours. */
static long process_ids(int pid, bool session)
{
	struct process *p = current->process;

	if (pid) {
		p = find_process_get(pid);
		if (!p)
			return -ESRCH;
	}
	long id = session ? READ_ONCE(p->sid) : READ_ONCE(p->pgid);

	if (pid)
		process_put(p);
	return id ? id : -ESRCH;
}

SYSCALL_DEFINE(getpgid, int pid) { return process_ids(pid, false); }
SYSCALL_DEFINE(getsid, int pid) { return process_ids(pid, true); }
SYSCALL_DEFINE(getpgrp, void) { return current->process->pgid; }

/* T held. */
static int setpgid_locked(struct process *me, int pid, int pgid)
{
	struct pid *target = pid_find(pid), *pgrp = pid_find(pgid);
	struct process *p = target ? target->process : NULL, *member;

	if (!p)
		return target && target->task ? -EINVAL : -ESRCH;
	if (p != me) {
		if (p->parent != me)
			return -ESRCH;
		if (p->sid != me->sid)
			return -EPERM;
		if (p->did_exec)
			return -EACCES;		/* it may already rely on its group */
	}
	if (p->sid == p->tgid)
		return -EPERM;			/* a session leader stays */
	if (pgid != pid) {
		member = pgrp ? list_first_entry_or_null(&pgrp->members, struct process, pg_node) : NULL;
		if (!member || member->sid != me->sid)
			return -EPERM;
	}
	if (p->pgid != pgid)
		process_join_group_locked(p, pgrp);
	return 0;
}

SYSCALL_DEFINE(setpgid, int pid, int pgid)
{
	struct process *me = current->process;

	if (pgid < 0)
		return -EINVAL;
	if (!pid)
		pid = me->tgid;
	if (!pgid)
		pgid = pid;
	unsigned long irq = spin_lock_irqsave(&process_tree_lock);
	int err = setpgid_locked(me, pid, pgid);

	spin_unlock_irqrestore(&process_tree_lock, irq);
	return err;
}

SYSCALL_DEFINE(setsid, void)
{
	struct process *p = current->process;
	unsigned long irq = spin_lock_irqsave(&process_tree_lock), flags;
	struct pid *pid = pid_find(p->tgid);
	struct tty *tty = NULL;
	long ret = -EPERM;

	/* Not if it leads a session, nor if others are in a group of its number: they would be in two sessions. */
	if (p->sid != p->tgid && list_empty(&pid->members)) {
		process_join_session_locked(p, pid);
		process_join_group_locked(p, pid);
		struct sighand *sh = lock_sighand(p, &flags);

		tty = p->tty;
		p->tty = NULL;
		unlock_sighand(sh, flags);
		ret = p->tgid;
	}
	spin_unlock_irqrestore(&process_tree_lock, irq);
	if (tty)
		tty_put(tty);
	return ret;
}

/* -- prctl -- */

u32 mm_flags_inherited(u32 flags)
{
	flags &= MMF_MDWE | MMF_THP_DISABLE;
	return flags & MDWE_NO_INHERIT ? flags & ~MMF_MDWE : flags;
}

static void set_mm_flag(u32 bits) { __atomic_fetch_or(&current->process->mm_flags, bits, __ATOMIC_SEQ_CST); }

static long prctl_name(bool set, char __user *uname)
{
	char name[TASK_COMM_LEN] = { 0 };

	if (!set) {
		memcpy(name, current->comm, sizeof(name) - 1);
		return copy_out(uname, name, sizeof(name));
	}
	ssize_t n = strncpy_from_user(name, uname, sizeof(name));

	if (n == -EFAULT)
		return -EFAULT;
	name[TASK_COMM_LEN - 1] = '\0';		/* longer ones are cut, silently */
	set_task_comm(current, name);
	return 0;
}

static long prctl_mdwe(unsigned long bits)
{
	u32 old = current->process->mm_flags & MMF_MDWE;

	if (bits & ~(unsigned long)MMF_MDWE || bits == MDWE_NO_INHERIT)
		return -EINVAL;
	if (old && old != bits)
		return -EPERM;			/* only ever tightened, and said once */
	set_mm_flag((u32)bits);
	return 0;
}

SYSCALL_DEFINE(prctl, int option, unsigned long a2, unsigned long a3, unsigned long a4, unsigned long a5)
{
	struct process *p = current->process;
	bool rest_zero = !a3 && !a4 && !a5;

	switch (option) {
	case 1:		/* PR_SET_PDEATHSIG */
		if (a2 > NSIG)
			return -EINVAL;
		current->pdeath_signal = (u8)a2;
		return 0;
	case 2:		/* PR_GET_PDEATHSIG */
		return put_user((int)current->pdeath_signal, (int __user *)a2);
	case 3:		/* PR_GET_DUMPABLE */
		return p->dumpable;
	case 4:		/* PR_SET_DUMPABLE */
		if (a2 > 1)
			return -EINVAL;
		p->dumpable = (u8)a2;
		return 0;
	case 13:	/* PR_GET_TIMING: statistical */
		return 0;
	case 14:
		return a2 ? -EINVAL : 0;
	case 15:	/* PR_SET_NAME */
		return prctl_name(true, (char __user *)a2);
	case 16:
		return prctl_name(false, (char __user *)a2);
	case 21:	/* PR_GET_SECCOMP */
		return 0;
	case 25:	/* PR_GET_TSC: usable */
		return put_user(1, (int __user *)a2);
	case 36:	/* PR_SET_CHILD_SUBREAPER */
		p->child_subreaper = a2;
		return 0;
	case 37:
		return put_user((int)p->child_subreaper, (int __user *)a2);
	case 38:	/* PR_SET_NO_NEW_PRIVS */
		if (a2 != 1 || !rest_zero)
			return -EINVAL;
		p->no_new_privs = true;
		return 0;
	case 39:
		return a2 || !rest_zero ? -EINVAL : p->no_new_privs;
	case 40:	/* PR_GET_TID_ADDRESS */
		return put_user(current->clear_child_tid, (int *__user *)a2);
	case 41:	/* PR_SET_THP_DISABLE */
		if (!rest_zero)
			return -EINVAL;
		if (a2)
			set_mm_flag(MMF_THP_DISABLE);
		else
			__atomic_fetch_and(&p->mm_flags, (u32)~MMF_THP_DISABLE, __ATOMIC_SEQ_CST);
		return 0;
	case 42:
		return a2 || !rest_zero ? -EINVAL : !!(p->mm_flags & MMF_THP_DISABLE);
	case 65:	/* PR_SET_MDWE */
		return rest_zero ? prctl_mdwe(a2) : -EINVAL;
	case 66:
		return a2 || !rest_zero ? -EINVAL : (int)(p->mm_flags & MMF_MDWE);
	default: {
		long ret = prctl_caps(option, a2);

		return ret == -ENOSYS ? -EINVAL : ret;
	}
	}
}

/* -- membarrier -- */

#define MEMBARRIER_QUERY		0
#define MEMBARRIER_GLOBAL		1
#define MEMBARRIER_GLOBAL_EXPEDITED	2
#define MEMBARRIER_REGISTER_GLOBAL	4
#define MEMBARRIER_PRIVATE_EXPEDITED	8
#define MEMBARRIER_REGISTER_PRIVATE	16
#define MEMBARRIER_PRIVATE_SYNC_CORE	32
#define MEMBARRIER_REGISTER_SYNC_CORE	64

/* The interrupt is a full barrier; its IRET makes what follows see new instructions too. */
static void barrier_ipi(void *arg)
{
	(void)arg;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Every CPU that may be running a thread of ours. One that switches to it later orders itself by the switch. */
static void barrier_on_cpus(cpumask_t mask)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	smp_call_function(mask & READ_ONCE(cpu_online_mask), barrier_ipi, NULL, true);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

SYSCALL_DEFINE(membarrier, int cmd, unsigned int flags, int cpu)
{
	u32 registered = READ_ONCE(current->process->mm_flags);

	(void)cpu;
	if (flags)
		return -EINVAL;
	switch (cmd) {
	case MEMBARRIER_QUERY:
		return MEMBARRIER_GLOBAL | MEMBARRIER_GLOBAL_EXPEDITED | MEMBARRIER_REGISTER_GLOBAL | MEMBARRIER_PRIVATE_EXPEDITED |
		       MEMBARRIER_REGISTER_PRIVATE | MEMBARRIER_PRIVATE_SYNC_CORE | MEMBARRIER_REGISTER_SYNC_CORE;
	case MEMBARRIER_GLOBAL:
		synchronize_rcu();	/* every CPU has switched or idled: each a full barrier */
		return 0;
	case MEMBARRIER_GLOBAL_EXPEDITED:
		barrier_on_cpus(~0ul);
		return 0;
	case MEMBARRIER_REGISTER_GLOBAL:
		set_mm_flag(MMF_MEMBARRIER_GLOBAL);
		return 0;
	case MEMBARRIER_PRIVATE_EXPEDITED:
		if (!(registered & MMF_MEMBARRIER_PRIVATE))
			return -EPERM;
		barrier_on_cpus(READ_ONCE(current->mm->cpu_mask));
		return 0;
	case MEMBARRIER_REGISTER_PRIVATE:
		set_mm_flag(MMF_MEMBARRIER_PRIVATE);
		return 0;
	case MEMBARRIER_PRIVATE_SYNC_CORE:
		if (!(registered & MMF_MEMBARRIER_SYNC))
			return -EPERM;
		barrier_on_cpus(READ_ONCE(current->mm->cpu_mask));
		return 0;
	case MEMBARRIER_REGISTER_SYNC_CORE:
		set_mm_flag(MMF_MEMBARRIER_SYNC | MMF_MEMBARRIER_PRIVATE);
		return 0;
	default:
		return -EINVAL;
	}
}
