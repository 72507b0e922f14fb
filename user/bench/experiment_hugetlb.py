"""The hugetlb part of experiments.py: build/experiments/hugetlb.csv, hugetlb_waits.csv, hugetlb_cost.csv, hugetlb.svg and .png.

Rates: user/bench/hugefault and hugefork, alone and both together, for 1, 8 and 24 instances of each, on 2, 4 and 8
processors, for every value of hugetlb.sync and for Linux 6.12. A rate is operations per CPU-second of the program's
own processes, the median of three rounds of a second each in which the three cases alternate; `slowest` is what the slowest instance did,
as a part of the mean. On an emulated machine only ratios mean anything.

Waits: eight instances of map, touch all, unmap; what /proc/lock_stat counts of the locks that keep faults apart from
unsharing, taken by faults. Linux as Debian builds it has no such statistics: its cells stay empty.

Costs: instructions per page, under --icount: exact.
"""
import csv
import os
import re
import statistics
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "build", "experiments")
# What keeps faults apart from unsharing: by mode one of them, or none.
SHARING_LOCKS = ("HUGETLB_VMA", "I_MMAP")

# Name in the tables, kernel, parameters.
LINUX = ("Linux 6.12", "linux", "")
MODES = [LINUX] + [(name, "faultline", f"hugetlb.sync={name}") for name in ("vma", "i_mmap", "recheck")] + [
    ("recheck, ptl=mm", "faultline", "hugetlb.sync=recheck hugetlb.ptl=mm"),
    ("file", "faultline", "hugetlb.sync=file"),
    ("vma, pmd_share=off", "faultline", "hugetlb.sync=vma hugetlb.pmd_share=off"),
    ("none-share", "faultline", "hugetlb.sync=none-share unsafe"),
    ("none", "faultline", "hugetlb.sync=none unsafe"),
]
QUICK_MODES = ("Linux 6.12", "vma", "i_mmap", "recheck", "file")
PUBLISHED = [       # 48 CPUs, 250 GB: before, lock removed, semaphore
    ("faults/s, 1 instance", "397,068", "403,411", "394,935"),
    ("faults/s, 24 instances", "68,322", "83,023", "82,436"),
    ("forks/s, 1 instance", "2,717", "2,862", "2,816"),
    ("forks/s, 24 instances", "404", "465", "499"),
    ("24 + 24 together: faults/s", "1,528", "69,090", "59,544"),
    ("24 + 24 together: forks/s", "337", "66", "140"),
]


def build(name):
    os.makedirs(os.path.join(TOP, "build", "bench"), exist_ok=True)
    exe, src = (os.path.join(TOP, *path) for path in (("build", "bench", name), ("user", "bench", name + ".c")))
    newest = max(os.path.getmtime(s) for s in (src, os.path.join(TOP, "user", "bench", "huge.h")))
    if not os.path.exists(exe) or os.path.getmtime(exe) < newest:
        subprocess.check_call(["musl-gcc", "-static", "-O2", "-Wall", "-Wextra", "-o", exe, src])
    return exe


def guest(mode, script, cpus, icount=False, pages=1024, mem="4G"):
    """Runs the script; its output, or None if this kernel does not get through it (the racy values may not)."""
    name, kernel, append = mode
    exes = [build("hugefault"), build("hugefork")]
    cmd = [os.path.join(TOP, "tests", "guest.sh"), "--kernel", kernel, "--cpus", str(cpus), "--mem", mem, "--timeout", "1800",
           "--append", f"hugepages={pages} {append}".strip()] + [w for e in exes for w in ("--add", e)]
    if icount:
        cmd += ["--icount"]
    print(f"experiments: hugetlb: {name}, {cpus} CPUs{', costs' if icount else ''} ...", file=sys.stderr, flush=True)
    p = subprocess.run(cmd + ["--", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        why = "the kernel panicked" if p.returncode == 125 else f"status {p.returncode}"
        print(f"experiments: hugetlb: {name}: {why}\n" + "\n".join((p.stdout + p.stderr).decode(errors="replace").splitlines()[-6:]),
              file=sys.stderr)
        if "unsafe" not in append:
            sys.exit(1)
        return None
    return p.stdout.decode()


def words(line):
    return dict(w.split("=", 1) for w in line.split())


# -- rates --

def rates_script(instances, seconds, rounds, size):
    """Per round: faults alone, forks alone, both at once. The file stays, so its pages are there from the first time on."""
    both = f"-s {size} -t {seconds} -f /dev/hugepages/bench"
    lines = ["set -e", f"/t/hugefault -t 0.1 -s {size} -f /dev/hugepages/bench >/dev/null"]
    for n in instances:
        for _ in range(rounds):
            lines += [f"echo case=alone $(/t/hugefault -n {n} {both})", f"echo case=alone $(/t/hugefork -n {n} {both})",
                      f"/t/hugefault -n {n} {both} >/tmp/a & /t/hugefork -n {n} {both} >/tmp/b; wait $!",
                      "echo case=together $(cat /tmp/a); echo case=together $(cat /tmp/b)"]
    return "\n".join(lines)


def rates(modes, cpu_counts, instances, seconds, rounds, size):
    rows = []
    for mode in modes:
        for cpus in cpu_counts:
            output = guest(mode, rates_script(instances, seconds, rounds, size), cpus)
            for n in instances:
                for unit in ("fault", "fork"):
                    row = {"mode": mode[0], "cpus": cpus, "instances": n, "unit": unit}
                    for case in ("alone", "together"):
                        got = [words(line) for line in (output or "").splitlines() if line.startswith(f"case={case} unit={unit} ")]
                        got = [g for g in got if int(g["instances"]) == n]
                        if got:
                            row[case] = round(statistics.median(float(g["per_cpu_second"]) for g in got))
                            row[case + "_slowest"] = round(statistics.median(float(g["slowest"]) for g in got), 3)
                    if row.get("alone") and row.get("together") is not None:
                        row["kept"] = round(row["together"] / row["alone"], 3)
                    rows.append(row)
    return rows


# -- waits --

def waits_script(seconds, size):
    # The first run makes the pages, so that the second one counts faults that find theirs.
    return "\n".join(["set -e", f"/t/hugefault -t 0.1 -s {size} -f /dev/hugepages/bench >/dev/null",
                      "[ ! -f /proc/lock_stat ] || echo 0 >/proc/lock_stat",
                      f"/t/hugefault -n 8 -t {seconds} -s {size} -f /dev/hugepages/bench",
                      "[ ! -f /proc/lock_stat ] || cat /proc/lock_stat"])


def waits(modes, cpu_counts, seconds, size):
    rows = []
    for mode in modes:
        for cpus in cpu_counts:
            output = guest(mode, waits_script(seconds, size), cpus)
            if output is None:
                continue
            head = words(output.splitlines()[0])
            row = {"mode": mode[0], "cpus": cpus, "faults": int(head["ops"]), "per_cpu_second": head["per_cpu_second"]}
            if "wait_ns_total" in output:
                taken = [m.groups() for m in re.finditer(r"(?m)^(\w+) fault (\w+) (\d+) (\d+) (\d+) (\d+)$", output)]
                taken = [[int(x) for x in t[2:]] for t in taken if t[0] in SHARING_LOCKS]
                busy = float(head["elapsed_ms"]) * int(head["instances"])
                row["acquired"] = sum(t[0] for t in taken)
                row["contended"] = sum(t[1] for t in taken)
                row["wait_ms"] = round(sum(t[2] for t in taken) / 1e6, 2)
                row["wait_max_ms"] = round(max([t[3] for t in taken] or [0]) / 1e6, 3)
                row["wait_percent"] = round(100 * row["wait_ms"] / busy, 3)
            rows.append(row)
    return rows


# -- costs --

def costs(modes, size):
    rows = []
    for mode in modes:
        output = guest(mode, f"sleep 5; /t/hugefault -c -s {size}", 1, icount=True, pages=640, mem="2G")
        if output:
            got = words(output.splitlines()[0])
            rows.append({"mode": mode[0], **{k: int(got[k]) for k in ("mb", "fresh", "again", "shared", "refault")}})
    return rows


def write_csv(name, rows, columns):
    with open(os.path.join(OUT, name), "w", newline="") as f:
        out = csv.DictWriter(f, columns)
        out.writeheader()
        out.writerows(rows)


def markdown(title, rows, columns):
    lines = [f"**{title}**", "", "| " + " | ".join(c.replace("_", " ") for c in columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(str(r.get(c, "")) for c in columns) + " |" for r in rows] + [""]


def goals(rate_rows, wait_rows, cost_rows, default):
    """What the default value has to keep; one line each, met or missed."""
    lines = []

    def say(what, good):
        lines.append(f"{'met' if good else 'MISSED'}: {what}")

    for r in rate_rows:
        if r["mode"] == default and "kept" in r and r["instances"] > 1:
            what = f"{r['unit']}s beside the other kind, {r['instances']} instances, {r['cpus']} CPUs"
            say(f"{what}: {r['kept']:.2f} of the rate alone (0.80)", r["kept"] >= 0.8)
            say(f"{what}: the slowest instance does {r['together_slowest']:.2f} of the mean (0.50)", r["together_slowest"] >= 0.5)
    for r in wait_rows:
        if r["mode"] == default and "wait_percent" in r:
            say(f"faults wait {r['wait_percent']} % of their time for sharing locks, {r['cpus']} CPUs (1 %)", r["wait_percent"] < 1)
    linux = next((r for r in cost_rows if r["mode"] == LINUX[0]), None)
    for r in cost_rows:
        if r["mode"] == default:
            say(f"re-fault of a present huge page: {r['refault']} instructions (400)", r["refault"] <= 400)
        if r["mode"] == "file" and linux:
            say(f"file: map, touch all, unmap of a file that nobody else maps: {r['again']} instructions a page, Linux {linux['again']} "
                "(a 50th)", r["again"] * 50 < linux["again"])
            say(f"file: the same where a second process maps it: {r['shared']}, Linux {linux['shared']} (not more)",
                r["shared"] <= linux["shared"])
    return lines


def draw(rate_rows, cost_rows):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(r["mode"] for r in rate_rows))
    cpus, most = max(r["cpus"] for r in rate_rows), max(r["instances"] for r in rate_rows)
    picked = {(r["mode"], r["unit"]): r for r in rate_rows if r["cpus"] == cpus and r["instances"] == most}
    colours = {n: "#8c8c8c" if n == LINUX[0] else "#c44e52" if n.startswith("none") else "#55a868" if n == "file" else "#4c72b0"
               for n in names}
    fig, axes = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    fig.suptitle(f"A huge page file, {most} instances, {cpus} processors: what is left of a rate beside the other kind; and costs")
    for ax, unit in zip(axes, ("fault", "fork")):
        kept = [picked.get((n, unit), {}).get("kept", 0) for n in names]
        bars = ax.bar(range(len(names)), kept, color=[colours[n] for n in names], width=0.6)
        ax.bar_label(bars, fmt="%.2f", padding=2)
        ax.axhline(0.8, color="black", linewidth=0.7, linestyle=":")
        ax.set_title(f"{unit}s together / alone", fontsize=11)
        ax.set_xticks(range(len(names)), names, rotation=35, ha="right")
    ax = axes[2]
    some = [r["mode"] for r in cost_rows]
    bars = ax.bar(range(len(some)), [r["again"] for r in cost_rows], color=[colours.get(n, "#4c72b0") for n in some], width=0.6)
    ax.bar_label(bars, padding=2)
    ax.set_title("map, touch all, unmap: instructions a page", fontsize=11)
    ax.set_xticks(range(len(some)), some, rotation=35, ha="right")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(y=0.12)
    for kind in ("svg", "png"):
        fig.savefig(os.path.join(OUT, "hugetlb." + kind), dpi=110, metadata={"Date": None} if kind == "svg" else None)


def default_mode():
    p = subprocess.run([os.path.join(TOP, "tests", "guest.sh"), "--", "cat /sys/kernel/faultline/hugetlb.sync"],
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return p.stdout.decode().strip() if p.returncode == 0 else None


def main(quick):
    os.makedirs(OUT, exist_ok=True)
    modes = [m for m in MODES if not quick or m[0] in QUICK_MODES]
    default = default_mode()
    if not default:
        print("experiments: hugetlb: this kernel has no hugetlb.sync", file=sys.stderr)
        return
    if quick:
        rate_rows = rates(modes, [2], [8], 1, 1, "1G")		# a table is shared for whole gigabytes only
        wait_rows = waits(modes, [2], 2, "1G")
        cost_rows = costs(modes, "1G")
    else:
        rate_rows = rates(modes, [2, 4, 8], [1, 8, 24], 1, 3, "1G")
        wait_rows = waits(modes, [2, 4, 8], 3, "2G")
        cost_rows = costs(modes, "1G")
    rate_columns = "mode cpus instances unit alone alone_slowest together together_slowest kept".split()
    wait_columns = "mode cpus faults per_cpu_second acquired contended wait_ms wait_max_ms wait_percent".split()
    cost_columns = "mode mb fresh again shared refault".split()
    write_csv("hugetlb.csv", rate_rows, rate_columns)
    write_csv("hugetlb_waits.csv", wait_rows, wait_columns)
    write_csv("hugetlb_cost.csv", cost_rows, cost_columns)
    lines = markdown("Operations per CPU-second", rate_rows, rate_columns)
    lines += markdown("Eight instances of map, touch all, unmap: locks taken by faults", wait_rows, wait_columns)
    lines += markdown("Instructions per page", cost_rows, cost_columns)
    lines += ["**Published, 2022** (48 CPUs, 250 GB)", "", "| | i_mmap held | lock removed | semaphore |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(p) + " |" for p in PUBLISHED] + [""]
    lines += [f"Default: hugetlb.sync={default}", ""] + goals(rate_rows, wait_rows, cost_rows, default)
    print("\n".join(lines))
    draw(rate_rows, cost_rows)
    print(f"experiments: {OUT}/hugetlb.csv, hugetlb_waits.csv, hugetlb_cost.csv, hugetlb.svg, hugetlb.png", file=sys.stderr)
