/*
 * The per-VMA lock of mm/vma_lock.c: one address, two faults (readers) and one thread that maps and unmaps (the writer; there
 * is never more than one, for it holds mmap_lock for write). Run by tests/model/run.sh.
 *
 * What is modelled. A VMA is a slot with a sequence number, an rwsem (number of readers, writer), `detached`, the range that it covers
 * (whether it contains our address) and whether its memory is still there. The tree is one pointer. The mm has its sequence
 * number, odd while a writer is inside. RCU: a reader's section is a flag, and freed memory waits until it has seen each reader
 * outside of one. After a fault a reader comes again; the writer makes ROUNDS changes of any kind.
 *
 * What is not: mmap_lock itself, on which a reader that failed would wait (here it tries again later), and weak memory. Spin's
 * memory is sequentially consistent. So the order of loads and stores is written out statement by statement, and a variant
 * that turns two of them round shows what the acquire and release are for (R49):
 *
 *	-DNO_RECHECK		the reader does not compare the numbers again once it has the lock
 *	-DEARLY_UNLOCK		the store that ends the write period becomes visible before the change to the VMA
 *	-DNO_DETACHED_CHECK	the reader does not look at `detached`
 *	-DNO_GRACE		memory is freed at once
 *	-DNO_WAIT		the writer does not wait for readers
 *
 * Each of these must have a counter-example. The protocol itself has none:
 *
 *	- no reader is in the VMA (has passed all checks, has not unlocked) while the writer changes it;
 *	- nobody touches a VMA whose memory was freed;
 *	- who is inside is in a VMA that contains the address and is not detached;
 *	- the writer always gets its lock (no deadlock: Spin reports invalid end states).
 */
#define NVMA	2
#define NREADER	2
#define ROUNDS	3

typedef vma_t {
	byte seq;		/* lock_seq: the mm's number when it was last write-locked */
	byte readers;		/* rwsem */
	bool writer;
	bool waiting;		/* the writer queues: new readers are refused, as in kernel/rwsem.c */
	bool detached;
	bool covers;		/* start <= addr < end */
	bool changing;		/* ghost: the writer is between its first and its last store */
	byte inside;		/* ghost: readers that have passed all checks */
	bool live		/* its memory has not been freed */
}

vma_t vma[NVMA];
byte mm_seq = 2;
byte tree = 0;			/* the VMA that the tree finds for our address; NVMA: none */
bool in_rcu[NREADER];

#define TOUCH(v)	assert(vma[v].live)

/* vma_lock_under_rcu(), a fault, vma_read_unlock(). */
proctype fault(byte me)
{
	byte v, seq;

again:
	in_rcu[me] = true;			/* rcu_read_lock */
	v = tree;				/* vma_tree_find */
	if
	:: v == NVMA -> goto out
	:: else
	fi;
	TOUCH(v);
	seq = vma[v].seq;
	if
	:: seq == mm_seq -> goto out		/* write-locked */
	:: else
	fi;
	TOUCH(v);
	atomic {				/* down_read_trylock */
		if
		:: vma[v].writer || vma[v].waiting -> goto out
		:: else -> vma[v].readers++
		fi
	}
#ifndef NO_RECHECK
	TOUCH(v);
	seq = mm_seq;				/* acquire */
	if
	:: vma[v].seq == seq -> goto unlock
	:: else
	fi;
#endif
#ifndef NO_DETACHED_CHECK
	TOUCH(v);
	if
	:: vma[v].detached -> goto unlock
	:: else
	fi;
#endif
	TOUCH(v);
	if
	:: !vma[v].covers -> goto unlock
	:: else
	fi;
	d_step {
		vma[v].inside++;
		in_rcu[me] = false		/* rcu_read_unlock: the lock holds the VMA now */
	};

	/* handle_mm_fault(): any number of steps, in which everything must stay as it is. */
	assert(!vma[v].changing);
	assert(vma[v].live && vma[v].covers && !vma[v].detached);

	d_step {
		vma[v].inside--;
		in_rcu[me] = true
	};
unlock:
	TOUCH(v);
	vma[v].readers--;			/* up_read; it may wake the writer ... */
	TOUCH(v);				/* ... and looks at the rwsem afterwards (C9) */
out:
	in_rcu[me] = false;
	v = 0;
	seq = 0;
end:	/* a fault may come at any time, or never again */
	if
	:: goto again
	:: true -> skip
	fi
}

/* vma_write_lock() */
inline write_lock(v)
{
	if
	:: vma[v].seq == mm_seq -> skip
	:: else ->
#ifndef NO_WAIT
		vma[v].waiting = true;
		atomic { vma[v].readers == 0 -> vma[v].writer = true; vma[v].waiting = false };
#endif
		vma[v].seq = mm_seq;
		vma[v].writer = false
	fi
}

#define CHANGE_BEGIN(v)	d_step { assert(vma[v].inside == 0); vma[v].changing = true }
#define CHANGE_END(v)	d_step { assert(vma[v].inside == 0); vma[v].changing = false }

/* Until each reader has been seen outside of a section: synchronize_rcu. */
inline grace_period()
{
#ifndef NO_GRACE
	!in_rcu[0];
	!in_rcu[1];
#else
	skip;
#endif
}

proctype mapper()
{
	byte round, old, new;

	do
	:: round == ROUNDS -> break
	:: else ->
		mm_seq++;				/* mmap_write_lock: odd */
#ifdef EARLY_UNLOCK
		/* The compiler, or a CPU, moves the store of the unlock before those of the change. */
		if
		:: tree != NVMA -> old = tree; write_lock(old); mm_seq++; CHANGE_BEGIN(old);
			vma[old].covers = !vma[old].covers; CHANGE_END(old)
		:: else -> mm_seq++
		fi;
#else
		if
		:: tree != NVMA ->			/* mprotect, a split or merge: the bounds move, perhaps away from our address */
			old = tree;
			write_lock(old);
			CHANGE_BEGIN(old);
			vma[old].covers = !vma[old].covers;
			CHANGE_END(old);
			mm_seq++			/* mmap_write_unlock: release */
		:: tree != NVMA ->			/* munmap */
			old = tree;
			write_lock(old);
			CHANGE_BEGIN(old);
			vma[old].detached = true;
			tree = NVMA;
			CHANGE_END(old);
			mm_seq++;
			grace_period();			/* call_rcu */
			d_step {			/* freed; and as memory of another VMA it may be found again */
				assert(vma[old].inside == 0);
				vma[old].live = false
			}
		:: tree == NVMA ->			/* mmap: write-locked before it can be found (C6) */
			new = (old == 0 -> 1 : 0);
			d_step {
				vma[new].live = true;
				vma[new].detached = false;
				vma[new].covers = true;
				vma[new].seq = mm_seq
			};
			d_step { vma[new].changing = true; tree = new };
			CHANGE_END(new);		/* flags, file, and what else mmap sets after vma_insert() */
			mm_seq++
		fi;
#endif
		round++
	od
}

init {
	d_step {
		vma[0].live = true;
		vma[0].covers = true;
		tree = 0
	};
	atomic { run fault(0); run fault(1); run mapper() }
}
