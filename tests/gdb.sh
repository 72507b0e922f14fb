#!/bin/bash
# Does `make gdb` work, as a person would use it: symbols, breakpoints in a system call, every processor, and the fl commands.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/lib/report.sh
report_prefix=gdb/
command -v gdb >/dev/null || { skip all "gdb is not installed"; report_end; exit; }
work=$(mktemp -d "${TMPDIR:-/tmp}/faultline-gdb.XXXXXX")
trap 'rm -rf "$work"' EXIT

# A system call of the shell that init starts: by then there are processes. To gdb a processor is a thread, and finish waits
# for the return on the processor it began on; so it is tried on a call that does not sleep.
GDB_COMMANDS='set pagination off; set confirm off; hbreak sys_wait4; continue; delete; bt 3; info threads; fl threads; fl vma 1; fl locks; fl uffd; fl pt 1 init_task_ptr->mm->start_code; fl pt 1 0x10; step; next; hbreak sys_rt_sigprocmask; continue; delete; finish; hbreak trace_dump; set var $rip = 0x10; continue; bt 4' \
	CPUS=2 MEM=256M BUILD=debug timeout 300 python3 -B tests/lib/run.py --gdb >"$work/out" 2>&1 </dev/null
status=$?
has() {
	if grep -qE "$2" "$work/out"; then ok "$1"; else
		fail "$1" "no line matches '$2'"
		tail -60 "$work/out" | sed 's/^/    | /'
	fi
}
expect script_ran_to_its_end 0 $status
has breakpoint_in_a_system_call 'sys_wait4 \('
has backtrace_to_the_entry 'do_syscall'
has every_processor 'Thread 1\.2.*CPU#1'
has threads_with_names '^ +1 +1 +[01] .* (init|busybox|sh)'
has vmas_of_init '^[0-9a-f]{14}-[0-9a-f]{14} r-x'
has vmas_are_counted '^([0-9]+) VMAs \(\1 counted\), mmap_lock: free'
has walk_reaches_a_frame '^pte\[[ 0-9]+\]  0x[0-9a-f]+  frame'
has walk_names_the_vma '^in the VMA '
has walk_of_nothing 'no VMA covers it'
has locks_are_listed '(no task holds a lock|holds LOCK_|mmap_lock of)'
has uffds_are_listed '(no VMA is registered|by the userfaultfd at)'
# The kernel was made to jump to address 16; trace_dump() comes near the end of what a panic prints.
console=build/gdb-console.log
if grep -q 'walk of 10:' $console && grep -qE '^.*pgd\[  0\] ' $console && grep -q 'no VMA there; the next one begins' $console; then
	ok panic_shows_the_walk
else
	fail panic_shows_the_walk "see the end of the log"
	tail -60 $console | sed 's/^/    | /'
fi

# A user program: faults that wait for it, and its own symbols. The first stop in user mode is at a bare address, so that they come by themselves.
mkdir -p build/tests/gdb
musl-gcc -static -O1 -g -Wall -Wextra -I. -pthread -o build/tests/gdb/gdb-target tests/lib/gdb-target.c >"$work/said" 2>&1
marker=$(nm build/tests/gdb/gdb-target | awk '$3 == "everybody_waits" { print $1 }')
GDB_COMMANDS="set pagination off; set confirm off; hbreak sys_getppid; continue; delete; fl uffd 1; fl uffd; hbreak *0x$marker; continue; delete; bt 2; fl user 1; fl user gdb-target" \
	CPUS=2 MEM=256M BUILD=debug ADD=build/tests/gdb/gdb-target APPEND=rdinit=/t/gdb-target timeout 300 python3 -B tests/lib/run.py --gdb >>"$work/out2" 2>&1 </dev/null
expect user_script_ran_to_its_end 0 $?
cp "$work/out" "$work/out1"; cp "$work/out2" "$work/out"
has uffd_read_fault_waits '^  fault at 0x500000000000 \(missing, write\) of thread [0-9]+: read, not served'
has uffd_unread_fault_waits '^  fault at 0x500000001000 \(missing, write\) of thread [0-9]+: nobody has read it'
has uffd_counts_who_waits '^userfaultfd at 0x[0-9a-f]+: 2 wait$'
has user_symbols_by_themselves '^fl: symbols of build/tests/gdb/gdb-target'
has user_backtrace '#0 +everybody_waits'
has user_symbols_once '^symbols of build/tests/gdb/gdb-target: there already'
cat "$work/out1" >>"$work/out"
if grep -q 'Python Exception\|Error occurred in Python' "$work/out"; then
	fail no_exceptions "$(grep -m1 'Python Exception\|Error occurred in Python' "$work/out")"
else
	ok no_exceptions
fi
report_end
