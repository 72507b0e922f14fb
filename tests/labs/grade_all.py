"""make grade-all N=3 SUBMISSIONS=DIR OUT=grades.csv [HIDDEN=DIR] [SEED=n] [VARIANT=seed]: grade a class.

Every directory in SUBMISSIONS is one submission. OUT gets a line for each: score, verdict, seconds, and how much of what the student wrote
is also in our sources, and in the most similar other submission (Debian's similarity-tester; only the bodies of the functions that
were to be written are compared, so what everybody was given counts for nothing). Reports go to build/grade-all/NAME/.

Verdicts: GRADED; DOES-NOT-BUILD (0 points); HOST-TOO-SLOW and GRADER (no score: run them again, or look why).
"""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import csource
import grade
import lab as labs
import vm
from vm import Trouble, note


def functions_of(tree, lab, names):
    """The student's functions of one tree, as C text: what the manifest names, and what has been added beside them."""
    given, out = {}, []
    for path in sorted({c.path for c in lab.cuts}):
        full = os.path.join(tree, path)
        if not os.path.isfile(full):
            continue
        with open(full, encoding="utf-8", errors="replace") as f:
            text = f.read()
        with open(os.path.join(vm.TOP, path), encoding="utf-8") as f:
            given = csource.functions(f.read())
        wanted = {names.get(n, n) for c in lab.cuts if c.path == path for n in c.names}
        try:
            found = csource.functions(text)
        except csource.SourceError:
            out.append(text)		# it does not parse: then all of it
            continue
        out += [text[f.start:f.end] for name, f in found.items() if name in wanted or name not in given]
    return "\n\n".join(out)


def similarities(texts):
    """{name: {other: percent of name that is in other}}; empty without the program."""
    if not shutil.which("sim_c"):
        note("grade-all: no similarity-tester (apt-get install similarity-tester): those columns stay empty")
        return {}
    found = {}
    with tempfile.TemporaryDirectory(prefix="faultline-similar.") as d:
        numbers = {}
        for i, (name, text) in enumerate(texts.items()):
            numbers[f"{i}.c"] = name
            with open(os.path.join(d, f"{i}.c"), "w", encoding="utf-8", errors="replace") as f:
                f.write(text)
        done = subprocess.run(["sim_c", "-p", "-e", "-s", "-r", "14", "-t", "1", *numbers], cwd=d, capture_output=True, text=True, errors="replace", timeout=600)
        for a, percent, b in re.findall(r"(?m)^(\d+\.c) consists for (\d+) % of (\d+\.c) material", done.stdout):
            # It may tell only one direction; the other is no smaller a reason to look.
            for x, y in ((numbers[a], numbers[b]), (numbers[b], numbers[a])):
                found.setdefault(x, {}).setdefault(y, 0)
                found[x][y] = max(found[x][y], int(percent))
    return found


def grade_one(number, submission, out, setting):
    """(score, maximum, verdict, seconds); each in a process of its own, so that nothing of one reaches the next."""
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    begin = time.monotonic()
    environment = dict(os.environ, N=str(number), SUBMISSION=submission, OUT=out, **setting)
    with open(os.path.join(out, "log.txt"), "w") as log:
        status = subprocess.call([sys.executable, "-B", os.path.join(grade.HERE, "grade.py")], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    seconds = time.monotonic() - begin
    if status == grade.TOO_SLOW:
        return "", "", "HOST-TOO-SLOW", seconds
    try:
        with open(os.path.join(out, "results.json")) as f:
            results = json.load(f)
    except (OSError, ValueError):
        return "", "", "GRADER", seconds
    broken = any("does not compile" in t["output"].split("\n")[1:2] or "the kernel does not compile" in t["output"] for t in results["tests"])
    return results["score"], sum(t["max_score"] for t in results["tests"]), "DOES-NOT-BUILD" if broken else "GRADED", seconds


def main():
    setting = lambda name: os.environ.get(name) or ""		# noqa: E731
    number, directory, out = setting("N"), setting("SUBMISSIONS"), setting("OUT") or "grades.csv"
    if not number.isdigit() or not os.path.isdir(directory):
        raise Trouble("usage: make grade-all N=3 SUBMISSIONS=DIR OUT=grades.csv")
    lab = labs.Lab(int(number))
    names = labs.Variant(lab, setting("VARIANT")).names if setting("VARIANT") else {}
    people = sorted(d for d in os.listdir(directory) if os.path.isdir(os.path.join(directory, d)) and not d.startswith("."))
    rows, texts = [], {"(upstream)": csource.rename(functions_of(vm.TOP, lab, {}), names)}
    for i, person in enumerate(people, 1):
        path = os.path.abspath(os.path.join(directory, person))
        texts[person] = functions_of(grade.root_of(path), lab, names)
        score, maximum, verdict, seconds = grade_one(number, path, os.path.join(vm.BUILD, "grade-all", person),
                                                     {k: setting(k) for k in ("HIDDEN", "SEED", "VARIANT")})
        rows.append([person, score, maximum, verdict, f"{seconds:.0f}"])
        note(f"{i}/{len(people)} {person}: {verdict} {score}/{maximum} ({seconds:.0f} s)")
    found = similarities(texts)
    with open(out, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["submission", "score", "maximum", "verdict", "seconds", "percent_upstream", "most_similar", "percent"])
        for row in rows:
            others = {k: v for k, v in found.get(row[0], {}).items() if k != "(upstream)"}
            most = max(others, key=others.get) if others else ""
            w.writerow(row + [found.get(row[0], {}).get("(upstream)", "" if not found else 0), most, others.get(most, "")])
    print(f"{len(rows)} submissions: {out}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Trouble as e:
        note(f"grade-all: {e}")
        sys.exit(2)
