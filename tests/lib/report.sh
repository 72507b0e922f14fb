# Sourced by test scripts: how they say what they found. tests/run.sh counts the lines that start with these words.
#
#	ok: NAME		FAIL: NAME: WHY		skip: NAME: WHY
#
# A script that ends without `report_end` did not get to its end, and that is a failure of its own.

report_failed=0
report_prefix=${report_prefix:-}

ok()   { echo "ok: $report_prefix$1"; }
skip() { echo "skip: $report_prefix$1: ${2:-}"; }
fail() { echo "FAIL: $report_prefix$1: ${2:-}"; report_failed=1; }

# expect NAME EXPECTED GOT
expect() {
	if [ "$2" = "$3" ]; then ok "$1"; else fail "$1" "expected '${2:0:200}', got '${3:0:200}'"; fi
}

report_end() { echo "end: ${report_prefix%/}"; exit $report_failed; }
