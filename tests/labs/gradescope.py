"""make gradescope N=3 [HIDDEN=DIR] [VARIANT=seed]: build/gradescope-lab3.zip, the autograder of a Gradescope programming assignment.

It holds the whole project, solution and planted bugs included: Gradescope keeps it from students. A submission is a student's repository
(from GitHub, or as a zip of kernel/, mm/, fs/ and tests/student/). Without a score (the host was too slow, the grader in trouble)
run_autograder fails, so that Gradescope reports a failed autograder instead of a zero.
"""
import os
import sys
import zipfile

import lab as labs
import vm
from vm import Trouble, note

SETUP = """#!/bin/bash
# Once, when Gradescope builds the image (Debian or Ubuntu).
set -e
cd /autograder/source/faultline
apt-get update
apt-get install -y --no-install-recommends make git python3
tests/lib/deps.sh
make -s -j"$(nproc)" kernels build/initramfs.cpio build/tests/guest-init build/tests/kvm-probe
"""
RUN = """#!/bin/bash
# For each submission.
cd /autograder/source/faultline || exit 1
export N={number} VARIANT='{variant}' HIDDEN='{hidden}' SEED=1 SUBMISSION=/autograder/submission OUT=/tmp/grade
python3 -B tests/labs/grade.py
status=$?
[ -f /tmp/grade/results.json ] || exit "$((status ? status : 1))"
mkdir -p /autograder/results
cp /tmp/grade/results.json /autograder/results/results.json
"""
STAMP = (2026, 1, 1, 0, 0, 0)


def add(archive, name, data, mode):
    info = zipfile.ZipInfo(name, STAMP)
    info.external_attr = (mode | 0o100000) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def main():
    number, hidden, variant = os.environ.get("N", ""), os.environ.get("HIDDEN", ""), os.environ.get("VARIANT", "")
    if not number.isdigit():
        raise Trouble("which lab? make gradescope N=3")
    lab = labs.Lab(int(number))
    if variant:
        labs.Variant(lab, variant)
    if not variant.replace("-", "").isalnum() and variant:
        raise Trouble("VARIANT is letters and digits")
    os.makedirs(vm.BUILD, exist_ok=True)
    path = os.path.join(vm.BUILD, f"gradescope-lab{number}.zip")
    with zipfile.ZipFile(path, "w") as archive:
        inside = "/autograder/source/hidden" if hidden else ""
        add(archive, "setup.sh", SETUP, 0o755)
        add(archive, "run_autograder", RUN.format(number=number, variant=variant, hidden=inside), 0o755)
        for p in labs.upstream_files():
            source = os.path.join(vm.TOP, p)
            if os.path.isfile(source) and not os.path.islink(source):
                with open(source, "rb") as f:
                    add(archive, "faultline/" + p, f.read(), os.stat(source).st_mode & 0o777)
        for name in sorted(os.listdir(hidden)) if hidden else []:
            with open(os.path.join(hidden, name), "rb") as f:
                add(archive, "hidden/" + name, f.read(), 0o644)
    print(f"lab {number}: {lab.title}: {path}, {os.path.getsize(path) >> 10} KiB")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Trouble, OSError) as e:
        note(f"gradescope: {e}")
        sys.exit(2)
