"""Unit tests: kernel sources compiled for the host, under ASan and UBSan.

usage: unit_tests.py [--only NAME]...

Every tests/unit/*.c is a program: status 0 is a pass, 77 a skip. Its first comment may say

    sources: mm/vma_tree.c kernel/string.c      kernel files to link with it
    flags: -DX=1                                more compiler flags
    timeout: SECONDS                            (120)

tests/unit/shim/ comes before the top of the tree in the search path: put a host version of a kernel header there, under
the kernel's own name, when a test needs one. Everything is compiled with -DUNIT_TEST=1.
"""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import guest_tests
import vm

guest_tests.KEYS = ("sources", "flags", "timeout")
DIRECTORY = os.path.join(vm.TOP, "tests/unit")
OUTPUT = os.path.join(vm.BUILD, "tests/unit")
FLAGS = ["-std=gnu11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer",
         "-Wall", "-Wextra", "-pthread", "-DUNIT_TEST=1",
         "-I", os.path.join(DIRECTORY, "shim"), "-I", vm.TOP]


def run(test):
    """Returns (test, status, output)."""
    program = os.path.join(OUTPUT, test.name)
    sources = [os.path.join(vm.TOP, s) for s in str(test.get("sources", "")).split()]
    compiled = subprocess.run([os.environ.get("HOST_CC", "gcc"), *FLAGS, *str(test.get("flags", "")).split(), "-o", program,
                               test.path, *sources], cwd=vm.TOP, capture_output=True, text=True)
    if compiled.returncode:
        return test, "does not compile", compiled.stderr
    try:
        done = subprocess.run(vm.kill_with_parent([program]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=int(test.get("timeout", 120)), cwd=vm.TOP)
    except subprocess.TimeoutExpired as e:
        return test, "no end", (e.stdout or b"").decode(errors="replace")
    return test, done.returncode, compiled.stderr + done.stdout.decode(errors="replace")


def main(argv):
    only = [argv[i + 1] for i, word in enumerate(argv) if word == "--only"]
    os.makedirs(OUTPUT, exist_ok=True)
    tests = [guest_tests.Test(os.path.join(DIRECTORY, f)) for f in sorted(os.listdir(DIRECTORY)) if f.endswith(".c")]
    failed = False
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for test, status, output in pool.map(run, [t for t in tests if not only or t.name in only]):
            if status == 0:
                print(f"ok: unit/{test.name}", flush=True)
            elif status == 77:
                print(f"skip: unit/{test.name}: {output.strip().splitlines()[-1] if output.strip() else ''}", flush=True)
            else:
                failed = True
                print(f"FAIL: unit/{test.name}: {status if isinstance(status, str) else f'status {status}'}", flush=True)
                for line in output.rstrip().split("\n")[:60]:
                    print("    | " + line, flush=True)
    print("end: unit")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
