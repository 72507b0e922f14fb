#!/usr/bin/env python3
"""Runs user/bench/cost on Linux and on Faultline under --icount and prints one table: build/bench.csv.

    user/bench/bench.py [--rows a,b,...] [--check]

Columns: row, unit, linux (reference command line of tests/guest.sh), linux_debian (Debian's own defaults), ours,
ratio (linux / ours), goal (the ceiling that docs/measuring.md gives), verdict. --check: status 1 if a goal is missed.
"""
import argparse
import csv
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOALS = {
    "null_call": 130, "anon_read_fault": 500, "anon_write_fault": 800, "cow_fault": 1000, "shmem_first_write": 1300,
    "shmem_refault": 700, "pipe_round_trip": 3500, "mmap_touch_munmap_16k": 3500, "fork_exit_wait": 45000,
    "port_round_trip": 1000,
    "uffd_missing_copy": 4500, "uffd_wp": 4097, "uffd_minor": 4100, "uffd_register_unregister": 1459,
    "huge_refault": 400,
}
# What Debian's kernel does when nobody tells it otherwise: later parameters win over the door's reference ones.
DEBIAN = "mitigations=auto audit=1 init_on_alloc=1 randomize_kstack_offset=on transparent_hugepage=always"


def build():
    out = os.path.join(TOP, "build", "bench")
    os.makedirs(out, exist_ok=True)
    exe = os.path.join(out, "cost")
    src = [os.path.join(TOP, "user", "bench", name) for name in ("cost.c", "cost_uffd.c", "cost_huge.c", "cost_server.c")]
    newest = max(os.path.getmtime(f) for f in src + [os.path.join(TOP, "user", "bench", "cost.h")])
    if not os.path.exists(exe) or os.path.getmtime(exe) < newest:
        subprocess.check_call(["musl-gcc", "-static", "-O2", "-Wall", "-Wextra", "-o", exe, *src])
    return exe


def measure(exe, kernel, rows, append=""):
    cmd = [os.path.join(TOP, "tests", "guest.sh"), "--kernel", kernel, "--icount", "--cpus", "1", "--timeout", "600", "--add", exe]
    if append:
        cmd += ["--append", append]
    # Linux goes on working for a while after boot; its rows would read up to three times too high. The same for both.
    cmd += ["--", "sleep 5; /t/cost " + " ".join(rows)]
    print(f"bench: {kernel}{' (Debian defaults)' if append else ''} ...", file=sys.stderr, flush=True)
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        sys.stderr.buffer.write(p.stderr)
        sys.exit(f"bench: the guest ended with status {p.returncode}")
    result = {}
    for line in p.stdout.decode().splitlines():
        name, cost, median = line.split(",")
        result[name] = (int(cost), int(median))
    return result


def cell(pair):
    if pair is None:
        return ""
    cost, median = pair
    return f"{cost} (median {median})" if median > cost * 1.05 else str(cost)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--rows", default="")
    ap.add_argument("--check", action="store_true")
    ap.add_argument("--ours-only", action="store_true", help="leave Linux's columns empty")
    a = ap.parse_args()
    rows = [r for r in a.rows.split(",") if r]
    exe = build()
    ours = measure(exe, "faultline", rows)
    linux = {} if a.ours_only else measure(exe, "linux", rows)
    debian = {} if a.ours_only else measure(exe, "linux", rows, DEBIAN)
    path = os.path.join(TOP, "build", "bench.csv")
    missed = 0
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow("row unit linux linux_debian ours ratio goal verdict".split())
        for name, pair in ours.items():
            goal = GOALS.get(name)
            verdict = "" if goal is None else "met" if pair[0] <= goal else "missed"
            missed += verdict == "missed"
            ref = linux.get(name)
            ratio = f"{ref[0] / pair[0]:.2f}" if ref and pair[0] > 0 else ""
            line = [name, "instructions", cell(ref), cell(debian.get(name)), cell(pair), ratio, goal or "", verdict]
            out.writerow(line)
            print("{:24} linux {:>8} debian {:>8} ours {:>8}  x{:>6}  goal {:>6} {}".format(
                name, line[2] or "-", line[3] or "-", line[4], ratio or "-", str(goal or "-"), verdict))
    print(f"bench: {path}: {missed} goal(s) missed")
    return 1 if a.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
