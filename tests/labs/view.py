"""The view from outside: page tables of the running program, read in the guest's memory through QEMU's monitor.

The guest asks on its fourth serial port (tests/labs/lab_test.h), one line a question:

    page VA RIGHTS VALUE    a 4 KiB page is there with these rights (rw, r-) for user mode, and its first word is VALUE
    none VA                 nothing is there
    level VA N 0|1          the entry of level N (4: root ... 1: leaf) is there or not
    same VA VA, differ VA VA
    remember NAME VA, is NAME VA, isnot NAME VA
    table-remember NAME VA N, table-is NAME VA N, table-isnot NAME VA N     the frame of the table in which the entry of level N stands
    faults_begin            from now on the emulator writes down which exceptions its processors take
    faults VA LENGTH N      user mode has taken N page faults in [VA, VA + LENGTH) since then

and is answered "ok" or with what is wrong and the walk, level by level.
"""
import json
import re
import socket
import threading
import time

PRESENT, WRITE, USER, HUGE, NX = 1, 2, 4, 128, 1 << 63
FRAME = 0x000ffffffffff000
LEVELS = ((4, "pgd", 39), (3, "pud", 30), (2, "pmd", 21), (1, "pte", 12))


def connect(path, patience=60):
    """To a Unix socket that QEMU is about to make."""
    end = time.monotonic() + patience
    while True:
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(path)
            return s.makefile("rwb")
        except OSError:
            s.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


class Monitor:
    """QMP on a Unix socket."""

    def __init__(self, path):
        self.file = connect(path)
        json.loads(self.file.readline())
        self.call("qmp_capabilities")

    def call(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments} if arguments else {"execute": command}).encode() + b"\n")
        self.file.flush()
        while True:
            line = self.file.readline()
            if not line:
                raise OSError("the machine is gone")
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise OSError(answer["error"].get("desc", "monitor error"))

    def human(self, line):
        return self.call("human-monitor-command", **{"command-line": line})

    def words(self, address, n):
        text = self.human(f"xp /{n}gx {address:#x}")
        return [int(w, 16) for line in text.split("\n") if ":" in line for w in line.split(":", 1)[1].split()]

    def user_roots(self):
        """CR3 of each processor that is in user mode."""
        roots, level = [], None
        for line in self.human("info registers -a").split("\n"):
            found = re.search(r"\bCPL=(\d)", line)
            if found:
                level = int(found.group(1))
            found = re.search(r"\bCR3=([0-9a-f]+)", line)
            if found and level == 3:
                roots.append(int(found.group(1), 16) & FRAME)
        return roots


class Walk:
    def __init__(self, monitor, root, va):
        self.entries, self.va, self.leaf, self.span = [], va, None, 0
        table = root
        for level, name, shift in LEVELS:
            entry = monitor.words(table + (va >> shift & 511) * 8, 1)[0]
            self.entries.append((level, name, va >> shift & 511, entry))
            if not entry & PRESENT:
                return
            if level == 1 or (level < 4 and entry & HUGE):
                self.leaf, self.span = entry, 1 << shift
                return
            table = entry & FRAME

    def frame(self):
        return None if self.leaf is None else (self.leaf & FRAME & ~(self.span - 1)) + (self.va & self.span - 1 & ~0xfff)

    def rights(self):
        everything = [e for _, _, _, e in self.entries]
        if not all(e & USER for e in everything):
            return "--"
        return "rw" if all(e & WRITE for e in everything) else "r-"

    def entry(self, level):
        return next((e for l, _, _, e in self.entries if l == level), 0)

    def table(self, level):
        """The frame of the table with the entries of that level; None: there is none."""
        upper = self.entry(level + 1)
        return upper & FRAME if upper & PRESENT and not upper & HUGE else None

    def text(self):
        """The walk, decoded, on one line."""
        parts = []
        for _, name, index, e in self.entries:
            bits = "".join(c if e & b else "-" for c, b in (("p", PRESENT), ("w", WRITE), ("u", USER))) + ("-" if e & NX else "x")
            parts.append(f"{name}[{index}]={e & ~NX:#x} {bits}" if e else f"{name}[{index}]=0")
        return f"walk of {self.va:#x}: " + " > ".join(parts)


class Viewer(threading.Thread):
    """Answers the guest's questions until the machine is off."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.asked, self.trouble = path, 0, None
        self.remembered = {}

    def run(self):
        try:
            port = connect(self.path + ".view")
            self.monitor = Monitor(self.path)
            for line in port:
                port.write((self.answer(line.decode(errors="replace").strip()) + "\n").encode())
                port.flush()
                self.asked += 1
        except (OSError, ValueError) as e:
            self.trouble = str(e)		# the usual end: the machine is off

    def answer(self, line):
        """The guest is stopped meanwhile. Several processors may be in user mode: any of them may be the asker."""
        what, *words = line.split()
        try:
            if what == "faults_begin":
                return self.count_faults_from_now()
            if what == "faults":
                return self.compare_faults(*(int(w, 16) for w in words))
        except (TypeError, ValueError):
            return "the question is not understood"
        reasons = []
        for _ in range(40):
            self.monitor.call("stop")
            try:
                roots = self.monitor.user_roots()
                for root in dict.fromkeys(roots):
                    reason = self.check(what, words, root)
                    if reason is None:
                        return "ok"
                    reasons.append(reason)
            except (ValueError, IndexError):
                return "the question is not understood"
            finally:
                self.monitor.call("cont")
            if reasons:
                break
            time.sleep(0.02)
        return reasons[0] if reasons else "no processor was found in user mode"

    # What a kernel says of its page faults can be compared with what the processor did: the emulator logs every exception, before any
    # code of the guest has seen it.

    def count_faults_from_now(self):
        self.monitor.human(f"logfile {self.path}.exceptions")
        self.monitor.human("log int")
        return "ok"

    def compare_faults(self, start, length, claimed):
        self.monitor.human("log none")			# closes the file, too
        with open(self.path + ".exceptions", errors="replace") as f:
            taken = [int(a, 16) for a in re.findall(r"(?m)^ *\d+: v=0e e=[0-9a-f]+ i=0 cpl=3 .*\bCR2=([0-9a-f]+)", f.read())]
        there = sum(start <= a < start + length for a in taken)
        if there == claimed:
            return "ok"
        return f"the processor has taken {there} page faults at {start:#x} to {start + length:#x}, the kernel counts {claimed}"

    def check(self, what, words, root):
        va = int(words[1] if what.rpartition("-")[2] in ("remember", "is", "isnot") else words[0], 16)
        walk = Walk(self.monitor, root, va)
        if what == "page":
            if walk.leaf is None:
                return f"no page is there; {walk.text()}"
            if walk.rights() != words[1]:
                return f"rights are {walk.rights()}, expected {words[1]}; {walk.text()}"
            value = self.monitor.words(walk.frame() + (va & 0xff8), 1)[0]
            if value != int(words[2], 16):
                return f"the frame holds {value:#x}, the program reads {int(words[2], 16):#x}; {walk.text()}"
        elif what == "none":
            if walk.leaf is not None:
                return f"a page is there; {walk.text()}"
        elif what == "level":
            level, there = int(words[1]), words[2] == "1"
            if bool(walk.entry(level) & PRESENT) != there:
                return f"the entry of level {level} is {'not ' if there else ''}there; {walk.text()}"
        elif what in ("same", "differ"):
            other = Walk(self.monitor, root, int(words[1], 16))
            if walk.leaf is None or other.leaf is None or (walk.frame() == other.frame()) != (what == "same"):
                return f"frames {walk.frame()} and {other.frame()}; {walk.text()}; {other.text()}"
        elif what == "remember":
            if walk.leaf is None:
                return f"no page is there; {walk.text()}"
            self.remembered[words[0]] = walk.frame()
        elif what in ("is", "isnot"):
            if walk.leaf is None or (walk.frame() == self.remembered.get(words[0])) != (what == "is"):
                return f"frame {walk.frame() or 0:#x}, remembered {self.remembered.get(words[0], 0):#x}; {walk.text()}"
        elif what.startswith("table-"):
            table, name = walk.table(int(words[2])), "table " + words[0]
            if table is None:
                return f"there is no table of level {words[2]}; {walk.text()}"
            if what == "table-remember":
                self.remembered[name] = table
            elif (table == self.remembered.get(name)) != (what == "table-is"):
                return f"the table is in frame {table:#x}, remembered {self.remembered.get(name, 0):#x}; {walk.text()}"
        else:
            raise ValueError
        return None
