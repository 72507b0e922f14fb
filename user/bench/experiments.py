#!/usr/bin/python3
"""Repeats published measurements on this machine: build/experiments/NAME.csv, .svg and .png.

    user/bench/experiments.py [--quick] [NAME]...       QUICK=1 does the same: a tenth of the memory, fewer cases

hugetlb: see user/bench/experiment_hugetlb.py.
gc: see user/bench/experiment_gc.py.

dirty: writes to every page of 400 MB of shared memory for the first time, through a mapping. With mm.fault_completed=on
such a fault ends with COMPLETED, with off it ends with RETRY and comes a second time. The same for a file of a delayfs
that is slower than the writer, where the writer is throttled; and for Linux 6.12. Published (Linux, 2022): 650.98 ms with
RETRY, 569.40 ms with COMPLETED, 0.875.

All runs are under --icount: one instruction is one nanosecond, so times are instructions and, where the processor
waits for the disk, the waiting. The fastest repetition counts; its counters stand beside it.
"""
import csv
import os
import statistics
import subprocess
import sys

import experiment_gc
import experiment_hugetlb

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "build", "experiments")
PUBLISHED = 569.40 / 650.98

# kernel, what the row says of mm.vma_lock and mm.fault_completed, with a disk too?
RUNS = [
    ("linux", "on", "on", False),
    ("faultline", "on", "off", True),
    ("faultline", "on", "on", True),
    ("faultline", "off", "off", False),
    ("faultline", "off", "on", False),
]
COLUMNS = ("kernel vma_lock fault_completed store mb pages time_us time_us_median per_page pgfault pgmajfault fault_entries "
           "fault_retry mmap_lock vma_lock_acquired contended wait_us throttled_ms fsync_ms ratio").split()


def build():
    os.makedirs(os.path.join(TOP, "build", "bench"), exist_ok=True)
    exe = os.path.join(TOP, "build", "bench", "dirty")
    src = os.path.join(TOP, "user", "bench", "dirty.c")
    if not os.path.exists(exe) or os.path.getmtime(exe) < os.path.getmtime(src):
        subprocess.check_call(["musl-gcc", "-static", "-O2", "-Wall", "-Wextra", "-o", exe, src])
    return exe


def run(exe, kernel, vma_lock, completed, disk, mb):
    """One boot: the repetitions on shmem, and those on delayfs."""
    # Seven, as everywhere under --icount; at full size each is half a second of instructions, and fewer will do.
    reps = 7 if mb < 100 else 3
    # What a kernel does by itself after booting shares the processor: Linux needs some seconds, which idle cost nothing.
    script = f"sleep 5; /t/dirty --mb {mb} --reps {reps} shmem && echo --"
    # The disk takes as long for a page as about ten thousand instructions, several times what a fault takes.
    if disk:
        script += (f" && mkdir -p /mnt && mount -t delayfs -o delay_us=500,bw_kib=409600,size={mb + 16}m none /mnt"
                   f" && echo {mb << 17} >/proc/sys/vm/dirty_bytes && echo {mb << 15} >/proc/sys/vm/dirty_background_bytes"
                   f" && /t/dirty --mb {mb} --reps 2 /mnt/file && umount /mnt")
    cmd = [os.path.join(TOP, "tests", "guest.sh"), "--kernel", kernel, "--icount", "--cpus", "1", "--mem", "2G",
           "--timeout", "900", "--add", exe]
    if kernel == "faultline":
        cmd += ["--append", f"mm.vma_lock={vma_lock} mm.fault_completed={completed}"]
    print(f"experiments: dirty {mb} MB on {kernel}"
          + (f", vma_lock={vma_lock} fault_completed={completed}" if kernel == "faultline" else "") + " ...",
          file=sys.stderr, flush=True)
    p = subprocess.run(cmd + ["--", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        sys.stderr.buffer.write(p.stdout + p.stderr)
        sys.exit(f"experiments: the guest ended with status {p.returncode}")
    parts = p.stdout.decode().split("--\n")
    return [[dict(w.split("=") for w in line.split()) for line in part.splitlines()] for part in parts]


def row(kernel, vma_lock, completed, store, mb, reps):
    """The fastest repetition, as everywhere under --icount; its counters are its own."""
    best = min(reps, key=lambda r: int(r["ticks"]))
    get = best.get
    scaled = lambda name, by: f"{int(best[name]) / by:.1f}" if name in best else ""
    return dict(zip(COLUMNS, (
        kernel, vma_lock, completed, store, mb, int(best["pages"]), round(int(best["ticks"]) / 1000),
        round(statistics.median(int(r["ticks"]) for r in reps) / 1000), round(int(best["ticks"]) / int(best["pages"])),
        get("pgfault", ""), get("pgmajfault", ""), get("fault_entries", ""), get("fault_retry", ""), get("mmap_lock", ""),
        get("vma_lock", ""), get("contended", ""), scaled("wait_ns", 1000), get("balance_dirty_wait_ms", ""),
        scaled("fsync_ns", 1e6), "")))


def add_ratios(rows):
    """COMPLETED against RETRY, everything else equal."""
    for r in rows:
        for other in rows:
            same = all(r[c] == other[c] for c in ("kernel", "vma_lock", "store"))
            if same and r["fault_completed"] == "on" and other["fault_completed"] == "off":
                r["ratio"] = f"{r['time_us'] / other['time_us']:.3f}"


def table(rows):
    """As docs/file-memory.md has it."""
    lines = ["| kernel | `vma_lock` | `fault_completed` | store | instructions a page | ms | throttled ms | `pgfault` | `pgmajfault` | "
             "`fault_entries` | `fault_retry` | mmap_lock, VMA lock taken | waits | ratio |", "|" + "---|" * 14]
    for r in rows:
        linux = r["kernel"] == "linux"
        lines.append("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |".format(
            "Linux 6.12" if linux else "Faultline", "" if linux else r["vma_lock"], "" if linux else r["fault_completed"], r["store"],
            r["per_page"] if r["store"] == "shmem" else "", round(r["time_us"] / 1000), r["throttled_ms"], r["pgfault"],
            r["pgmajfault"], r["fault_entries"], r["fault_retry"],
            "" if linux else f"{r['mmap_lock']}, {r['vma_lock_acquired']}", r["contended"], r["ratio"]))
    lines.append(f"| published, 2022 | | | shmem | | 651, 569 | | | | | | | | {PUBLISHED:.3f} |")
    return lines


def draw(rows, mb):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    retry, done, grey, wait = "#c44e52", "#4c72b0", "#8c8c8c", "#dddddd"
    shmem = [r for r in rows if r["store"] == "shmem" and r["vma_lock"] == "on"]
    ours = [r for r in shmem if r["kernel"] != "linux"]
    disk = [r for r in rows if r["store"] == "delayfs"]

    def name(r):
        if r["kernel"] == "linux":
            return "Linux 6.12"
        return "COMPLETED" if r["fault_completed"] == "on" else "RETRY"

    def colour(r):
        return grey if r["kernel"] == "linux" else done if r["fault_completed"] == "on" else retry

    fig, (a, b, c) = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    fig.get_layout_engine().set(w_pad=0.15)
    fig.suptitle(f"First write to each page of {mb} MB of shared memory")

    bars = a.bar([name(r) for r in shmem], [r["per_page"] for r in shmem], color=[colour(r) for r in shmem], width=0.6)
    a.bar_label(bars, padding=2)
    a.set_title("shmem: instructions a page", fontsize=11)

    x = range(len(ours))
    first = [int(r["pgfault"]) / r["pages"] for r in ours]
    calls = [int(r["fault_entries"]) / r["pages"] for r in ours]
    b.bar([i - 0.2 for i in x], first, 0.38, color=grey, label="pgfault")
    bars = b.bar([i + 0.2 for i in x], calls, 0.38, color=[colour(r) for r in ours], label="fault_entries")
    b.bar_label(b.containers[0], fmt="%.2f", padding=2)
    b.bar_label(bars, fmt="%.2f", padding=2)
    b.set_xticks(list(x), [name(r) for r in ours])
    b.set_title("shmem: faults (grey) and handler calls, a page", fontsize=11)

    waits = [int(r["throttled_ms"]) for r in disk]
    work = [r["time_us"] / 1000 - w for r, w in zip(disk, waits)]
    names = [name(r) for r in disk]
    c.bar(names, work, color=[colour(r) for r in disk], width=0.6)
    bars = c.bar(names, waits, bottom=work, color=wait, edgecolor=grey, width=0.6)
    c.bar_label(bars, [f"throttled\n{w} ms" for w in waits], label_type="center")
    c.bar_label(c.containers[0], [f"{w:.0f} ms" for w in work], label_type="center", color="white")
    c.set_title("delayfs: milliseconds in all", fontsize=11)
    for ax in (a, b, c):
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(y=0.12)
    for kind in ("svg", "png"):
        fig.savefig(os.path.join(OUT, "dirty." + kind), dpi=110, metadata={"Date": None} if kind == "svg" else None)


def dirty(quick):
    mb = 40 if quick else 400
    exe = build()
    rows = []
    for kernel, vma_lock, completed, disk in RUNS:
        parts = run(exe, kernel, vma_lock, completed, disk, mb)
        rows.append(row(kernel, vma_lock, completed, "shmem", mb, parts[0]))
        if disk:
            rows.append(row(kernel, vma_lock, completed, "delayfs", mb, parts[1]))
    add_ratios(rows)
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "dirty.csv"), "w", newline="") as f:
        out = csv.DictWriter(f, COLUMNS)
        out.writeheader()
        out.writerows(rows)
    print("\n".join(table(rows)))
    draw(rows, mb)
    print(f"experiments: {OUT}/dirty.csv, dirty.svg, dirty.png", file=sys.stderr)


EXPERIMENTS = {"dirty": dirty, "hugetlb": experiment_hugetlb.main, "gc": experiment_gc.main}


def main():
    quick = "--quick" in sys.argv[1:] or os.environ.get("QUICK") == "1"
    names = [a for a in sys.argv[1:] if not a.startswith("-")] or list(EXPERIMENTS)
    unknown = [n for n in names if n not in EXPERIMENTS]
    if unknown:
        sys.exit(f"experiments: there is no '{unknown[0]}', only {', '.join(EXPERIMENTS)}")
    for name in names:
        EXPERIMENTS[name](quick)


if __name__ == "__main__":
    main()
