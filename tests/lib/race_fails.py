"""Can the race tests fail? Each program of tests/race that says `fails: PARAMETERS` is run with those kernel parameters, which
re-open its race, and must fail, saying what it says in `shows: REGEX`.

usage: race_fails.py [--only NAME]...

Where a switch of the kernel re-opens the race, the ordinary debug kernel is used. For the others (race.reopen=NN) the patches of
tests/race/patches are applied to a copy of the sources, and a debug kernel is built of that; each patch acts only if its race
is named by race.reopen, so one kernel serves all. That it passes all the same tests when none is named is checked first: what
makes them fail is the race, not the patching.

Which check sees the damage first depends on the interleaving. So besides what `shows` names, a panic of one of the debug
build's checkers counts: the same kernel has just passed the same test with the race closed.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import guest_tests
import vm
from vm import Trouble, note

RACES = os.path.join(vm.TOP, "tests/race")
CHECKERS = (r"PANIC: (assert\(|BUG_ON\(|kasan: |stale translation: |frame [0-9a-f]+ |page table [0-9a-f]+ |slab \S+: |vma tree: |"
            r"mm [0-9a-f]+: |lock order: |kfree\(|reference |hugetlb: |uffd: )")
TRIES = 3
WORK = os.path.join(vm.BUILD, "race-fails")
PARTS = ("Makefile", "linker.ld", "boot", "kernel", "mm", "fs", "user")


def copy_sources(to):
    """Fresh copies of everything, with today's dates; only what is as it was in `to` keeps its date, so make rebuilds the rest."""
    fresh = to + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    for part in PARTS:
        source = os.path.join(vm.TOP, part)
        if os.path.isdir(source):
            shutil.copytree(source, os.path.join(fresh, part), symlinks=True, copy_function=shutil.copy)
        elif os.path.exists(source):
            shutil.copy(source, fresh)
    for patch in sorted(glob.glob(os.path.join(RACES, "patches/*.patch"))):
        done = subprocess.run(["patch", "-p1", "-F3", "-s", "--no-backup-if-mismatch", "-i", patch], cwd=fresh,
                              capture_output=True, text=True)
        if done.returncode:
            raise Trouble(f"{os.path.basename(patch)} does not apply any more:\n{done.stdout}{done.stderr}")
    for base, _, files in os.walk(fresh):
        for name in files:
            path = os.path.join(base, name)
            old = os.path.join(to, os.path.relpath(path, fresh))
            if os.path.isfile(old) and not os.path.islink(path):
                with open(path, "rb") as a, open(old, "rb") as b:
                    if a.read() == b.read():
                        shutil.copystat(old, path)
    shutil.rmtree(to, ignore_errors=True)
    os.rename(fresh, to)


def build_kernel():
    source, objects = os.path.join(WORK, "source"), os.path.join(WORK, "objects")
    os.makedirs(objects, exist_ok=True)
    copy_sources(source)
    kernel = os.path.join(objects, "debug/faultline.elf")
    done = subprocess.run(["make", "-s", f"-j{os.cpu_count()}", f"O={objects}", kernel], cwd=source, capture_output=True, text=True)
    if done.returncode:
        raise Trouble("the kernel with the races re-opened does not build:\n" + (done.stdout + done.stderr)[-2000:])
    return kernel


def run(tests, kernel, append, say):
    """One boot for each number of CPUs; `say` gets each test, its status and its output."""
    output = os.path.join(vm.BUILD, "tests/race")
    boot = (2, tests[0].get("mem", "1G"), f"{tests[0].get('append', '')} {append}".strip(), "debug", "", "")
    guest_tests.run_boot("faultline", boot, tests, output, lambda test, cpus, status, seconds, text: say(test, status, text),
                         kernel_file=kernel)


def main(argv):
    only = [argv[i + 1] for i, word in enumerate(argv) if word == "--only"]
    tests = [guest_tests.Test(path) for path in sorted(glob.glob(os.path.join(RACES, "*.c")))]
    tests = [t for t in tests if t.get("fails") and (not only or t.name in only)]
    output = os.path.join(vm.BUILD, "tests/race")
    os.makedirs(output, exist_ok=True)
    failed = []

    def fail(name, why, text=""):
        failed.append(name)
        lines = ["    | " + line for line in text.rstrip("\n").split("\n")[-30:]] if text else []
        print("\n".join([f"FAIL: race-fails/{name}: {why}"] + lines), flush=True)

    for t in list(tests):
        error = guest_tests.build(t, RACES, output)
        if error:
            fail(t.name, "does not compile", error)
            tests.remove(t)
    patched = build_kernel() if any("race.reopen=" in t.get("fails") for t in tests) else None

    def must_pass(test, status, text):
        if status in (0, 77):
            print(f"ok: race-fails/{test.name}: passes while no race is open")
        else:
            fail(test.name, f"fails while no race is open: {status}", text)

    def shown(test, status, text):
        """The line of a run that shows the damage; None if it does not."""
        shows = test.get("shows", ".")
        found = re.search(shows, text) or re.search(CHECKERS, text)
        if status in (0, 77) or not found or str(status).startswith("no test began"):
            return None
        return next(line for line in text.split("\n") if re.search(shows, line) or found.group(0) in line)

    def must_fail(test):
        """Where no hand-shake forces the order, a busy host may hide a race from one run; it does not from TRIES."""
        runs = []
        for _ in range(TRIES):
            run([test], patched if "race.reopen=" in test.get("fails") else None, test.get("fails"),
                lambda test, status, text: runs.append((status, text)))
            line = shown(test, *runs[-1])
            if line:
                print(f"ok: race-fails/{test.name}: with {test.get('fails')}: {line.strip(' |')[:110]}", flush=True)
                return
        status, text = runs[-1]
        fail(test.name, f"passes with {test.get('fails')}" if status in (0, 77) else
             f"fails with {test.get('fails')} ({status}), but does not show '{test.get('shows')}'", text)

    if patched:
        alike = {}
        for t in tests:
            if "race.reopen=" in t.get("fails"):
                alike.setdefault((t.get("append", ""), t.get("mem", "1G")), []).append(t)
        for together in alike.values():
            run(together, patched, "", must_pass)
    # These end at their first finding, and most of each is booting: one for each processor.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(must_fail, tests))
    print("end: race-fails")
    return int(bool(failed))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Trouble as e:
        note(f"race_fails: {e}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
