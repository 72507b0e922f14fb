/*
 * How a fault waits for its page (mm/uffd_wait.c, mm/uffd.c): queue, look again, drop the lock, sleep; the manager fills, wakes, reads and
 * refiles. One page, two faults, one reader of messages, one who fills, one who closes the descriptor. Run by tests/model/run.sh.
 *
 * What is modelled. The entry (empty or present) and its lock. The two lists, as the place where each waiter is: nowhere, pending, read; the
 * number of waiters, which a waker looks at before it takes the lock of the lists. The sleeper's state: set before it looks whether it was
 * woken, and a wake-up sets it running. A signal may end a wait at any moment. The manager copies without having read
 * anything, at any moment; and may empty the page again (DONTNEED), after which the fault comes again.
 *
 * What is not: the VMA lock (a separate model), several pages, events; and weak memory. Each step below is one the processors agree upon.
 *
 *	-DNO_RECHECK		the fault decides by what it saw before it was queued (R26)
 *	-DLOOSE_REFILE		a message is taken from one list and put into the other in two steps, and a waker looks through
 *				the lists without their lock (R27)
 *	-DQUEUE_AFTER_CHECK	the entry's lock is dropped between the look and the queueing (R26, R38)
 *	-DSLEEP_UNCHECKED	the state is set after the look at `woken`, not before (R26)
 *	-DWAKE_FIRST		the manager wakes before the page is in
 *	-DNO_RELEASED_TEST	a fault queues on a descriptor that has been closed (R34)
 *	-DLEFT_QUEUED		a fault that a signal ends leaves its entry in the list (R55: the stack frame is gone)
 *
 * Each of these must have a counter-example. The protocol itself has none:
 *
 *	- nobody sleeps on when the page is there and everybody else has come to his end (Spin: invalid end state);
 *	- no message is queued for a page that is present and was present when the COPY returned (R38);
 *	- whoever is woken is in no list, and no waker touches a waiter that has returned (its stack frame is gone);
 *	- the number of waiters is that of the lists whenever their lock is free.
 */
#define NFAULT	2

mtype = { NOWHERE, PENDING, READ_LIST };

bool present;			/* the entry */
bool pte_locked;
bool list_locked;
mtype at[NFAULT] = NOWHERE;	/* lists */
byte nr_waiters;
bool woken[NFAULT];
bool sleeping[NFAULT];		/* the task's state: will sleep, or sleeps, until somebody sets it running */
bool frame[NFAULT];		/* the waiter's stack frame exists */
bool released;			/* the descriptor is closed */
bool registered = true;
byte signals = 1;		/* that may still come: without end, no sleeper would ever stay stuck */

#define lock(l)		atomic { !l -> l = true }
#define unlock(l)	l = false

/* handle_userfault(), and the access again afterwards. */
proctype fault(byte me)
{
	bool queued, saw;

again:
	saw = present;
	if
	:: saw || !registered -> goto through
	:: else
	fi;
	frame[me] = true;
	woken[me] = false;
	queued = false;
#ifdef NO_RECHECK
	lock(list_locked);
	d_step { at[me] = PENDING; nr_waiters++ };
	queued = true;
	unlock(list_locked);
#else
	lock(pte_locked);
	if
	:: present -> unlock(pte_locked); goto retry
	:: else
	fi;
#ifdef QUEUE_AFTER_CHECK
	unlock(pte_locked);
#endif
	lock(list_locked);
	if
#ifndef NO_RELEASED_TEST
	:: released -> skip
#endif
	:: 
#ifndef NO_RELEASED_TEST
		!released ->
#endif
		d_step {
			assert(!present);		/* no message for a page that is there (R38) */
			at[me] = PENDING;
			nr_waiters++;
			queued = true
		}
	fi;
	unlock(list_locked);
#ifndef QUEUE_AFTER_CHECK
	unlock(pte_locked);
#endif
	if
	:: !queued -> goto retry
	:: else
	fi;
#endif
	/* the fault's lock is dropped; sleep */
#ifdef SLEEP_UNCHECKED
	if
	:: woken[me] -> goto was_woken
	:: else
	fi;
	sleeping[me] = true;
#else
	sleeping[me] = true;			/* set_current_state */
	if
	:: woken[me] -> sleeping[me] = false; goto was_woken
	:: else
	fi;
#endif
	if
	:: !sleeping[me] -> skip		/* schedule() */
	:: atomic { sleeping[me] && signals > 0 -> sleeping[me] = false; signals-- }
	fi;
was_woken:
	if
	:: woken[me] -> goto retry
	:: else
	fi;
#ifndef LEFT_QUEUED
	lock(list_locked);
	if
	:: !woken[me] -> d_step { assert(at[me] != NOWHERE); at[me] = NOWHERE; nr_waiters-- }
	:: else
	fi;
	unlock(list_locked);
#endif
retry:	skip;
	d_step { frame[me] = false; assert(at[me] == NOWHERE) };
	goto again;
through:
	skip
}

/* wake_list(): the list lock is held, or the variant does without. */
inline wake_one(i)
{
	d_step {
		assert(frame[i]);
		at[i] = NOWHERE;
		nr_waiters--;
		woken[i] = true;
		sleeping[i] = false
	}
}

inline wake_range()
{
	if
	:: nr_waiters == 0 -> skip		/* the look without the lock */
	:: else ->
#ifdef LOOSE_REFILE
		/* First the one list, then the other; nothing keeps a message from wandering behind the look. */
		if
		:: at[0] == PENDING -> wake_one(0)
		:: else
		fi;
		if
		:: at[1] == PENDING -> wake_one(1)
		:: else
		fi;
		if
		:: at[0] == READ_LIST -> wake_one(0)
		:: else
		fi;
		if
		:: at[1] == READ_LIST -> wake_one(1)
		:: else
		fi
#else
		lock(list_locked);
		if
		:: at[0] != NOWHERE -> wake_one(0)
		:: else
		fi;
		if
		:: at[1] != NOWHERE -> wake_one(1)
		:: else
		fi;
		unlock(list_locked)
#endif
	fi
}

/* Copies at some moment, without having read. Once more, if the page was emptied; then it is there for good. */
proctype manager()
{
	byte round = 0;

	do
	:: released -> break			/* it was his descriptor */
	:: round < 2 ->
#ifdef WAKE_FIRST
		wake_range();
#endif
		lock(pte_locked);
		present = true;
		unlock(pte_locked);
#ifndef WAKE_FIRST
		wake_range();
#endif
		round++;
		if
		:: round < 2 ->			/* DONTNEED */
			lock(pte_locked);
			present = false;
			unlock(pte_locked)
		:: else
		fi
	:: else -> break
	od
}

/* read(): the first that is pending goes to the other list. Twice, or less often. */
proctype reader()
{
	byte round, i;

	do
	:: round == 2 -> break
	:: round < 2 ->
		round++;
		i = 0;
#ifdef LOOSE_REFILE
		if
		:: at[0] == PENDING -> i = 0
		:: at[1] == PENDING -> i = 1
		:: else -> goto next
		fi;
		atomic {
			if
			:: at[i] == PENDING -> at[i] = NOWHERE
			:: else -> goto next
			fi
		};
		d_step {
			if
			:: frame[i] && !woken[i] -> at[i] = READ_LIST
			:: else
			fi
		};
#else
		lock(list_locked);
		if
		:: at[0] == PENDING -> at[0] = READ_LIST
		:: at[1] == PENDING -> at[1] = READ_LIST
		:: else
		fi;
		unlock(list_locked);
#endif
next:		skip
	od
}

/* close(): at any moment, or never. */
proctype closer()
{
end:	if
	:: true ->
		lock(list_locked);
		released = true;
		unlock(list_locked);
		registered = false;		/* uffd_unregister_all(); a fault that looks from now on is an ordinary one */
		lock(list_locked);
		if
		:: at[0] != NOWHERE -> wake_one(0)
		:: else
		fi;
		if
		:: at[1] != NOWHERE -> wake_one(1)
		:: else
		fi;
		unlock(list_locked)
	:: true -> skip
	fi
}

/* The number is right whenever nobody is changing it. */
proctype counting()
{
	byte n;

	atomic {
		!list_locked ->
		n = (at[0] != NOWHERE -> 1 : 0) + (at[1] != NOWHERE -> 1 : 0);
#ifndef LOOSE_REFILE
		assert(n == nr_waiters)
#else
		skip
#endif
	}
}

init {
	atomic { run fault(0); run fault(1); run manager(); run reader(); run closer(); run counting() }
}
