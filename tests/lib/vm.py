"""One virtual machine: which QEMU, which accelerator, which CPU, which devices. Shared by guest.py, run.py and the boot tests.

Nothing here is assumed of the host: the accelerator is probed by really booting something, CPU flags that this QEMU does not
know are dropped with a warning, and a missing file is reported with the package that has it.
"""
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build")
CACHE = os.path.join(BUILD, "cache")

# Why these three: docs/hardware.md. cx16 trips a QEMU 7.2 fault, la57 would give Linux a fifth page-table level.
DEFAULT_CPU = "max,-cx16,-la57"
ICOUNT_CPU_FLAGS = ["-erms", "-fsrm"]
KVM_PROBE_SECONDS = 3


class Trouble(Exception):
    """Something that the user can act on; printed as one sentence, status 2."""


def note(text):
    print(text, file=sys.stderr, flush=True)


def kill_with_parent(command):
    """The child dies with us however we die, even by SIGKILL: nothing is ever left running."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] + command if setpriv else command


class Locked:
    """A lock between processes, for everything under build/ that two runs might make at the same time."""

    def __init__(self, name):
        os.makedirs(BUILD, exist_ok=True)
        self.path = os.path.join(BUILD, f".lock-{name}")

    def __enter__(self):
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def __exit__(self, *exc):
        os.close(self.fd)


def make(*targets):
    """Bring build products up to date, quietly. One at a time: two makes in one tree would trip over each other."""
    if os.environ.get("FAULTLINE_NO_BUILD"):
        missing = [t for t in targets if not os.path.exists(os.path.join(TOP, t))]
        if missing:
            raise Trouble(f"{missing[0]} is not built, and FAULTLINE_NO_BUILD forbids building it")
        return
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")}
    # Variables that were given to an outer make are meant for the inner one as well.
    if os.environ.get("CC"):
        environment["CC"] = os.environ["CC"]
    with Locked("make"):
        done = subprocess.run(["make", "-s", f"-j{os.cpu_count()}", "-C", TOP, "--no-print-directory", *targets], env=environment,
                              stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if done.returncode:
        raise Trouble(f"cannot build {' '.join(targets)} (see above)")


# --- QEMU -----------------------------------------------------------------------------------------------------------------

class Qemu:
    """A QEMU binary and what it is known to be able to do. Answers that cost a process are cached in build/cache."""

    def __init__(self, path=None):
        wanted = path or os.environ.get("QEMU") or "qemu-system-x86_64"
        self.path = shutil.which(wanted)
        if not self.path:
            if path or os.environ.get("QEMU"):
                raise Trouble(f"{wanted}: no such program")
            raise Trouble("no qemu-system-x86_64 on the PATH; run 'make deps' (package qemu-system-x86)")
        self.path = os.path.abspath(self.path)
        st = os.stat(self.path)
        key = hashlib.sha256(f"{self.path} {st.st_size} {st.st_mtime_ns}".encode()).hexdigest()[:16]
        self.cache_file = os.path.join(CACHE, f"qemu-{key}.json")
        try:
            with open(self.cache_file) as f:
                self.facts = json.load(f)
        except (OSError, ValueError):
            self.facts = {}

    def fact(self, name, find):
        if name not in self.facts:
            self.facts[name] = find()
            os.makedirs(CACHE, exist_ok=True)
            fd, temporary = tempfile.mkstemp(dir=CACHE)
            with os.fdopen(fd, "w") as f:
                json.dump(self.facts, f)
            os.replace(temporary, self.cache_file)
        return self.facts[name]

    def _ask(self, *arguments):
        return subprocess.run([self.path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60).stdout

    def version(self):
        def find():
            found = re.search(r"version (\S+)", self._ask("--version"))
            return found.group(1) if found else "unknown"
        return self.fact("version", find)

    def cpu_flags(self):
        def find():
            text = self._ask("-cpu", "help")
            return text.split("Recognized CPUID flags:")[-1].split()
        return self.fact("cpu_flags", find)

    def accelerator(self):
        """("kvm" or "tcg", why). /dev/kvm that opens proves nothing: in nested clouds the guest may never run."""
        if not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return "tcg", "no usable /dev/kvm"
        try:
            with open("/proc/sys/kernel/random/boot_id") as f:
                boot = f.read().strip()
        except OSError:
            boot = "?"
        works = self.fact(f"kvm {boot}", self._probe_kvm)
        return ("kvm", "probed") if works else ("tcg", "/dev/kvm is there, but a probe guest did not run on it")

    def _probe_kvm(self):
        """Run tests/lib/kvm-probe.S, which does what a kernel does; it has to be through within the deadline."""
        make("build/tests/kvm-probe")
        with tempfile.TemporaryDirectory(prefix="faultline-kvm.") as d:
            said = os.path.join(d, "said")
            command = [self.path, "-nodefaults", "-no-user-config", "-machine", "q35", "-accel", "kvm", "-cpu", "max",
                       "-smp", "2", "-m", "512", "-display", "none", "-vga", "none", "-no-reboot",
                       "-kernel", os.path.join(BUILD, "tests/kvm-probe"), "-debugcon", f"file:{said}"]
            guest = subprocess.Popen(kill_with_parent(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            try:
                end = time.monotonic() + KVM_PROBE_SECONDS
                while time.monotonic() < end and guest.poll() is None:
                    time.sleep(0.05)
                    try:
                        with open(said, "rb") as f:
                            if f.read() == b"abcdK":
                                return True
                    except OSError:
                        pass
                return False
            finally:
                guest.kill()
                guest.wait()


def cpu_argument(qemu, model, icount):
    """The -cpu argument. A flag that this QEMU does not know is dropped and named, instead of ending the run."""
    known = set(qemu.cpu_flags())
    parts = (model or DEFAULT_CPU).split(",")
    parts += ICOUNT_CPU_FLAGS if icount else []
    kept = [parts[0]]
    for part in parts[1:]:
        name = part.lstrip("+-")
        if part[:1] in "+-" and known and name not in known and name.replace("_", "-") not in known:
            note(f"guest: warning: QEMU {qemu.version()} does not know the CPU flag {name}; left out")
        else:
            kept.append(part)
    return ",".join(kept)


class Machine:
    """The part of a QEMU command line that every way of running has in common."""

    def __init__(self, qemu, cpus=2, memory="1G", cpu=None, icount=False, accelerator=None):
        if accelerator:
            self.accelerator, self.why = accelerator, "asked for"
        elif icount:
            self.accelerator, self.why = "tcg", "--icount"
        else:
            self.accelerator, self.why = qemu.accelerator()
        self.qemu = qemu
        accel = self.accelerator
        if accel == "tcg":
            accel += ",thread=single" if icount else ",thread=multi"
        self.command = [
            qemu.path, "-nodefaults", "-no-user-config", "-machine", "q35", "-accel", accel,
            "-cpu", cpu_argument(qemu, cpu, icount), "-smp", str(cpus), "-m", memory, "-no-reboot",
        ]
        if icount:
            # Guest time is the number of instructions, from a fixed date, with the same "random" numbers every time.
            self.add("-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1")

    def add(self, *arguments):
        self.command += arguments

    def firmware(self, kind, directory):
        if kind == "uefi":
            code, variables = find_ovmf()
            private = os.path.join(directory, "uefi-variables.fd")
            shutil.copyfile(variables, private)
            self.add("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={comma(code)}",
                     "-drive", f"if=pflash,unit=1,format=raw,file={comma(private)}")

    def direct(self, kernel, initramfs, command_line):
        self.add("-kernel", kernel, "-initrd", initramfs, "-append", command_line)

    def medium(self, kind, image):
        """Boot from an image, which stays as it is whatever the guest writes."""
        drive = f"if=none,id=boot,format=raw,snapshot=on,file={comma(image)}"
        if kind == "iso":
            self.add("-drive", drive + ",media=cdrom", "-device", "ide-cd,drive=boot,bootindex=0")
        else:
            self.add("-drive", drive, "-device", "qemu-xhci,id=xhci",
                     "-device", "usb-storage,bus=xhci.0,drive=boot,bootindex=0,removable=on")

    def disk(self, image, number):
        with open(image, "rb") as f:
            kind = "qcow2" if f.read(4) == b"QFI\xfb" else "raw"
        self.add("-drive", f"if=none,id=disk{number},format={kind},file={comma(image)}",
                 "-device", f"virtio-blk-pci,drive=disk{number}")

    def iommu(self):
        """Interrupts are not remapped: our kernel does not use that. QEMU puts a virtio device behind it only if told to."""
        self.add("-device", "intel-iommu,intremap=off", "-global", "virtio-net-pci.iommu_platform=on")

    def network(self, forwards, nic="virtio-net", link=None):
        """User network with forwarded ports; or, with link = (local, remote, ...), frames in UDP datagrams on the loopback of the host."""
        user = "user,id=net0" + "".join(f",hostfwd=tcp:127.0.0.1:{host}-:{guest}" for host, guest in forwards)
        if link:
            user = f"socket,id=net0,localaddr=127.0.0.1:{link[0]},udp=127.0.0.1:{link[1]}"
        self.add("-netdev", user, "-device", ("virtio-net-pci,disable-legacy=on" if nic == "virtio-net" else nic) + ",netdev=net0,romfile=" + (f",mac=52:54:00:12:34:{int(link[0]) & 255:02x}" if link else ""))


def comma(path):
    """QEMU's option syntax doubles a comma inside a value."""
    return path.replace(",", ",,")


def find_ovmf():
    """Firmware with a pair of files, code and variables; the places where Debian, Fedora and Arch put them."""
    for code, variables in (
            ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
            ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
            ("/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
            ("/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd")):
        if os.path.exists(code) and os.path.exists(variables):
            return code, variables
    raise Trouble("no UEFI firmware found; run 'make deps' (package ovmf)")


# --- Kernels and images ---------------------------------------------------------------------------------------------------

INITRAMFS = os.path.join(BUILD, "initramfs.cpio")
LINUX_DIR = os.path.join(CACHE, "linux")


def faultline_kernel(build):
    """The kernel to boot directly; FAULTLINE_KERNEL names another one, such as what another compiler made."""
    return os.environ.get("FAULTLINE_KERNEL") or os.path.join(BUILD, build, "faultline.elf")


def fetch_linux():
    """The oracle kernel, in build/cache/linux: vmlinuz, vmlinux (unpacked, boots faster), modules/*.ko, version."""
    with Locked("linux"):
        if not os.path.exists(os.path.join(LINUX_DIR, "version")):
            done = subprocess.run([os.path.join(TOP, "tests/lib/oracle.sh"), LINUX_DIR], stdin=subprocess.DEVNULL,
                                  stdout=sys.stderr)
            if done.returncode:
                raise Trouble("cannot fetch the Linux kernel (see above)")
    with open(os.path.join(LINUX_DIR, "version")) as f:
        return f.read().strip()


def linux_iso():
    """An image like ours, with Linux in it; made once."""
    image = os.path.join(LINUX_DIR, "linux.iso")
    with Locked("linux"):
        if not os.path.exists(image):
            done = subprocess.run([os.path.join(TOP, "boot/mkimage.sh"), image,
                                   f"/boot/vmlinuz={LINUX_DIR}/vmlinuz"], stdin=subprocess.DEVNULL, stdout=sys.stderr)
            if done.returncode:
                raise Trouble("cannot make a boot image for Linux (see above)")
    return image


def private_image(base, output, files):
    """A copy of a boot image with some files replaced. They go into a session behind it, so that everything that makes it
    boot (both boot sectors, GRUB, the partitions) stays byte for byte what `make usb` writes."""
    if not shutil.which("xorriso"):
        raise Trouble("no xorriso; run 'make deps'")
    shutil.copyfile(base, output)
    command = ["xorriso", "-abort_on", "FAILURE", "-return_with", "FAILURE", "32", "-report_about", "SORRY",
               "-dev", output, "-boot_image", "any", "keep", "-padding", "0", "-overwrite", "on"]
    for path, source in files.items():
        command += ["-map", source, path]
    done = subprocess.run(command + ["-commit"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Trouble("xorriso cannot make the boot image: " + done.stdout.strip()[-400:])


def grub_quote(command_line):
    """Words for a GRUB script: quoted so that GRUB hands them on unchanged."""
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in command_line.split())
