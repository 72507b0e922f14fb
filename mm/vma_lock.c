/*
 * Locks of an address space: mmap_lock with its sequence number, and one lock per VMA (SEMANTICS C).
 *
 * mmap_lock (rwsem) serialises changes. A page fault should not need it, so each VMA has a lock of its own, which a
 * fault takes for reading after finding the VMA under RCU. A writer must make sure that no fault runs in a VMA that it is
 * about to change:
 *
 *	fault (reader)				mmap(2) and kin (writer)
 *						mmap_write_lock: mm.lock_seq 6 -> 7
 *	find vma under RCU			vma_write_lock:
 *	vma.lock_seq == mm.lock_seq? locked	  take vma.lock for write: waits for readers
 *	try vma.lock for read			  vma.lock_seq = 7
 *	again: vma.lock_seq == mm.lock_seq?	  release vma.lock
 *	detached? still around addr?		change the VMA
 *	... handle the fault ...		mmap_write_unlock: mm.lock_seq 7 -> 8 (release)
 *	release vma.lock
 *
 * A VMA is write-locked exactly while its number equals the mm's, which is then odd. So the one store in
 * mmap_write_unlock unlocks every VMA that was locked since mmap_write_lock, however many: there is no list of them and
 * no per-VMA write unlock to forget. The rwsem of the VMA is held for an instant only, to wait until readers have left;
 * whoever comes later sees the number.
 *
 * Why a reader cannot get in by mistake. It reads mm.lock_seq (acquire) after it has the read lock. If it reads the
 * odd value of a writer that locked this VMA, the numbers are equal and it leaves. If it reads a later value, that load pairs
 * with the release store of the unlock, and it sees everything the writer did: new bounds, or detached. If the writer
 * comes later, it waits in vma_write_lock. The numbers are 64 bits wide and do not wrap; were they narrow, a stale
 * vma.lock_seq could equal mm.lock_seq by chance, which only sends a reader the slow way. That is why the
 * slow way (vma_find_and_lock) never asks the numbers: under mmap_lock there is no writer to be afraid of.
 *
 * A fault that meets a write-locked VMA need not queue for mmap_lock: it waits for mm.lock_seq to move on, which the unlock
 * announces, and tries again (vma_lock_after_writer). So mmap_lock stays with those who change the address space.
 *
 * When a VMA can be freed: vma_mark_detached under its write lock, then out of the tree, then an RCU grace period. A
 * reader that holds the lock holds up the writer; one that found the VMA before it left the tree is inside an RCU section
 * until it has seen `detached`. Releasing the read lock may be what lets the writer go on, and the release itself still
 * touches the rwsem, hence the RCU section in vma_read_unlock.
 */
#include "kernel/cmdline.h"
#include "kernel/errno.h"
#include "kernel/lock_stat.h"
#include "kernel/race.h"
#include "kernel/rcu.h"
#include "kernel/time.h"
#include "mm/rmap.h"
#include "mm/uffd.h"
#include "mm/vma.h"
#include "mm/vma_internal.h"
#include "mm/vmstat.h"

#define MAX_WRITER_WAITS	8

bool vma_lock_enabled = true;

void vma_lock_init(void)
{
	vma_lock_enabled = cmdline_on("mm.vma_lock", true);
}

/* -- mmap_lock -- */

void mmap_read_lock(struct mm *mm) { down_read(&mm->mmap_lock); }
int mmap_read_lock_killable(struct mm *mm) { return down_read_killable(&mm->mmap_lock); }
bool mmap_read_trylock(struct mm *mm) { return down_read_trylock(&mm->mmap_lock); }
void mmap_read_unlock(struct mm *mm) { up_read(&mm->mmap_lock); }

/* The write period begins: from here on numbers equal to ours mean "locked by us". */
static void lock_seq_begin(struct mm *mm)
{
	assert(!(mm->lock_seq & 1));
	WRITE_ONCE(mm->lock_seq, mm->lock_seq + 1);
}

/* It ends, and with it every VMA write lock. Release: pairs with the acquire loads in vma_lock_under_rcu(). */
static void lock_seq_end(struct mm *mm)
{
	assert(mm->lock_seq & 1);
	__atomic_store_n(&mm->lock_seq, mm->lock_seq + 1, __ATOMIC_RELEASE);
}

void mmap_write_lock(struct mm *mm)
{
	down_write(&mm->mmap_lock);
	lock_seq_begin(mm);
}

void mmap_write_lock_nested(struct mm *mm)
{
	down_write_nested(&mm->mmap_lock);
	lock_seq_begin(mm);
}

int mmap_write_lock_killable(struct mm *mm)
{
	int err = down_write_killable(&mm->mmap_lock);

	if (!err)
		lock_seq_begin(mm);
	return err;
}

/* After up_write() or downgrade_write(), whose locked operation puts our look at the queue behind the store of lock_seq. */
static void wake_lock_waiters(struct mm *mm)
{
	if (unlikely(wait_queue_active(&mm->lock_wait)))
		wake_up_all(&mm->lock_wait);
}

static void end_write_period(struct mm *mm)
{
	vma_check_sampled(mm);
	lock_seq_end(mm);
	up_write(&mm->mmap_lock);
	wake_lock_waiters(mm);
}

/*
 * VMAs that were removed in this period are disposed of after the unlock: dropping a file may be the last reference to it,
 * and tearing down an inode takes locks that come before mmap_lock. Managers of userfaultfds are told after it, for they
 * may need mmap_lock to do something about it.
 */
static void unlock_and_dispose(struct mm *mm)
{
	struct vma *dead = mm->dead_vmas;
	struct uffd_event *events = mm->uffd_events;

	mm->dead_vmas = NULL;
	mm->uffd_events = NULL;
	end_write_period(mm);
	vma_dispose_list(dead);
	if (events)
		uffd_deliver(events);
}

void mmap_write_unlock(struct mm *mm)
{
	if (unlikely(mm->dead_vmas || mm->uffd_events)) {
		unlock_and_dispose(mm);
		return;
	}
	end_write_period(mm);
}

/* Removed VMAs wait for the next write period: the read lock is still held. */
void mmap_write_downgrade(struct mm *mm)
{
	assert(!mm->uffd_events);	/* nobody unmaps and then downgrades */
	vma_check_sampled(mm);
	lock_seq_end(mm);
	downgrade_write(&mm->mmap_lock);
	wake_lock_waiters(mm);
}

/* -- VMA locks -- */

/*
 * C1. Any context that may hold RCU; never sleeps. On success the VMA lock is held for read and the VMA contains @addr.
 * NULL tells the caller to take mmap_lock: nothing there, write-locked, or changed under our hands.
 */
struct vma *vma_lock_under_rcu(struct mm *mm, uintptr_t addr)
{
	struct vma *vma;

	if (!vma_lock_enabled)
		return NULL;
	rcu_read_lock();
	for (;;) {
		vma = vma_tree_find(&mm->vmas, addr);
		if (!vma || addr < READ_ONCE(vma->start))
			goto none;
		if (READ_ONCE(vma->lock_seq) == READ_ONCE(mm->lock_seq))
			goto abort;
		race_window("vma_lock_found");
		if (!down_read_trylock(&vma->lock))
			goto abort;
		/* From here on lock_seq of the VMA stands still: writers change it under the lock that we hold. */
		if (vma->lock_seq == __atomic_load_n(&mm->lock_seq, __ATOMIC_ACQUIRE))
			goto abort_unlock;
		if (likely(!vma->detached))
			break;
		/* It left the tree after we found it; what is there now? The tree no longer has this one, so this ends. */
		up_read(&vma->lock);
		vm_count(VM_vma_lock_miss);
	}
	if (addr < vma->start || addr >= vma->end || vma->mm != mm)
		goto abort_unlock;
	vm_count_pinned(VM_vma_lock_success);
	rcu_read_unlock();
	return vma;

abort_unlock:
	up_read(&vma->lock);
abort:
	vm_count(VM_vma_lock_abort);
none:
	rcu_read_unlock();
	return NULL;
}

/*
 * False: there is no VMA around @addr. *writer: somebody may be changing it, holds it or waits for its readers, and *seq is the
 * period to wait for. While a writer moves the ends of a VMA it may be nowhere in the tree.
 */
static bool vma_at(struct mm *mm, uintptr_t addr, bool *writer, u64 *seq)
{
	struct vma *vma;
	bool found;

	rcu_read_lock();
	*seq = __atomic_load_n(&mm->lock_seq, __ATOMIC_ACQUIRE);
	vma = vma_tree_find(&mm->vmas, addr);
	found = vma && addr >= READ_ONCE(vma->start);
	*writer = (*seq & 1) && (!found || READ_ONCE(vma->lock_seq) == *seq || rwsem_blocks_readers(&vma->lock));
	rcu_read_unlock();
	return found || *writer;
}

/*
 * When vma_lock_under_rcu() has failed and the caller may sleep and holds nothing that a writer could wait for. If a writer
 * has the VMA, waits for the end of its period and tries again; so too if it has left before we looked, or comes after. Each
 * turn follows a writer, and after a few of them the fair queue of mmap_lock is the better place. NULL also: there is no VMA,
 * or a fatal signal came.
 */
struct vma *vma_lock_after_writer(struct mm *mm, uintptr_t addr)
{
	bool writer;
	u64 seq;

	for (int turns = 0; vma_lock_enabled && turns < MAX_WRITER_WAITS; turns++) {
		if (!vma_at(mm, addr, &writer, &seq))
			return NULL;
		if (writer) {
			u64 start = ktime_get_ns();

			if (wait_event_killable(&mm->lock_wait, READ_ONCE(mm->lock_seq) != seq))
				return NULL;
			lock_stat_record(LOCK_VMA, LOCK_MODE_READ, true, ktime_get_ns() - start);
		}
		struct vma *vma = vma_lock_under_rcu(mm, addr);

		if (vma)
			return vma;
	}
	return NULL;
}

/* C9: the grace period cannot end between the wake-up of a writer inside up_read() and up_read()'s last access. */
void vma_read_unlock(struct vma *vma)
{
	rcu_read_lock();
	up_read(&vma->lock);
	rcu_read_unlock();
}

bool vma_is_write_locked(const struct vma *vma)
{
	return rwsem_is_write_held(&vma->mm->mmap_lock) && vma->lock_seq == vma->mm->lock_seq;
}

/* C4. mmap_lock held for write; sleeps until the readers of this VMA have left. Locked until mmap_write_unlock. */
void vma_write_lock(struct vma *vma)
{
	u64 seq = vma->mm->lock_seq;

	assert_mmap_write_locked(vma->mm);
	if (vma->lock_seq == seq)
		return;
	down_write(&vma->lock);
	WRITE_ONCE(vma->lock_seq, seq);
	up_write(&vma->lock);
}

void vma_mark_detached(struct vma *vma)
{
	assert_vma_write_locked(vma);
	WRITE_ONCE(vma->detached, true);
}

/* May a page be put into @vma under its lock alone? An anonymous page needs a reverse map, which needs mmap_lock to make. */
static bool vma_is_prepared(const struct vma *vma)
{
	return !vma_is_private(vma) || READ_ONCE(vma->anon_vma) || (vma->flags & VM_HUGETLB);	/* huge ones go by the file */
}

static int vma_prepare(struct vma *vma)
{
	return vma_is_prepared(vma) ? 0 : anon_vma_prepare(vma);
}

/*
 * C10. For calls that want the one VMA around @addr, ready for pages to be put in. No lock held on entry; on success the
 * VMA lock for read. Sleeps. ERR_PTR(-ENOENT), -ENOMEM, -EINTR.
 */
struct vma *vma_find_and_lock(struct mm *mm, uintptr_t addr)
{
	struct vma *vma = vma_lock_under_rcu(mm, addr);
	int err;

	if (!vma)
		vma = vma_lock_after_writer(mm, addr);
	if (vma) {
		if (vma_is_prepared(vma))
			return vma;
		vma_read_unlock(vma);
	}
	err = mmap_read_lock_killable(mm);
	if (err)
		return ERR_PTR(err);
	vma = vma_lookup(mm, addr);
	err = vma ? vma_prepare(vma) : -ENOENT;
	if (!err)
		down_read(&vma->lock);	/* no look at the numbers: mmap_lock keeps writers out (C3) */
	mmap_read_unlock(mm);
	return err ? ERR_PTR(err) : vma;
}

/*
 * C11. The destination is ready for pages. Never waits for mmap_lock or for a second VMA while holding one: a writer
 * that waits for the first may hold mmap_lock already.
 */
int vma_find_and_lock_pair(struct mm *mm, uintptr_t dst, uintptr_t src, struct vma **dstp, struct vma **srcp)
{
	struct vma *d = vma_find_and_lock(mm, dst), *s;
	int err;

	if (IS_ERR(d))
		return (int)PTR_ERR(d);
	s = src >= d->start && src < d->end ? d : vma_lock_under_rcu(mm, src);
	if (s)
		goto locked;

	vma_read_unlock(d);
	race_window("vma_pair_retry");
	err = mmap_read_lock_killable(mm);
	if (err)
		return err;
	d = vma_lookup(mm, dst);
	s = vma_lookup(mm, src);
	err = d && s ? vma_prepare(d) : -ENOENT;
	if (!err) {
		down_read(&d->lock);
		/* Cannot block: who holds or awaits it for write holds mmap_lock for write. The try form is for the rank checker. */
		while (s != d && !down_read_trylock(&s->lock))
			cpu_relax();
	}
	mmap_read_unlock(mm);
	if (err)
		return err;
locked:
	*dstp = d;
	*srcp = s;
	return 0;
}

void vma_unlock_pair(struct vma *dst, struct vma *src)
{
	if (src != dst)
		vma_read_unlock(src);
	vma_read_unlock(dst);
}
