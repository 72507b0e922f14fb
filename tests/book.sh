#!/bin/bash
# make book: no broken link (the build itself fails then), and the search finds something without a network.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/lib/report.sh
report_prefix=book/
[ -e /usr/lib/python3/dist-packages/myst_parser/__init__.py ] && /usr/bin/python3 -c 'import sphinx' 2>/dev/null ||
	{ skip builds "no Sphinx and MyST (make book installs them)"; report_end; }
work=$(mktemp -d "${TMPDIR:-/tmp}/faultline-book.XXXXXX")
trap 'rm -rf "$work"' EXIT
timeout 600 python3 -B tests/lib/book.py >"$work/out" 2>&1
status=$?
expect builds_without_broken_links 0 $status
[ $status = 0 ] || sed 's/^/    | /' "$work/out" | head -30
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ $status = 0 ] && [ -n "$browser" ]; then
	timeout 100 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --virtual-time-budget=8000 \
		--dump-dom "file://$PWD/build/book/search.html?q=shoot-down" >"$work/dom" 2>/dev/null
	expect search_works_from_a_file 1 "$(grep -c 'found [1-9][0-9]* page' "$work/dom")"
else
	skip search_works_from_a_file "no chromium"
fi
report_end
