"""make grade N=3 [HIDDEN=DIR] [SEED=n] [SUBMISSION=DIR] [ONLY=test] [VARIANT=seed]: run a lab's tests and give points.

The last line is `lab 3: 70/100`; the status is 0 only for full marks, 75 when the host was too slow to tell (then there is no score),
70 when the grader itself is in trouble (no score either), 2 for a usage error. build/grade/ holds report.txt, junit.xml and
results.json (Gradescope's format).

Verdicts: PASS. FAIL, with the reason. FLAKY: not the same with every seed; counts as the worst, and the seed is shown. The first
comment of a test holds its settings, one a line, as in tests/lib/guest_tests.py, and
    budget: N       millions of instructions (400)
    seeds: N        run with so many seeds of the debug build's race windows (1)
    view            looks from outside the guest (tests/labs/view.py)
    program: NAME   a program of the lab, which the test starts as /t/NAME
    points: N       of a hidden test
"""
import concurrent.futures
import functools
import glob
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from xml.sax.saxutils import escape, quoteattr

import lab as labs
import vm
from boot import HostTooSlow, Outcome, run_boot
from vm import Trouble, note

KEYS = ("budget", "seeds", "view", "points", "cpus", "mem", "append", "build", "arguments", "libs", "libc", "only", "timeout", "program")
WORK = os.path.join(vm.BUILD, "labs")
HERE = os.path.dirname(os.path.abspath(__file__))
TOO_SLOW, IN_TROUBLE = 75, 70
KERNEL_DIRS = ("kernel", "kernel/x86", "mm", "mm/sync", "fs")		# what a submission may bring
MAX_STUDENT_TESTS = 24
JOBS = min(2, os.cpu_count() or 1)		# boots at a time


class Test:
    def __init__(self, path, points=0, what="", student=None, hidden=False):
        """student: the lab, if it is one of a student's own tests."""
        self.path, self.points, self.student, self.hidden = path, points, student, hidden
        self.name = os.path.splitext(os.path.basename(path))[0]
        self.settings = {}
        with open(path, encoding="utf-8", errors="replace") as f:
            comment = re.match(r"(?s)\s*(/\*.*?\*/|(?://[^\n]*\n)+)", f.read(8000))
        for line in (comment.group(1) if comment else "").split("\n"):
            found = re.match(r"[\s*/]*([a-z-]+)(?::[ \t]*(.*?))?[\s*/]*$", line)
            if found and found.group(1) in KEYS and (found.group(2) or found.group(1) == "view"):
                self.settings[found.group(1)] = found.group(2) or True
        self.points = points or int(self.get("points", 0))
        self.what = what or self.name.replace("_", " ")
        self.outcomes = []			# (seed, Outcome), in order

    def get(self, key, default=None):
        return self.settings.get(key, default)

    @property
    def budget(self):
        if self.student:
            return min(int(self.get("budget", 400)), 400)
        # Who asks to be looked at from outside spins until the host has answered, however busy that is.
        return min(int(self.get("budget", 400)) * (20 if self.get("view") else 1), 100000)

    def boot(self):
        if self.student:			# their settings are not asked: all share one kind of boot
            return "debug", 2, "256M", self.student.student_append
        return self.get("build", "release"), int(self.get("cpus", 2)), self.get("mem", "256M"), self.get("append", "")

    def seeds(self, first):
        return [first + i for i in range(1 if self.student else int(self.get("seeds", 1)))]

    @property
    def verdict(self):
        passed = [o.passed for _, o in self.outcomes]
        return "PASS" if passed and all(passed) else "FLAKY" if any(passed) else "FAIL"

    def worst(self):
        return next(((s, o) for s, o in self.outcomes if not o.passed), self.outcomes[0] if self.outcomes else (0, Outcome("not run")))


# --- Building -------------------------------------------------------------------------------------------------------------

def build_runner():
    os.makedirs(WORK, exist_ok=True)
    source, program = os.path.join(HERE, "runner.c"), os.path.join(WORK, "runner")
    if os.path.exists(program) and os.path.getmtime(program) > os.path.getmtime(source):
        return
    done = subprocess.run(["musl-gcc", "-std=gnu11", "-static", "-O2", "-s", "-Wall", "-Wextra", "-o", program, source], capture_output=True, text=True)
    if done.returncode:
        raise Trouble("the test runner does not compile; run 'make deps'\n" + done.stderr)


def build_test(test, tree, output):
    """None, or what the compiler said. Ours may include what is in `tree`; a student's program stands alone."""
    os.makedirs(output, exist_ok=True)
    program = os.path.join(output, test.name)
    done = subprocess.run(["musl-gcc", "-std=gnu11", "-static", "-O2", "-g1", "-fno-strict-aliasing", "-Wall", "-Wextra", "-pthread",
                           *([] if test.student else ["-I", tree]), "-o", program, test.path, *str(test.get("libs", "")).split()], capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, preexec_fn=limit_compiler)
    return None if done.returncode == 0 else done.stderr[-3000:]


def build_programs(lab, tree, output):
    """What the student wrote for user space: {name: what the compiler said}, for those that do not compile."""
    os.makedirs(output, exist_ok=True)
    failed = {}
    for name, path in lab.programs:
        program = os.path.join(output, name)
        if os.path.exists(program):
            os.unlink(program)
        done = subprocess.run(["musl-gcc", "-std=gnu11", "-static", "-O2", "-g1", "-fno-strict-aliasing", "-Wall", "-Wextra", "-pthread", "-I", tree, "-o", program,
                               os.path.join(tree, path)], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, preexec_fn=limit_compiler)
        if done.returncode:
            failed[name] = done.stderr[-3000:]
    return failed


class BuildFailed(Exception):
    pass


class Usage(Trouble):
    """Not the grader's trouble, but that of whoever called it."""


def limit_compiler():
    """A source may be written to keep the compiler busy for ever, or to fill memory and disk with it."""
    resource.setrlimit(resource.RLIMIT_CPU, (300, 300))		# for each process: no honest file takes ten seconds
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, 256 << 20))


def build_kernels(tree, wanted, output=None, warnings=None):
    """The wanted builds of the kernel in `tree`; BuildFailed with what the compiler said."""
    o = output or os.path.join(tree, "build")
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "O", "N")}
    targets = [f"{o}/{b}/faultline.elf" if output else f"build/{b}/faultline.elf" for b in wanted]
    os.makedirs(o, exist_ok=True)
    lock = os.path.join(o, ".lock-make")
    done = subprocess.run(["flock", lock, "make", "-s", f"-j{os.cpu_count()}", "-C", tree, *([f"O={o}"] if output else []), *targets],
                          env=environment, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, preexec_fn=limit_compiler)
    if done.returncode:
        raise BuildFailed((done.stderr + done.stdout)[-6000:])
    if warnings is not None:
        warnings += [line for line in done.stderr.split("\n") if "warning:" in line]
    return {b: os.path.join(o, b, "faultline.elf") for b in wanted}


def seeded(directory):
    """A place for a build, with our own objects in it: what a submission did not change need not be compiled again."""
    if not os.path.isdir(os.path.join(directory, "build")):
        os.makedirs(os.path.join(directory, "build"))
        for name in ("release", "debug", "font.S"):
            source = os.path.join(vm.BUILD, name)
            if os.path.exists(source):
                subprocess.run(["cp", "-a", source, os.path.join(directory, "build")], check=False)
        for flags in glob.glob(os.path.join(vm.BUILD, "flags-*.mk")):
            shutil.copy2(flags, os.path.join(directory, "build"))


def make_tree(directory, change):
    """The upstream sources with `change` done to them, in a tree that keeps its objects from the last time."""
    os.makedirs(directory, exist_ok=True)
    fresh = tempfile.mkdtemp(prefix=".tree-", dir=os.path.dirname(directory))
    try:
        labs.copy_tree(fresh)
        change(fresh)
        if not os.path.isdir(os.path.join(directory, "build")):
            seeded(directory)
        before = directory if os.path.exists(os.path.join(directory, "Makefile")) else vm.TOP
        labs.keep_dates(fresh, before)
        labs.replace_tree(fresh, directory)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return directory


def root_of(submission):
    """Archives often have one directory more at the top."""
    inside = [d for d in os.listdir(submission) if os.path.isdir(os.path.join(submission, d)) and not d.startswith((".", "__"))]
    if "kernel" not in inside and len(inside) == 1 and os.path.isdir(os.path.join(submission, inside[0], "kernel")):
        return os.path.join(submission, inside[0])
    return submission


def overlay(tree, submission, programs=(), required=()):
    """
    Kernel sources and programs of a submission over ours. Its Makefile, tests and scripts are never run. Ours are the solution, so whatever is not taken
    from the submission, because it is missing, a link, a pipe or too large, must not be left either: sources go, and without the
    files in which the lab is written (`required`) there is nothing to grade.
    """
    taken = set()
    for d in KERNEL_DIRS:
        theirs, ours = os.path.join(submission, d), os.path.join(tree, d)
        if not os.path.isdir(theirs) and not os.path.isdir(ours):
            continue
        os.makedirs(ours, exist_ok=True)
        for name in sorted(os.listdir(theirs)) if os.path.isdir(theirs) and not os.path.islink(theirs) else []:
            path = os.path.join(theirs, name)
            if name.endswith((".c", ".h", ".S")) and os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < 1 << 20:
                target = os.path.join(ours, name)
                if os.path.exists(target):
                    os.unlink(target)
                shutil.copyfile(path, target)
                taken.add(os.path.join(d, name))
        for name in os.listdir(ours):
            if name.endswith((".c", ".S")) and os.path.join(d, name) not in taken:
                os.unlink(os.path.join(ours, name))
    for path in programs:
        theirs = os.path.join(submission, path)
        if os.path.isfile(theirs) and not os.path.islink(theirs) and os.path.getsize(theirs) < 1 << 20:
            shutil.copyfile(theirs, os.path.join(tree, path))
        elif os.path.exists(os.path.join(tree, path)):
            os.unlink(os.path.join(tree, path))
    if not taken:
        raise BuildFailed("there are no kernel sources (kernel/, mm/, fs/) in this submission")
    missing = sorted(set(required) - taken)
    if missing:
        raise BuildFailed(f"{', '.join(missing)}: the lab is written there, but in this submission it is missing, or no plain file below 1 MB")


# --- Running --------------------------------------------------------------------------------------------------------------

def at_once(function, items):
    """[function(item)...], several at a time: each boot is one QEMU, which uses one processor."""
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(function, items))


def run_tests(tests, kernels, seed, programs, extra="", said=None, until=None):
    """
    Each test with each of its seeds, as few boots as possible. Outcomes go to test.outcomes, and to `said`. When until(outcome) holds,
    enough is known, and nothing more is run.
    """
    boots = {}
    for t in tests:
        for s in t.seeds(seed):
            boots.setdefault((*t.boot(), s), []).append(t)

    dead = {}		# a build that did not get as far as programs is not waited for again, whatever the seed

    def run(boot):
        (build, cpus, mem, append, s), some = boot
        ended = False

        def report(test, outcome):
            nonlocal ended
            test.outcomes.append((s, outcome))
            if said:
                said(test, s, outcome)
            ended = bool(until and until(outcome))
            return ended
        if build in dead:
            return any([report(t, dead[build]) for t in some])
        words = f"{append} {extra}".strip() + (f" race.seed={s}" if build == "debug" else "")
        run_boot(some, kernels[build], build, cpus, mem, words.strip(), report, lambda t: os.path.join(programs, t.name))
        if some[-1].outcomes and some[-1].outcomes[-1][1].status == "boot":
            dead[build] = some[-1].outcomes[-1][1]
        return ended
    if until:
        any(run(boot) for boot in sorted(boots.items(), key=lambda b: b[0]))
    else:
        at_once(run, sorted(boots.items(), key=lambda b: b[0]))
    for t in tests:
        t.outcomes.sort(key=lambda o: o[0])


class Part:
    """One line of the result."""

    def __init__(self, name, points, maximum, verdict, what, text="", instructions=0, hidden=False):
        self.name, self.points, self.maximum, self.verdict, self.what = name, points, maximum, verdict, what
        self.text, self.instructions, self.hidden = text, instructions, hidden


def part_of(test, number, seen):
    verdict = test.verdict
    text = ""
    if verdict != "PASS":
        s, outcome = test.worst()
        lines = [outcome.reason(test.budget)]
        if verdict == "FLAKY":
            good = [str(x) for x, o in test.outcomes if o.passed]
            lines[0] += f", with seed {s}; passed with {', '.join(good)}"
        lines += [line for line in outcome.output.strip().split("\n") if line][-25:]
        if outcome.status == "boot" and outcome.log in seen:
            lines[0] += ", as above"
        else:
            lines += [line for line in outcome.log.strip().split("\n") if line]
        seen.add(outcome.log)
        lines.append(f"again, alone: make grade N={number} ONLY={test.name} SEED={s}")
        text = "\n".join(lines)
    most = max((o.instructions for _, o in test.outcomes), default=0)
    return Part(test.name, test.points if verdict == "PASS" else 0, test.points, verdict, test.what, text, most, test.hidden)


# --- The student's own tests ------------------------------------------------------------------------------------------------

def bug_kernel(lab, variant=None):
    """Our kernel with every bug of the lab in it, each asleep until lab.run= wakes it."""
    def change(tree):
        labs.plant_bugs(tree, lab)
        if variant:
            variant.apply(tree)
    tree = make_tree(os.path.join(WORK, f"lab{lab.number}-bugs" + (f"-{variant.seed}" if variant else "")), change)
    try:
        return build_kernels(tree, ["debug"]), tree
    except BuildFailed as e:
        raise Trouble(f"the kernel with planted bugs does not build:\n{e}") from None


def catches(lab, bug, tests, kernels, seed, programs):
    """The first of the tests that fails when the bug acts, as a list. A kernel that does not even boot with it is our mistake."""
    fresh = [Test(t.path, student=lab) for t in tests]
    run_tests(fresh, kernels, seed, programs, labs.token_of(bug.number), until=lambda outcome: not outcome.passed)
    if any(o.status == "boot" for t in fresh for _, o in t.outcomes):
        raise Trouble(f"planted bug {bug.number} keeps the kernel from booting")
    return [t.name for t in fresh if any(not o.passed for _, o in t.outcomes)]


@functools.lru_cache(maxsize=None)
def runs_of(path, follow=False):
    """All runs of eight words and signs in a program, comments aside; follow: and in the files beside it that it includes."""
    done, todo, text = set(), [path], ""
    while todo:
        name = todo.pop()
        if name in done or not os.path.isfile(name):
            continue
        done.add(name)
        with open(name, encoding="utf-8", errors="replace") as f:
            source = re.sub(r"(?s)/\*.*?\*/|//[^\n]*", " ", f.read(1 << 20))
        if follow:
            todo += [os.path.join(os.path.dirname(path), i) for i in re.findall(r'(?m)^\s*#\s*include\s*"([^"/]+)"', source)]
        text += source
    words = re.findall(r"\w+|[^\w\s]", text)
    return frozenset(tuple(words[i:i + 8]) for i in range(len(words) - 7))


def is_copy(path, candidates):
    """Which of the candidates this one was copied from, more or less: most of the one is in the other, whichever is longer."""
    mine = runs_of(path, True)
    for original in candidates:
        theirs = runs_of(original)
        if mine and len(mine & theirs) > 0.6 * min(len(mine), max(len(theirs), 100)):
            return original
    return None


def originals(lab):
    """What nobody may hand in as a test of his own: (the lab's public tests, these and every other program that students have)."""
    public = [os.path.join(lab.directory, "tests", name + ".c") for name, _, _ in lab.tests]
    return public, public + sorted(p for d in ("guest", "race", "stress") for p in glob.glob(os.path.join(vm.TOP, "tests", d, "*.c")))


def isolated(directory):
    """The sources of a submission's tests, where nothing lies beside them that they could include."""
    alone = os.path.join(WORK, "student-sources")
    shutil.rmtree(alone, ignore_errors=True)
    os.makedirs(alone)
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        path = os.path.join(directory, name)
        if name.endswith((".c", ".h")) and os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < 1 << 20:
            shutil.copyfile(path, os.path.join(alone, name))
    return alone


def grade_students_tests(lab, directory, seed, variant=None, say=note):
    """Points for the tests in `directory`: they must pass on the true kernel, and are then worth what they catch."""
    paths = sorted(glob.glob(os.path.join(directory, "*.c")))[:MAX_STUDENT_TESTS]
    whole = lab.student_points
    if not paths:
        return Part("your own tests", 0, whole, "FAIL", "bugs that your tests catch", "there are none in tests/student/")
    kernels, tree = bug_kernel(lab, variant)
    programs = os.path.join(WORK, "student-tests")
    shutil.rmtree(programs, ignore_errors=True)
    lines, valid = [], []
    tests = [Test(p, student=lab) for p in paths]
    for t in tests:
        original = is_copy(t.path, originals(lab)[1])
        if original:
            lines.append(f"{t.name}: is a copy of our own {os.path.relpath(original, vm.TOP)}, so it does not count")
            continue
        error = build_test(t, tree, programs)
        if error:
            lines.append(f"{t.name}: does not compile:\n{error}")
        else:
            valid.append(t)
    run_tests(valid, kernels, seed, programs, labs.token_of(0))
    for t in list(valid):
        s, outcome = t.worst()
        if not outcome.passed:
            valid.remove(t)
            lines += [f"{t.name}: fails on the correct kernel, so it does not count: {outcome.reason(t.budget)}", outcome.output.strip()[-600:]]
    valid.sort(key=lambda t: t.worst()[1].instructions)		# one that catches is enough: the cheap ones first
    caught = {}

    def try_bug(bug):
        names = catches(lab, bug, valid, kernels, seed, programs) if valid else []
        say(f"  planted bug {bug.number}: {'caught by ' + names[0] if names else 'not caught'}")
        return names
    for bug, names in zip(lab.bugs, at_once(try_bug, lab.bugs)):
        caught[bug.number] = names
    n = sum(1 for names in caught.values() if names)
    for number, names in caught.items():
        lines.append(f"planted bug {number}: " + ("caught by " + ", ".join(names) if names else "not caught"))
    points = whole * n // len(lab.bugs) if lab.bugs else 0
    part = Part("your own tests", points, whole, "PASS" if points == whole else "FAIL", f"{n} of {len(lab.bugs)} planted bugs caught", "\n".join(lines))
    part.caught = caught
    return part


# --- Results --------------------------------------------------------------------------------------------------------------

def write_results(parts, number, score, maximum, seconds, out):
    os.makedirs(out, exist_ok=True)
    report = []
    for p in parts:
        count = f"  {p.instructions / 1e6:.1f} M instructions" if p.instructions else ""
        report.append(f"{p.verdict:<5} {p.points:3}/{p.maximum:<3} {p.name}: {p.what}{count}")
        report += ["      | " + line for line in p.text.split("\n")] if p.text else []
    report.append(f"lab {number}: {score}/{maximum}")
    with open(os.path.join(out, "report.txt"), "w") as f:
        f.write("\n".join(report) + "\n")
    failures = sum(p.verdict != "PASS" for p in parts)
    with open(os.path.join(out, "junit.xml"), "w") as f:
        f.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n<testsuite name="lab{number}" tests="{len(parts)}" failures="{failures}" time="{seconds:.0f}">\n')
        for p in parts:
            f.write(f'<testcase classname="lab{number}" name={quoteattr(p.name)} time="{p.instructions / 1e9:.3f}">')
            if p.verdict != "PASS":
                clean = re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd]", "?", p.text)
                f.write(f'<failure message={quoteattr(clean.split(chr(10))[0])} type="{p.verdict}">{escape(clean)}</failure>')
            f.write("</testcase>\n")
        f.write("</testsuite>\n</testsuites>\n")
    with open(os.path.join(out, "results.json"), "w") as f:
        json.dump({"score": score, "execution_time": round(seconds), "stdout_visibility": "hidden", "output": report[-1],
                   "tests": [{"name": f"{p.name}: {p.what}", "score": p.points, "max_score": p.maximum, "number": str(i),
                              "status": "passed" if p.verdict == "PASS" else "failed", "output": f"{p.verdict}\n{p.text}".strip(),
                              "visibility": "after_published" if p.hidden else "visible"} for i, p in enumerate(parts, 1)]}, f, indent=1)
    return report


def no_score(number, word, why, out):
    os.makedirs(out, exist_ok=True)
    for name in ("junit.xml", "results.json"):
        if os.path.exists(os.path.join(out, name)):
            os.unlink(os.path.join(out, name))
    with open(os.path.join(out, "report.txt"), "w") as f:
        f.write(f"{word}: {why}\nlab {number}: no score\n")
    note(f"{word}: {why}")
    print(f"lab {number}: no score")


def select_tests(lab, hidden, only, home):
    tests = [Test(os.path.join(home, "tests", name + ".c"), points, what) for name, points, what in lab.tests]
    for path in sorted(glob.glob(os.path.join(hidden, "*.c"))) if hidden else []:
        tests.append(Test(path, hidden=True))
    if hidden and not os.path.isdir(hidden):
        raise Usage(f"HIDDEN={hidden}: no such directory")
    if only:
        tests = [t for t in tests if t.name == only]
        if not tests:
            raise Usage(f"lab {lab.number} has no test '{only}'")
    return tests


def is_students_tree():
    return os.path.exists(os.path.join(labs.LABS, "this-lab.mk"))


def grade(number, hidden="", seed=1, submission="", only="", variant_seed="", out=None, quiet=False):
    """The parts of the result. Trouble, HostTooSlow: there is none."""
    lab = labs.Lab(number)
    variant = labs.Variant(lab, variant_seed) if variant_seed else None
    say = (lambda text: None) if quiet else (lambda text: note(text))
    say(f"lab {number}: {lab.title}; seed {seed}")
    build_runner()
    vm.make("build/initramfs.cpio", "build/tests/guest-init")
    tree, broken = vm.TOP, None
    home = lab.directory
    if submission or variant:
        def change(fresh):
            if variant:
                variant.apply(fresh)
            if submission:
                overlay(fresh, submission, [path for _, path in lab.programs], {c.path for c in lab.cuts if os.path.dirname(c.path) in KERNEL_DIRS})
        name = "submission" + (f"-{variant.seed}" if variant else "")
        try:
            tree = make_tree(os.path.join(WORK, name), change)
        except BuildFailed as e:
            broken = str(e)
        home = os.path.join(tree, f"docs/labs/lab{number}")
    tests = select_tests(lab, hidden, only, home)
    kernels = {}
    if not broken:
        say("building the kernels ...")
        try:
            kernels = build_kernels(tree, sorted({t.boot()[0] for t in tests}))
        except BuildFailed as e:
            broken = "\n".join(line for line in str(e).split("\n") if line.strip())[-3000:]
    programs = os.path.join(WORK, f"lab{number}-tests")
    for t in tests:
        error = build_test(t, tree if not broken else vm.TOP, programs)
        if error:
            raise Trouble(f"test {t.name} does not compile: {error}")
    unbuilt = {} if broken else build_programs(lab, tree, programs)
    if broken:
        parts = [Part(t.name, 0, t.points, "FAIL", t.what, "the kernel does not compile:\n" + broken if i == 0 else "the kernel does not compile",
                      0, t.hidden) for i, t in enumerate(tests)]
    else:
        def said(test, s, outcome):
            word = "passed" if outcome.passed else f"failed: {outcome.reason(test.budget)}"
            say(f"  {test.name}{f' (seed {s})' if len(test.seeds(seed)) > 1 else ''}: {word}")
        run_tests([t for t in tests if t.get("program") not in unbuilt], kernels, seed, programs, "", said)
        seen = set()
        parts = [Part(t.name, 0, t.points, "FAIL", t.what, f"{t.get('program')} does not compile:\n{unbuilt[t.get('program')]}", 0, t.hidden)
                 if t.get("program") in unbuilt else part_of(t, number, seen) for t in tests]
    if lab.student_points and not only:
        if is_students_tree():
            parts.append(Part("your own tests", 0, lab.student_points, "LATER", "bugs that your tests catch",
                              "graded by your course: it needs kernels with planted bugs, which are not in this tree"))
        else:
            directory = isolated(os.path.join(submission, "tests/student")) if submission else os.path.join(home, "model")
            parts.append(grade_students_tests(lab, directory, seed, variant, say))
    return parts


def main():
    setting = lambda name, default="": os.environ.get(name) or default		# noqa: E731
    number = setting("N")
    if not number.isdigit():
        raise Trouble("which lab? make grade N=3")
    seed = setting("SEED", "1")
    if not seed.isdigit() or int(seed) < 1:
        raise Trouble(f"SEED is a number from 1 on, not '{seed}'")
    out = setting("OUT", os.path.join(vm.BUILD, "grade"))
    hidden, submission = (os.path.abspath(os.path.expanduser(p)) if p else "" for p in (setting("HIDDEN"), setting("SUBMISSION")))
    if submission and not os.path.isdir(submission):
        raise Trouble(f"SUBMISSION={submission}: no such directory")
    submission = root_of(submission) if submission else ""
    labs.Lab(int(number))		# is there such a lab?
    begin = time.monotonic()
    try:
        parts = grade(int(number), hidden, int(seed), submission, setting("ONLY"), setting("VARIANT"))
    except HostTooSlow:
        no_score(number, "HOST-TOO-SLOW", "QEMU gets so little processor time here that a hang cannot be told from slowness; try again on a quieter machine", out)
        return TOO_SLOW
    except Usage:
        raise
    except (Trouble, OSError, ValueError) as e:
        no_score(number, "GRADER", f"the grader is in trouble, which says nothing about the kernel: {e}", out)
        return IN_TROUBLE
    score, maximum = sum(p.points for p in parts), sum(p.maximum for p in parts)
    for line in write_results(parts, int(number), score, maximum, time.monotonic() - begin, out):
        print(line)
    return 0 if score == maximum else 1


def end(status):
    """The status also as a file, for those whose make cannot hand it on (tests/labs/make_status.c)."""
    out = os.environ.get("OUT") or os.path.join(vm.BUILD, "grade")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "status"), "w") as f:
        f.write(f"{status}\n")
    sys.exit(status)


if __name__ == "__main__":
    try:
        end(main())
    except Trouble as e:
        note(f"grade: {e}")
        end(2)
    except KeyboardInterrupt:
        sys.exit(130)
