"""make oral N=3 [SUBMISSION=DIR] [RESULTS=build/grade] [SEED=n] [VARIANT=seed]: questions for ten minutes with one student.

Each points at a line that this student wrote, or at a test of this student's last `make grade` (results.json in RESULTS). The same submission
gets the same questions; another SEED chooses others. There are no answers: whoever asks has read the lines, which are printed.
"""
import hashlib
import json
import os
import random
import re
import sys

import csource
import lab as labs
import vm
from vm import Trouble, note

# (topic, what a line looks like, the question). The first that fits a line is asked about it.
QUESTIONS = (
    ("a race", r"__atomic_compare_exchange|\bcmpxchg",
     "This may fail. Who was faster then, and what becomes of what you had prepared? Draw both processors."),
    ("flush", r"\bflush_tlb|\btlb_(flush|note|add)|\bgather_",
     "Take this away. Which processor still knows what, and which test of `make grade` would say so first?"),
    ("order", r"__ATOMIC_\w+|\b(READ|WRITE)_ONCE\(|\bsmp_\w*mb\(",
     "With which access, on which other processor, does this pair? What could that one see if this were a plain one?"),
    ("lock", r"\b\w*(?<!un)(?<!b)lock(?!ed)\w*\(|\bdown_(read|write)\w*\(|\bwait_event",
     "What is held from here on? Name somebody who may have to wait because of it, and your line that lets him go on. On every way out?"),
    ("reference", r"\b(get|put)_(page|folio)\(|\brefcount_\w+\(|\bpage_(add|remove)\w*\(|\b(k?free\w*|table_unaccount)\(",
     "What is the count before this line, and who put it there? Who is the last to let go?"),
    ("error", r"\breturn\s+(-E[A-Z]+|VM_FAULT_\w+|NULL|false)\b",
     "Write down a program of a few lines that makes the kernel get here. What does it see?"),
    ("loop", r"\b(for|while)\s*\(|\bgoto\b",
     "How often at most? What does it look at that somebody else may change meanwhile, and why does it end?"),
    ("condition", r"\bif\s*\(",
     "Suppose this were always true. Who notices first: a test, the debug kernel, or nobody? And if it were always false?"),
)
ASKED = 5
MANY = 12


class Line:
    def __init__(self, path, function, number, text):
        self.path, self.function, self.number, self.text = path, function, number, text


def written(tree, lab, names):
    """The lines of the functions that were to be written, and of those beside them that upstream does not have: {function: [Line]}."""
    found = {}
    for path in sorted({c.path for c in lab.cuts}):
        full = os.path.join(tree, path)
        if not os.path.isfile(full):
            continue
        with open(full, encoding="utf-8", errors="replace") as f:
            text = f.read()
        with open(os.path.join(vm.TOP, path), encoding="utf-8") as f:
            upstream = {names.get(n, n) for n in csource.functions(f.read())}
        wanted = {names.get(n, n) for c in lab.cuts if c.path == path for n in c.names}
        try:
            functions = csource.functions(text)
        except csource.SourceError as e:
            raise Trouble(f"{path} cannot be read: {e}") from None
        for name, f in functions.items():
            if name not in wanted and name in upstream or "lab_todo()" in text[f.body:f.end]:
                continue
            first = text.count("\n", 0, f.body) + 1
            found[name] = [Line(path, name, first + i, line.strip()) for i, line in enumerate(text[f.body:f.end].split("\n"))
                           if line.strip() and not line.strip().startswith(("/*", "*", "//"))]
    return found


def about_lines(functions, choice):
    """Questions about lines, as many topics and functions as there are before one comes again."""
    by_topic = {}
    for lines in functions.values():
        for line in lines:
            topic = next((t for t, pattern, _ in QUESTIONS if re.search(pattern, line.text)), None)
            if topic:
                by_topic.setdefault(topic, []).append(line)
    asked, used = [], {}
    topics = [t for t, _, _ in QUESTIONS if t in by_topic]
    while topics and len(asked) < ASKED:
        for topic in topics:
            if len(asked) == ASKED:
                break
            lines = by_topic[topic]
            fewest = min(used.get(line.function, 0) for line in lines)
            line = choice.choice([x for x in lines if used.get(x.function, 0) == fewest])
            lines.remove(line)
            used[line.function] = used.get(line.function, 0) + 1
            asked.append((line, next(q for t, _, q in QUESTIONS if t == topic)))
        topics = [t for t in topics if by_topic[t]]
    return sorted(asked, key=lambda a: (a[0].path, a[0].number))


def about_tests(results, number, choice):
    """One about what went wrong, the worst first; one about something that went well."""
    out, tests = [], [(t["name"].split(":")[0], *(t["output"] + "\n").split("\n", 1)) for t in results.get("tests", [])]
    for verdict, ask in (("FLAKY", "Draw the two columns of the order that makes it fail. Which of your lines allows it?"),
                         ("FAIL", "Which of your lines is it? How do you know?")):
        bad = [(name, text) for name, v, text in tests if v == verdict]
        if bad:
            name, text = choice.choice(bad)
            out.append(f"{name} is {verdict}: \"{text.strip().splitlines()[0] if text.strip() else ''}\"\n      {ask}")
            break
    good = [name for name, v, _ in tests if v == "PASS"]
    if good:
        name = choice.choice(good)
        out.append(f"{name} passed. Change one line of yours so that it fails, and no other test. What will it print?\n"
                   f"      Then look: make grade N={number} ONLY={name}")
    return out


def changed_elsewhere(tree, lab):
    """Kernel files that are not as they were handed out, although the lab does not ask for that."""
    ours = {c.path for c in lab.cuts} | {"kernel/lab.h"}
    planted = bool(lab.plants)
    found = []
    for d in ("boot", "kernel", "kernel/x86", "mm", "mm/sync", "fs"):
        for name in sorted(os.listdir(os.path.join(tree, d))) if os.path.isdir(os.path.join(tree, d)) else []:
            path = os.path.join(d, name)
            full, upstream = os.path.join(tree, path), os.path.join(vm.TOP, path)
            if path in ours or not name.endswith((".c", ".h", ".S")) or not os.path.isfile(full) or os.path.islink(full):
                continue
            if not os.path.isfile(upstream):
                found.append(path + " (new)")
            elif not planted:
                with open(full, "rb") as a, open(upstream, "rb") as b:
                    if a.read() != b.read():
                        found.append(path)
    return found


def questions(number, tree, results, seed="1", variant=""):
    """The text that is printed."""
    lab = labs.Lab(number)
    names = labs.Variant(lab, variant).names if variant else {}
    functions = written(tree, lab, names)
    if not functions:
        return [f"lab {number}: nothing has been written yet; ask about the handout's own questions"]
    whole = "\n".join(line.text for lines in functions.values() for line in lines)
    choice = random.Random(hashlib.sha256(f"{number} {seed}\n{whole}".encode()).hexdigest())
    out = [f"lab {number}: {lab.title}; {len(functions)} functions, {sum(map(len, functions.values()))} lines"]
    n = 0
    for line, question in about_lines(functions, choice):
        n += 1
        out.append(f"\n  {n}.  {line.path}:{line.number}, in {line.function}()\n          {line.text}\n      {question}")
    for question in about_tests(results, number, choice):
        n += 1
        out.append(f"\n  {n}.  {question}")
    elsewhere = [] if variant else changed_elsewhere(tree, lab)
    if len(elsewhere) > MANY:
        out.append(f"\n  {len(elsewhere)} other kernel files differ from the ones here: this was handed out from another version of the sources.")
    elif elsewhere:
        out.append(f"\n  Changed, although the lab does not ask for it: {', '.join(elsewhere)}. What for?")
    return out


def main():
    setting = lambda name, default="": os.environ.get(name) or default		# noqa: E731
    if not setting("N").isdigit():
        raise Trouble("which lab? make oral N=3 [SUBMISSION=DIR]")
    tree = os.path.abspath(os.path.expanduser(setting("SUBMISSION", vm.TOP)))
    if not os.path.isdir(tree):
        raise Trouble(f"SUBMISSION={tree}: no such directory")
    results = {}
    try:
        with open(os.path.join(setting("RESULTS", os.path.join(vm.BUILD, "grade")), "results.json"), encoding="utf-8") as f:
            results = json.load(f)
    except (OSError, ValueError):
        note("oral: no results of `make grade` (RESULTS=DIR); questions are about the lines alone")
    if results and not str(results.get("output", "")).startswith(f"lab {setting('N')}:"):
        note(f"oral: the results are not those of lab {setting('N')}; left out")
        results = {}
    print("\n".join(questions(int(setting("N")), tree, results, setting("SEED", "1"), setting("VARIANT"))))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Trouble as e:
        note(f"oral: {e}")
        sys.exit(2)
