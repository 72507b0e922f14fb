"""make lab N=3 DIR=~/lab3 [VARIANT=seed]: write a git repository in which the student's part of the kernel is missing.

usage: cut.py N DIRECTORY [VARIANT]

The sources are today's, the functions that docs/labs/labN/manifest names are taken out of them, and everything that shows a
solution is left out: planted bugs, our own tests, patches, and the history. Then the result is searched for what was taken out.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import lab as labs
import vm
from vm import Trouble, note

COMMIT_DATE = "2026-01-01T00:00:00Z"


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def cut(number, directory, seed=None):
    """Returns the bodies that are not in the tree. The directory must be new or empty."""
    lab = labs.Lab(number)
    variant = labs.Variant(lab, seed) if seed else None
    if os.path.exists(os.path.join(labs.LABS, "this-lab.mk")):
        raise Trouble("this is a student's tree; labs are cut from the whole one")
    if os.path.isdir(directory) and os.listdir(directory):
        raise Trouble(f"{directory} is not empty")
    os.makedirs(os.path.dirname(os.path.abspath(directory)), exist_ok=True)
    work = tempfile.mkdtemp(prefix=".lab-", dir=os.path.dirname(os.path.abspath(directory)))
    try:
        os.chmod(work, 0o755)
        labs.copy_tree(work)
        if variant:
            variant.apply(work)
        for path in labs.upstream_files():
            if labs.is_secret(path, lab):
                os.unlink(os.path.join(work, path))
        bodies = labs.cut_tree(work, lab, variant.names if variant else None)
        home = os.path.join(work, f"docs/labs/lab{number}")
        write(os.path.join(home, "manifest"), lab.public_manifest())
        write(os.path.join(work, "docs/labs/this-lab.mk"), f"# Which lab this tree is for: make grade needs no N here.\nN ?= {number}\n")
        os.makedirs(os.path.join(work, "tests/student"), exist_ok=True)
        write(os.path.join(work, "tests/student/README.md"),
              "# Your own tests\n\nOne program per file, as in [tests/guest](../guest): status 0 is passed. The handout tells what they are graded by.\n")
        readme = os.path.join(work, "README.md")
        with open(readme, encoding="utf-8") as f:
            text = f.read()
        title, _, rest = text.partition("\n")
        write(readme, f"{title}\n\n**This tree is for lab {number}: {lab.title}.** Begin with "
                      f"[docs/labs/lab{number}/README.md](docs/labs/lab{number}/README.md).\n{rest}")
        for base, dirs, _ in os.walk(work, topdown=False):
            for d in dirs:
                path = os.path.join(base, d)
                if not os.listdir(path):
                    os.rmdir(path)
        found = labs.leaks(work, bodies)
        if found:
            raise Trouble("the solution would show:\n  " + "\n  ".join(found))
        commit(work, lab)
        if os.path.isdir(directory):
            os.rmdir(directory)
        os.rename(work, directory)
        return bodies
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def commit(tree, lab):
    """One commit, the same for everybody: no history, no name, no date that tells anything."""
    environment = dict(os.environ, GIT_AUTHOR_NAME="Faultline labs", GIT_AUTHOR_EMAIL="labs@faultline.invalid", GIT_AUTHOR_DATE=COMMIT_DATE,
                       GIT_COMMITTER_NAME="Faultline labs", GIT_COMMITTER_EMAIL="labs@faultline.invalid", GIT_COMMITTER_DATE=COMMIT_DATE,
                       GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull)
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        environment.pop(variable, None)
    for words in (["init", "-q", "-b", "main", "--template="], ["add", "-A"], ["commit", "-q", "--no-verify", "-m", f"Lab {lab.number}: {lab.title}"]):
        done = subprocess.run(["git", *words], cwd=tree, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise Trouble(f"git {words[0]}: {done.stderr.strip()}")


def main(argv):
    if len(argv) not in (2, 3) or not argv[0].isdigit() or not argv[1]:
        raise Trouble("usage: make lab N=number DIR=directory [VARIANT=seed]")
    directory = os.path.abspath(os.path.expanduser(argv[1]))
    bodies = cut(int(argv[0]), directory, argv[2] if len(argv) > 2 and argv[2] else None)
    print(f"lab {argv[0]} is in {directory}; {len(bodies)} functions are for the student: {', '.join(sorted(bodies))}")
    print(f"Next: cd {directory} && make grade")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Trouble, labs.csource.SourceError) as e:
        note(f"lab: {e}")
        sys.exit(2)
