#!/usr/bin/env python3
"""Keeps docs/ true: links lead somewhere, named symbols exist, the lock table is that of kernel/lock_rank.h, chapters have their question
and their exercises, and the patches of the labs apply.

    tests/docs_check.py            check; one line for each thing that is wrong
    tests/docs_check.py --update   rewrite the lock table of docs/locking.md
"""
import glob
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MARK = "<!-- table: kernel/lock_rank.h -->"
SOURCE_DIRS = ("boot", "kernel", "mm", "fs", "user", "tests", "docs/labs")


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()


def lock_table():
    rows = ["| class | kind | interrupts | where |", "|---|---|---|---|"]
    for m in re.finditer(r'X\((LOCK_\w+),\s*(\w+),\s*(\w+),\s*"((?:[^"\\]|\\.)*)"\)', read("kernel/lock_rank.h")):
        name, kind, irq, where = m.groups()
        rows.append(f"| `{name}` | {kind.lower()} | {'always off' if irq == 'OFF' else '-'} | {where.replace('|', '/')} |")
    return "\n".join(rows) + "\n"


def locking_page():
    head = read("docs/locking.md").split(MARK)[0]
    return head + MARK + "\n\n" + lock_table()


def pages():
    yield "README.md"
    yield "tests/README.md"
    for base, _, files in os.walk(os.path.join(TOP, "docs")):
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(base, name), TOP)


def all_words():
    """Every identifier of the sources, and the names of the files."""
    text = []
    for d in SOURCE_DIRS:
        for base, _, files in os.walk(os.path.join(TOP, d)):
            for name in files:
                if name.endswith((".c", ".h", ".S", ".py", ".sh", ".cc")):
                    text.append(os.path.splitext(name)[0])		# a test is named for its behaviour
                    with open(os.path.join(base, name), encoding="utf-8", errors="replace") as f:
                        text.append(f.read())
    text.append(read("Makefile"))
    return set(re.findall(r"\w+", "\n".join(text)))


def main():
    if "--update" in sys.argv:
        page = locking_page()		# read before the file is opened for writing, which empties it
        with open(os.path.join(TOP, "docs/locking.md"), "w", encoding="utf-8") as f:
            f.write(page)
        return 0
    wrong = []
    if read("docs/locking.md") != locking_page():
        wrong.append("docs/locking.md: the lock table is not that of kernel/lock_rank.h (tests/docs_check.py --update)")
    words = all_words()
    for chapter in re.findall(r"(?m)^\| \[[^\]]+\]\((\w[\w-]*\.md)\) \| ", read("docs/README.md")):
        text = read("docs/" + chapter)
        if not re.match(r"# .*\n\n\*[^*]+\?[^*]*\*\n", text):
            wrong.append(f"docs/{chapter}: does not open with the question that it answers")
        if len(re.findall(r"(?m)^\d\. ", text.partition("## Exercises\n")[2].partition("\n## ")[0])) < 2:
            wrong.append(f"docs/{chapter}: a chapter has two exercises at least")
    for page in pages():
        text = read(page)
        if not text.startswith("# "):
            wrong.append(f"{page}: does not begin with its title")
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" in target:
                continue
            path = os.path.normpath(os.path.join(TOP, os.path.dirname(page), target))
            if not os.path.exists(path):
                wrong.append(f"{page}: link to {target}, which does not exist")
        # `name()` or `name` right before or after a link to a source file must be in the source.
        for symbol in re.findall(r"`([a-z_][a-z0-9_]{3,})(?:\(\))?`", text):
            if "_" in symbol and symbol not in words:
                wrong.append(f"{page}: `{symbol}` is nowhere in the source")
    # What the labs change in the kernel must find its place there. Whoever moves a line sees it here, in a second, not in the labs' own tests.
    for patch in sorted(glob.glob(os.path.join(TOP, "docs/labs/lab*/*/*.patch"))):
        done = subprocess.run(["patch", "-p1", "-F3", "--dry-run", "-s", "-i", patch], cwd=TOP, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            wrong.append(f"{os.path.relpath(patch, TOP)}: does not apply any more")
    # The form that tests/run.sh counts.
    for line in wrong:
        print(f"FAIL: docs: {line}")
    if not wrong:
        print("ok: docs/links, symbols and the lock table agree with the source")
    print("end: docs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
