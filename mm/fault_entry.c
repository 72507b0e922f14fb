/*
 * From the #PF exception to handle_mm_fault() and back: which lock, which signal, when to try again.
 *
 *	who		address		outcome
 *	--------------	--------------	------------------------------------------------------------------------
 *	user mode	user		fault_user(): served, or a signal (SEMANTICS A, table of signals)
 *	user mode	kernel		SIGSEGV
 *	user mode	user, but as	SIGSEGV: nothing that can be done to the page would make it succeed
 *			a supervisor
 *	kernel mode	user		fault_kernel(), if the instruction is one of the user-copy functions, that is, has
 *					an entry in the exception table; served, or the copy goes on at its fix-up
 *					address and reports a short count. Anything else is a bug of ours: panic
 *	kernel mode	kernel		a bug of ours: panic, which names a stack overflow if it is one
 *
 * A user fault takes the lock of its VMA and nothing else (SEMANTICS C). mmap_lock is for the cases that cannot do
 * without: no such VMA, a writer has it, the stack must grow, or the switch mm.vma_lock=off.
 */
#include "mm/fault.h"

#include "kernel/errno.h"
#include "kernel/lock_stat.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/signal.h"
#include "kernel/task.h"
#include "kernel/x86/backtrace.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/trap_frame.h"
#include "mm/frame.h"
#include "mm/rmap.h"
#include "mm/uaccess.h"
#include "mm/vmstat.h"

/* #PF error code (SDM vol. 3, 4.7). */
#define PF_PROT		BIT(0)	/* the page was there: a right is missing */
#define PF_WRITE	BIT(1)
#define PF_USER		BIT(2)
#define PF_RSVD		BIT(3)	/* reserved bit set in an entry */
#define PF_INSTR	BIT(4)

/* Beside the VM_FAULT_* bits: why the handler was not called, or called for nothing. No lock is held. */
#define FAULT_NO_VMA		0x1000000u
#define FAULT_NO_RIGHT		0x2000000u
#define FAULT_SIGNALLED		0x4000000u
#define FAULT_FAILED	(FAULT_NO_VMA | FAULT_NO_RIGHT | FAULT_SIGNALLED | VM_FAULT_ERROR)

static vm_fault_t fault_user(struct mm *mm, uintptr_t addr, unsigned int flags);
static __noinline vm_fault_t fault_under_mmap_lock(struct mm *mm, uintptr_t addr, unsigned int flags);
static __noinline void user_fault_failed(vm_fault_t ret, uintptr_t addr);
static __noinline void kernel_mode_fault(struct trap_frame *frame, u64 error, uintptr_t addr);
static void no_progress_check(struct trap_frame *frame, u64 error, uintptr_t addr);
static void no_progress_note(const struct trap_frame *frame, u64 error, uintptr_t addr);
static void panic_on_fault(struct trap_frame *frame, u64 error, uintptr_t addr, const char *why) __noreturn;

static unsigned int access_flags(u64 error)
{
	return (error & PF_WRITE ? FAULT_FLAG_WRITE : 0) | (error & PF_INSTR ? FAULT_FLAG_INSTRUCTION : 0);
}

void do_page_fault(struct trap_frame *frame, u64 error, uintptr_t addr)
{
	if (unlikely(error & PF_RSVD))
		panic_on_fault(frame, error, addr, "a page table entry is damaged (reserved bit set)");
	if (unlikely(!user_mode(frame))) {
		kernel_mode_fault(frame, error, addr);
		return;
	}
	/*
	 * A supervisor's access, by an instruction of user mode, to a page that is there: SMAP refused it, and would again
	 * after whatever could be done here. QEMU before 9.1 reads the stack in this way for LRET and IRET.
	 */
	if (unlikely((error & (PF_PROT | PF_USER)) == PF_PROT)) {
		force_sig_fault(SIGSEGV, SEGV_ACCERR, addr, 0);
		return;
	}
	/* An address of the kernel half needs no test here: no VMA contains it. */
	u8 old = current->lock_caller;		/* lock_stat_enter(), without the call */
	current->lock_caller = LOCK_CALLER_FAULT;
	no_progress_check(frame, error, addr);
	vm_fault_t ret = fault_user(current->mm, addr, FAULT_FLAGS_USER | FAULT_FLAG_USER | access_flags(error));
	if (unlikely(ret & FAULT_FAILED))
		user_fault_failed(ret, addr);
	else
		no_progress_note(frame, error, addr);
	current->lock_caller = old;
}

/* -- finding the VMA, calling the handler, coming back -- */

/* B6. After a RETRY: is there a reason not to try again? User mode runs the access again after the signal; the kernel gives up. */
static bool give_up_for_signal(unsigned int flags)
{
	return unlikely(current->sigpending) && (flags & FAULT_FLAG_USER ? signal_pending() : fatal_signal_pending());
}

/*
 * The common case. The loop turns only after RETRY, which follows a sleep that somebody ended (a page was unlocked, an
 * anon_vma was made, a userfault was served), so each turn finds something new; there is no limit to their number.
 */
static vm_fault_t fault_user(struct mm *mm, uintptr_t addr, unsigned int flags)
{
	for (;;) {
		struct vma *vma = vma_lock_under_rcu(mm, addr);

		if (unlikely(!vma))
			vma = vma_lock_after_writer(mm, addr);
		if (unlikely(!vma))
			return fault_under_mmap_lock(mm, addr, flags);
		if (unlikely(!vma_permits_fault(vma, flags))) {
			vma_read_unlock(vma);
			return FAULT_NO_RIGHT;
		}
		vm_fault_t ret = call_fault_handler(FAULT_SITE_USER, vma, addr, flags | FAULT_FLAG_VMA_LOCK);
		if (!(ret & VM_FAULT_DROPPED))
			vma_read_unlock(vma);
		if (likely(!(ret & VM_FAULT_RETRY)))
			return ret;

		/* Everything learned under the lock is stale; only addr and flags survive (B3, B5). */
		vm_count(VM_vma_lock_retry);
		race_window("fault_retry");
		if (give_up_for_signal(flags))
			return FAULT_SIGNALLED;
		if (ret & VM_FAULT_MAJOR)
			flags |= FAULT_FLAG_TRIED;
	}
}

/*
 * mmap_lock is held for read. The VMA of @addr, after growing a stack down to it if there is one above; growing needs
 * the write lock, and what was found before it is looked up again. NULL with mmap_lock released: no VMA (FAULT_NO_VMA),
 * or a fatal signal came first (FAULT_SIGNALLED).
 */
static struct vma *find_vma_or_grow(struct mm *mm, uintptr_t addr, vm_fault_t *why)
{
	struct vma *vma = vma_find(mm, addr);

	if (likely(vma && vma->start <= addr))
		return vma;
	*why = FAULT_NO_VMA;
	if (!vma || !(vma->flags & VM_GROWSDOWN)) {
		mmap_read_unlock(mm);
		return NULL;
	}
	mmap_read_unlock(mm);
	race_window("stack_grow");
	if (mmap_write_lock_killable(mm)) {
		*why = FAULT_SIGNALLED;
		return NULL;
	}
	vma = vma_find(mm, addr);
	if (!vma || (vma->start > addr && expand_stack(vma, addr))) {
		mmap_write_unlock(mm);
		return NULL;
	}
	mmap_write_downgrade(mm);
	return vma;
}

/* C12: what the VMA lock cannot do. No lock held on entry or exit. Sleeps. */
static vm_fault_t fault_under_mmap_lock(struct mm *mm, uintptr_t addr, unsigned int flags)
{
	enum fault_site site = flags & FAULT_FLAG_USER ? FAULT_SITE_USER : FAULT_SITE_KERNEL;

	for (;;) {
		vm_fault_t ret;

		if (!mmap_read_trylock(mm) && mmap_read_lock_killable(mm))
			return FAULT_SIGNALLED;
		struct vma *vma = find_vma_or_grow(mm, addr, &ret);
		if (!vma)
			return ret;
		if (!vma_permits_fault(vma, flags)) {
			mmap_read_unlock(mm);
			return FAULT_NO_RIGHT;
		}
		ret = call_fault_handler(site, vma, addr, flags);
		if (!(ret & VM_FAULT_DROPPED))
			mmap_read_unlock(mm);
		if (!(ret & VM_FAULT_RETRY))
			return ret;
		if (give_up_for_signal(flags))
			return FAULT_SIGNALLED;
		flags |= FAULT_FLAG_TRIED;
	}
}

/* -- user mode: signals -- */

/* A39: never SIGBUS. Somebody is killed, perhaps this process; then the access runs again. */
static void user_out_of_memory(void)
{
	if (!out_of_memory() && !fatal_signal_pending())
		force_sig(SIGKILL);	/* there is nobody to kill but us */
}

static void user_fault_failed(vm_fault_t ret, uintptr_t addr)
{
	if (ret & FAULT_SIGNALLED)
		return;			/* delivered on the way out; then the access runs again (B6) */
	if (ret & FAULT_NO_RIGHT)
		force_sig_fault(SIGSEGV, SEGV_ACCERR, addr, 0);
	else if (ret & (FAULT_NO_VMA | VM_FAULT_SIGSEGV))
		force_sig_fault(SIGSEGV, SEGV_MAPERR, addr, 0);
	else if (ret & VM_FAULT_OOM)
		user_out_of_memory();
	else if (ret & VM_FAULT_HWPOISON_LARGE)
		force_sig_fault(SIGBUS, BUS_MCEERR_AR, addr, (int)VM_FAULT_LARGE_SHIFT(ret));
	else if (ret & VM_FAULT_HWPOISON)
		force_sig_fault(SIGBUS, BUS_MCEERR_AR, addr, PAGE_SHIFT);
	else
		force_sig_fault(SIGBUS, BUS_ADRERR, addr, 0);
}

/* -- kernel mode -- */

static bool in_stack_guard(const struct task *t, uintptr_t addr)
{
	uintptr_t bottom = t ? (uintptr_t)t->stack : 0;

	return bottom && addr < bottom && addr >= bottom - PAGE_SIZE;
}

static void kernel_address_fault(struct trap_frame *frame, u64 error, uintptr_t addr)
{
	uintptr_t fixup = search_exception_table(frame->rip);

	if (in_stack_guard(current, addr))
		panic_on_fault(frame, error, addr, "kernel stack overflow");
	if (fixup && !(error & PF_INSTR)) {
		frame->rip = fixup;
		return;
	}
	if (addr >= VMALLOC_START && addr < VMALLOC_END)
		panic_on_fault(frame, error, addr, "nothing is mapped here in the vmalloc area: a guard page (of another stack?), or memory that was freed");
	panic_on_fault(frame, error, addr, error & PF_INSTR ? "the kernel jumped to memory that is not code" :
		       error & PF_PROT ? "the kernel wrote to its read-only memory" : "the kernel used a wild pointer");
}

/* Gives up: the user copy ends short, and its caller reports EFAULT. Never a signal (A35). */
static void fix_up(struct trap_frame *frame, uintptr_t fixup)
{
	frame->rip = fixup;
}

static void kernel_mode_fault(struct trap_frame *frame, u64 error, uintptr_t addr)
{
	if (addr >= TASK_SIZE) {
		kernel_address_fault(frame, error, addr);
		return;
	}
	if (error & PF_INSTR)
		panic_on_fault(frame, error, addr, "the kernel tried to execute user memory (SMEP)");
	if (cpu_has_smap && !(frame->rflags & RFLAGS_AC))
		panic_on_fault(frame, error, addr, addr < PAGE_SIZE ? "the kernel used a null pointer" :
			       "the kernel touched user memory outside of a user copy (SMAP)");

	uintptr_t fixup = search_exception_table(frame->rip);
	if (!fixup)
		panic_on_fault(frame, error, addr, addr < PAGE_SIZE ? "the kernel used a null pointer" :
			       "the kernel touched user memory without an exception table entry");

	struct mm *mm = current->mm;
	if (in_interrupt() || current->pagefault_disabled || !mm || !(frame->rflags & RFLAGS_IF)) {
		fix_up(frame, fixup);
		return;
	}

	/* C12: always by mmap_lock. Blocking is safe: only instructions with a fix-up come here, and those hold nothing (B4). */
	enum lock_caller old = lock_stat_enter(LOCK_CALLER_FAULT);
	vm_fault_t ret = fault_under_mmap_lock(mm, addr, FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE | access_flags(error));
	lock_stat_leave(old);
	if (likely(!(ret & FAULT_FAILED)))
		return;
	if ((ret & VM_FAULT_OOM) && out_of_memory() && !fatal_signal_pending())
		return;			/* something was freed: the copy runs on from here */
	fix_up(frame, fixup);
}

static void panic_on_fault(struct trap_frame *frame, u64 error, uintptr_t addr, const char *why)
{
	panic_note_address(addr);
	panic_at(frame, "page fault: %s: %s of address %lx (%s, error code 0x%lx) at %pS", why,
		 error & PF_INSTR ? "execution" : error & PF_WRITE ? "write" : "read", addr,
		 error & PF_PROT ? "protected" : "not present", error, (void *)frame->rip);
}

/* -- the no-progress detector (debug builds) -- */

/*
 * PEERS Q37: a handler that says "done" and leaves an entry that does not allow the access makes the program fault for
 * ever. So: when a fault has been served, the entry as we left it is remembered. If the same instruction faults again
 * on the same address and finds just that entry, nothing has changed in between, and nothing will.
 */
#ifdef DEBUG
#define NO_PROGRESS_LIMIT	1000u	/* a few can be honest: another thread may change the entry and change it back */

static u64 entry_value(struct mm *mm, uintptr_t addr)
{
	rcu_read_lock();		/* no VMA is held: the tables may be unlinked, but not freed */
	pmd_t *pmd = pmd_walk(mm, addr);
	pmd_t e = pmd ? pmd_read(pmd) : (pmd_t){ 0 };
	u64 v = pmd_table(e) ? pte_read(pte_offset(e, addr)).v : 0;
	rcu_read_unlock();
	return v;
}

static void no_progress_note(const struct trap_frame *frame, u64 error, uintptr_t addr)
{
	typeof(&current->last_fault) h = &current->last_fault;
	u64 entry = entry_value(current->mm, addr);

	if (h->addr == addr && h->rip == frame->rip && h->error == error && h->entry == entry)
		return;
	h->addr = addr;
	h->rip = frame->rip;
	h->error = error;
	h->entry = entry;
	h->repeats = 0;
}

static void no_progress_check(struct trap_frame *frame, u64 error, uintptr_t addr)
{
	typeof(&current->last_fault) h = &current->last_fault;

	if (h->addr != addr || h->rip != frame->rip || h->error != error || !h->entry)
		return;
	if (entry_value(current->mm, addr) != h->entry)
		h->repeats = 0;
	else if (++h->repeats >= NO_PROGRESS_LIMIT)
		panic_on_fault(frame, error, addr, "user fault without progress: it was served again and again, and nothing changed");
}
#else
static void no_progress_note(const struct trap_frame *frame, u64 error, uintptr_t addr) { (void)frame; (void)error; (void)addr; }
static void no_progress_check(struct trap_frame *frame, u64 error, uintptr_t addr) { (void)frame; (void)error; (void)addr; }
#endif
