#!/bin/bash
# Run the tests, group by group, and count.
#
#     tests/run.sh [--slow] [GROUP]...		groups: build unit docs ring0 model guest fuzz net race race-fails stress kasan boot door gdb map book container labs;
#						all of them without a name
#
# A group is a program that prints `ok: NAME`, `FAIL: NAME: WHY` and `skip: NAME: WHY` lines and, when it got to its end,
# `end: GROUP`. A group that does not get there, or that failed without naming a test, counts as one failure more.
set -u

top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top" || exit 2
slow=
groups=()
for word in "$@"; do
	case $word in
	--slow)	slow=--slow ;;
	-*)	echo "usage: tests/run.sh [--slow] [build|unit|docs|ring0|model|guest|fuzz|net|race|race-fails|stress|kasan|boot|door|gdb|map|book|container|labs]..." >&2; exit 2 ;;
	*)	groups+=("$word") ;;
	esac
done
[ ${#groups[@]} -gt 0 ] || groups=(build unit docs ring0 model guest fuzz net race race-fails stress kasan boot door gdb map book container labs)
export SLOW=$slow

has_tests() { compgen -G "tests/$1/*.c" >/dev/null || compgen -G "tests/$1/*.cc" >/dev/null || compgen -G "tests/$1/*.sh" >/dev/null; }

command_of() {
	case $1 in
	build)		echo tests/build.sh ;;
	unit)		echo python3 -B tests/lib/unit_tests.py ;;
	docs)		echo python3 -B tests/docs_check.py ;;
	ring0)		echo python3 -B tests/ring0.py ;;
	fuzz)		echo tests/fuzz/mm_calls.sh 1 ${slow:+60} ;;
	net)		echo python3 -B tests/net/net.py $slow ;;
	model)		echo tests/model/run.sh ;;
	race-fails)	echo python3 -B tests/lib/race_fails.py ;;
	guest|race)	echo python3 -B tests/lib/guest_tests.py $slow tests/$1 ;;
	stress)		echo python3 -B tests/lib/guest_tests.py $slow --kernel faultline tests/stress ;;
	boot)		echo python3 -B tests/boot/matrix.py $slow ;;
	kasan)		echo tests/kasan.sh ;;
	door)		echo tests/door.sh ;;
	gdb)		echo tests/gdb.sh ;;
	map)		echo tests/map.sh ;;
	book)		echo tests/book.sh ;;
	labs)		echo python3 -B tests/labs/check.py $slow ;;
	container)	echo tests/labs/container.sh ;;
	*)		return 1 ;;
	esac
}

unset MAKEFLAGS MFLAGS MAKELEVEL
mkdir -p build/tests
results=build/tests/results.txt
: >"$results"
echo "Building ..."
flock build/.lock-make make -s -j"$(nproc)" all build/tests/guest-init build/tests/kvm-probe >build/tests/build.log 2>&1 ||
	{ cat build/tests/build.log; echo "FAIL: build" | tee -a "$results"; groups=(); }

for group in ${groups[@]+"${groups[@]}"}; do
	case $group in unit|guest|race|stress) has_tests "$group" || continue ;; esac
	# A student's tree shows neither the labs' own tests nor how races are re-opened.
	case $group in labs) [ -f tests/labs/check.py ] || continue ;; race-fails) [ -d tests/race/patches ] || continue ;; esac
	command=$(command_of "$group") || { echo "tests/run.sh: no group '$group'" >&2; exit 2; }
	echo "== $group"
	start=$SECONDS
	log=build/tests/$group.log
	$command 2>&1 </dev/null | tee "$log"
	status=${PIPESTATUS[0]}
	if ! grep -q '^end: ' "$log" || { [ "$status" != 0 ] && ! grep -q '^FAIL: ' "$log"; }; then
		echo "FAIL: $group: the group ended early, with status $status" | tee -a "$log"
	fi
	grep -E '^(ok|FAIL|skip): ' "$log" >>"$results"
	echo "== $group: $(grep -c '^ok: ' "$log") passed, $(grep -c '^FAIL: ' "$log") failed, $(grep -c '^skip: ' "$log") skipped, $((SECONDS - start)) s"
done

passed=$(grep -c '^ok: ' "$results")
failed=$(grep -c '^FAIL: ' "$results")
skipped=$(grep -c '^skip: ' "$results")
if [ "$failed" -gt 0 ]; then
	echo "Failed:"
	grep '^FAIL: ' "$results" | sed 's/^FAIL: /  /'
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
