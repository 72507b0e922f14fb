"""make map [CMD='...'] [OUT=build/map] [ADD='FILE...']: draw the page tables of the processes of a run.

CMD runs in a guest. Whenever it, or a program that it starts, runs `/t/map-point LABEL`, the page tables of all its processes are
recorded from /proc/PID/pagetable; without any such call one picture is taken while CMD runs, after a second. OUT gets one SVG for
each point, and index.html, which holds them all and needs no network. Without CMD the demonstration of user/demo/map_demo.c runs.

How to read a picture. One block for each process. From left to right the levels, each box as high as what is below it:
the entry of the root table, of the PUD table, of the PMD table; then the entries of a PTE table as a strip, from low to high
addresses: all 512 of them, or that stretch of 64, 128 or 256 in which there are any. Colour *and* hatching tell the rights; a bar under the strip marks what changed since the point before.
"""
import html
import os
import re
import shlex
import subprocess
import sys
import tempfile

import vm
from vm import Trouble, note

POINT = r'''#!/bin/sh
# map-point LABEL: the page tables of every process but the ones that record them.
{
	echo "=point ${1:-point}"
	echo "=huge $(grep -E '^HugePages_(Total|Free|Rsvd|Surp)|^Hugepagesize' /proc/meminfo | tr -s ' ' | tr '\n' ';')"
	for d in /proc/[0-9]*; do
		pid=${d#/proc/}
		[ "$pid" != 1 ] && [ "$pid" != $$ ] && grep -q . "$d/maps" || continue
		name=$(cat "$d/comm" 2>/dev/null) || continue
		case $name in map-point|map-run|ash|sh|cat|grep|tr|sleep) continue ;; esac
		echo "=process $pid $name"
		echo "=maps"
		cat "$d/maps"
		echo "=pagetable"
		cat "$d/pagetable"
	done
} >>/tmp/.map-log 2>/dev/null
'''
RUN = r'''
: >/tmp/.map-log
sh -c "$(cat /t/map-command)" >/tmp/.map-output 2>&1 &
command=$!
sleep 1
[ -s /tmp/.map-log ] || /t/map-point running
wait $command
echo "=status $?"
cat /tmp/.map-log
echo "=output"
cat /tmp/.map-output
'''

# Okabe and Ito: told apart with every kind of colour blindness; and each has a hatching of its own.
KINDS = {
    "rw": ("#e69f00", "readable and writable"),
    "r": ("#56b4e9", "read-only"),
    "x": ("#009e73", "executable"),
    "none": ("#bbbbbb", "mapped, no access"),
    "marker": ("#cc79a7", "marker: no page, but a note"),
}
CHANGES = {"new": ("#000000", "new"), "frame": ("#d55e00", "other frame"), "rights": ("#0072b2", "other rights"), "gone": ("#999999", "gone")}
ENTRIES, PAGE = 512, 4096
PMD = ENTRIES * PAGE


# --- Reading --------------------------------------------------------------------------------------------------------------

class Leaf:
    def __init__(self, start, end, level, pfn, rights, sharers):
        self.start, self.end, self.level, self.pfn, self.rights, self.sharers = start, end, level, pfn, rights, sharers

    def kind(self):
        if self.rights[0] == "m":
            return "marker"
        if self.rights[0] == "-" or "u" not in self.rights:
            return "none"
        return "rw" if self.rights[1] == "w" else "x" if self.rights[2] == "x" else "r"


class Process:
    def __init__(self, pid, name):
        self.pid, self.name = pid, name
        self.vmas = []			# (start, end, rights, name)
        self.tables = {}		# (level, start): (pfn, sharers)
        self.leaves = []

    def vma_at(self, addr):
        return next((v for v in self.vmas if v[0] <= addr < v[1]), None)

    def pages(self):
        """What is at each page: {page number: (pfn, kind)}; huge leaves count by their first page."""
        found = {}
        for leaf in self.leaves:
            for i in range((leaf.end - leaf.start) // PAGE if leaf.level == 1 else 1):
                found[leaf.start // PAGE + i] = (leaf.pfn + i, leaf.kind())
        return found


class Point:
    def __init__(self, label):
        self.label, self.huge, self.processes = label, "", []


def parse(text):
    points, part, status, output = [], None, None, ""
    for line in text.split("\n"):
        if line.startswith("=point "):
            points.append(Point(line[7:].strip()))
        elif line.startswith("=huge "):
            points[-1].huge = line[6:].strip(" ;")
        elif line.startswith("=process "):
            _, pid, name = line.split(" ", 2)
            points[-1].processes.append(Process(int(pid), name))
        elif line.startswith("=status "):
            status = int(line.split()[1])
        elif line in ("=maps", "=pagetable", "=output"):
            part = line[1:]
        elif part == "output":
            output += line + "\n"
        elif part == "maps" and points:
            m = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)", line)
            if m:
                points[-1].processes[-1].vmas.append((int(m.group(1), 16), int(m.group(2), 16), m.group(3), m.group(4)))
        elif part == "pagetable" and points:
            words = line.split()
            if len(words) != 8:
                continue
            start, end, level, pfn, rights, kind, sharers = int(words[0], 16), int(words[1], 16), int(words[2]), int(words[3], 16), words[4], words[5], words[6]
            p = points[-1].processes[-1]
            if kind == "table":
                p.tables[level, start] = (pfn, int(sharers))
            else:
                p.leaves.append(Leaf(start, end, level, pfn, rights, int(sharers)))
    return points, status, output


# --- Drawing --------------------------------------------------------------------------------------------------------------

STRIP_X, STRIP_W, TEXT_X, WIDTH = 420, 512, 948, 1360
ROW, GAP = 34, 14
COLUMNS = ((4, 20, 120, "root entry"), (3, 144, 120, "PUD entry"), (2, 268, 140, "PMD entry"))


def esc(text):
    return html.escape(str(text), quote=True)


def size_text(n):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= unit and n % unit == 0:
            return f"{n // unit} {name}"
    return f"{n} B"


def patterns():
    shapes = {
        "rw": "",
        "r": '<path d="M0,6 L6,0" stroke="#00000088" stroke-width="1.2"/>',
        "x": '<circle cx="3" cy="3" r="1.2" fill="#000000aa"/>',
        "none": '<path d="M0,0 L6,6 M0,6 L6,0" stroke="#00000066"/>',
        "marker": '<path d="M0,3 L6,3" stroke="#000000aa"/>',
    }
    out = ['<defs>']
    for kind, (colour, _) in KINDS.items():
        out.append(f'<pattern id="k-{kind}" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="{colour}"/>{shapes[kind]}</pattern>')
    out.append('<pattern id="k-shared" width="5" height="5" patternUnits="userSpaceOnUse"><path d="M1,0 L1,5" stroke="#000" stroke-width="1.4"/></pattern>')
    out.append('</defs>')
    return "".join(out)


def text(x, y, words, size=11, weight="normal", colour="#111", limit=None):
    if limit and len(words) > limit:
        words = words[:limit - 1] + "\u2026"
    return f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}">{esc(words)}</text>'


def legend(y):
    out, x = [], 20
    for kind, (_, words) in KINDS.items():
        out.append(f'<rect x="{x}" y="{y}" width="22" height="14" fill="url(#k-{kind})" stroke="#333"/>')
        out.append(text(x + 28, y + 11, words))
        x += 40 + 6.6 * len(words)
    out.append(f'<rect x="{x}" y="{y}" width="22" height="14" fill="#fff" stroke="#333"/><rect x="{x}" y="{y}" width="22" height="5" fill="url(#k-shared)"/>')
    out.append(text(x + 28, y + 11, "striped top: frame has more than one user"))
    x, y = 20, y + 22
    out.append(text(x, y + 11, "Since the point before:"))
    x += 140
    for colour, words in CHANGES.values():
        out.append(f'<rect x="{x}" y="{y + 4}" width="22" height="6" fill="{colour}"/>')
        out.append(text(x + 28, y + 11, words))
        x += 42 + 6.6 * len(words)
    out.append(f'<rect x="{x}" y="{y}" width="22" height="14" fill="#fff" stroke="#cc79a7" stroke-width="3"/>')
    out.append(text(x + 28, y + 11, "thick frame: a table that several processes share"))
    return "".join(out), y + 26


def runs(pages):
    """Neighbouring page numbers as (first, last)."""
    out = []
    for n in sorted(pages):
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return out


def changes(process, before):
    """{page number: kind of change}, and None for a process that was not there before."""
    if before is None:
        return {}
    old = next((p for p in before.processes if p.pid == process.pid), None)
    if old is None:
        return {}
    was, now, out = old.pages(), process.pages(), {}
    for n in was.keys() | now.keys():
        if n not in was:
            out[n] = "new"
        elif n not in now:
            out[n] = "gone"
        elif was[n][0] != now[n][0]:
            out[n] = "frame"
        elif was[n][1] != now[n][1]:
            out[n] = "rights"
    return out


def window(process, base, changed):
    """Which entries of a table to draw: an aligned stretch of 64, 128, 256 or all 512 that holds everything there is."""
    used = [(leaf.start - base) // PAGE for leaf in process.leaves if leaf.level == 1 and base <= leaf.start < base + PMD]
    used += [(leaf.end - base) // PAGE - 1 for leaf in process.leaves if leaf.level == 1 and base <= leaf.start < base + PMD]
    used += [n - base // PAGE for n in changed if base // PAGE <= n < base // PAGE + ENTRIES]
    size = 64
    while size < ENTRIES and used and min(used) // size != max(used) // size:
        size *= 2
    return (min(used) // size * size if used else 0), size


def draw_strip(process, base, y, changed):
    """One PTE table, or the part of it where something is."""
    skip, size = window(process, base, changed)
    scale = STRIP_W // size
    first_page = base // PAGE + skip
    out = [f'<rect x="{STRIP_X}" y="{y}" width="{STRIP_W}" height="{ROW - 14}" fill="#f4f4f4" stroke="#999"/>']
    for leaf in process.leaves:
        if leaf.level != 1 or not base <= leaf.start < base + PMD:
            continue
        n = (leaf.end - leaf.start) // PAGE
        x, w = STRIP_X + (leaf.start // PAGE - first_page) * scale, n * scale
        vma = process.vma_at(leaf.start)
        tip = f"{leaf.start:#x}-{leaf.end:#x}: {n} page{'s' * (n > 1)}, frame {leaf.pfn:#x}, {leaf.rights}, {leaf.sharers} users" + (f", {vma[3] or 'anonymous'}" if vma else "")
        out.append(f'<g><title>{esc(tip)}</title><rect x="{x}" y="{y}" width="{w}" height="{ROW - 14}" fill="url(#k-{leaf.kind()})"/>')
        if leaf.sharers > 1:
            out.append(f'<rect x="{x}" y="{y}" width="{w}" height="7" fill="#fff"/><rect x="{x}" y="{y}" width="{w}" height="7" fill="url(#k-shared)"/>')
        out.append("</g>")
    for kind, (colour, _) in CHANGES.items():
        for first, last in runs(n for n, k in changed.items() if k == kind and base // PAGE <= n < base // PAGE + ENTRIES):
            x, n = STRIP_X + (first - first_page) * scale, last - first + 1
            out.append(f'<rect x="{x}" y="{y + ROW - 13}" width="{max(n * scale, 2)}" height="5" fill="{colour}"><title>{kind}: {n} page{"s" * (n > 1)}</title></rect>')
    return "".join(out)


def row_text(process, base, span):
    names = []
    for start, end, rights, name in process.vmas:
        if start < base + span and end > base:
            word = os.path.basename(name) if name.startswith("/") else name or "anonymous"
            if not names or names[-1] != f"{word} {rights}":
                names.append(f"{word} {rights}")
    return ", ".join(names)


def draw_process(process, point, before, y, shared):
    out = [text(20, y + 14, f"process {process.pid}: {process.name}", 14, "bold")]
    pages = sum((leaf.end - leaf.start) // PAGE for leaf in process.leaves)
    out.append(text(300, y + 14, f"{len(process.vmas)} VMAs, {len(process.tables) + 1} page tables, {pages} pages present", 12))
    y += 26
    rows = sorted({s for (level, s) in process.tables if level == 2} | {leaf.start for leaf in process.leaves if leaf.level == 2})
    changed = changes(process, before)
    top = {}
    for base in rows:
        for level, span in ((4, 1 << 39), (3, 1 << 30), (2, PMD)):
            top.setdefault((level, base & ~(span - 1)), [y, y])[1] = y + ROW - 6
        huge = next((leaf for leaf in process.leaves if leaf.level == 2 and leaf.start == base), None)
        if huge:
            out.append(f'<rect x="{STRIP_X}" y="{y}" width="{STRIP_W}" height="{ROW - 14}" fill="url(#k-{huge.kind()})" stroke="#000" stroke-width="2.5"/>'
                       f'<rect x="{STRIP_X + 150}" y="{y + 3}" width="212" height="14" fill="#fff"/>')
            out.append(text(STRIP_X + 156, y + 14, f"huge page, frame {huge.pfn:#x}, {huge.sharers} user{'s' * (huge.sharers != 1)}"))
            change = changed.get(base // PAGE)
            if change:
                out.append(f'<rect x="{STRIP_X}" y="{y + ROW - 13}" width="{STRIP_W}" height="5" fill="{CHANGES[change][0]}"/>')
        else:
            out.append(draw_strip(process, base, y, changed))
        if huge:
            out.append(text(TEXT_X, y + 9, f"{base:#x}, 2 MiB", 10, "normal", "#444"))
        else:
            skip, size = window(process, base, changed)
            out.append(text(TEXT_X, y + 9, f"{base + skip * PAGE:#x}, entries {skip} to {skip + size - 1}", 10, "normal", "#444"))
        out.append(text(TEXT_X, y + 21, row_text(process, base, PMD), 11, limit=52))
        y += ROW
    for (level, start), (begin, end) in sorted(top.items()):
        if (level, start) not in process.tables:
            continue
        pfn, sharers = process.tables[level, start]
        _, x, w, _ = next(c for c in COLUMNS if c[0] == level)
        others = [f"{p}" for p in shared.get(pfn, []) if p != process.pid]
        stroke = 'stroke="#cc79a7" stroke-width="3"' if others or sharers > 1 else 'stroke="#555"'
        below = {4: "PUD", 3: "PMD", 2: "PTE"}[level]
        out.append(f'<g><title>{below} table in frame {pfn:#x} for {start:#x}</title><rect x="{x}" y="{begin}" width="{w}" height="{end - begin - 6}" fill="#fff" {stroke}/>')
        index = start >> {4: 39, 3: 30, 2: 21}[level] & 511
        out.append(text(x + 6, begin + 14, f"[{index}] {below} table {pfn:x}", 10, limit=22))
        if end - begin > 40 and (others or sharers > 1):
            out.append(text(x + 6, begin + 28, "shared with " + ", ".join(others) if others else f"{sharers} users", 10))
        out.append("</g>")
    return "".join(out), y + GAP


def draw(point, before):
    shared = {}
    for p in point.processes:
        for (level, _), (pfn, _) in p.tables.items():
            if p.pid not in shared.setdefault(pfn, []):
                shared[pfn].append(p.pid)
    out = [text(20, 28, point.label.replace("-", " "), 18, "bold")]
    part, y = legend(42)
    out.append(part)
    if re.search(r"HugePages_Total: [1-9]", point.huge):
        out.append(text(20, y + 12, "Huge pages: " + point.huge.replace("HugePages_", "").replace(";", ", "), 12))
        y += 22
    for _, x, w, name in COLUMNS:
        out.append(text(x, y + 14, name, 11, "bold"))
    out.append(text(STRIP_X, y + 14, "the entries of a PTE table, where there are any", 11, "bold") + text(TEXT_X, y + 14, "what is mapped there", 11, "bold"))
    y += 26
    for p in point.processes:
        part, y = draw_process(p, point, before, y, shared)
        out.append(part)
    if not point.processes:
        out.append(text(20, y + 14, "no process was there", 12))
        y += 30
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" font-family="DejaVu Sans, Verdana, sans-serif">'
            f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>{patterns()}{"".join(out)}</svg>')


def page(points, pictures, command):
    """One file, no script, no network: which point is shown is chosen by radio buttons."""
    radios = "".join(f'<input type="radio" name="p" id="p{i}"{" checked" if i == 0 else ""}>' for i in range(len(points)))
    labels = "".join(f'<label for="p{i}">{esc(p.label.replace("-", " "))}</label>' for i, p in enumerate(points))
    rules = "".join(f'#p{i}:checked~#s{i}{{display:block}}#p{i}:checked~nav label[for=p{i}]{{background:#222;color:#fff}}' for i in range(len(points)))
    # Ids of patterns are the same in all: one of them may be hidden, and a hidden pattern draws nothing.
    shown = "".join(f'<section id="s{i}">{re.sub(r"k-", f"k{i}-", picture)}</section>' for i, picture in enumerate(pictures))
    return f'''<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Page tables: {esc(command)}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body{{font-family:DejaVu Sans,Verdana,sans-serif;margin:16px;color:#111;background:#fff}}input{{position:absolute;opacity:0}}
section{{display:none;overflow-x:auto}}nav label{{display:inline-block;padding:6px 12px;margin:0 6px 12px 0;border:1px solid #222;cursor:pointer}}
input:focus-visible~nav{{outline:2px solid #0072b2}}code{{background:#eee;padding:1px 4px}}{rules}</style></head>
<body><h1>Page tables</h1><p>of <code>{esc(command)}</code>. Point at a part of a strip to read addresses, frame and rights.</p>
{radios}<nav>{labels}</nav>{shown}</body></html>
'''


# --- Running --------------------------------------------------------------------------------------------------------------

def record(command, files, options):
    with tempfile.TemporaryDirectory(prefix="faultline-map.") as d:
        for name, content in (("map-point", POINT), ("map-run", RUN), ("map-command", command)):
            with open(os.path.join(d, name), "w") as f:
                f.write(content)
            os.chmod(os.path.join(d, name), 0o755)
        words = [os.path.join(vm.TOP, "tests/guest.sh"), *options]
        for name in ("map-point", "map-run", "map-command"):
            words += ["--add", os.path.join(d, name)]
        for f in files:
            words += ["--add", f]
        done = subprocess.run(words + ["--", "ash /t/map-run"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    if done.returncode:
        raise Trouble(f"the guest ended with status {done.returncode}")
    return done.stdout.decode(errors="replace")


def main(argv):
    command, out = os.environ.get("CMD", ""), os.environ.get("OUT") or os.path.join(vm.BUILD, "map")
    files = shlex.split(os.environ.get("ADD", ""))
    options = ["--cpus", os.environ.get("CPUS") or "2", "--mem", os.environ.get("MEM") or "512M"]
    if os.environ.get("APPEND"):
        options += ["--append", os.environ["APPEND"]]
    if argv:				# a recording, for the tests of the drawing
        with open(argv[0], encoding="utf-8", errors="replace") as f:
            text_ = f.read()
        command = command or argv[0]
    else:
        if not command:
            program = os.path.join(vm.BUILD, "map_demo")
            done = subprocess.run(["musl-gcc", "-static", "-O2", "-Wall", "-o", program, os.path.join(vm.TOP, "user/demo/map_demo.c")])
            if done.returncode:
                raise Trouble("user/demo/map_demo.c does not compile; run 'make deps'")
            command, files = "/t/map_demo", files + [program]
        text_ = record(command, files, options)
    points, status, output = parse(text_)
    if output.strip():
        note("map: the command printed:\n" + output.rstrip())
    if status:
        note(f"map: the command ended with status {status}")
    if not points:
        raise Trouble("nothing was recorded")
    os.makedirs(out, exist_ok=True)
    pictures, before = [], None
    for p in points:
        pictures.append(draw(p, before))
        with open(os.path.join(out, re.sub(r"[^\w.-]", "_", p.label) + ".svg"), "w", encoding="utf-8") as f:
            f.write(pictures[-1])
        before = p
    with open(os.path.join(out, "recording.txt"), "w", encoding="utf-8") as f:
        f.write(text_)
    index = os.path.join(out, "index.html")
    with open(index, "w", encoding="utf-8") as f:
        f.write(page(points, pictures, command))
    print(f"{len(points)} points, {sum(len(p.processes) for p in points)} pictures of processes: {index}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Trouble as e:
        note(f"map: {e}")
        sys.exit(2)
