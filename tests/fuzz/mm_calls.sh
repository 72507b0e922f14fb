#!/bin/bash
# The memory system calls with random and odd arguments, on Linux and on Faultline: same results, same mappings, same contents?
#
#     tests/fuzz/mm_calls.sh [FIRST [LAST [CALLS]]]		seeds 1 to 12, 300 calls each
#
# Both run tests/fuzz/mm_calls.c with the same seeds. Where the hashes of a seed differ the first call that went
# differently is printed, Linux's line and ours: `mm_calls -v SEED CALLS` in a guest shows all of them.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/lib/report.sh
report_prefix=fuzz/
first=${1:-1} last=${2:-12} calls=${3:-300}
program=build/tests/fuzz/mm_calls
work=$(mktemp -d "${TMPDIR:-/tmp}/faultline-fuzz.XXXXXX")
trap 'rm -rf "$work"' EXIT

mkdir -p build/tests/fuzz
[ $program -nt tests/fuzz/mm_calls.c ] || musl-gcc -std=gnu11 -static -O2 -Wall -Wextra -o $program tests/fuzz/mm_calls.c || exit 2

# run KERNEL ARGUMENTS...: what it printed to $work/KERNEL
run() {
	local kernel=$1
	shift
	tests/guest.sh --kernel "$kernel" --timeout 600 --add $program:/t/mm_calls -- "/t/mm_calls $*" >"$work/$kernel" 2>"$work/$kernel.err" </dev/null
}

explain() {
	run linux -v "$1" "$calls"
	run faultline -v "$1" "$calls"
	diff --unchanged-line-format= --old-line-format='    | Linux: %L' --new-line-format='    | here:  %L' "$work/linux" "$work/faultline" | head -6
	grep -h -A 8 'PANIC' "$work/faultline.err" | sed 's/^/    | /'
}

run linux "$first" "$last" "$calls" || { fail mm_calls "Linux did not run it: $(tail -1 "$work/linux.err")"; report_end; }
cp "$work/linux" "$work/expected"
run faultline "$first" "$last" "$calls"
cp "$work/faultline" "$work/got"
explained=0
for ((seed = first; seed <= last; seed++)); do
	if [ "$(grep "^seed $seed:" "$work/expected")" = "$(grep "^seed $seed:" "$work/got")" ]; then
		ok "mm_calls_$seed"
	else
		fail "mm_calls_$seed" "the transcripts differ"
		[ $((explained++)) -ge 3 ] || explain "$seed"
		grep -q "^seed $seed:" "$work/got" || break		# it did not get further than this one
	fi
done
report_end
