#!/usr/bin/env python3
"""Refuse a linked kernel that a loader would take but not survive.

    checkelf.py FILE

A linker of another version may lay out or drop sections differently; found here it is one sentence, found at boot it is a
triple fault. Checked: ELF64 for x86-64; segments from 1 MiB up in physical memory, not overlapping, at their link address
in the top 2 GiB; no segment both writable and executable; a sound multiboot2 header in the first 32 KiB; a PVH note whose
entry lies in an executable segment.
"""
import struct
import sys

KERNEL_BASE = 0xFFFFFFFF80000000
MB2_MAGIC, MB2_SEARCH, MB2_ALIGN = 0xE85250D6, 32768, 8
PT_LOAD, PT_NOTE = 1, 4
XEN_ELFNOTE_PHYS32_ENTRY = 18


def check(data):
    """Yield one sentence for each thing that is wrong."""
    if data[:6] != b"\x7fELF\x02\x01":
        yield "not a little-endian ELF64 file"
        return
    kind, machine = struct.unpack_from("<HH", data, 16)
    entry, phoff = struct.unpack_from("<QQ", data, 24)
    phentsize, phnum = struct.unpack_from("<HH", data, 54)
    if kind != 2 or machine != 62:
        yield "not an x86-64 executable"
    loads, notes = [], []
    for i in range(phnum):
        ptype, flags, off, vaddr, paddr, filesz, memsz, _ = struct.unpack_from("<IIQQQQQQ", data, phoff + i * phentsize)
        if ptype == PT_LOAD and memsz:
            loads.append((paddr, vaddr, memsz, flags, off, filesz))
        elif ptype == PT_NOTE:
            notes.append(data[off:off + filesz])
    if not loads:
        yield "no loadable segment"
        return
    loads.sort()
    for paddr, vaddr, memsz, flags, off, filesz in loads:
        if paddr < 1 << 20 or paddr + memsz > 1 << 30:
            yield f"segment at physical {paddr:#x} (+{memsz:#x}) is not between 1 MiB and 1 GiB"
        if vaddr != paddr and vaddr != paddr + KERNEL_BASE:
            yield f"segment at {vaddr:#x} is loaded at {paddr:#x}, which is not its link address"
        # What runs before paging is turned on may be one identity-mapped segment; the kernel proper must be W^X.
        if flags & 3 == 3 and vaddr >= KERNEL_BASE:
            yield f"segment at {vaddr:#x} is both writable and executable"
        if off + filesz > len(data):
            yield f"segment at {vaddr:#x} reaches past the end of the file"
    for (a, _, size, *_), (b, *_) in zip(loads, loads[1:]):
        if a + size > b:
            yield f"segments at physical {a:#x} and {b:#x} overlap"

    def executable(physical):
        return any(p <= physical < p + size and flags & 1 for p, _, size, flags, *_ in loads)

    if not any(v <= entry < v + size and flags & 1 for _, v, size, flags, *_ in loads) and not executable(entry):
        yield f"the entry point {entry:#x} is in no executable segment"

    for at in range(0, min(MB2_SEARCH, len(data) - 16), MB2_ALIGN):
        magic, arch, length, checksum = struct.unpack_from("<IIII", data, at)
        if magic == MB2_MAGIC:
            if arch != 0 or (magic + arch + length + checksum) & 0xFFFFFFFF:
                yield "the multiboot2 header's architecture or checksum is wrong"
            if at + length > MB2_SEARCH:
                yield "the multiboot2 header does not end in the first 32 KiB"
            break
    else:
        yield "no multiboot2 header in the first 32 KiB of the file"

    for note in notes:
        at = 0
        while at + 12 <= len(note):
            namesz, descsz, ntype = struct.unpack_from("<III", note, at)
            name = note[at + 12:at + 12 + namesz].rstrip(b"\0")
            desc = at + 12 + (namesz + 3 & ~3)
            if name == b"Xen" and ntype == XEN_ELFNOTE_PHYS32_ENTRY:
                pvh = int.from_bytes(note[desc:desc + descsz], "little")
                if not executable(pvh):
                    yield f"the PVH entry {pvh:#x} is in no executable segment"
                return
            at = desc + (descsz + 3 & ~3)
    yield "no PVH note (Xen, type 18) in a PT_NOTE segment: QEMU's -kernel cannot start it"


def main():
    with open(sys.argv[1], "rb") as f:
        wrong = list(check(f.read()))
    for sentence in wrong:
        print(f"{sys.argv[1]}: {sentence}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
