#!/bin/bash
# Check the models with Spin: the protocol has no counter-example, and each variant that leaves out a step has one. The first
# comment of a model lists its variants, one a line: ` *	-DWORD...	what it leaves out`, or `holds: ...` for a protocol of its own.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top" || exit 2
. tests/lib/report.sh
report_prefix=model/
work=build/tests/model
mkdir -p "$work"

# verify MODEL VARIANT FLAGS: "0" if Spin finds no error, else how many; "?" if it did not get that far.
verify() {
	local dir=$work/$1-$2
	mkdir -p "$dir"
	(
		cd "$dir" || exit
		rm -f ./*.trail
		spin $3 -a "$top/tests/model/$1.pml" >log 2>&1 && gcc -O1 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c >>log 2>&1 &&
			timeout 600 ./pan -m1000000 -n >>log 2>&1
	)
	if grep -q 'max search depth too small' "$dir/log"; then
		echo '?'
	else
		sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$dir/log" | grep . || echo '?'
	fi
}

words() {
	sed 's/-D//g' <<<"$1"
}

must_hold() {
	expect "$1${2:+: $(words "$2")}" 0 "$(verify "$1" "$(words "${2:-plain}" | tr ' ' -)" "$2")"
}

must_fail() {
	expect "$1: $(words "$2") has a counter-example" 1 "$(verify "$1" "$(words "$2" | tr ' ' -)" "$2")"
}

# as_many_as_processors CHECK MODEL FLAGS: in the background; what it says waits in a file, so that the order is always the same.
number=0
as_many_as_processors() {
	while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
	number=$((number + 1))
	"$@" >"$work/said.$(printf %03d $number)" &
}

if ! command -v spin >/dev/null; then
	skip spin "not installed"
	report_end
fi
rm -f "$work"/said.*
for model in tests/model/*.pml; do
	name=$(basename "$model" .pml)
	variants=$(sed -n '1,/\*\//p' "$model" | grep -E '^ \*[[:space:]]+-D')
	grep -q 'holds:' <<<"$variants" || as_many_as_processors must_hold "$name" ""
	while IFS= read -r line; do
		flags=$(grep -oE -- '-D[A-Z_]+' <<<"$line" | tr '\n' ' ')
		case $line in
		*holds:*)	as_many_as_processors must_hold "$name" "${flags% }" ;;
		*)		as_many_as_processors must_fail "$name" "${flags% }" ;;
		esac
	done <<<"$variants"
done
wait
cat "$work"/said.*
! grep -q "^FAIL" "$work"/said.* || report_failed=1
report_end
