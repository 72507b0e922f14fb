"""make map [CMD='...'] [OUT=build/map] [ADD='FILE...']: draw the page tables of the processes of a run.

CMD runs in a guest. Whenever it, or a program that it starts, runs `/t/map-point LABEL`, the page tables of all its processes are
recorded from /proc/PID/pagetable; without any such call one picture is taken while CMD runs, after a second. OUT gets one SVG for
each point, and index.html, which holds them all and needs no network. Without CMD the demonstration of user/demo/map_demo.c runs.

How to read a picture. One block for each process. From left to right the levels, each box as high as what is below it:
the entry of the root table, of the PUD table, of the PMD table; then the entries of a PTE table as a strip, from low to high
addresses: all 512 of them, or that stretch of 64, 128 or 256 in which there are any. Huge pages are such strips too, with a thick frame: the
entries of a PMD table, or of a PUD table for pages of 1 GiB. Colour *and* hatching tell the rights; a bar under the strip marks what changed since
the point before. A PMD table that several processes share has a letter; what is in it is drawn once, where it comes first. Below the
processes are the files of huge pages: which of their pages are there, and which the pool has promised (/proc/PID/hugetlb).
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
		echo "=hugetlb"
		cat "$d/hugetlb"
	done
} >>${MAP_LOG:-/tmp/.map-log} 2>/dev/null
'''
RUN = r'''
: >/tmp/.map-log
sh -c "$(cat /t/map-command)" >/tmp/.map-output 2>&1 &
command=$!
sleep 1
MAP_LOG=/tmp/.map-running /t/map-point running		# kept only if the command asks for no picture of its own, however long that takes it
wait $command
echo "=status $?"
[ -s /tmp/.map-log ] || cat /tmp/.map-running
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
CHANGES = {"new": ("#000000", "new"), "frame": ("#d55e00", "other frame"), "rights": ("#0072b2", "other rights"), "gone": ("#555555", "gone")}
STATES = {"page": ("#e69f00", "a page"), "promised": ("#56b4e9", "promised: the pool keeps a page for it"), "none": ("#ffffff", "neither")}
ENTRIES, PAGE = 512, 4096
PMD = ENTRIES * PAGE
PUD = ENTRIES * PMD
UNIT = {1: PAGE, 2: PMD, 3: PUD}		# what an entry of that level maps, if it is a leaf


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
        self.tables = {}		# (level, start): (pfn, sharers, rights)
        self.leaves = []
        self.huge = []			# Huge, for each mapping of huge pages

    def vma_at(self, addr):
        return next((v for v in self.vmas if v[0] <= addr < v[1]), None)

    def pages(self):
        """What is at each page: {page number: (pfn, kind)}; huge leaves count by their first page."""
        found = {}
        for leaf in self.leaves:
            for i in range((leaf.end - leaf.start) // PAGE if leaf.level == 1 else 1):
                found[leaf.start // PAGE + i] = (leaf.pfn + i, leaf.kind())
        return found


class Huge:
    """A line of /proc/PID/hugetlb."""

    def __init__(self, words):
        self.start, self.end = (int(w, 16) for w in words[0].split("-"))
        self.file, self.page_size, self.how, self.first = f"{words[1]} inode {words[2]}", int(words[3]), words[4], int(words[5])
        self.states = {}		# index: page, promised, none
        at = self.first
        for state, count in zip(words[6::2], words[7::2]):
            self.states.update((at + i, state) for i in range(int(count)))
            at += int(count)


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
        elif line in ("=maps", "=pagetable", "=hugetlb", "=output"):
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
                p.tables[level, start] = (pfn, int(sharers), rights)
            else:
                p.leaves.append(Leaf(start, end, level, pfn, rights, int(sharers)))
        elif part == "hugetlb" and points and re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \d+ \d+ (shared|private) \d+( \w+ \d+)+$", line):
            points[-1].processes[-1].huge.append(Huge(line.split()))
    for point in points:
        point.processes.sort(key=lambda p: p.pid)
    return points, status, output


# --- Drawing --------------------------------------------------------------------------------------------------------------

STRIP_X, STRIP_W, TEXT_X, WIDTH = 392, 512, 918, 1232
ROW, GAP = 34, 14
COLUMNS = ((4, 16, 112, "root entry"), (3, 134, 112, "PUD entry"), (2, 252, 128, "PMD entry"))
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


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
    for state, (colour, _) in STATES.items():
        lines = '<path d="M0,0 L6,6" stroke="#00000088" stroke-width="1.2"/>' if state == "promised" else ""
        out.append(f'<pattern id="k-state-{state}" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="{colour}"/>{lines}</pattern>')
    marks = {"new": "", "frame": '<path d="M3,0 L3,5" stroke="#fff" stroke-width="1.4"/>', "rights": '<path d="M0,2.5 L4,2.5" stroke="#fff" stroke-width="1.4"/>',
             "gone": '<path d="M0,2.5 L4,2.5" stroke="#fff" stroke-width="2.2"/>'}
    for change, (colour, _) in CHANGES.items():
        out.append(f'<pattern id="k-change-{change}" width="4" height="5" patternUnits="userSpaceOnUse"><rect width="4" height="5" '
                   f'fill="{colour}"/>{marks[change]}</pattern>')
    out.append('<pattern id="k-shared" width="5" height="5" patternUnits="userSpaceOnUse"><path d="M1,0 L1,5" stroke="#000" stroke-width="1.4"/></pattern>')
    out.append('</defs>')
    return "".join(out)


def text(x, y, words, size=11, weight="normal", colour="#111", limit=None):
    if limit and len(words) > limit:
        words = words[:limit - 1] + "\u2026"
    return f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}">{esc(words)}</text>'


class Legend:
    """Samples with words behind them, in as many lines as it takes."""

    def __init__(self, y):
        self.out, self.x, self.y = [], 20, y

    def add(self, sample, words):
        wide = 42 + 6.6 * len(words)
        if self.x + wide > WIDTH - 10:
            self.x, self.y = 20, self.y + 20
        self.out.append(f'<g transform="translate({self.x:.0f} {self.y})">{sample}{text(28 if sample else 0, 11, words)}</g>')
        self.x += wide if sample else wide - 28

    def line(self):
        self.x, self.y = 20, self.y + 22


def box(fill, more='stroke="#333"'):
    return f'<rect width="22" height="14" fill="{fill}" {more}/>'


def legend(y, shared, huge):
    all_ = Legend(y)
    for kind, (_, words) in KINDS.items():
        all_.add(box(f"url(#k-{kind})"), words)
    all_.add(box("#fff") + '<rect width="22" height="5" fill="url(#k-shared)"/>', "striped top: frame has more than one user")
    all_.line()
    all_.add("", "Since the point before:")
    for kind, (_, words) in CHANGES.items():
        all_.add(change_bar(kind, 0, 5, 22, words), words)
    if huge:
        all_.add(box("#fff", 'stroke="#000" stroke-width="2.5"'), "thick frame: huge pages")
    if shared:
        all_.add('<circle cx="11" cy="7" r="9" fill="#000"/><text x="7.5" y="11" font-size="11" font-weight="bold" fill="#fff">A</text>',
                 "the same letter: the same PMD table")
    all_.line()
    return "".join(all_.out), all_.y + 4


def runs(pages):
    """Neighbouring page numbers as (first, last)."""
    out = []
    for n in sorted(pages):
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return out


def earlier(process, before):
    """The same process at the point before; None if there is no such point or it was not there."""
    return next((p for p in before.processes if p.pid == process.pid), None) if before else None


def changes(process, before):
    """{page number: kind of change}; nothing for a process that was not there before."""
    old = earlier(process, before)
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


def in_table(process, level, base):
    """The leaves that stand in the table of that level (1: PTE table) which begins at @base."""
    return [leaf for leaf in process.leaves if leaf.level == level and base <= leaf.start < base + ENTRIES * UNIT[level]]


def window(process, level, base, changed):
    """Which entries of a table to draw: an aligned stretch of 64, 128, 256 or all 512 that holds everything there is."""
    unit = UNIT[level]
    used = [n for leaf in in_table(process, level, base) for n in ((leaf.start - base) // unit, (leaf.end - base) // unit - 1)]
    used += [(n * PAGE - base) // unit for n in changed if base <= n * PAGE < base + ENTRIES * unit]
    size = 64
    while size < ENTRIES and used and min(used) // size != max(used) // size:
        size *= 2
    return (min(used) // size * size if used else 0), size


def change_bar(kind, x, y, width, tip):
    """Told apart by its pattern too. Moved as a whole, so that the pattern begins where the bar does."""
    return (f'<g transform="translate({x:.1f} {y})"><rect width="{width:.1f}" height="5" fill="url(#k-change-{kind})"><title>{esc(tip)}</title></rect></g>')


def draw_strip(process, level, base, y, changed):
    """One table of leaves, or the part of it where something is."""
    skip, size = window(process, level, base, changed)
    unit, scale, high = UNIT[level], STRIP_W // size, ROW - 14
    start = base + skip * unit
    frame = 'stroke="#000" stroke-width="2.5"' if level > 1 else 'stroke="#999"'
    out = [f'<rect x="{STRIP_X}" y="{y}" width="{STRIP_W}" height="{high}" fill="#f4f4f4" {frame}/>']
    for leaf in in_table(process, level, base):
        n = (leaf.end - leaf.start) // unit
        x, w = STRIP_X + (leaf.start - start) // unit * scale, n * scale
        vma = process.vma_at(leaf.start)
        what = f"{n} page{'s' * (n > 1)}" if level == 1 else f"a page of {size_text(unit)}"
        tip = f"{leaf.start:#x}-{leaf.end:#x}: {what}, frame {leaf.pfn:#x}, {leaf.rights}, {leaf.sharers} users" + (f", {vma[3] or 'anonymous'}" if vma else "")
        border = ' stroke="#000" stroke-width="0.7"' if level > 1 else ""
        out.append(f'<g><title>{esc(tip)}</title><rect x="{x}" y="{y}" width="{w}" height="{high}" fill="url(#k-{leaf.kind()})"{border}/>')
        if leaf.sharers > 1:
            out.append(f'<rect x="{x}" y="{y}" width="{w}" height="7" fill="#fff"/><rect x="{x}" y="{y}" width="{w}" height="7" fill="url(#k-shared)"/>')
        out.append("</g>")
    for kind in CHANGES:
        there = {(n * PAGE - start) // unit for n, k in changed.items() if k == kind and base <= n * PAGE < base + ENTRIES * unit}
        for first, last in runs(there):
            n = last - first + 1
            out.append(change_bar(kind, STRIP_X + first * scale, y + ROW - 12, max(n * scale, 2), f"{kind}: {n} page{'s' * (n > 1)}"))
    out.append(text(TEXT_X, y + 9, f"{start:#x}, entries {skip} to {skip + size - 1}" + (f", {size_text(unit)} each" if level > 1 else ""), 10, "normal", "#444"))
    return "".join(out)


def row_text(process, base, span):
    names = []
    for start, end, rights, name in process.vmas:
        if start < base + span and end > base:
            word = os.path.basename(name) if name.startswith("/") else name or "anonymous"
            if not names or names[-1] != f"{word} {rights}":
                names.append(f"{word} {rights}")
    return ", ".join(names)


class SharedTables:
    """PMD tables that several of the recorded processes use, or that say they have several users: a letter for each, and where it is drawn."""

    def __init__(self, point):
        self.users, self.letter, self.drawn = {}, {}, {}
        for p in point.processes:
            for (level, _), (pfn, sharers, _) in p.tables.items():
                if level == 3:
                    self.users.setdefault(pfn, [sharers]).append(p.pid)
        for pfn, (sharers, *pids) in self.users.items():
            if sharers > 1 or len(pids) > 1:
                self.letter[pfn] = LETTERS[len(self.letter) % len(LETTERS)]

    def mark(self, pfn, x, y):
        return (f'<circle cx="{x}" cy="{y}" r="9" fill="#000"/><text x="{x - 3.7}" y="{y + 4}" font-size="11" font-weight="bold" '
                f'fill="#fff">{self.letter[pfn]}</text>')


def rows_of(process, before, shared, changed):
    """What gets a row: (address, level of its leaves, PMD table that is drawn elsewhere or None), by address."""
    elsewhere = {start: pfn for (level, start), (pfn, _, _) in process.tables.items() if level == 3 and shared.drawn.get(pfn, process.pid) != process.pid}
    rows = {(start, 1) for (level, start) in process.tables if level == 2}
    rows |= {(leaf.start & ~(ENTRIES * UNIT[leaf.level] - 1), leaf.level) for leaf in process.leaves if leaf.level > 1}
    old = earlier(process, before)
    if old:				# a table that went with everything in it
        rows |= {(leaf.start & ~(ENTRIES * UNIT[leaf.level] - 1), leaf.level) for leaf in old.leaves
                 if any(changed.get(n) == "gone" for n in range(leaf.start // PAGE, leaf.end // PAGE if leaf.level == 1 else leaf.start // PAGE + 1))}
    rows |= {(start, 2) for (level, start), (pfn, _, _) in process.tables.items() if level == 3 and pfn in shared.letter}
    found = []
    for start, level in sorted(rows):
        away = elsewhere.get(start & ~(PUD - 1)) if level < 3 else None
        if not (away and level == 1):
            found.append((start, level, away))
    return found


def draw_process(process, point, before, y, shared):
    out = [text(20, y + 14, f"process {process.pid}: {process.name}", 14, "bold")]
    pages = sum((leaf.end - leaf.start) // PAGE for leaf in process.leaves)
    out.append(text(300, y + 14, f"{len(process.vmas)} VMAs, {len(process.tables) + 1} page tables, {pages} pages present", 12))
    y += 26
    changed = changes(process, before)
    top = {}
    for start, level, away in rows_of(process, before, shared, changed):
        for upper, span in ((4, 1 << 39), (3, PUD), (2, PMD)):
            if upper > level:
                top.setdefault((upper, start & ~(span - 1)), [y, y])[1] = y + ROW - 6
        if away:
            out.append(f'<rect x="{STRIP_X}" y="{y}" width="{STRIP_W}" height="{ROW - 14}" fill="#fff" stroke="#000" stroke-dasharray="5 4"/>')
            out.append(text(STRIP_X + 10, y + 14, f"the same table as in process {shared.drawn[away]}: its entries are drawn there"))
            rights = process.tables[3, start][2]
            out.append(text(TEXT_X, y + 9, f"{start:#x}, 1 GiB" + ("" if "w" in rights else ", read-only by the PUD entry"), 10, "normal", "#444"))
        else:
            out.append(draw_strip(process, level, start, y, changed))
        out.append(text(TEXT_X, y + 21, row_text(process, start, ENTRIES * UNIT[level]) or "nothing is mapped here any more", 11, limit=46))
        y += ROW
    for (level, start), (begin, end) in sorted(top.items()):
        if (level, start) not in process.tables:
            continue
        pfn, sharers, _ = process.tables[level, start]
        _, x, w, _ = next(c for c in COLUMNS if c[0] == level)
        letter = level == 3 and pfn in shared.letter
        stroke = 'stroke="#000" stroke-width="2.5"' if letter else 'stroke="#555"'
        below = {4: "PUD", 3: "PMD", 2: "PTE"}[level]
        out.append(f'<g><title>{below} table in frame {pfn:#x} for {start:#x}, {sharers} users</title><rect x="{x}" y="{begin}" width="{w}" height="{end - begin - 6}" fill="#fff" {stroke}/>')
        index = start >> {4: 39, 3: 30, 2: 21}[level] & 511
        out.append(text(x + 6, begin + 14, f"[{index}] {below} {pfn:x}", 10, limit=14 if letter else 18))
        if letter:
            out.append(shared.mark(pfn, x + w - 12, begin + 11))
            shared.drawn.setdefault(pfn, process.pid)
        out.append("</g>")
    return "".join(out), y + GAP


# --- Files of huge pages --------------------------------------------------------------------------------------------------

def huge_subjects(point):
    """What has promises of its own: each file that is mapped shared, each private mapping. {key: (title, users, page size, {index: state})}"""
    found = {}
    for p in point.processes:
        for h in p.huge:
            shared = h.how == "shared"
            key = h.file if shared else (p.pid, h.start)
            vma = p.vma_at(h.start)
            name = os.path.basename(vma[3]).replace(" (deleted)", "") if vma else ""
            title = f"{name} ({h.file})" if shared else f"private, of process {p.pid} at {h.start:#x}"
            _, users, _, states = found.setdefault(key, (title, [], h.page_size, {}))
            states.update(h.states)
            if not shared:			# pages that it has without a promise of its own, a child of fork for instance
                states.update((h.first + (leaf.start - h.start) // h.page_size, "page") for leaf in p.leaves if h.start <= leaf.start < h.end and leaf.pfn)
            if shared:
                users.append(f"{p.pid}: {h.first} to {max(h.states)}")
    return found


def draw_huge(point, before, y):
    """A strip for each, by index of the file; what changed since the point before under it."""
    subjects, old = huge_subjects(point), huge_subjects(before) if before else {}
    if not subjects:
        return "", y
    out = [text(20, y + 14, "huge pages of files and their promises", 14, "bold")]
    key = Legend(y + 1)
    key.x = 340
    for state, (_, words) in STATES.items():
        key.add(box(f"url(#k-state-{state})"), words)
    out += key.out
    y = key.y + 30
    for name, (title, users, size, states) in subjects.items():
        first, n = min(states), max(states) - min(states) + 1
        scale = max(1, min(16, STRIP_W // n)) if n <= STRIP_W else STRIP_W / n
        out.append(text(20, y + 14, title, 11, "bold", limit=52))
        out.append(f'<rect x="{STRIP_X}" y="{y}" width="{n * scale:.1f}" height="{ROW - 14}" fill="#f4f4f4" stroke="#000"/>')
        for state in STATES:
            for a, b in runs(i for i, s in states.items() if s == state):
                out.append(f'<rect x="{STRIP_X + (a - first) * scale:.1f}" y="{y}" width="{(b - a + 1) * scale:.1f}" height="{ROW - 14}" fill="url(#k-state-{state})" '
                           f'stroke="#333" stroke-width="0.7"><title>{a} to {b}: {STATES[state][1]}</title></rect>')
        if name in old:
            other = [i for i, s in states.items() if old[name][3].get(i, s) != s]
            for a, b in runs(other):
                out.append(change_bar("new", STRIP_X + (a - first) * scale, y + ROW - 12, max((b - a + 1) * scale, 2), "other than before"))
        count = {state: sum(s == state for s in states.values()) for state in STATES}
        out.append(text(TEXT_X, y + 9, f"{count['page']} here, {count['promised']} promised, {count['none']} neither; {size_text(size)} each", 10, "normal", "#444"))
        if users:
            out.append(text(TEXT_X, y + 21, "mapped by " + ", ".join(users), 11, limit=46))
        y += ROW
    return "".join(out), y + GAP


def draw(point, before):
    shared = SharedTables(point)
    huge = any(leaf.level > 1 for p in point.processes for leaf in p.leaves) or bool(shared.letter)
    out = [text(20, 28, point.label.replace("-", " "), 18, "bold")]
    part, y = legend(42, bool(shared.letter), huge)
    out.append(part)
    if re.search(r"HugePages_Total: [1-9]", point.huge):
        out.append(text(20, y + 12, "Huge pages: " + point.huge.replace("HugePages_", "").replace(";", ", "), 12))
        y += 22
    for _, x, w, name in COLUMNS:
        out.append(text(x, y + 14, name, 11, "bold"))
    out.append(text(STRIP_X, y + 14, "the entries of a table, where there are any", 11, "bold") + text(TEXT_X, y + 14, "what is mapped there", 11, "bold"))
    y += 26
    for p in point.processes:
        part, y = draw_process(p, point, before, y, shared)
        out.append(part)
    if not point.processes:
        out.append(text(20, y + 14, "no process was there", 12))
        y += 30
    part, y = draw_huge(point, before, y)
    out.append(part)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" font-family="DejaVu Sans, Verdana, sans-serif">'
            f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>{patterns()}{"".join(out)}</svg>')


def page(points, pictures, command):
    """One file, no script, no network: which point is shown is chosen by radio buttons."""
    radios = "".join(f'<input type="radio" name="p" id="p{i}"{" checked" if i == 0 else ""}>' for i in range(len(points)))
    labels = "".join(f'<label for="p{i}">{esc(p.label.replace("-", " "))}</label>' for i, p in enumerate(points))
    rules = "".join(f'#p{i}:checked~#s{i}{{display:block}}#p{i}:checked~nav label[for=p{i}]{{background:#222;color:#fff}}' for i in range(len(points)))
    # Ids of patterns are the same in all: one of them may be hidden, and a hidden pattern draws nothing.
    shown = "".join(f'<section id="s{i}" tabindex="0">{re.sub(r"k-", f"k{i}-", picture)}</section>' for i, picture in enumerate(pictures))
    return f'''<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Page tables: {esc(command)}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body{{font-family:DejaVu Sans,Verdana,sans-serif;margin:16px;color:#111;background:#fff}}input{{position:absolute;opacity:0}}
section{{display:none;overflow-x:auto}}nav label{{display:inline-block;padding:6px 12px;margin:0 6px 12px 0;border:1px solid #222;cursor:pointer}}
.wide{{display:none}}@media(max-width:1270px){{.wide{{display:inline}}}}
input:focus-visible~nav{{outline:2px solid #0072b2}}code{{background:#eee;padding:1px 4px}}{rules}</style></head>
<body><h1>Page tables</h1><p>of <code>{esc(command)}</code>. Point at a part of a strip to read addresses, frame and rights.
<b class="wide">The picture is wider than this window: scroll it sideways.</b></p>
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
