#!/bin/bash
# make map: is what it draws what happened, well-formed, and free of the network? With a browser, is it drawn at all?
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/lib/report.sh
report_prefix=map/
work=$(mktemp -d "${TMPDIR:-/tmp}/faultline-map.XXXXXX")
trap 'rm -rf "$work"' EXIT

OUT=$work/out CMD='' MEM=256M APPEND='' ADD='' timeout 200 python3 -B tests/lib/map.py >"$work/said" 2>&1 </dev/null
expect demonstration_runs 0 $?
expect three_points "1-before-fork.svg 2-after-fork.svg 3-child-wrote-eight-pages.svg index.html recording.txt" "$(cd "$work/out" && echo *)"

python3 -B - "$work/out" >"$work/found" 2>&1 <<'CHECK'
import re, sys, xml.dom.minidom
out = sys.argv[1]
for name in ("1-before-fork", "2-after-fork", "3-child-wrote-eight-pages"):
    with open(f"{out}/{name}.svg") as f:
        text = f.read()
    d = xml.dom.minidom.parseString(text)
    print(name, "processes", len(re.findall(r">process \d+: map_demo<", text)))
    # Nothing is drawn outside of the picture, and no text runs into the next column.
    width = int(d.documentElement.getAttribute("width"))
    height = int(d.documentElement.getAttribute("height"))
    for t in d.getElementsByTagName("text"):
        x, y, size = (float(t.getAttribute(a)) for a in ("x", "y", "font-size"))
        wide = 0.6 * size * len(t.firstChild.data)
        if x + wide > width or y > height:
            print("outside:", t.firstChild.data)
    for r in d.getElementsByTagName("rect"):
        if float(r.getAttribute("x") or 0) + float(r.getAttribute("width")) > width:
            print("outside: a box")
with open(f"{out}/3-child-wrote-eight-pages.svg") as f:
    print("copied", re.findall(r"frame: (\d+) pages", f.read()))
with open(f"{out}/index.html") as f:
    page = f.read()
print("network", re.findall(r'(?:src|href)="[^#"]', page), "scripts", page.count("<script"))
CHECK
expect one_process_then_two "1-before-fork processes 1
2-after-fork processes 2
3-child-wrote-eight-pages processes 2" "$(grep processes "$work/found")"
expect nothing_outside "" "$(grep -E 'outside|Error' "$work/found")"
expect eight_copies "copied ['8']" "$(grep copied "$work/found")"
expect no_network "network [] scripts 0" "$(grep network "$work/found")"

# Huge pages: one PMD table for two processes, and what a file has and was promised; drawn, and as the kernel tells it.
musl-gcc -static -O2 -Wall -Wextra -o "$work/map_huge" user/demo/map_huge.c >"$work/said" 2>&1
OUT=$work/huge CMD=/t/map_huge MEM=256M APPEND=hugepages=24 ADD=$work/map_huge timeout 200 python3 -B tests/lib/map.py >>"$work/said" 2>&1 </dev/null
expect huge_demonstration_runs 0 $?
expect huge_points "1-before-fork.svg 2-child-wrote-three-pages.svg 3-child-left-the-table.svg index.html recording.txt" "$(cd "$work/huge" && echo *)"
python3 -B - "$work/huge" >"$work/found" 2>&1 <<'CHECK'
import re, sys, xml.dom.minidom
out = sys.argv[1]
def pictures():
    for name in ("1-before-fork", "2-child-wrote-three-pages", "3-child-left-the-table"):
        with open(f"{out}/{name}.svg") as f:
            yield f.read()
for text in pictures():
    d = xml.dom.minidom.parseString(text)
    width, height = (int(d.documentElement.getAttribute(a)) for a in ("width", "height"))
    drawn = [(float(t.getAttribute("x")), float(t.getAttribute("y")), 0.6 * float(t.getAttribute("font-size")) * len(t.firstChild.data), t.firstChild.data)
             for t in d.getElementsByTagName("text") if t.parentNode.nodeName == "svg"]
    for x, y, wide, words in drawn:
        if x + wide > width or y > height:
            print("outside:", words)
        if any(x < x2 < x + 0.9 * wide and y == y2 for x2, y2, _, _ in drawn):
            print("over another text:", words)
    lines = [re.search(r">(\d+ here[^<]*)<", g).group(0)[1:-1] for g in re.findall(r"<text[^>]*>\d+ here[^<]*<", text)]
    print("letters", len(re.findall(r">A</text>", text)), "elsewhere", text.count("the same table as in process"), "gone", len(re.findall(r"<title>gone: ", text)),
          "|", "; ".join(line.replace("; 2 MiB each", "") for line in lines))
CHECK
expect huge_nothing_outside "" "$(grep -E 'outside|over|Error' "$work/found")"
expect huge_tables_and_promises "letters 0 elsewhere 0 gone 0 | 5 here, 0 promised, 507 neither; 1 here, 5 promised, 0 neither; 1 here, 3 promised, 0 neither
letters 3 elsewhere 1 gone 0 | 6 here, 0 promised, 506 neither; 2 here, 4 promised, 0 neither; 1 here, 3 promised, 0 neither; 1 here, 0 promised, 3 neither
letters 0 elsewhere 0 gone 2 | 6 here, 0 promised, 506 neither; 2 here, 4 promised, 0 neither; 1 here, 3 promised, 0 neither; 1 here, 0 promised, 3 neither" \
	"$(grep letters "$work/found")"

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -n "$browser" ]; then
	timeout 100 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --window-size=1400,900 \
		--screenshot="$work/shot.png" "file://$work/out/index.html" >"$work/browser" 2>&1
	size=$(stat -c %s "$work/shot.png" 2>/dev/null || echo 0)
	expect a_browser_draws_it 1 $((size > 20000))
else
	skip a_browser_draws_it "no chromium"
fi
report_end
