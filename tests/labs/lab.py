"""What a lab is: docs/labs/labN, its manifest, and the trees that are made from the sources with it.

A manifest is a text file, one statement a line; a line that begins with white space goes on with the one before, `#` begins
a comment.

    title TEXT
    stub FILE FUNCTION [STATEMENTS]     the body goes; what is left names the function in the log and does STATEMENTS
    remove FILE FUNCTION...             goes whole: comment above, prototypes and all. sys_NAME: a SYSCALL_DEFINE
    plant PATCH                         a bug that the student is to find: applied to the tree that is handed out
    leave-out PATH...                   not in the student's tree
    program NAME FILE                   a program that the student writes (under user/); tests start it as /t/NAME
    test NAME POINTS TEXT               labN/tests/NAME.c; its other settings are in its first comment
    student POINTS [PARAMETERS]         for the student's own tests, by the number of bugs that they catch; of the kernel that runs them
    bug NUMBER PATCH TEXT               a planted bug for those: labN/bugs/PATCH, acting where lab_bug(NUMBER) says so
    variant rename OLD = NEW...         a variant calls OLD by one of these
    variant value NAME V...             @NAME@ in the patches below is one of these
    variant behaviour PATCH             one of these patches is applied to kernel, tests and handout
"""
import glob
import os
import random
import re
import shutil
import subprocess
import sys

import csource

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import vm			# noqa: E402
from vm import Trouble		# noqa: E402

LABS = os.path.join(vm.TOP, "docs/labs")
TEXT = (".c", ".h", ".S", ".md", ".py", ".sh", ".patch", ".txt", ".pml", ".cc", ".ld", ".cfg", ".yml", ".json")

# Never in a student's tree: each of them shows a solution, or a way to one.
SECRET = ("docs/labs/lab*/bugs", "docs/labs/lab*/model", "docs/labs/lab*/lies", "docs/labs/lab*/variants", "docs/labs/lab*/planted", "docs/labs/lab*/hidden",
          "docs/labs/teaching.md", "tests/race/patches", "tests/labs/check.py", "tests/labs/selftest", "tests/labs/grade_all.py",
          "tests/labs/gradescope.py", "tests/labs/oral.py")


class Cut:
    def __init__(self, kind, path, names, statements=""):
        self.kind, self.path, self.names, self.statements = kind, path, names, statements


class Bug:
    def __init__(self, number, patch, text):
        self.number, self.patch, self.text = number, patch, text


class Lab:
    def __init__(self, number, directory=None):
        self.number = number
        self.directory = directory or os.path.join(LABS, f"lab{number}")
        self.title, self.student_points, self.student_append = "", 0, ""
        self.cuts, self.plants, self.left_out, self.tests, self.bugs = [], [], [], [], []
        self.programs = []			# (name, file)
        self.renames, self.values, self.behaviours = [], {}, []
        path = os.path.join(self.directory, "manifest")
        if not os.path.exists(path):
            known = sorted(int(os.path.basename(d)[3:]) for d in glob.glob(os.path.join(LABS, "lab[0-9]*")))
            raise Trouble(f"there is no lab {number}; labs here: {', '.join(map(str, known))}")
        with open(path, encoding="utf-8") as f:
            text = re.sub(r"\n[ \t]+", " ", re.sub(r"(?m)^[ \t]*#.*\n", "", f.read()))
        for line in text.split("\n"):
            if line.strip():
                self._statement(line.strip(), path)

    def _statement(self, line, path):
        what, _, rest = line.partition(" ")
        words = rest.split()
        try:
            if what == "title":
                self.title = rest
            elif what == "stub":
                self.cuts.append(Cut("stub", words[0], [words[1]], rest.split(None, 2)[2] if len(words) > 2 else ""))
            elif what == "remove":
                self.cuts.append(Cut("remove", words[0], words[1:]))
            elif what == "plant":
                self.plants.append(words[0])
            elif what == "leave-out":
                self.left_out += words
            elif what == "program":
                self.programs.append((words[0], words[1]))
            elif what == "test":
                self.tests.append((words[0], int(words[1]), rest.split(None, 2)[2]))
            elif what == "student":
                self.student_points, self.student_append = int(words[0]), " ".join(words[1:])
            elif what == "bug":
                self.bugs.append(Bug(int(words[0]), words[1], rest.split(None, 2)[2]))
            elif what == "variant" and words[0] == "rename":
                self.renames.append((words[1], words[3:]))
            elif what == "variant" and words[0] == "value":
                self.values[words[1]] = words[2:]
            elif what == "variant" and words[0] == "behaviour":
                self.behaviours.append(words[1])
            else:
                raise IndexError
        except (IndexError, ValueError):
            raise Trouble(f"{path}: cannot read '{line}'") from None

    def public_manifest(self):
        lines = [f"title {self.title}"]
        lines += [f"program {name} {path}" for name, path in self.programs]
        lines += [f"test {name} {points} {text}" for name, points, text in self.tests]
        if self.student_points:
            lines.append(f"student {self.student_points} {self.student_append}".rstrip())
        return "\n".join(lines) + "\n"


class Variant:
    """The choices that a seed makes among those of the manifest."""

    def __init__(self, lab, seed):
        self.lab, self.seed = lab, str(seed)
        choice = random.Random(f"lab {lab.number} variant {seed}")
        self.names = {old: choice.choice(new) for old, new in lab.renames}
        self.names.update({f"sys_{old}": f"sys_{new}" for old, new in self.names.items()})	# SYSCALL_DEFINE makes that one
        self.values = {name: choice.choice(values) for name, values in sorted(lab.values.items())}
        self.behaviour = choice.choice(lab.behaviours) if lab.behaviours else None
        if not lab.renames and not lab.behaviours:
            raise Trouble(f"lab {lab.number} has no variants")

    def apply(self, tree, behaviour=True):
        if self.behaviour and behaviour:
            with open(os.path.join(self.lab.directory, self.behaviour), encoding="utf-8") as f:
                text = f.read()
            for name, value in self.values.items():
                text = text.replace(f"@{name}@", value)
            apply_patch(tree, text, self.behaviour)
        for path in text_files(tree):
            with open(path, encoding="utf-8") as f:
                old = f.read()
            new = csource.rename(old, self.names)
            if new != old:
                with open(path, "w", encoding="utf-8") as f:
                    f.write(new)


# --- Trees ----------------------------------------------------------------------------------------------------------------

def upstream_files():
    """What belongs to the project, as paths from the top: what git knows or would add; without git, everything."""
    done = subprocess.run(["git", "-C", vm.TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                          capture_output=True, text=True) if os.path.exists(os.path.join(vm.TOP, ".git")) else None
    if done and done.returncode == 0:
        return sorted({p for p in done.stdout.split("\0") if p and os.path.lexists(os.path.join(vm.TOP, p))})
    found = []
    for base, dirs, files in os.walk(vm.TOP):
        relative = os.path.relpath(base, vm.TOP)
        dirs[:] = [d for d in dirs if not (relative == "." and d in ("build", ".git")) and d != "__pycache__"]
        found += [os.path.normpath(os.path.join(relative, f)) for f in files]
    return sorted(found)


def text_files(tree):
    for base, dirs, files in os.walk(tree):
        dirs[:] = [d for d in dirs if d not in ("build", ".git", "__pycache__")]
        for name in files:
            path = os.path.join(base, name)
            if not os.path.islink(path) and (name.endswith(TEXT) or name in ("Makefile", "manifest", "Dockerfile")):
                yield path


def copy_tree(to, skip=lambda path: False):
    """The whole project into an empty directory, dates included."""
    for path in upstream_files():
        if skip(path):
            continue
        source, target = os.path.join(vm.TOP, path), os.path.join(to, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
        else:
            shutil.copy2(source, target)


def apply_patch(tree, text, name):
    done = subprocess.run(["patch", "-p1", "-F3", "-s", "--no-backup-if-mismatch"], cwd=tree, input=text, capture_output=True, text=True)
    if done.returncode:
        raise Trouble(f"{name} does not apply any more:\n{done.stdout}{done.stderr}")


def keep_dates(fresh, old):
    """What is in `fresh` as it was in `old` gets its old date, so that make rebuilds only the rest."""
    for base, _, files in os.walk(fresh):
        for name in files:
            path = os.path.join(base, name)
            before = os.path.join(old, os.path.relpath(path, fresh))
            if os.path.isfile(before) and not os.path.islink(path) and not os.path.islink(before):
                with open(path, "rb") as a, open(before, "rb") as b:
                    if a.read() == b.read():
                        shutil.copystat(before, path)
                    else:
                        os.utime(path)


def replace_tree(fresh, tree):
    """`fresh` becomes `tree`, except for what was built there."""
    keep_dates(fresh, tree)
    built = os.path.join(tree, "build")
    if os.path.isdir(built):
        os.rename(built, os.path.join(fresh, "build"))
    shutil.rmtree(tree, ignore_errors=True)
    os.rename(fresh, tree)


# --- Cutting --------------------------------------------------------------------------------------------------------------

LAB_H = """/* Of a lab only: what a function does that is not written yet. */
#ifndef KERNEL_LAB_H
#define KERNEL_LAB_H

#include "kernel/printk.h"

/* Names the function in the log, once. */
#define lab_todo() do {									\\
	static bool _told;								\\
	if (!__atomic_exchange_n(&_told, true, __ATOMIC_RELAXED))			\\
		printk("lab: %s() in %s is not written yet\\n", __func__, __FILE__);	\\
} while (0)

#endif
"""


# For programs: on their standard error.
USER_LAB_H = LAB_H.replace("KERNEL_LAB_H", "USER_LAB_H").replace('"kernel/printk.h"', "<stdbool.h>\n#include <stdio.h>") \
    .replace("printk(", "fprintf(stderr, ")


def lab_h_of(path):
    """Which of the two a file in the tree includes."""
    return "user/lab.h" if path.startswith("user/") else "kernel/lab.h"


def stub_body(function, statements, unused):
    lines = ["{", "\tlab_todo();"]
    lines += [f"\t(void){name};" for name in function.parameters]
    lines += [f"\t(void){name};" for name in unused]
    lines += [f"\t{s}" for s in re.split(r"(?<=;)\s+", statements.strip()) if s]
    return "\n".join(lines) + "\n}"


def with_include(text, path):
    """lab.h behind the first include: headers of their own come first."""
    m = re.search(r'(?m)^#include "[^"]*"\n', text)
    line = f'#include "{lab_h_of(path)}"\n'
    return text[:m.end()] + line + text[m.end():] if m else line + text


def find(functions, name, path):
    if name not in functions:
        raise Trouble(f"{path}: no function {name} to take out; the manifest is out of date")
    return functions[name]


def cut_file(text, path, stubs, removals):
    """The file without the solution, and the bodies that were taken out: (text, {name: body})."""
    functions = csource.functions(text)
    bodies, edits = {}, []
    for name in removals:
        f = find(functions, name, path)
        bodies[name] = text[f.start:f.end]
        end = f.end + 1 if text[f.end:f.end + 1] == "\n" else f.end
        end += text[end:end + 1] == "\n"
        edits.append((csource.comment_above(text, f.start), end, ""))
        edits += [(a, b, "") for a, b in csource.prototypes(text, name)]
    cut = {name: find(functions, name, path) for name in stubs}
    for name, f in cut.items():
        bodies[name] = text[f.body:f.end]
    # A helper that only the cut bodies used would be warned about: the first of them mentions it.
    left = dict(csource.names_in(text))
    for name, body in bodies.items():
        for word, n in csource.names_in(body).items():
            left[word] = left.get(word, 0) - n
    unused = {name: [] for name in stubs}
    for name, f in functions.items():
        if not f.is_static or name in bodies and name not in cut or "inline" in f.head:
            continue
        own = 1 + len(csource.prototypes(text, name))
        if left.get(name, 0) <= own and name not in removals:
            user = next((s for s in stubs if s != name and name in csource.names_in(bodies[s])), None)
            if user:
                unused[user].append(name)
    for name, f in cut.items():
        edits.append((f.body, f.end, stub_body(f, stubs[name], unused[name])))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return with_include(text, path) if stubs else text, bodies


def cut_tree(tree, lab, names=None):
    """Takes the solution out of a tree. `names`: what the variant calls things. Returns every body that went."""
    names = names or {}
    by_path, bodies = {}, {}
    for c in lab.cuts:
        stubs, removals = by_path.setdefault(c.path, ({}, []))
        if c.kind == "stub":
            stubs[names.get(c.names[0], c.names[0])] = csource.rename(c.statements, names)
        else:
            removals += [names.get(n, n) for n in c.names]
    for path, (stubs, removals) in by_path.items():
        full = os.path.join(tree, path)
        with open(full, encoding="utf-8") as f:
            text = f.read()
        text, gone = cut_file(text, path, stubs, removals)
        bodies.update(gone)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)
    for name in {lab_h_of(c.path) for c in lab.cuts if c.kind == "stub"}:
        with open(os.path.join(tree, name), "w", encoding="utf-8") as f:
            f.write(USER_LAB_H if name.startswith("user/") else LAB_H)
    for patch in lab.plants:
        with open(os.path.join(lab.directory, patch), encoding="utf-8") as f:
            apply_patch(tree, csource.rename(f.read(), names), patch)
    return bodies


def is_secret(path, lab):
    import fnmatch
    def under(pattern):
        return any(fnmatch.fnmatch("/".join(path.split("/")[:n]), pattern) for n in range(1, path.count("/") + 2))
    if any(under(p) for p in (*SECRET, *lab.left_out)):
        return True
    other = re.match(r"docs/labs/lab(\d+)/", path)
    return bool(other) and int(other.group(1)) != lab.number


def leaks(tree, bodies):
    """Lines of the bodies that went which are still to be read in documents, tests or scripts."""
    wanted = {}
    for name, body in bodies.items():
        for line in body.split("\n"):
            line = " ".join(line.split())
            if len(line) >= 30 and not line.startswith(("*", "/*")):
                wanted[line] = name
    found = []
    for path in text_files(tree):
        relative = os.path.relpath(path, tree)
        if relative.split("/")[0] in ("boot", "kernel", "mm", "fs") and path.endswith((".c", ".h", ".S")):
            continue
        with open(path, encoding="utf-8", errors="replace") as f:
            for number, line in enumerate(f, 1):
                line = " ".join(line.split()).lstrip("+- ")
                if line in wanted:
                    found.append(f"{relative}:{number}: a line of {wanted[line]}()")
    return found


# --- Planted bugs -----------------------------------------------------------------------------------------------------------

LAB_BUG_H = """/* Not part of Faultline: in the kernel that students' tests are graded with, each bug acts when it is asked for. */
#ifndef KERNEL_LAB_BUG_H
#define KERNEL_LAB_BUG_H

#include "kernel/types.h"

bool lab_bug(u64 number);	/* of docs/labs/labN/manifest */

#endif
"""
LAB_BUG_C = """/* Not part of Faultline: see kernel/lab_bug.h. lab.run=TOKEN tells which bug acts, in a way that no program can read. */
#include "kernel/lab_bug.h"
#include "kernel/boot_info.h"
#include "kernel/string.h"
#include "kernel/task.h"

static u64 number_asked;

void lab_bug_init(void);
void lab_bug_init(void)
{
	char value[32];
	u64 token;

	if (cmdline_get("lab.run", value, sizeof(value)) && !kstrtou64(value, 10, &token))
		number_asked = token * 0x9e3779b97f4a7c15ul >> 56;
}

/* Only in the tests and their children: what runs them must not fall over. */
bool lab_bug(u64 number)
{
	return number_asked == number && current && !strncmp(current->comm, "lab-", 4);
}
"""


def token_of(number, choice=random.SystemRandom()):
    """A kernel parameter that makes bug `number` act (0: none); which one it is cannot be seen from it without our source."""
    while True:
        token = choice.getrandbits(63)
        if (token * 0x9e3779b97f4a7c15 & (1 << 64) - 1) >> 56 == number:
            return f"lab.run={token}"


def plant_bugs(tree, lab):
    for name, text in (("kernel/lab_bug.h", LAB_BUG_H), ("kernel/lab_bug.c", LAB_BUG_C)):
        with open(os.path.join(tree, name), "w", encoding="utf-8") as f:
            f.write(text)
    path = os.path.join(tree, "kernel/race.h")		# included wherever races are thought about
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace('#include "kernel/types.h"\n', '#include "kernel/types.h"\n#include "kernel/lab_bug.h"\n', 1))
    path = os.path.join(tree, "mm/fault.c")			# runs at boot, before the first program
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(re.sub(r"(void fault_init\(void\)\n\{\n)", r"void lab_bug_init(void);\n\1\tlab_bug_init();\n", text, count=1))
    for bug in lab.bugs:
        with open(os.path.join(lab.directory, "bugs", bug.patch), encoding="utf-8") as f:
            apply_patch(tree, f.read(), bug.patch)
