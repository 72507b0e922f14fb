#!/usr/bin/env python3
"""Write a cpio archive in the "newc" form, the one an initramfs has.

    mkcpio.py OUTPUT [PATH=GUESTPATH]... [c:GUESTPATH:MODE:MAJOR:MINOR]... [d:GUESTPATH:MODE]...

Every entry belongs to root whatever the host thinks, so neither root nor fakeroot is needed; times are taken from
SOURCE_DATE_EPOCH or set to zero, so the same input gives the same bytes. Directories are added whole.
"""
import os
import stat
import sys

ALIGN = 512			# archives may be joined end to end; each is padded to this


class Archive:
    """Entries in the order they were added; parents are made as needed, each once."""

    def __init__(self, out, mtime=0):
        self.out = out
        self.mtime = mtime
        self.inode = 0
        self.size = 0
        self.directories = {""}

    def _emit(self, data):
        self.out.write(data)
        self.size += len(data)

    def _pad(self, to):
        self._emit(b"\0" * (-self.size % to))

    def entry(self, path, mode, data=b"", major=0, minor=0):
        path = path.strip("/")
        name = os.fsencode(path) + b"\0"
        if len(data) >= 1 << 32:
            raise ValueError(f"{path}: a cpio archive cannot hold files of 4 GiB and more")
        self.inode += 1
        nlink = 2 if stat.S_ISDIR(mode) else 1
        fields = (self.inode, mode, 0, 0, nlink, self.mtime, len(data), 0, 0, major, minor, len(name), 0)
        self._emit(b"070701" + b"".join(b"%08X" % f for f in fields) + name)
        self._pad(4)
        self._emit(data)
        self._pad(4)

    def parents(self, path):
        parts = path.strip("/").split("/")[:-1]
        for i in range(len(parts)):
            self.directory("/".join(parts[:i + 1]), 0o755)

    def directory(self, path, mode):
        path = path.strip("/")
        if path in self.directories:
            return
        self.parents(path)
        self.directories.add(path)
        self.entry(path, stat.S_IFDIR | mode)

    def file(self, path, data, mode=0o644):
        self.parents(path)
        self.entry(path, stat.S_IFREG | mode, data)

    def symlink(self, path, target):
        self.parents(path)
        self.entry(path, stat.S_IFLNK | 0o777, os.fsencode(target))

    def device(self, path, mode, major, minor):
        self.parents(path)
        self.entry(path, stat.S_IFCHR | mode, major=major, minor=minor)

    def tree(self, source, path):
        """Add a host file or directory, with its modes and symbolic links."""
        st = os.lstat(source)
        mode = stat.S_IMODE(st.st_mode)
        if stat.S_ISLNK(st.st_mode):
            self.symlink(path, os.readlink(source))
        elif stat.S_ISDIR(st.st_mode):
            if path.strip("/"):
                self.directory(path, mode)
            for name in sorted(os.listdir(source)):
                self.tree(os.path.join(source, name), path.rstrip("/") + "/" + name)
        elif stat.S_ISREG(st.st_mode):
            with open(source, "rb") as f:
                self.file(path, f.read(), mode)
        else:
            raise ValueError(f"{source}: only files, directories and symbolic links can be added")

    def close(self):
        self.inode = -1
        self.mtime = 0
        self.entry("TRAILER!!!", 0)
        self._pad(ALIGN)


def main(argv):
    output, specs = argv[1], argv[2:]
    temporary = output + ".tmp"
    with open(temporary, "wb") as f:
        archive = Archive(f, int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
        for spec in specs:
            if spec.startswith("c:"):
                path, mode, major, minor = spec[2:].split(":")
                archive.device(path, int(mode, 8), int(major), int(minor))
            elif spec.startswith("d:"):
                path, mode = spec[2:].split(":")
                archive.directory(path, int(mode, 8))
            else:
                source, path = spec.split("=", 1)
                archive.tree(source, path)
        archive.close()
    os.replace(temporary, output)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv)
