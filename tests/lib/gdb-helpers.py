"""gdb commands for a stopped Faultline kernel. `make gdb` loads them.

    fl threads           every task: where it is, on which processor, what it waits for
    fl vma PID           the VMAs of a process, from the tree itself, with the state of their locks
    fl pt PID ADDR       the walk of an address, level by level, decoded, with its VMA beside it
    fl locks             who holds which lock (debug build), and locks of address spaces that are taken
    fl uffd [PID]        the VMAs that a userfaultfd serves, and its queues: which faults wait, which were read, which events are due
    fl user [PID|NAME]   symbols of a user program: of that process, or by name before it runs

They read memory only: nothing in the kernel is called, so they work wherever it was stopped, also in the middle of a change; what
is being changed at that moment may look odd. Whenever gdb stops in user mode, the symbols of the program there are loaded by themselves,
if it was built here.
"""
import glob
import os
import struct

import gdb

PAGE = 4096
NO_ENTRY = (1 << 64) - 1
FRAME = 0x000ffffffffff000
STATES = ((0, "running"), (1, "sleeping"), (2, "uninterruptible"))


def u64(value):
    return int(value) & NO_ENTRY


def sym(name):
    value = gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)
    if value is None:
        raise gdb.GdbError(f"no symbol {name}: is this a Faultline kernel with symbols?")
    return value.value()


def container(node, kind, field):
    t = gdb.lookup_type(kind)
    offset = next(f.bitpos // 8 for f in t.fields() if f.name == field)
    return gdb.Value(u64(node) - offset).cast(t.pointer())


def each(head, kind, field, limit=100000):
    """The members of a list; a damaged one ends with a word about it instead of a loop."""
    node = head["next"]
    while u64(node) != u64(head.address):
        limit -= 1
        if not u64(node) or not limit:
            print("  (the list is damaged here)")
            return
        yield container(node, kind, field)
        node = node["next"]


def text(chars):
    return chars.string(errors="replace")


def symbol_at(address):
    block = gdb.execute(f"info symbol {u64(address):#x}", to_string=True).split(" in section")[0].strip()
    return block if not block.startswith("No symbol") else f"{u64(address):#x}"


def processes():
    return each(sym("all_processes"), "struct process", "all_node")


def tasks():
    for p in processes():
        for t in each(p["threads"], "struct task", "thread_node"):
            yield p, t


def process_of(pid):
    for p in processes():
        if int(p["tgid"]) == pid:
            return p
    raise gdb.GdbError(f"there is no process {pid} (fl threads lists them)")


def mm_of(pid):
    for t in each(process_of(pid)["threads"], "struct task", "thread_node"):
        if u64(t["mm"]):
            return t["mm"]
    raise gdb.GdbError(f"process {pid} has no address space: a kernel thread, or on its way out")


def vmas(mm):
    """Out of the B-tree, leaf by leaf."""
    def below(node):
        for i in range(int(node["count"])):
            slot = node["slot"][i]
            if int(node["level"]):
                yield from below(slot.cast(gdb.lookup_type("struct vma_node").pointer()))
            elif u64(slot):
                yield slot.cast(gdb.lookup_type("struct vma").pointer())
    root = mm["vmas"]["root"]
    if u64(root):
        yield from below(root)


FLAGS = ((1, "r"), (2, "w"), (4, "x"))


def vma_line(vma):
    flags = u64(vma["flags"])
    rights = "".join(c if flags & bit else "-" for bit, c in FLAGS) + ("s" if flags & 0x80 else "p")
    what = []
    if flags & 0x400000:
        what.append("hugetlb")
    if flags & 0x2000:
        what.append("locked")
    if flags & 0x100:
        what.append("stack")
    if flags & (0x200 | 0x1000 | 0x8000000):
        what.append("uffd:" + "+".join(n for b, n in ((0x200, "missing"), (0x1000, "wp"), (0x8000000, "minor")) if flags & b))
    if u64(vma["file"]):
        what.append(file_name(vma["file"]))
    count = u64(vma["lock"]["count"])
    if count & 1:
        what.append("lock: held by a writer")
    elif count >> 2:
        what.append(f"lock: {count >> 2} readers")
    if u64(vma["lock_seq"]) == u64(vma["mm"]["lock_seq"]) and u64(vma["lock_seq"]) & 1:
        what.append("write-locked")
    if vma["detached"]:
        what.append("detached")
    return f"{u64(vma['start']):014x}-{u64(vma['end']):014x} {rights} {' '.join(what)}".rstrip()


def file_name(file):
    try:
        if u64(file["anon_name"]):
            return text(file["anon_name"])
        return text(file["path"]["dentry"]["name"])
    except (gdb.error, gdb.MemoryError):
        return "file"


def rwsem_text(sem):
    count = u64(sem["count"])
    if not count:
        return "free"
    how = "write" if count & 1 else f"read by {count >> 2}"
    return how + (", others wait" if count & 2 else "")


DIRECT_MAP_BASE = 0xffff888000000000		# mm/layout.h


def entry_text(name, index, entry):
    if not entry:
        return f"{name}[{index:3}]  empty"
    if not entry & 1:
        if entry & 0x100:
            return f"{name}[{index:3}]  {entry:#018x}  frame {(entry & FRAME) >> 12:#x}, PROT_NONE"
        kind = "poison" if entry & 4 else "userfaultfd write-protect" if entry & 2 else "unknown"
        return f"{name}[{index:3}]  {entry:#018x}  marker: {kind}"
    bits = [n for b, n in ((1 << 1, "writable"), (1 << 2, "user"), (1 << 5, "accessed"), (1 << 6, "dirty"), (1 << 10, "uffd-wp")) if entry & b]
    bits += ["no-execute"] if entry >> 63 else []
    leaf = name == "pte" or (entry & 0x80 and name in ("pud", "pmd"))
    what = "special " if leaf and entry & 0x200 else ""
    return f"{name}[{index:3}]  {entry:#018x}  {what}{'frame' if leaf else 'table in frame'} {(entry & FRAME) >> 12:#x}: {', '.join(bits)}"


class Fl(gdb.Command):
    """Commands for Faultline: fl threads, fl vma PID, fl pt PID ADDR, fl locks, fl uffd, fl user."""

    def __init__(self):
        super().__init__("fl", gdb.COMMAND_DATA, prefix=True)


class Threads(gdb.Command):
    """fl threads: every task, its state, its processor and where it is."""

    def __init__(self):
        super().__init__("fl threads", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        print("  pid   tid cpu state            command          where")
        for p, t in tasks():
            state = int(t["state"])
            word = dict(STATES).get(state, f"{state:#x}")
            if t["on_cpu"]:
                word = "on a processor"
            where = "" if t["on_cpu"] else self.where(t)
            print(f"{int(p['tgid']):5} {int(t['tid']):5} {int(t['cpu']):3} {word:16} {text(t['comm']):16} {where}")

    @staticmethod
    def where(t):
        """Return addresses of the sleeping stack, from the frame that __switch_to left (kernel/x86/backtrace.c)."""
        names = []
        try:
            words = gdb.Value(u64(t["thread"]["rsp"])).cast(gdb.lookup_type("unsigned long").pointer())
            rbp, rip = u64(words[5]), u64(words[6])
            low = u64(t["stack"])
            for _ in range(6):
                name = symbol_at(rip - 1).split(" + ")[0]
                if name not in ("schedule", "__schedule", "schedule_until", "switch_to", "__switch_to"):
                    names.append(name)
                if not low <= rbp < low + 0x10000 or len(names) == 3:
                    break
                frame = gdb.Value(rbp).cast(gdb.lookup_type("unsigned long").pointer())
                rbp, rip = u64(frame[0]), u64(frame[1])
        except (gdb.error, gdb.MemoryError):
            pass
        return " < ".join(names)


class Vma(gdb.Command):
    """fl vma PID: the VMAs of a process, as the tree has them."""

    def __init__(self):
        super().__init__("fl vma", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if len(words) != 1:
            raise gdb.GdbError("usage: fl vma PID")
        mm = mm_of(int(gdb.parse_and_eval(words[0])))
        n = 0
        for vma in vmas(mm):
            print(vma_line(vma))
            n += 1
        print(f"{n} VMAs ({int(mm['map_count'])} counted), mmap_lock: {rwsem_text(mm['mmap_lock'])}, lock_seq {u64(mm['lock_seq'])}")


class Pt(gdb.Command):
    """fl pt PID ADDR: the walk of an address through the page tables of a process."""

    def __init__(self):
        super().__init__("fl pt", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if len(words) != 2:
            raise gdb.GdbError("usage: fl pt PID ADDR")
        mm, addr = mm_of(int(gdb.parse_and_eval(words[0]))), u64(gdb.parse_and_eval(words[1]))
        if addr >= 1 << 47:
            raise gdb.GdbError(f"{addr:#x} is no user address")
        table = u64(mm["pgd"])
        for name, shift in (("pgd", 39), ("pud", 30), ("pmd", 21), ("pte", 12)):
            index = addr >> shift & 511
            entry = u64(gdb.Value(table + index * 8).cast(gdb.lookup_type("unsigned long").pointer()).dereference())
            print(entry_text(name, index, entry))
            if not entry & 1 or (entry & 0x80 and name in ("pud", "pmd")):
                break
            table = DIRECT_MAP_BASE + (entry & FRAME)
        for vma in vmas(mm):
            if u64(vma["start"]) <= addr < u64(vma["end"]):
                print("in the VMA " + vma_line(vma))
                return
        print("no VMA covers it")


class Locks(gdb.Command):
    """fl locks: who holds what. Every lock in the debug build; else those of address spaces only."""

    def __init__(self):
        super().__init__("fl locks", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        found = 0
        has_list = any(f.name == "held" for f in gdb.lookup_type("struct task").fields())
        names = {}
        if has_list:
            names = {f.enumval: f.name for f in gdb.lookup_type("enum lock_class").fields()}
        seen = set()
        for _, t in tasks():
            if has_list:
                for i in range(int(t["nr_held"])):
                    h = t["held"][i]
                    print(f"task {int(t['tid'])} ({text(t['comm'])}) holds {names.get(int(h['class']), '?')} at {symbol_at(h['lock'])}, "
                          f"taken at {symbol_at(h['caller'])}")
                    found += 1
            mm = t["mm"]
            if u64(mm) and u64(mm) not in seen:
                seen.add(u64(mm))
                if u64(mm["mmap_lock"]["count"]):
                    print(f"mmap_lock of process {int(t['process']['tgid'])}: {rwsem_text(mm['mmap_lock'])}")
                    found += 1
                for vma in vmas(mm):
                    if u64(vma["lock"]["count"]):
                        print(f"VMA lock of process {int(t['process']['tgid'])} at {u64(vma['start']):#x}: {rwsem_text(vma['lock'])}")
                        found += 1
        if not found:
            print("no task holds a lock" if has_list else "no lock of an address space is held (the debug build knows all locks)")


EVENTS = {0x12: "fault", 0x13: "fork", 0x14: "remap", 0x15: "remove", 0x16: "unmap"}


def number(words):
    return int(gdb.parse_and_eval(words))


class Uffd(gdb.Command):
    """fl uffd [PID]: the VMAs that a userfaultfd serves, and who waits for it."""

    def __init__(self):
        super().__init__("fl uffd", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if len(words) > 1:
            raise gdb.GdbError("usage: fl uffd [PID]")
        only = mm_of(number(words[0])) if words else None
        contexts, seen = {}, set()
        for p, t in tasks():
            mm = t["mm"]
            if not u64(mm) or u64(mm) in seen or (only is not None and u64(mm) != u64(only)):
                continue
            seen.add(u64(mm))
            for vma in vmas(mm):
                if u64(vma["uffd"]):
                    print(f"process {int(p['tgid'])}: {vma_line(vma)}, by the userfaultfd at {u64(vma['uffd']):#x}")
                    contexts[u64(vma["uffd"])] = vma["uffd"]
        for address, ctx in sorted(contexts.items()):
            self.queues(address, ctx)
        if not contexts:
            print("no VMA is registered with a userfaultfd")

    @staticmethod
    def queues(address, ctx):
        changing = int(ctx["mmap_changing"])
        print(f"userfaultfd at {address:#x}: {int(ctx['nr_waiters'])} wait" + (f", mappings are changing ({changing})" if changing else ""))
        for name, words in (("pending", "nobody has read it"), ("read", "read, not served")):
            for w in each(ctx[name], "struct uffd_waiter", "node"):
                flags = u64(w["msg"]["pagefault"]["flags"])
                kind = "write-protected" if flags & 2 else "minor" if flags & 4 else "missing"
                print(f"  fault at {u64(w['addr']):#x} ({kind}{', write' if flags & 1 else ''}) of thread {int(w['task']['tid'])}: {words}")
        for name, words in (("events", "nobody has read it"), ("taken", "its reader makes the descriptor")):
            for e in each(ctx[name], "struct uffd_event", "node"):
                print(f"  {EVENTS.get(int(e['msg']['event']), 'event')} of thread {int(e['task']['tid'])}: {words}")


# --- Symbols of user programs -------------------------------------------------------------------------------------------------

loaded = set()


def built_here(name):
    """The newest program of that name that was built in this tree; None if there is none. Tests of labs are called lab-NAME in the guest."""
    top = os.environ.get("FAULTLINE_TOP", os.getcwd())		# from make gdb; gdb tells a script no __file__
    found = []
    for word in {name, name[4:] if name.startswith("lab-") else name}:
        for pattern in ("build", "build/tests/*", "build/labs/*", "build/user"):
            found += glob.glob(os.path.join(top, pattern, glob.escape(word)))
    found = [f for f in found if is_program(f)]
    return max(found, key=os.path.getmtime) if found else None


def is_program(path):
    try:
        with open(path, "rb") as f:
            head = f.read(20)
        return head[:4] == b"\x7fELF" and struct.unpack("<H", head[16:18])[0] in (2, 3)
    except OSError:
        return False


def load_program(path, base):
    """Once for each file. Position-independent ones lie where the process has put them; others where they were linked."""
    with open(path, "rb") as f:
        moved = struct.unpack("<H", f.read(20)[16:18])[0] == 3
    if moved and base is None:
        raise gdb.GdbError(f"{path} is position-independent: only the process tells where it is (fl user PID)")
    if (path, base if moved else 0) in loaded:
        return False
    loaded.add((path, base if moved else 0))
    gdb.execute(f"add-symbol-file {path}" + (f" -o {base:#x}" if moved else ""), to_string=True)
    return True


def program_of(mm):
    """(name, address of its first byte), as the kernel knows them."""
    exe = mm["exe_file"]
    if not u64(exe):
        raise gdb.GdbError("this process has no program: a kernel thread")
    base = next((u64(v["start"]) for v in vmas(mm) if u64(v["file"]) and u64(v["file"]["inode"]) == u64(exe["inode"]) and not u64(v["pgoff"])), None)
    return file_name(exe), base


class User(gdb.Command):
    """fl user [PID|NAME]: load the symbols of a user program; without a word, of the one that runs on this processor."""

    def __init__(self):
        super().__init__("fl user", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if len(words) > 1:
            raise gdb.GdbError("usage: fl user [PID|NAME]")
        base = None
        if words and not words[0].isdigit():
            name = words[0]
        else:
            name, base = program_of(mm_of(int(words[0])) if words else running_here()["mm"])
        path = name if os.path.isfile(name) else built_here(os.path.basename(name))
        if not path:
            raise gdb.GdbError(f"no program '{name}' under build/: nothing to take symbols from")
        print(f"symbols of {os.path.relpath(path)}: {'loaded' if load_program(path, base) else 'there already'}")


def running_here():
    """The task on the processor that gdb looks at."""
    cpu = gdb.selected_thread().num - 1
    for _, t in tasks():
        if t["on_cpu"] and int(t["cpu"]) == cpu and u64(t["mm"]):
            return t
    raise gdb.GdbError("no user program runs on this processor")


def stopped(event):
    """In user mode: who is that? Whatever goes wrong here must not spoil the stop."""
    try:
        if int(gdb.parse_and_eval("$cs")) & 3 != 3:
            return
        name, base = program_of(running_here()["mm"])
        path = built_here(name)
        if path and load_program(path, base):
            print(f"fl: symbols of {os.path.relpath(path)}")
    except (gdb.error, gdb.MemoryError, OSError, StopIteration):
        pass


gdb.events.stop.connect(stopped)

for command in (Fl, Threads, Vma, Pt, Locks, Uffd, User):
    command()
