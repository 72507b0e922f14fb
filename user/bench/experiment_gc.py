"""The userfaultfd part of experiments.py: build/experiments/gc.csv, gc.svg and .png.

user/bench/gc: a heap of 256 MiB, half of it garbage; one compactor, four mutators, four threads that map 64 KiB, touch it and unmap
it. The compaction without those four and with them, on 2 and 4 processors: median of 5. Once with userfaultfd operations under
per-VMA locks, once under mmap_lock (uffd.lock=mmap), and on Linux 6.12, which has per-VMA locks.

Under mmap_lock a phase of that size takes minutes, so it is measured once.

Published (Linux, 2024, another collector and machine): the compaction from about 3 s to under 0.5 s, so a factor of 6, with summed
waits of over 20 s gone down to about 10 ms, none of it on mmap_lock.

`cpu_ratio` is the compactor's own processor time with the mapping threads, divided by that without. Waits are exact, of the worst
repetition, from /proc/lock_stat; Linux as Debian builds it has no such statistics: its cells stay empty.
"""
import csv
import os
import statistics
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "build", "experiments")
PUBLISHED = 6
RUNS = [("Linux 6.12", "linux", ""), ("uffd.lock=vma", "faultline", "uffd.lock=vma"), ("uffd.lock=mmap", "faultline", "uffd.lock=mmap")]
WAITS = ("mmap_uffd", "mmap_uffd_waits", "mmap_uffd_wait_ns", "mmap_fault", "mmap_fault_waits", "mmap_fault_wait_ns", "all_waits_ns")
COLUMNS = ("name cpus mb pages wall_alone_ms wall_ms wall_ratio cpu_alone_ms cpu_ms cpu_ratio faults steps maps " + " ".join(WAITS)).split()


def build():
    os.makedirs(os.path.join(TOP, "build", "bench"), exist_ok=True)
    exe, src = os.path.join(TOP, "build", "bench", "gc"), os.path.join(TOP, "user", "bench", "gc.c")
    subprocess.check_call(["musl-gcc", "-static", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-pthread", "-o", exe, src])
    return exe


def run(exe, name, kernel, append, cpus, mb, reps):
    """One boot. The lines of the program, as dictionaries."""
    cmd = [os.path.join(TOP, "tests", "guest.sh"), "--kernel", kernel, "--cpus", str(cpus), "--mem", "2G" if mb > 64 else "1G",
           "--timeout", "3600", "--add", exe]
    if append:
        cmd += ["--append", append]
    print(f"experiments: gc {mb} MiB, {cpus} CPUs, {name} ...", file=sys.stderr, flush=True)
    p = subprocess.run(cmd + ["--", f"/t/gc --mb {mb} --reps {reps}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        sys.stderr.buffer.write(p.stdout + p.stderr)
        sys.exit(f"experiments: the guest ended with status {p.returncode}")
    return [{k: int(v) for k, v in (w.split("=") for w in line.split())} for line in p.stdout.decode().splitlines()]


def row(name, cpus, mb, lines):
    alone = [r for r in lines if not r["mappers"]]
    beside = [r for r in lines if r["mappers"]]
    median = lambda rows, key: statistics.median(r[key] for r in rows)
    values = {
        "name": name, "cpus": cpus, "mb": mb, "pages": beside[0]["pages"],
        "wall_alone_ms": round(median(alone, "wall_ns") / 1e6), "wall_ms": round(median(beside, "wall_ns") / 1e6),
        "cpu_alone_ms": round(median(alone, "cpu_ns") / 1e6), "cpu_ms": round(median(beside, "cpu_ns") / 1e6),
        "wall_ratio": f"{median(beside, 'wall_ns') / median(alone, 'wall_ns'):.2f}",
        "cpu_ratio": f"{median(beside, 'cpu_ns') / median(alone, 'cpu_ns'):.2f}",
        "faults": round(median(beside, "faults")), "steps": round(median(beside, "steps")), "maps": round(median(beside, "maps")),
    }
    for key in WAITS:
        values[key] = max((r[key] for r in beside if key in r), default="")
    return values


def verdicts(rows):
    """Goals of the per-VMA locks, and the ratio that was published."""
    lines = []
    for vma in (r for r in rows if r["name"] == "uffd.lock=vma"):
        same = {r["name"]: r for r in rows if r["cpus"] == vma["cpus"]}
        waits = vma["mmap_uffd_waits"] + vma["mmap_fault_waits"]
        said = [f"waits for mmap_lock {waits} (goal 0)", f"processor time beside the mappers {vma['cpu_ratio']} (goal at most 1.2)"]
        if "uffd.lock=mmap" in same:
            said.append(f"phase under mmap_lock / under VMA locks {same['uffd.lock=mmap']['wall_ms'] / max(vma['wall_ms'], 1):.1f} "
                        f"(published {PUBLISHED}, goal 3)")
        if "Linux 6.12" in same:
            said.append(f"phase on Linux / here {same['Linux 6.12']['wall_ms'] / max(vma['wall_ms'], 1):.1f} (goal at least 1)")
        lines.append(f"{vma['cpus']} CPUs: " + "; ".join(said))
    return lines


def table(rows):
    lines = ["| | CPUs | phase alone, ms | with mappers, ms | ratio | compactor's CPU time, ratio | faults served | mmap_lock by uffd, waits | "
             "by faults, waits | all waits, ms |", "|" + "---|" * 10]
    for r in rows:
        waits = r["all_waits_ns"]
        lines.append(f"| {r['name']} | {r['cpus']} | {r['wall_alone_ms']} | {r['wall_ms']} | {r['wall_ratio']} | {r['cpu_ratio']} | {r['faults']} | "
                     f"{r['mmap_uffd']}, {r['mmap_uffd_waits']} | {r['mmap_fault']}, {r['mmap_fault_waits']} | "
                     f"{round(waits / 1e6) if waits != '' else ''} |")
    return lines


def draw(rows):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"Linux 6.12": "#8c8c8c", "uffd.lock=vma": "#4c72b0", "uffd.lock=mmap": "#c44e52"}
    cpus = sorted({r["cpus"] for r in rows})
    fig, axes = plt.subplots(1, len(cpus), figsize=(5.5 * len(cpus), 4.2), layout="constrained", squeeze=False)
    fig.suptitle("Compaction beside threads that map and unmap: milliseconds without them (pale) and with them")
    for ax, n in zip(axes[0], cpus):
        of = [r for r in rows if r["cpus"] == n]
        x = range(len(of))
        ax.bar([i - 0.2 for i in x], [r["wall_alone_ms"] for r in of], 0.38, color=[colours[r["name"]] for r in of], alpha=0.4)
        bars = ax.bar([i + 0.2 for i in x], [r["wall_ms"] for r in of], 0.38, color=[colours[r["name"]] for r in of])
        ax.bar_label(bars, [f"x{r['wall_ratio']}" for r in of], padding=2)
        ax.set_xticks(list(x), [r["name"] for r in of])
        ax.set_title(f"{n} processors", fontsize=11)
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(y=0.12)
    for kind in ("svg", "png"):
        fig.savefig(os.path.join(OUT, "gc." + kind), dpi=110, metadata={"Date": None} if kind == "svg" else None)


def main(quick):
    os.makedirs(OUT, exist_ok=True)
    exe = build()
    mb, reps, cpus = (16, 3, [2]) if quick else (256, 5, [2, 4])
    rows = [row(name, n, mb, run(exe, name, kernel, append, n, mb, 1 if append.endswith("=mmap") else reps))
            for n in cpus for name, kernel, append in RUNS]
    with open(os.path.join(OUT, "gc.csv"), "w", newline="") as f:
        out = csv.DictWriter(f, COLUMNS)
        out.writeheader()
        out.writerows(rows)
    print("\n".join(table(rows) + [""] + verdicts(rows)))
    draw(rows)
    print(f"experiments: {OUT}/gc.csv, gc.svg, gc.png", file=sys.stderr)
