#!/usr/bin/env python3
"""Are the labs sound? Group `labs` of tests/run.sh.

usage: check.py [--slow] [--only N]...

For each lab: the kernel as it is gets full marks; the tree that students are given builds without a warning and gets none; our model of a
student's tests catches every planted bug, and no copy of a public test counts. With --slow: our own tests catch them too; ten times in a
row and on a busy machine, the same score each time; and for variants, that the solution earns full marks there, that the public one does not even compile, and that it loses points when
somebody adapts its names.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import csource
import cut
import grade
import lab as labs
import oral
import vm
from boot import HostTooSlow
from vm import Trouble, note

failed = False


def ok(name, condition, why=""):
    global failed
    if condition:
        print(f"ok: labs/{name}", flush=True)
    else:
        failed = True
        print(f"FAIL: labs/{name}: {why.splitlines()[0] if why else 'not so'}", flush=True)
        for line in why.splitlines()[1:40]:
            print("    | " + line, flush=True)


def lost(parts):
    return "\n".join(f"{p.name}: {p.points}/{p.maximum} {p.verdict}\n{p.text}" for p in parts if p.points != p.maximum)


def solution(number, times=1, seed=1):
    """Full marks, the student's part included, each time."""
    for i in range(times):
        parts = grade.grade(number, seed=seed, quiet=True)
        wrong = [p for p in parts if p.points != p.maximum or p.verdict != "PASS"]
        if wrong:
            ok(f"lab{number}_solution_has_full_marks", False, f"round {i + 1}\n" + lost(parts))
            return
    ok(f"lab{number}_solution_has_full_marks" + (f"_{times}_times" if times > 1 else ""), True)


def stub_tree(lab, variant=None):
    """What a student is given, built: without a warning."""
    work = tempfile.mkdtemp(prefix="faultline-lab.")
    target = os.path.join(work, "lab")
    try:
        cut.cut(lab.number, target, variant)
        directory = os.path.join(grade.WORK, f"lab{lab.number}-stub")
        shutil.rmtree(os.path.join(target, ".git"))
        grade.seeded(directory)
        labs.keep_dates(target, directory if os.path.exists(os.path.join(directory, "Makefile")) else vm.TOP)
        labs.replace_tree(target, directory)
        return directory
    finally:
        shutil.rmtree(work, ignore_errors=True)


def stub(lab):
    """The student's tree: builds clean, boots as far as it can, names a missing function, and every test of it fails."""
    name = f"lab{lab.number}_stub_has_none"
    tree = stub_tree(lab)
    warnings = []
    try:
        kernels = grade.build_kernels(tree, ["debug", "release"], warnings=warnings)
    except grade.BuildFailed as e:
        ok(name, False, "does not build\n" + str(e)[-2000:])
        return
    if warnings:
        ok(name, False, "warnings\n" + "\n".join(warnings))
        return
    tests = grade.select_tests(lab, "", "", os.path.join(tree, f"docs/labs/lab{lab.number}"))
    programs = os.path.join(grade.WORK, f"lab{lab.number}-tests")
    for t in tests:
        error = grade.build_test(t, tree, programs)
        if error:
            ok(name, False, f"{t.name} does not compile\n{error}")
            return
    unbuilt = grade.build_programs(lab, tree, programs)
    if unbuilt:
        ok(name, False, "\n".join(f"{program} does not compile\n{text}" for program, text in unbuilt.items()))
        return
    grade.run_tests(tests, kernels, 1, programs)
    passing = [t.name for t in tests if t.verdict != "FAIL"]
    text = "\n".join(o.output + o.log for t in tests for _, o in t.outcomes)
    ok(name, not passing, "passes without a solution: " + ", ".join(passing))
    if lab.cuts:
        ok(f"lab{lab.number}_stub_names_what_is_missing", "is not written yet" in text or "is not implemented" in text or "not implemented" in text,
           "the log names no missing function")


def bugs(lab):
    """Every planted bug is caught by our own tests; and while none acts, that kernel passes them all."""
    kernels, tree = grade.bug_kernel(lab)
    programs = os.path.join(grade.WORK, f"lab{lab.number}-tests")
    tests = [t for t in grade.select_tests(lab, "", "", lab.directory) if not t.get("view")]
    for t in tests:
        t.settings["build"] = "debug"
        error = grade.build_test(t, tree, programs)
        if error:
            raise Trouble(error)
    if grade.build_programs(lab, tree, programs):
        raise Trouble("a program of the lab does not compile")

    def is_caught(bug):
        fresh = []
        for t in tests:
            fresh.append(grade.Test(t.path))
            fresh[-1].settings.update(build="debug", seeds="1")
        grade.run_tests(fresh, kernels, 1, programs, labs.token_of(bug.number), until=lambda outcome: not outcome.passed)
        return any(not o.passed for t in fresh for _, o in t.outcomes)
    not_caught = [f"{bug.number}: {bug.text}" for bug, caught in zip(lab.bugs, grade.at_once(is_caught, lab.bugs)) if not caught]
    ok(f"lab{lab.number}_our_tests_catch_{len(lab.bugs)}_planted_bugs", not not_caught, "not caught:\n" + "\n".join(not_caught))


def lies(lab):
    """A kernel that tells what the tests want to hear, and does something else, is caught by the view from outside."""
    for patch in sorted(os.listdir(os.path.join(lab.directory, "lies"))) if os.path.isdir(os.path.join(lab.directory, "lies")) else []:
        def change(tree, patch=patch):
            with open(os.path.join(lab.directory, "lies", patch), encoding="utf-8") as f:
                labs.apply_patch(tree, f.read(), patch)
        name = f"lab{lab.number}_outside_view_catches_{os.path.splitext(patch)[0]}"
        tree = grade.make_tree(os.path.join(grade.WORK, f"lab{lab.number}-lie"), change)
        tests = [t for t in grade.select_tests(lab, "", "", lab.directory) if t.get("view")]
        programs = os.path.join(grade.WORK, f"lab{lab.number}-tests")
        for t in tests:
            error = grade.build_test(t, tree, programs)
            if error:
                raise Trouble(error)
        grade.run_tests(tests, grade.build_kernels(tree, sorted({t.boot()[0] for t in tests})), 1, programs)
        said = "\n".join(o.output for t in tests for _, o in t.outcomes)
        ok(name, all(t.verdict == "FAIL" for t in tests) and "from outside: " in said, "it is not: " + said)


def copies(lab):
    """A program that was copied, changed a little and put beside the student's own is known; our model of a student's tests is not one."""
    public, all_of_ours = grade.originals(lab)
    missed = []
    with tempfile.TemporaryDirectory(prefix="faultline-copies.") as d:
        for path in public:
            with open(path, encoding="utf-8") as f:
                text = f.read()
            whole = re.search(r'#include "(tests/[^"]*\.c)"', text)
            if whole:						# little more than a race program: that is what would be copied
                path = os.path.join(vm.TOP, whole.group(1))
                with open(path, encoding="utf-8") as f:
                    text = f.read()
            copy, header = os.path.join(d, "mine.c"), os.path.join(d, "mine.h")
            with open(header, "w", encoding="utf-8") as f:		# hidden in a header, behind code of one's own
                f.write(text.replace("main(", "their_main("))
            with open(copy, "w", encoding="utf-8") as f:
                f.write('#include "mine.h"\nint main(void)\n{\n' + "".join(f"\tputchar({i} + 'a' - 'b');\n" for i in range(40)) + "\treturn their_main();\n}\n")
            grade.runs_of.cache_clear()
            if grade.is_copy(copy, [path]) != path:
                missed.append(f"{os.path.basename(path)} was copied unseen")
    for path in sorted(glob.glob(os.path.join(lab.directory, "model/*.c"))):
        original = grade.is_copy(path, all_of_ours)
        if original:
            missed.append(f"{os.path.basename(path)} is taken for a copy of {os.path.basename(original)}")
    ok(f"lab{lab.number}_copied_tests_are_known", not missed, "\n" + "\n".join(missed))


def variants(lab):
    """The variant's own solution earns everything. The public one does not compile there; and with its names adapted it does not pass."""
    name = f"lab{lab.number}_variant"
    parts = grade.grade(lab.number, variant_seed="17", quiet=True)
    ok(f"{name}_solution_has_full_marks", all(p.points == p.maximum for p in parts), "\n" + lost(parts))
    tree = stub_tree(lab, "17")
    paths = {c.path for c in lab.cuts}
    for path in paths:
        shutil.copy(os.path.join(vm.TOP, path), os.path.join(tree, path))
    try:
        grade.build_kernels(tree, ["release"])
        ok(f"{name}_public_solution_does_not_compile", False, "it does")
    except grade.BuildFailed:
        ok(f"{name}_public_solution_does_not_compile", True)
    for path in paths:
        with open(os.path.join(vm.TOP, path), encoding="utf-8") as f:
            text = f.read()
        with open(os.path.join(tree, path), "w", encoding="utf-8") as f:
            f.write(labs.csource.rename(text, labs.Variant(lab, "17").names))
    try:
        kernels = grade.build_kernels(tree, ["debug", "release"])
    except grade.BuildFailed as e:
        ok(f"{name}_adapted_public_solution_loses_points", False, "it does not compile, so nothing is known\n" + str(e)[-2000:])
        return
    tests = grade.select_tests(lab, "", "", os.path.join(tree, f"docs/labs/lab{lab.number}"))
    programs = os.path.join(grade.WORK, f"lab{lab.number}-tests")
    for t in tests:
        error = grade.build_test(t, tree, programs)
        if error:
            raise Trouble(error)
    grade.run_tests(tests, kernels, 1, programs)
    left = sum(t.points for t in tests if t.verdict == "PASS")
    ok(f"{name}_adapted_public_solution_loses_points", left < sum(t.points for t in tests), f"it has all {left}")


def nothing_of_ours_is_graded():
    """Whatever a submission does to its files, the solution does not stand in for them. (Links to nowhere near it once scored 100.)"""
    solution_path, wrong = "mm/pgtable.c", []

    def link(path):
        os.symlink("/etc/hostname", path)

    def large(path):
        with open(path, "w") as f:
            f.write("/*" + " " * (1 << 20) + "*/\n")
    with tempfile.TemporaryDirectory(prefix="faultline-overlay.") as d:
        submission, tree = os.path.join(d, "submission"), os.path.join(d, "tree")
        for what in (link, os.mkfifo, large, os.mkdir, None, "no mm", "mm is a link"):
            for path in (submission, tree):
                shutil.rmtree(path, ignore_errors=True)
                for sub in ("kernel", "mm"):
                    shutil.copytree(os.path.join(vm.TOP, sub), os.path.join(path, sub))
            os.unlink(os.path.join(submission, solution_path))
            if callable(what):
                what(os.path.join(submission, solution_path))
            elif what:
                shutil.rmtree(os.path.join(submission, "mm"))
                if what == "mm is a link":
                    os.symlink(os.path.join(vm.TOP, "mm"), os.path.join(submission, "mm"))
            try:
                grade.overlay(tree, submission, (), {solution_path})
                wrong.append(f"{what} is accepted")
            except grade.BuildFailed:
                pass
            if os.path.exists(os.path.join(tree, solution_path)):
                wrong.append(f"{what}: our own file is graded")
            if not os.path.exists(os.path.join(tree, "kernel/main.c")):
                wrong.append(f"{what}: what was submitted is not there")
    ok("nothing_of_ours_is_graded", not wrong, "\n".join(wrong))


def status_of_make():
    """What the grader ends with is what `make grade` ends with. Python is replaced, for make alone, by something that ends as told."""
    with tempfile.TemporaryDirectory(prefix="faultline-status.") as d:
        with open(os.path.join(d, "python3"), "w") as f:
            f.write("#!/bin/sh\nexit $WANTED\n")
        os.chmod(os.path.join(d, "python3"), 0o755)
        clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        for wanted in (0, 1, 2, grade.IN_TROUBLE, grade.TOO_SLOW):
            environment = dict(clean, WANTED=str(wanted), PATH=f"{d}:{os.environ['PATH']}")
            got = subprocess.call(["make", "-s", "-C", vm.TOP, "grade", "N=2"], env=environment, stdin=subprocess.DEVNULL)
            if got != wanted:
                ok("make_ends_with_the_graders_status", False, f"the grader ended with {wanted}, make with {got}")
                return
    ok("make_ends_with_the_graders_status", True)


def oral_questions(lab):
    """They are about lines that are there, in the functions of the lab; the same each time, others with another seed."""
    results = {"output": f"lab {lab.number}: 1/2", "tests": [{"name": "a_test: what it says", "output": "FLAKY\nstatus 1, with seed 2"},
                                                            {"name": "another: says more", "output": "PASS"}]}
    first, again, other = (oral.questions(lab.number, vm.TOP, results, seed) for seed in ("1", "1", "2"))
    cited = re.findall(r"\d\.  (\S+):(\d+), in (\w+)\(\)\n +(.*)\n", "\n".join(first))
    wrong = [] if first == again else ["not the same twice"]
    for path, number, function, text in cited:
        with open(os.path.join(vm.TOP, path), encoding="utf-8") as f:
            whole = f.read()
        f = csource.functions(whole).get(function)
        line = whole.split("\n")[int(number) - 1]
        if line.strip() != text or not f or line not in whole[f.body:f.end]:
            wrong.append(f"{path}:{number} is not '{text}' in {function}()")
    if not cited or "a_test is FLAKY" not in "\n".join(first) or "another passed" not in "\n".join(first):
        wrong.append("something is missing:\n" + "\n".join(first))
    if len(cited) == oral.ASKED and first == other:
        wrong.append("the seed changes nothing")
    ok(f"lab{lab.number}_oral_questions", not wrong, "\n".join(wrong))


def main(argv):
    slow = "--slow" in argv
    only = [int(argv[i + 1]) for i, word in enumerate(argv) if word == "--only"]
    numbers = sorted(int(d[3:]) for d in os.listdir(labs.LABS) if d.startswith("lab") and d[3:].isdigit())
    status_of_make()
    nothing_of_ours_is_graded()
    for number in only or numbers:
        lab = labs.Lab(number)
        if lab.cuts:
            oral_questions(lab)
        solution(number)
        stub(lab)
        if lab.bugs and (slow or not lab.student_points):	# else the model has just shown that they act, and can be caught
            bugs(lab)
        if lab.student_points:
            copies(lab)
        if slow:
            lies(lab)
            if lab.renames or lab.behaviours:
                variants(lab)
            solution(number, 10)
            busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
            try:
                solution(number, seed=3)
            finally:
                for p in busy:
                    p.kill()
                    p.wait()
    print("end: labs")
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except HostTooSlow:
        note("labs: the host is too slow")
        sys.exit(75)
    except Trouble as e:
        note(f"labs: {e}")
        sys.exit(2)
