#!/bin/bash
# Check the models with Spin: the protocol has no counter-example, and each variant that leaves out a step has one.
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
			timeout 120 ./pan -m1000000 -n >>log 2>&1
	)
	if grep -q 'max search depth too small' "$dir/log"; then
		echo '?'
	else
		sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$dir/log" | grep . || echo '?'
	fi
}

must_hold() {
	expect "$1$2" 0 "$(verify "$1" plain "")"
}

must_fail() {
	expect "$1: ${2#-D} has a counter-example" 1 "$(verify "$1" "${2#-D}" "$2")"
}

if ! command -v spin >/dev/null; then
	skip spin "not installed"
	report_end
fi
for model in tests/model/*.pml; do
	name=$(basename "$model" .pml)
	must_hold "$name" ""
	for variant in $(grep -oE -- '^ \*[[:space:]]+-D[A-Z_]+' "$model" | grep -oE -- '-D[A-Z_]+'); do
		must_fail "$name" "$variant"
	done
done
report_end
