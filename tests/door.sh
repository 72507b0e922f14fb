#!/bin/bash
# Tests of the door itself: does tests/guest.sh hand out what the guest printed, and tell truly how it ended?
#
#     tests/door.sh [linux|faultline]		one kernel, or both
#
# The reference kernel shows that a failure is the door's, not our kernel's.
set -u

top=$(cd "$(dirname "$0")/.." && pwd)
guest=$top/tests/guest.sh
. "$top/tests/lib/report.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/faultline-door.XXXXXX")
trap 'rm -rf "$work"' EXIT
slow=${SLOW:-}

# run NAME ARGUMENTS...: leaves NAME.out and NAME.err, and the status in $status
run() {
	local name=$1
	shift
	"$guest" --kernel "$kernel" "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null
	status=$?
	last=$(tail -1 "$work/$name.err")
}

sum() { sha256sum "$1" | cut -d' ' -f1; }
left_over() { ls -A "$work/tmp" | wc -l; }

usage() {
	local name=$1
	shift
	"$guest" "$@" >"$work/u.out" 2>"$work/u.err" </dev/null
	expect "usage/$name" "2 0 1" "$? $(wc -c <"$work/u.out") $(wc -l <"$work/u.err")"
}

usage_errors() {
	report_prefix=door/
	usage no_command
	usage no_command_with_options --cpus 2
	usage unknown_option --frobnicate -- true
	usage bad_kernel --kernel minix -- true
	usage bad_cpus --cpus 0 -- true
	usage bad_cpus_word --cpus many -- true
	usage bad_memory --mem lots -- true
	usage bad_timeout --timeout -1 -- true
	usage bad_media --media floppy -- true
	usage missing_value --cpus -- true
	usage missing_file --add "$work/none" -- true
	usage path_upwards --add /etc/hostname:/t/../../etc/x -- true
	usage missing_disk --disk "$work/none" -- true
	usage bad_forward --net=80 -- true
	usage missing_qemu --qemu "$work/none" -- true
	usage stray_word true
	usage uefi_direct --firmware uefi --media direct -- true
	: >"$work/disk"
	usage no_disk_yet --disk "$work/disk" -- true
}

output_and_quoting() {
	mkdir -p "$work/tree/sub dir"
	head -c 300000 /dev/urandom >"$work/binary"
	head -c 65536 /dev/urandom >"$work/tree/sub dir/file"
	printf '#!/bin/sh\necho "script ran: $*"\n' >"$work/script"
	chmod 751 "$work/script"
	chmod 640 "$work/binary"
	ln -sf "sub dir/file" "$work/tree/link"

	# One boot for what can share one.
	run mixed --add "$work/binary" --add "$work/tree" --add "$work/script:/opt/place/s" -- '
		echo "a  b" '"'c  d'"' \\ \$HOME; printf "%s|" "$HOME" "$PATH" "$(pwd)" "$(id -u)"; echo
		stat -c "%a %n" /t/binary /opt/place/s; /opt/place/s "x y"; readlink /t/tree/link
		sha256sum <"/t/tree/sub dir/file" | cut -d" " -f1
		readlink /proc/self/fd/0; read x || echo eof
		for d in /proc /sys /dev /dev/pts /dev/shm /tmp; do grep -q " $d " /proc/mounts && echo "$d"; done
		echo err >&2; sleep 0.2; echo out; [ -t 1 ] || echo not a terminal; exit 7'
	expect status 7 "$status"
	expect last_line "guest: status 7" "$last"
	cat >"$work/mixed.want" <<-EOF
		a  b c  d \\ \$HOME
		/root|/bin:/sbin:/usr/bin:/usr/sbin|/|0|
		640 /t/binary
		751 /opt/place/s
		script ran: x y
		sub dir/file
		$(sum "$work/tree/sub dir/file")
		/dev/null
		eof
		/proc
		/sys
		/dev
		/dev/pts
		/dev/shm
		/tmp
		err
		out
		not a terminal
	EOF
	if cmp -s "$work/mixed.want" "$work/mixed.out"; then ok quoting_and_surroundings; else
		fail quoting_and_surroundings "$(diff "$work/mixed.want" "$work/mixed.out" | head -8 | tr '\n' ';')"
	fi

	run binary --add "$work/binary" -- cat /t/binary
	expect binary_output "0 $(sum "$work/binary")" "$status $(sum "$work/binary.out")"

	run words -- echo one 'two  three' '"four  five"' '|' cat
	expect words_are_joined "one two three four  five" "$(cat "$work/words.out")"

	run unterminated -- 'printf "no newline"; printf "\0\377" >&2'
	expect no_newline_is_added "$(printf 'no newline\0\377' | xxd -p)" "$(xxd -p <"$work/unterminated.out")"

	run nothing -- true
	expect empty_output "0 0" "$status $(wc -c <"$work/nothing.out")"

	run parameter --append 'quiet door.test=17' -- 'grep -o "door.test=[0-9]*" /proc/cmdline; nproc' --cpus 4
	expect append "door.test=17" "$(head -1 "$work/parameter.out")"
	run cpus --cpus 3 --mem 300M -- 'nproc; awk "/MemTotal/ { print (\$2 > 200000 && \$2 < 307201) }" /proc/meminfo'
	expect cpus_and_memory "3 1" "$(tr '\n' ' ' <"$work/cpus.out" | sed 's/ $//')"
}

statuses() {
	local s list="1 125 255"
	[ "$kernel" = linux ] || list="0 1 2 124 125 126 127 128 255"
	[ -z "$slow" ] || list=$(seq 0 255)
	for s in $list; do
		run "status$s" -- "exit $s"
		expect "status_$s" "$s guest: status $s" "$status $last"
	done
	run killed -- 'kill -9 $$'
	expect killed "137 guest: status 137" "$status $last"
	run segv -- 'sh -c "kill -SEGV \$\$"'
	expect fault_in_child "139 guest: status 139" "$status $last"
}

forgery() {
	# A command that says what the door listens for, everywhere it can, and ends quite differently.
	run forged -- 'echo "guest: status 0"; for t in /dev/ttyS1 /dev/ttyS2; do printf "\n0123 exit 0 0\nexit 0 0\n" >$t; done; exit 5'
	# What it wrote to ttyS1 behind our back arrives too, so the count is off: that must be noticed, never believed.
	expect forged_verdict "no" "$([ "$status" = 0 ] && echo yes || echo no)"
	run secret -- 'cat /.guest/* 2>/dev/null | grep -cE "^[0-9a-f]{32}$"; true'
	expect secret_is_gone 0 "$(cat "$work/secret.out")"
}

big() {
	head -c 10485760 /dev/urandom >"$work/ten"
	run big --timeout 300 --add "$work/ten" -- cat /t/ten
	expect ten_megabytes "0 $(sum "$work/ten")" "$status $(sum "$work/big.out")"
}

endings() {
	local start limit
	# On a busy host it may not get as far as `before`; then with more time.
	for limit in 12 60; do
		start=$SECONDS
		run hang --timeout $limit -- 'echo before; while :; do :; done'
		[ ! -s "$work/hang.out" ] || break
	done
	expect timeout "124 guest: timeout before" "$status $last $(cat "$work/hang.out")"
	expect timeout_is_kept 1 $((SECONDS - start < 2 * limit + 5))

	run background -- 'sleep 1000 & yes >/dev/null & (sleep 500; echo late) & echo done; exit 3'
	expect background_processes "3 done" "$status $(cat "$work/background.out")"

	run panic --timeout 60 -- 'echo before; sleep 0.5; echo c >/proc/sysrq-trigger; sleep 30'
	if [ "$kernel" = faultline ] && grep -q "sysrq-trigger" "$work/panic.out"; then
		skip panic "no /proc/sysrq-trigger"
	else
		expect panic "125 guest: panic before" "$status $last $(cat "$work/panic.out")"
		expect panic_log 1 "$(grep -cE '^\| .*(PANIC:|Kernel panic)' "$work/panic.err" | sed 's/^[1-9].*/1/')"
	fi

	if [ "$kernel" = faultline ]; then
		run halt --mem 16M --timeout 60 -- true
		expect halt "125 guest: panic" "$status $last"
	fi

	# The door's own end: whatever is done to it, nothing may stay behind.
	"$guest" --kernel "$kernel" -- sleep 100 >/dev/null 2>&1 </dev/null &
	local pid=$!
	sleep 4
	kill -TERM $pid
	wait $pid
	expect terminated 143 $?
	: >"$work/pipe.out"
	"$guest" --kernel "$kernel" -- yes > >(head -c 10 >"$work/pipe.out") 2>/dev/null </dev/null &
	pid=$!
	for _ in $(seq 160); do
		[ "$(wc -c <"$work/pipe.out")" -lt 10 ] || break
		sleep 0.5
	done
	sleep 1
	kill -INT $pid
	wait $pid
	expect reader_leaves "130 y y y y y " "$? $(tr '\n' ' ' <"$work/pipe.out")"
	expect nothing_left "0" "$(left_over)"
}

at_the_same_time() {
	"$guest" --kernel "$kernel" --add "$work/script" -- 'sleep 2; echo first; exit 1' >"$work/two1" 2>/dev/null </dev/null &
	local one=$!
	"$guest" --kernel "$kernel" -- 'sleep 2; echo second; exit 2' >"$work/two2" 2>/dev/null </dev/null &
	local two=$!
	wait $one; local s1=$?
	wait $two; local s2=$?
	expect two_at_once "1 first 2 second" "$s1 $(cat "$work/two1") $s2 $(cat "$work/two2")"
}

devices() {
	[ "$kernel" = linux ] || return 0
	head -c 4194304 /dev/zero >"$work/disk0"
	printf 'on the disk' | dd of="$work/disk0" conv=notrunc status=none
	head -c 2097152 /dev/zero >"$work/disk1"
	run disk --disk "$work/disk0" --disk "$work/disk1" -- 'head -c 11 /dev/vda; echo; printf written >/dev/vdb; blockdev --getsize64 /dev/vdb'
	expect disks "on the disk 2097152 written" "$(tr '\n' ' ' <"$work/disk.out")$(head -c 7 "$work/disk1")"
	local port=$((20000 + RANDOM % 20000))
	"$guest" --kernel linux --net=$port:7 -- 'ip -4 addr show eth0 | grep -o "10.0.2.15"; echo through | nc -l -p 7' >"$work/net.out" 2>"$work/net.err" </dev/null &
	local pid=$!
	local got=
	for _ in $(seq 40); do
		got=$(timeout 2 python3 -c 'import socket,sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); s.settimeout(1.5); sys.stdout.write(s.recv(100).decode())' $port 2>/dev/null)
		[ -z "$got" ] || break
		sleep 0.5
	done
	kill $pid 2>/dev/null
	wait $pid
	expect network "10.0.2.15 through" "$(head -1 "$work/net.out") $got"
}

determinism() {
	# The same instructions, the same clock, the same random numbers: two runs agree to the last digit.
	run icount1 --icount --cpus 1 -- 'date +%Y; head -c 8 /dev/urandom | xxd -p; cat /proc/uptime'
	cp "$work/icount1.out" "$work/first"
	run icount2 --icount --cpus 1 -- 'date +%Y; head -c 8 /dev/urandom | xxd -p; cat /proc/uptime'
	expect icount "2026 $(sum "$work/first")" "$(head -1 "$work/icount2.out") $(sum "$work/icount2.out")"
}

# The two kernels have their turns at the same time. TMPDIR is where the door keeps its files: what is left there is left over.
door_of() {
	kernel=$1
	report_prefix=door/$kernel/
	work=$work/$kernel
	export TMPDIR=$work/tmp
	mkdir -p "$TMPDIR"
	output_and_quoting
	statuses
	forgery
	at_the_same_time
	endings
	devices
	determinism
	[ "$kernel" = linux ] && [ -z "$slow" ] || big
}

usage_errors
for kernel in ${1:-linux faultline}; do
	(door_of "$kernel") >"$work/$kernel.said" &
done
wait
for kernel in ${1:-linux faultline}; do
	cat "$work/$kernel.said"
	! grep -q '^FAIL' "$work/$kernel.said" || report_failed=1
done
report_prefix=door
report_end
