#!/bin/bash
# The address sanitizer of the debug build (mm/kasan.c): is each planted bug found and named, and do honest programs run?
#
#     tests/kasan.sh
#
# Each planted bug (mm/kasan_test.c) costs a boot, for the kernel stops there.
set -u

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/tests/lib/report.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/faultline-kasan.XXXXXX")
trap 'rm -rf "$work"' EXIT
file=/sys/kernel/faultline/kasan_test

# guest ARGUMENTS...: output in $work/out, log in $work/err, and $status
guest() {
	"$top/tests/guest.sh" --build debug "$@" >"$work/out" 2>"$work/err" </dev/null
	status=$?
}

# found BUG REGEX...: the kernel stops with status 125, and its log has all of these
found() {
	local bug=$1 regex
	shift
	guest --cpus 2 --timeout 60 -- "echo $bug >$file; echo not found; sleep 1"
	for regex; do
		grep -qE "$regex" "$work/err" || { fail "$bug" "status $status, no '$regex' in: $(grep -A2 PANIC "$work/err" | tr '\n' ' ')"; return; }
	done
	expect "$bug" 125 "$status"
}

report_prefix=kasan/
guest --cpus 1 -- "ls $file"
if [ "$status" != 0 ]; then
	skip all "the compiler has no -fsanitize=kernel-address that we know, or the kernel does not boot"
else
	found use_after_free 'PANIC: kasan: use after free: read of 8 bytes at .* by use_after_free\+' \
		'byte 8 of the free object .* of kmalloc-64 \(64 bytes\); last allocated by use_after_free\+.*, freed by use_after_free\+'
	found late_use_after_free 'PANIC: kasan: use after free: write of 4 bytes at .* by late_use_after_free\+' 'byte 8 of the free object .* of kmalloc-256'
	found out_of_bounds 'PANIC: kasan: out of bounds: write of 1 byte at .* by out_of_bounds\+' \
		' 0 bytes behind the 43 bytes of object .* of kmalloc-64; allocated by out_of_bounds\+'
	found copy_out_of_bounds 'PANIC: kasan: out of bounds: write of 101 bytes at .* by copy_out_of_bounds\+' ' 0 bytes behind the 100 bytes of object .* of kmalloc-128'
	found block_out_of_bounds 'PANIC: kasan: out of bounds: read of 1 byte at .* by block_out_of_bounds\+' ' 0 bytes behind the 5000 bytes of the kmalloc block'
	found frame_after_free 'PANIC: kasan: use after free: write of 8 bytes at .* by frame_after_free\+' 'offset 50 of frame .*, which is free, freed by .*\+'
	found double_free 'PANIC: slab kmalloc-64: object .* freed twice, by double_free\+.*; last allocated by double_free\+.*, freed by double_free\+'

	# A machine too small for it boots without, and says so.
	guest --mem 64M -- "dmesg | grep -c 'kasan: off'; ls $file 2>/dev/null | wc -l"
	expect small_machine "0 1 0" "$status $(tr '\n' ' ' <"$work/out" | sed 's/ $//')"

	# Ordinary work, and nothing lost: what waits in quarantine is no leak.
	for cpus in 1 4; do
		guest --cpus $cpus --timeout 200 -- '
			work() {
				for i in 1 2 3; do
					for j in 1 2 3 4; do
						(mkdir -p /tmp/d$j/e; seq 2000 >/tmp/d$j/e/f; sort -r /tmp/d$j/e/f | md5sum >/tmp/d$j/g
						 cp -r /tmp/d$j /tmp/c$j; find / -xdev >/tmp/c$j/list 2>/dev/null; cat /proc/*/maps /proc/slabinfo >/dev/null 2>&1) &
					done
					wait
					rm -rf /tmp/*
				done
				sync
			}
			used() { sed -n "s/^frames_used //p" /sys/kernel/faultline/leaks; }
			work; before=$(used); work; after=$(used); [ $((after - before)) -le 64 ] && echo clean || echo "$before $after"'
		expect "ordinary_work_on_$cpus" "0 clean" "$status $(cat "$work/out")$(grep -A2 PANIC "$work/err")"
	done
fi
report_prefix=kasan
report_end
