/*
 * Faults against sharing, unsharing and truncation (docs/sharing-page-tables.md): one protocol for each value of hugetlb.sync.
 * Run by tests/model/run.sh.
 *
 * What is modelled. Two processes, A and B, each with one mapping of the same gigabyte of a file; one page of that file. A page table
 * has an entry for the page, a count of sharers beside its first owner, and may be freed and taken again. A process has the entry
 * that points to its table (pud), the list of mappings has it or not (mapped), and its processor has a TLB, and a cache of the
 * pointer to the table, which it fills whenever it likes. Then:
 *
 *	A	faults; another thread faults on another page, and one does MADV_DONTNEED
 *	B	faults, and exits
 *	anyone	truncates the file to nothing
 *
 * What is not: mprotect and munmap within one process, which the lock of the VMA keeps apart from its faults (vma_lock.pml); fair
 * locks; page pinning. Memory is sequentially consistent.
 *
 *	-DVMA			holds: hugetlb.sync=vma, a semaphore per VMA, for reading during a fault
 *	-DI_MMAP		holds: hugetlb.sync=i_mmap, the file's list is held for reading during a fault
 *	-DRECHECK		holds: hugetlb.sync=recheck, the table's lock is taken and the pud read again
 *	-DFILE			holds: hugetlb.sync=file, the table belongs to the file
 *
 * The racy values, and what happens if a step is left out:
 *
 *	-DVMA -DNONE_SHARE	hugetlb.sync=none-share: no semaphore
 *	-DVMA -DNONE		hugetlb.sync=none: and truncation without the fault mutex, no second look at the size
 *	-DVMA -DNO_FLUSH	unshare does not flush (R7)
 *	-DVMA -DNO_BACKOUT	the truncating thread waits for the semaphore with the list in its hands (R2)
 *	-DRECHECK -DNO_SIZE_CHECK	the fault looks at the size once, before it has its page (R12)
 *	-DVMA -DNO_RESTART	truncation drops the list for a semaphore and goes on where it was
 *	-DVMA -DNO_SECOND_UNMAP	truncation unmaps once (R13)
 *	-DVMA -DNO_UNDO		who comes second to share does not take its count back (R11)
 *	-DI_MMAP -DONLY_SHARE	the list is held while a table is looked for, not to the end of the fault (R1)
 *	-DRECHECK -DNO_RECHECK	the pud is not read again (R3)
 *	-DRECHECK -DNO_GRACE	a table is freed at once
 *	-DFILE -DFREE_AT_UNMAP	the last one that unmaps frees the table
 *	-DFILE -DEARLY_UNLINK	a mapping leaves the list before its pud is cleared
 *
 * Checked at every step: an entry is written only into a table that the writer's pud points to at that moment (in mode
 * file: into the file's); nobody touches a table that was freed; a page that is freed is in no table and in no TLB; a table that is freed is in no pud and in no cache of a processor,
 * and has no entry. At the end the file has no page past its end, and each count is right. No deadlock.
 */
#define A	0
#define B	1
#define NTABLE	3
#define NONE_T	3			/* points to no table */

#ifdef NONE
#define NONE_SHARE
#define NO_SIZE_CHECK
#endif

typedef table_t {
	bool live;
	bool entry;			/* maps the page */
	bool locked;
	byte sharers;			/* E3: beside the first one */
}

typedef rwsem_t {
	byte readers;
	bool writer;
}

table_t table[NTABLE];
byte pud[2] = NONE_T;
byte cached_pud[2] = NONE_T;		/* of the processor */
bool tlb[2];
bool mapped[2] = true;
bool in_rcu[2];

bool inside = true;			/* i_size covers the page */
bool in_file;				/* the page is in the page cache */
bool fault_mutex;
rwsem_t i_mmap;
rwsem_t vma_sem[2];
byte running = 5;			/* threads; the processors stop after them */

#define lock(l)		atomic { !(l) -> l = true }
#define unlock(l)	l = false
#define down_read(s)	atomic { !s.writer -> s.readers++ }
#define up_read(s)	s.readers--
#define down_write(s)	atomic { !s.writer && s.readers == 0 -> s.writer = true }
#define up_write(s)	s.writer = false

/* All CPUs of this process: translations and paging-structure caches. */
inline flush(m)		{ d_step { tlb[m] = false; cached_pud[m] = NONE_T } }

/* The processor of m walks the tables. */
proctype cpu(byte m)
{
end:	do
	:: d_step { pud[m] != NONE_T && cached_pud[m] != pud[m] -> assert(table[pud[m]].live); cached_pud[m] = pud[m] }
	:: d_step { cached_pud[m] != NONE_T && !tlb[m] && table[cached_pud[m]].entry -> tlb[m] = true }
	:: running == 0 -> break
	od
}

inline free_page()
{
	d_step {
		assert(!tlb[A] && !tlb[B]);
		assert(!(table[0].live && table[0].entry) && !(table[1].live && table[1].entry) && !(table[2].live && table[2].entry))
	}
}

inline free_table(t)
{
#if defined(RECHECK) && !defined(NO_GRACE)
	!in_rcu[0];
	!in_rcu[1];
#endif
	d_step {
		assert(table[t].live && !table[t].entry && table[t].sharers == 0);
		assert(pud[A] != t && pud[B] != t && cached_pud[A] != t && cached_pud[B] != t);
		table[t].live = false;
		table[t].locked = false
	}
}

/* -- where the table of (m, address) comes from: after this pud[m] points to one, at least for a moment -- */

inline new_table(m)
{
	d_step {			/* allocated, then put in place under page_table_lock if nobody else was faster */
		if
		:: pud[m] != NONE_T -> skip
		:: else ->
			t = 0;
			do
			:: table[t].live -> t++
			:: else -> break
			od;
			assert(t < NTABLE);
			table[t].live = true;
			table[t].entry = false;
			table[t].locked = false;
			table[t].sharers = 0;
			pud[m] = t
		fi
	}
}

#ifdef FILE
inline get_table(m)
{
	d_step {
		if
		:: pud[m] == NONE_T ->
			table[0].live = true;
			pud[m] = 0
		:: else
		fi
	}
}
#else
/* huge_pmd_share(): E4. */
inline get_table(m)
{
	if
	:: pud[m] != NONE_T -> skip
	:: else ->
#ifndef I_MMAP
		down_read(i_mmap);
#elif defined(ONLY_SHARE)
		down_read(i_mmap);
#endif
		t = pud[1 - m];
		if
		:: t != NONE_T && mapped[1 - m] ->
			d_step { assert(table[t].live); table[t].sharers++ };
			d_step {		/* page_table_lock */
				if
				:: pud[m] == NONE_T -> pud[m] = t
#ifndef NO_UNDO
				:: else -> table[t].sharers--
#else
				:: else -> skip
#endif
				fi
			}
		:: else -> new_table(m)
		fi;
#ifndef I_MMAP
		up_read(i_mmap)
#elif defined(ONLY_SHARE)
		up_read(i_mmap)
#else
		skip
#endif
	fi
}
#endif

/* -- begin and end of a fault, by mode -- */

inline fault_begin(m)
{
#if defined(VMA) && !defined(NONE_SHARE)
	down_read(vma_sem[m])
#elif defined(I_MMAP) && !defined(ONLY_SHARE)
	down_read(i_mmap)
#else
	skip
#endif
}

inline fault_end(m)
{
#if defined(VMA) && !defined(NONE_SHARE)
	up_read(vma_sem[m])
#elif defined(I_MMAP) && !defined(ONLY_SHARE)
	up_read(i_mmap)
#else
	skip
#endif
}

#ifdef FILE
#define OWN_TABLE(m, t)	(t == 0)	/* the file's, which every mapping of it shows */
#else
#define OWN_TABLE(m, t)	(pud[m] == t)
#endif

/* hugetlb_fault(): D29. */
inline fault(m)
{
	lock(fault_mutex);
	fault_begin(m);
	get_table(m);
#ifndef RECHECK
	t = pud[m];			/* the walk; from here on t is only as good as what fault_begin() holds */
#endif
	have = true;
	if
	:: in_file -> skip
	:: else ->
		if
		:: !inside -> have = false	/* SIGBUS */
		:: else ->			/* a page is allocated and cleared: this takes long */
			in_file = true;
#ifndef NO_SIZE_CHECK
			if
			:: !inside -> in_file = false; have = false; free_page()
			:: else
			fi
#else
			skip
#endif
		fi
	fi;
	do
	:: !have -> break
	:: else ->
#ifdef RECHECK
		in_rcu[m] = true;
		t = pud[m];
		if
		:: t == NONE_T ->
			in_rcu[m] = false;
			get_table(m)
		:: else ->
			assert(table[t].live);
			lock(table[t].locked);
#ifndef NO_RECHECK
			if
			:: pud[m] != t ->
				unlock(table[t].locked);
				in_rcu[m] = false
			:: else ->
				d_step { assert(table[t].live && OWN_TABLE(m, t)); table[t].entry = true };
				unlock(table[t].locked);
				in_rcu[m] = false;
				break
			fi
#else
			d_step { assert(table[t].live && OWN_TABLE(m, t)); table[t].entry = true };
			unlock(table[t].locked);
			in_rcu[m] = false;
			break
#endif
		fi
#else
		if
		:: t == NONE_T -> break		/* gone already: the access faults again */
		:: else ->
			lock(table[t].locked);
			d_step { assert(table[t].live && OWN_TABLE(m, t)); table[t].entry = true };
			unlock(table[t].locked);
			break
		fi
#endif
	od;
	fault_end(m);
	unlock(fault_mutex);
	t = 0;
	have = false
}

/* -- taking entries away from one mapping; the list is held for writing, and what the mode wants besides (except in mode file) -- */

inline zap(m)
{
#ifdef FILE
	pud[m] = NONE_T;		/* only this process's pointer: the entries are the file's */
	flush(m)
#else
	t = pud[m];
	if
	:: t == NONE_T -> skip
	:: t != NONE_T && table[t].sharers > 0 ->	/* huge_pmd_unshare(): E5, E6 */
#ifdef RECHECK
		lock(table[t].locked);
		d_step { pud[m] = NONE_T; table[t].sharers-- };
		unlock(table[t].locked);
#else
		d_step { pud[m] = NONE_T; table[t].sharers-- };
#endif
#ifndef NO_FLUSH
		flush(m)
#else
		skip
#endif
	:: t != NONE_T && table[t].sharers == 0 ->
		lock(table[t].locked);
		table[t].entry = false;
		unlock(table[t].locked);
		flush(m)
	fi;
	t = 0
#endif
}

inline zap_begin(m)
{
#if defined(VMA) && !defined(NONE_SHARE)
	down_write(vma_sem[m]);
#endif
	down_write(i_mmap)
}

inline zap_end(m)
{
	up_write(i_mmap);
#if defined(VMA) && !defined(NONE_SHARE)
	up_write(vma_sem[m])
#else
	skip
#endif
}

/* munmap by exit: the mapping leaves the list, and if its table is nobody else's, that is freed. */
inline unmap(m)
{
#ifdef FILE
#ifdef EARLY_UNLINK
	down_write(i_mmap);
	mapped[m] = false;
	up_write(i_mmap);
	zap(m);
#else
	zap(m);
	down_write(i_mmap);
	mapped[m] = false;
	up_write(i_mmap);
#endif
#ifdef FREE_AT_UNMAP
	d_step {
		if
		:: table[0].live && pud[1 - m] == NONE_T ->
			assert(!table[0].entry || in_file);
			table[0].live = false;
			table[0].entry = false
		:: else
		fi
	}
#else
	skip
#endif
#else
	zap_begin(m);
	zap(m);
	mapped[m] = false;
	t = pud[m];
	if
	:: t != NONE_T -> pud[m] = NONE_T; flush(m)
	:: else
	fi;
	zap_end(m);
	if
	:: t != NONE_T -> free_table(t)
	:: else
	fi;
	t = 0
#endif
}

/* hugetlb_unmap_file(), one mapping. The list is held; on return it still is, though not all the time (E18). */
inline unmap_one(m)
{
#if defined(VMA) && !defined(NONE_SHARE)
	if
	:: !mapped[m] || pud[m] == NONE_T -> skip
	:: mapped[m] && pud[m] != NONE_T && !table[pud[m]].entry -> skip
	:: else ->
		if
#ifdef NO_BACKOUT
		:: true -> down_write(vma_sem[m])
#else
		:: atomic { !vma_sem[m].writer && vma_sem[m].readers == 0 -> vma_sem[m].writer = true }
		:: vma_sem[m].writer || vma_sem[m].readers > 0 ->
			up_write(i_mmap);
			down_write(vma_sem[m]);
			down_write(i_mmap);
			dropped = true
#endif
		fi;
		if
		:: mapped[m] -> zap(m)
		:: else
		fi;
		up_write(vma_sem[m])
	fi
#else
	if
	:: mapped[m] -> zap(m)
	:: else
	fi
#endif
}

/*
 * While the list was dropped, a mapping that had been visited may have come to share a table that had not, whose other user
 * has left it since, visited by us or by itself. So the scan begins anew; mappings without the entry are not waited for.
 */
inline unmap_file()
{
	down_write(i_mmap);
	do
	:: dropped = false;
		unmap_one(A);
		unmap_one(B);
#ifdef NO_RESTART
		break
#else
		if
		:: !dropped -> break
		:: else
		fi
#endif
	od;
	up_write(i_mmap)
}

/* Truncate to nothing: D30. */
proctype truncate()
{
	byte t;
	bool dropped;

	inside = false;
#ifndef FILE
	unmap_file();
#endif
	if
	:: in_file ->
#ifndef NONE
		lock(fault_mutex);
#endif
		if
		:: in_file ->
#ifdef FILE
			lock(table[0].locked);
			table[0].entry = false;
			unlock(table[0].locked);
			down_read(i_mmap);	/* every process that maps the window */
			if
			:: mapped[A] -> flush(A)
			:: else
			fi;
			if
			:: mapped[B] -> flush(B)
			:: else
			fi;
			up_read(i_mmap);
#elif !defined(NO_SECOND_UNMAP)
			unmap_file();
#endif
			in_file = false;
			free_page()
		:: else
		fi;
#ifndef NONE
		unlock(fault_mutex)
#else
		skip
#endif
	:: else
	fi;
	running--
}

proctype faults_of_a()
{
	byte t;
	bool have;

	fault(A);
	running--
}

/* On another page, so another fault mutex: it meets the first where the table comes from. */
proctype other_fault_of_a()
{
	byte t;

	fault_begin(A);
	get_table(A);
	fault_end(A);
	running--
}

proctype dontneed_of_a()
{
	byte t;

#ifdef FILE
	zap(A);
#else
	zap_begin(A);
	zap(A);
	zap_end(A);
#endif
	running--
}

proctype process_b()
{
	byte t;
	bool have;

	fault(B);
	unmap(B);
	running--
}

/* Each table that is not freed is A's own, and nobody shares it. */
proctype at_the_end()
{
	running == 0;
	d_step {
		assert(inside || !in_file);
#ifndef FILE
		assert(pud[B] == NONE_T);
		assert(pud[A] == NONE_T || table[pud[A]].sharers == 0);
		assert(table[0].live + table[1].live + table[2].live == (pud[A] != NONE_T))
#endif
	}
}

init {
	atomic {
		run cpu(A);
		run cpu(B);
		run faults_of_a();
		run other_fault_of_a();
		run dontneed_of_a();
		run process_b();
		run truncate();
		run at_the_end()
	}
}
