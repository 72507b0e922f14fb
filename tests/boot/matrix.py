"""Boot matrix: firmware x medium x processors x memory, the image as people get it, and boots that must be refused.

usage: matrix.py [--slow] [NAME]...

Quick: each value of each axis at least once, in pairs that matter. --slow: the whole product.
"""
import collections
import io
import itertools
import os
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "..", "boot")]
import vm				# noqa: E402
from mkcpio import Archive		# noqa: E402
from vm import note			# noqa: E402

GUEST = os.path.join(vm.TOP, "tests/guest.sh")
QEMU = os.environ.get("QEMU") or None
FIRMWARE_MEMORY = {"64M": 64, "256M": 256, "512M": 512, "1G": 1024, "4G": 4096, "16G": 16384}

# firmware, medium, processors, memory
QUICK = [
    ("bios", "direct", 1, "256M"),
    ("bios", "direct", 2, "64M"),
    ("bios", "direct", 3, "1G"),
    ("bios", "direct", 8, "4G"),
    ("bios", "direct", 64, "1G"),
    ("bios", "direct", 2, "16G"),
    ("bios", "iso", 2, "64M"),
    ("bios", "usb", 8, "256M"),
    ("uefi", "iso", 3, "1G"),
    ("uefi", "usb", 1, "256M"),
    ("uefi", "iso", 64, "4G"),
]


class Report:
    failed = False

    def ok(self, name, detail=""):
        print(f"ok: boot/{name}{detail}", flush=True)

    def fail(self, name, why, log=""):
        self.failed = True
        print(f"FAIL: boot/{name}: {why}", flush=True)
        for line in log.rstrip().split("\n")[-30:]:
            print("    | " + line, flush=True)

    def skip(self, name, why):
        print(f"skip: boot/{name}: {why}", flush=True)


def host_memory():
    with open("/proc/meminfo") as f:
        return int(re.search(r"MemAvailable: *(\d+)", f.read()).group(1)) // 1024


def boot(report, firmware, medium, cpus, mem):
    """Boot it, and ask the guest what it has: all its processors, nearly all its memory."""
    name = f"{firmware}-{medium}-{cpus}cpu-{mem}"
    mebibytes = FIRMWARE_MEMORY[mem]
    if mebibytes > host_memory():
        report.skip(name, "the host has not that much memory free")
        return
    if firmware == "uefi" and mebibytes < 128:
        report.skip(name, "QEMU's UEFI firmware itself does not start with so little memory")
        return
    start = time.monotonic()
    done = subprocess.run([GUEST, *(["--qemu", QEMU] if QEMU else []), "--firmware", firmware, "--media", medium,
                           "--cpus", str(cpus), "--mem", mem, "--timeout", "240", "--",
                           "nproc; sed -n 's/MemTotal: *//p' /proc/meminfo; echo up"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    took = time.monotonic() - start
    words = done.stdout.split()
    if done.returncode != 0 or len(words) != 4 or words[3] != "up":
        report.fail(name, f"status {done.returncode}, printed '{done.stdout.strip()[:100]}'", done.stderr)
    elif int(words[0]) != cpus:
        report.fail(name, f"{words[0]} processors came up", done.stderr)
    elif not mebibytes * 0.7 < int(words[1]) / 1024 <= mebibytes:
        report.fail(name, f"MemTotal is {words[1]} kB")
    else:
        report.ok(name, f" ({took:.1f} s)")


class Console:
    """A machine with its serial port and monitor in our hands, as a person has it."""

    def __init__(self, machine, directory):
        self.screen_file = os.path.join(directory, "screen.ppm")
        self.text = b""
        # The serial console on stdin and stdout; the monitor on a socket, for screen shots.
        self.monitor_path = os.path.join(directory, "monitor")
        command = machine.command + ["-chardev", "stdio,id=serial,signal=off", "-serial", "chardev:serial",
                                     "-monitor", f"unix:{self.monitor_path},server=on,wait=off"]
        self.qemu = subprocess.Popen(vm.kill_with_parent(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT)

    def wait(self, pattern, seconds):
        """True once `pattern` was printed after the last match."""
        end = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.text)
            if found:
                self.text = self.text[found.end():]
                return True
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.qemu.stdout], [], [], left)[0]:
                return False
            data = os.read(self.qemu.stdout.fileno(), 65536)
            if not data:
                return False
            self.text += data

    def type(self, text):
        self.qemu.stdin.write(text.encode())
        self.qemu.stdin.flush()

    def monitor(self, line):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.monitor_path)
            s.settimeout(10)
            s.sendall(line.encode() + b"\n")
            time.sleep(1)
            s.recv(65536)

    def screenshot(self, keep):
        """Returns (columns, rows, number of pixels that are not background); keeps a PNG for people."""
        self.monitor(f"screendump {self.screen_file}")
        with open(self.screen_file, "rb") as f:
            magic, size, _, pixels = f.read().split(b"\n", 3)
        width, height = map(int, size.split())
        rows = b"".join(b"\0" + pixels[y * width * 3:(y + 1) * width * 3] for y in range(height))

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        with open(keep, "wb") as f:
            f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                    chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
        counts = collections.Counter(pixels[i:i + 3] for i in range(0, len(pixels), 3))
        lit = sum(counts.values()) - counts.most_common(1)[0][1]
        return width, height, lit

    def close(self):
        if self.qemu.poll() is None:
            self.qemu.kill()
        self.qemu.wait()


def shipped_image(report, firmware, medium):
    """build/faultline.iso, unchanged: its menu, its default entry, a shell on the serial port, text on the screen."""
    name = f"image-{firmware}-{medium}"
    with tempfile.TemporaryDirectory(prefix="faultline-boot.") as d:
        image = os.path.join(d, "stick")
        if medium == "usb":				# by way of the script that people use
            subprocess.run([os.path.join(vm.TOP, "boot/usb.sh"), os.path.join(vm.BUILD, "faultline.iso"), image],
                           check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        else:
            image = os.path.join(vm.BUILD, "faultline.iso")
        machine = vm.Machine(vm.Qemu(QEMU), 2, "512M")
        machine.firmware(firmware, d)
        machine.medium(medium, image)
        machine.add("-display", "none", "-vga", "std")
        console = Console(machine, d)
        try:
            before = console.text
            if not console.wait(rb"# ", 120):
                report.fail(name, "no shell prompt on the serial port", (before + console.text).decode(errors="replace"))
                return
            console.type("echo $((6 * 7))-$(nproc)\n")
            if not console.wait(rb"\n42-2\r?\n", 20):
                report.fail(name, "the shell does not answer", console.text.decode(errors="replace"))
                return
            shot = os.path.join(vm.BUILD, f"tests/screen-{firmware}-{medium}.png")
            width, height, lit = console.screenshot(shot)
            if width < 640 or lit < 2000:
                report.fail(name, f"nothing to be seen on the screen ({width}x{height}, {lit} pixels): {shot}")
                return
            console.type("poweroff -f\n")
            try:
                console.qemu.wait(20)
            except subprocess.TimeoutExpired:
                report.fail(name, "poweroff -f does not turn the machine off")
                return
            report.ok(name, f" ({width}x{height})")
        finally:
            console.close()


def refused(report, name, pattern, mem, initramfs, command_line="", kernel=None):
    """A boot that cannot work says why and stops: it neither goes on nor resets the machine."""
    with tempfile.TemporaryDirectory(prefix="faultline-boot.") as d:
        machine = vm.Machine(vm.Qemu(QEMU), 1, mem)
        machine.add("-display", "none", "-vga", "none", "-kernel", kernel or vm.faultline_kernel("release"))
        if initramfs is not None:
            path = os.path.join(d, "initramfs")
            with open(path, "wb") as f:
                f.write(initramfs)
            machine.add("-initrd", path)
        if command_line:
            machine.add("-append", command_line)
        console = Console(machine, d)
        try:
            said = console.wait(pattern, 30)
            time.sleep(2)
            if not said:
                report.fail(name, "it does not say why", console.text.decode(errors="replace"))
            elif console.qemu.poll() is not None:
                report.fail(name, "it said why, but then reset the machine instead of halting")
            else:
                report.ok(name)
        finally:
            console.close()


def main(argv):
    slow = "--slow" in argv
    only = [a for a in argv if not a.startswith("-")]
    report = Report()
    vm.make("build/faultline.iso", "build/initramfs.cpio", "build/tests/guest-init")
    os.environ["FAULTLINE_NO_BUILD"] = "1"
    os.makedirs(os.path.join(vm.BUILD, "tests"), exist_ok=True)
    boots = list(QUICK)
    if slow:
        boots += [b for b in itertools.product(("bios", "uefi"), ("direct", "iso", "usb"), (1, 2, 3, 8, 64),
                                               ("64M", "256M", "4G", "16G"))
                  if b not in boots and b[:2] != ("uefi", "direct")]
    for case in boots:
        if not only or any(o in f"{case[0]}-{case[1]}-{case[2]}cpu-{case[3]}" for o in only):
            boot(report, *case)
    for firmware, medium in (("bios", "iso"), ("uefi", "usb")) + ((("bios", "usb"), ("uefi", "iso")) if slow else ()):
        if not only or any(o in f"image-{firmware}-{medium}" for o in only):
            shipped_image(report, firmware, medium)
    with open(vm.INITRAMFS, "rb") as f:
        archive = f.read()
    for name, pattern, mem, initramfs in (
            ("refused-no-initramfs", rb"(?i)initramfs", "256M", None),
            ("refused-truncated-initramfs", rb"(?i)initramfs", "256M", archive[:len(archive) // 2]),
            ("refused-garbage-initramfs", rb"(?i)initramfs", "256M", bytes(range(256)) * 400),
            ("refused-empty-archive", rb"(?i)init", "256M", archive_of_nothing()),
            ("refused-little-memory", rb"(?i)memory", "8M", archive)):
        if not only or any(o in name for o in only):
            refused(report, name, pattern, mem, initramfs)
    print("end: boot")
    return int(report.failed)


def archive_of_nothing():
    out = io.BytesIO()
    archive = Archive(out)
    archive.directory("/dev", 0o755)
    archive.close()
    return out.getvalue()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except vm.Trouble as e:
        note(f"matrix: {e}")
        sys.exit(2)
