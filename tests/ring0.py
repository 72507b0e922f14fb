#!/usr/bin/env python3
"""What ring 0 drives by itself, from the link map and the machine code: no network, disk or other PCI device.

    tests/ring0.py [BUILD DIRECTORY]

For every object that the link map of the release kernel names: does it hold an I/O instruction (in, out and their string
forms), or call for a mapping of device registers (ioremap)? The objects that do must be those of the table "Devices that ring 0
drives" in docs/microkernel.md, no more and no fewer, so a driver cannot come in unnoticed and the table cannot be wrong.
"""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = "docs/microkernel.md"
IO = re.compile(r"^\s*[0-9a-f]+:\s+(?:(?:rep\w*|data16)\s+)*(?:in|out|ins[bwl]|outs[bwl])\s", re.M)
REGISTERS = re.compile(r"R_X86_64_\w+\s+ioremap(?:_wc)?\b")
# Words of drivers that belong into ring 3, whatever they do.
FORBIDDEN = re.compile(r"(?:^|_)(?:virtio|e1000|rtl8\d*|ahci|nvme|ide|scsi|usb|xhci|ether|lwip|tcp|arp)(?:_|$)", re.I)


def linked_objects(build):
    path = os.path.join(build, "release", "faultline.map")
    if not os.path.exists(path):
        sys.exit(f"ring0: no {path}; run make")
    with open(path, encoding="utf-8") as f:
        return sorted(set(re.findall(r"^LOAD (\S+\.o)$", f.read(), re.M)))


def documented():
    with open(os.path.join(TOP, PAGE), encoding="utf-8") as f:
        section = f.read().split("## Devices that ring 0 drives", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"\]\(\.\./((?:kernel|mm|fs|boot)/[\w./]+)\.[cS]\)", section))


def name_of(obj, build):
    return os.path.splitext(os.path.relpath(obj, os.path.join(build, "release")))[0]


def main():
    build = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(TOP, "build")
    touching, wrong = set(), []
    objects = [o if os.path.isabs(o) else os.path.join(TOP, o) for o in linked_objects(build)]
    for obj in objects:
        name = name_of(obj, build)
        if FORBIDDEN.search(os.path.basename(name)):
            wrong.append(f"{name} is linked into the kernel, and is named like a driver that belongs into ring 3")
        code = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", obj], stdout=subprocess.PIPE, check=True).stdout.decode()
        if IO.search(code) or REGISTERS.search(code):
            touching.add(name)
    table = documented()
    wrong += [f"{n} touches device registers and is not in the table of {PAGE}" for n in sorted(touching - table)]
    wrong += [f"{n} is in the table of {PAGE} and touches no device registers" for n in sorted(table - touching)]
    if len(objects) < 50 or not touching:
        wrong.append(f"only {len(objects)} objects, {len(touching)} with I/O: the map was not understood")
    for line in wrong:
        print(f"FAIL: ring0: {line}")
    if not wrong:
        print(f"ok: ring0/of {len(objects)} objects, {len(touching)} touch devices, all of them in the table")
    print("end: ring0")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
