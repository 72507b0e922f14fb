"""tests/guest.sh: run one command in a guest.

usage: tests/guest.sh [options] -- COMMAND LINE

  --kernel faultline|linux   the kernel to boot (faultline); linux is the reference, Debian's 6.12
  --build release|debug      which build of faultline (release)
  --cpus N                   processors (2)
  --cpu MODEL                QEMU's CPU model, instead of max,-cx16,-la57
  --mem SIZE                 memory, as QEMU writes it (1G)
  --firmware bios|uefi       firmware (bios); uefi boots from --media iso unless told otherwise
  --media iso|usb|direct     boot medium (direct)
  --icount                   deterministic: one instruction is one nanosecond
  --append 'PARAMETERS'      more kernel parameters
  --add FILE[:GUESTPATH]     put a file or directory into the guest, at /t/NAME unless told otherwise; repeatable
  --disk IMAGE               a disk, /dev/vda and on; repeatable
  --net[=HOST:GUEST,...]     a network, with TCP ports of the host forwarded into the guest
  --link LOCAL:REMOTE:ADDRESS/PREFIX   instead of --net: frames go in UDP datagrams from port LOCAL of the host to REMOTE
  --nic virtio-net|e1000e    the card of --net (virtio-net)
  --iommu                    Intel's IOMMU, with the card of --net behind it
  --device MODEL[,...]       one more device, as QEMU's -device takes it; repeatable
  --qemu PATH                the QEMU to use
  --timeout SECONDS          give up after this long (120)
  --log FILE                 also keep the kernel's log here
  --monitor SOCKET           QEMU's monitor (QMP) on this Unix socket, and ttyS3 on SOCKET.view

The words after -- are joined by spaces and run by ash in the guest. Standard output is what the command printed. The
status is the command's own; 124 after the timeout, 125 when the kernel panicked, halted or QEMU died, 2 for a usage
error.
"""
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "boot"))
import vm				# noqa: E402
from mkcpio import Archive		# noqa: E402
from vm import Trouble, note		# noqa: E402

LINUX_PARAMETERS = ("mitigations=off audit=0 nokaslr init_on_alloc=0 randomize_kstack_offset=off "
                    "transparent_hugepage=never cgroup_disable=memory "
                    # On a busy host no tick may come in the 10 ms in which Linux looks whether the timer works; then it panics.
                    "no_timer_check")
FAULTLINE_NET_SETUP = """\
/sbin/start-netd </dev/null >/dev/console 2>&1 &
n=0
until [ -e /run/netd/address ] || [ $n = 200 ]; do sleep 0.05; n=$((n + 1)); done
[ -e /run/netd/address ]
"""
LINUX_DISK_MODULES = ["virtio_blk"]
LINUX_NET_MODULES = ["failover", "net_failover", "virtio_net"]

# Our kernel starts a line with the word; Linux has it after a time stamp. Both may be cut anywhere by other output. HALT is
# a machine that cannot be booted (too little memory, no first program): it says so and stands still, as after a panic.
PANIC = re.compile(rb"(?:^|\n)(?:\[ *[0-9.]+\] ?)?(?:PANIC:|HALT:|Kernel panic - not syncing)")

TIMEOUT, PANICKED, USAGE = 124, 125, 2
QUIET_AFTER_PANIC = 0.6		# the backtrace is over when nothing came for this long
LONGEST_BACKTRACE = 8
POWER_OFF_SECONDS = 15		# from the verdict until the machine must be off
OUTPUT_BUFFER = 1 << 20		# read no more from the guest while this much waits for our own reader


# --- Options --------------------------------------------------------------------------------------------------------------

class Options:
    kernel, build, cpus, cpu, mem, firmware, media = "faultline", "release", 2, None, "1G", "bios", None
    iommu, link, nic, icount, append, net, qemu, timeout, log, monitor = False, None, "virtio-net", False, "", None, None, 120.0, None, None

    def __init__(self):
        self.add = []
        self.disk = []
        self.device = []
        self.command = None


CHOICES = {"nic": ("virtio-net", "e1000e"), "kernel": ("faultline", "linux"), "build": ("release", "debug"), "firmware": ("bios", "uefi"),
           "media": ("iso", "usb", "direct")}


def parse(argv):
    o = Options()
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            o.command = " ".join(words)
            break
        if word in ("--help", "-h"):
            print(__doc__.strip())
            sys.exit(0)
        if not word.startswith("--"):
            raise Trouble(f"unexpected '{word}'; the command line comes after --")
        name, equals, value = word[2:].partition("=")
        if name == "icount" and not equals:
            o.icount = True
            continue
        if name == "iommu" and not equals:
            o.iommu = True
            continue
        if name == "net":
            o.net = forwards(value)
            continue
        if name not in ("kernel", "build", "cpus", "cpu", "mem", "firmware", "media", "append", "add", "disk", "device", "nic", "link", "qemu",
                        "timeout", "log", "monitor"):
            raise Trouble(f"unknown option --{name}; see --help")
        if not equals:
            if not words or words[0] == "--":
                raise Trouble(f"--{name} needs a value")
            value = words.pop(0)
        if name in CHOICES and value not in CHOICES[name]:
            raise Trouble(f"--{name} is one of {', '.join(CHOICES[name])}, not '{value}'")
        if name == "cpus":
            if not re.fullmatch(r"[0-9]{1,4}", value) or not 1 <= int(value) <= 255:
                raise Trouble(f"--cpus is a number from 1 to 255, not '{value}'")
            value = int(value)
        elif name == "mem":
            if not re.fullmatch(r"[1-9][0-9]*[kKmMgG]?", value):
                raise Trouble(f"--mem is a size such as 256M or 4G, not '{value}'")
        elif name == "timeout":
            try:
                value = float(value)
            except ValueError:
                value = -1
            if not 0 < value < 1e7:
                raise Trouble("--timeout is a number of seconds above zero")
        elif name == "append":
            value = f"{o.append} {value}".strip()
        elif name == "add":
            o.add.append(added(value))
            continue
        elif name == "disk":
            if not os.path.isfile(value):
                raise Trouble(f"--disk {value}: no such file")
            o.disk.append(value)
            continue
        elif name == "link":
            found = re.fullmatch(r"([0-9]{1,5}):([0-9]{1,5}):([0-9.]+/[0-9]{1,2})", value)
            if not found:
                raise Trouble(f"--link takes LOCALPORT:REMOTEPORT:ADDRESS/PREFIX, not '{value}'")
            o.link, o.net = found.groups(), []
            continue
        elif name == "device":
            o.device.append(value)
            continue
        setattr(o, name, value)
    if o.command is None:
        raise Trouble("no command; it comes after --")
    if "\0" in o.command or len(os.fsencode(o.command)) >= 128 * 1024:
        raise Trouble("the command line is longer than one argument of a program can be (128 KiB); use --add")
    if o.media is None:
        o.media = "iso" if o.firmware == "uefi" else "direct"
    if o.kernel == "faultline":
        if o.firmware == "uefi" and o.media == "direct":
            raise Trouble("UEFI cannot start faultline directly; use --media iso or usb with --firmware uefi")
        if o.disk:
            raise Trouble("faultline has no disk driver yet, so --disk works with --kernel linux only")
    return o


def forwards(value):
    pairs = []
    for pair in filter(None, value.split(",")):
        found = re.fullmatch(r"([0-9]{1,5}):([0-9]{1,5})", pair)
        if not found or not all(0 < int(p) < 65536 for p in found.groups()):
            raise Trouble(f"--net takes HOSTPORT:GUESTPORT, not '{pair}'")
        pairs.append((int(found.group(1)), int(found.group(2))))
    return pairs


def added(value):
    """HOSTFILE[:GUESTPATH]. A host file whose own name has a colon wins over the other reading."""
    source, path = value, None
    if not os.path.lexists(value) and ":" in value:
        source, path = value.rsplit(":", 1)
        if not path.startswith("/"):
            raise Trouble(f"--add {value}: the guest path must be absolute")
        if ".." in path.split("/"):
            raise Trouble(f"--add {value}: the guest path must not contain ..")
    if not os.path.lexists(source):
        raise Trouble(f"--add {source}: no such file")
    if path is None:
        path = "/t/" + os.path.basename(os.path.abspath(source))
    elif path.endswith("/"):
        path += os.path.basename(os.path.abspath(source))
    return source, path


# --- What the guest is given ----------------------------------------------------------------------------------------------

def write_initramfs(o, output, secret, release):
    """The base archive, then one of this run only; the kernel unpacks both."""
    # In the image resolv.conf is a link to what netd writes.
    linux_net_setup = ("ip link set eth0 up && ip addr add 10.0.2.15/24 dev eth0 && ip route add default via 10.0.2.2 &&\n"
                 "rm -f /etc/resolv.conf && echo nameserver 10.0.2.3 >/etc/resolv.conf\n")
    with open(output, "wb") as f:
        with open(vm.INITRAMFS, "rb") as base:
            shutil.copyfileobj(base, f, 1 << 20)
        f.write(b"\0" * (-f.tell() % 512))
        archive = Archive(f, int(time.time()) if not o.icount else 0)
        archive.directory("/.guest", 0o700)
        archive.directory("/t", 0o755)
        with open(os.path.join(vm.BUILD, "tests/guest-init"), "rb") as program:
            archive.file("/.guest/init", program.read(), 0o755)
        archive.file("/.guest/command", os.fsencode(o.command), 0o600)
        archive.file("/.guest/secret", secret.encode(), 0o600)
        if o.kernel == "linux":
            modules = (LINUX_DISK_MODULES if o.disk else []) + (LINUX_NET_MODULES if o.net is not None else [])
            for number, name in enumerate(modules):
                path = os.path.join(vm.LINUX_DIR, "modules", name + ".ko")
                if os.path.exists(path):		# absent: built into this kernel
                    with open(path, "rb") as module:
                        archive.file(f"/.guest/modules/{number}-{name}.ko", module.read(), 0o600)
            if o.net is not None:
                if o.link:
                    linux_net_setup = f"ip link set eth0 up && ip addr add {o.link[2]} dev eth0\n"
                archive.file("/.guest/setup", linux_net_setup.encode(), 0o600)
        elif o.net is not None:
            address = f"export NETD_ADDRESS={o.link[2]}\n" if o.link else ""
            archive.file("/.guest/setup", (address + FAULTLINE_NET_SETUP).encode(), 0o600)
        for source, path in o.add:
            source = os.path.realpath(source) if os.path.islink(source) else source
            archive.parents(path)
            archive.tree(source, path)
        archive.close()


def build_machine(o, qemu, directory, secret):
    machine = vm.Machine(qemu, o.cpus, o.mem, o.cpu, o.icount)
    machine.add("-display", "none", "-vga", "none" if o.media == "direct" else "std", "-monitor", "none")
    machine.firmware(o.firmware, directory)

    initramfs = os.path.join(directory, "initramfs.cpio")
    write_initramfs(o, initramfs, secret, None)
    line = f"rdinit=/.guest/init {o.append}".strip()
    if o.kernel == "linux":
        line = f"console=ttyS0 panic=-1 {LINUX_PARAMETERS} {line}"
    if o.media == "direct":
        if o.kernel == "faultline":
            kernel = vm.faultline_kernel(o.build)
        else:
            kernel = os.path.join(vm.LINUX_DIR, "vmlinux")		# the unpacked kernel, by its PVH entry
            if o.firmware == "uefi" or not os.path.exists(kernel):
                kernel = os.path.join(vm.LINUX_DIR, "vmlinuz")
        machine.direct(kernel, initramfs, line)
    else:
        machine.medium(o.media, run_image(o, directory, initramfs, line))
    for number, image in enumerate(o.disk):
        machine.disk(image, number)
    if o.iommu:
        machine.iommu()		# before what is behind it
    if o.net is not None:
        machine.network(o.net, o.nic, o.link)
    for device in o.device:
        machine.add("-device", device)
    return machine


def run_image(o, directory, initramfs, line):
    """The image that people boot, with this run's menu and initramfs in place of its own."""
    if o.kernel == "faultline":
        base = os.path.join(vm.BUILD, "faultline.iso")
        kernel = "/boot/faultline.elf" if o.build == "release" else "/boot/faultline-debug.elf"
        entry = f"multiboot2 {kernel} {vm.grub_quote(line)}\nmodule2 /boot/initramfs.cpio"
    else:
        base = vm.linux_iso()
        entry = f"linux /boot/vmlinuz {vm.grub_quote(line)}\ninitrd /boot/initramfs.cpio"
    menu = os.path.join(directory, "grub.cfg")
    with open(menu, "w") as f:
        f.write("insmod all_video\nset gfxmode=auto\nset gfxpayload=keep\nterminal_output console\n" + entry + "\nboot\n")
    image = os.path.join(directory, "run.iso")
    vm.private_image(base, image, {"/boot/grub/grub.cfg": menu, "/boot/initramfs.cpio": initramfs})
    return image


# --- Running --------------------------------------------------------------------------------------------------------------

class Run:
    """QEMU and its three pipes: the kernel's log, the command's output, and what guest-init says."""

    def __init__(self, machine, secret, timeout, log_file, monitor=None):
        self.secret = secret.encode()
        self.log = bytearray()
        self.log_file = log_file
        self.said = b""
        self.pending = bytearray()		# output that our own reader has not taken yet
        self.before = b""
        self.received = 0
        self.reader_gone = False
        self.status = None
        self.expected = None
        self.error = None
        self.start = time.monotonic()
        self.deadline = self.start + timeout
        self.panic_at = None
        self.last_log = self.start
        self.ready_after = None

        self.handlers = {}
        command, inherited = list(machine.command), []
        for name, handler in (("console", self.on_log), ("output", self.on_output), ("status", self.on_said)):
            ours, theirs = os.pipe()
            os.set_blocking(ours, False)
            self.handlers[ours] = handler
            inherited.append(theirs)
            number = len(inherited)
            command += ["-add-fd", f"fd={theirs},set={number}", "-chardev", f"file,id={name},append=on,path=/dev/fdset/{number}",
                        "-serial", f"chardev:{name}"]
        if monitor:
            command += ["-qmp", f"unix:{vm.comma(monitor)},server=on,wait=off", "-chardev",
                        f"socket,id=view,path={vm.comma(monitor)}.view,server=on,wait=off", "-serial", "chardev:view"]
        self.output_fd = list(self.handlers)[1]
        errors, theirs = os.pipe()
        os.set_blocking(errors, False)
        self.handlers[errors] = self.on_error
        self.errors = bytearray()
        self.qemu = subprocess.Popen(vm.kill_with_parent(command), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                                     pass_fds=inherited)
        for fd in inherited + [theirs]:
            os.close(fd)

    def on_log(self, data):
        if len(self.log) > 8 << 20:
            del self.log[:4 << 20]
        seen = max(0, len(self.log) - 80)
        self.log += data
        self.last_log = time.monotonic()
        if self.log_file:
            self.log_file.write(data)
        if self.panic_at is None and PANIC.search(self.log, seen):
            self.panic_at = self.last_log

    def on_output(self, data):
        if self.before is not None:		# what firmware said on this port, until guest-init's mark
            self.before += data
            noise, mark, data = self.before.partition(self.secret + b"\n")
            if not mark:
                return
            self.before = None
        self.received += len(data)
        if not self.reader_gone:
            self.pending += data

    def on_error(self, data):
        self.errors += data

    def on_said(self, data):
        self.said += data
        *lines, self.said = self.said.split(b"\n")
        for line in lines:
            word, *rest = line.strip().split(b" ", 1)
            if word != self.secret or not rest:
                continue
            what, *values = rest[0].split()
            if what == b"ready":
                self.ready_after = time.monotonic() - self.start
            elif what == b"exit" and len(values) == 2:
                self.status, self.expected = int(values[0]), int(values[1])
                # It is over but for the power-off, which must not hang either.
                self.deadline = min(max(self.deadline, time.monotonic() + 1), time.monotonic() + POWER_OFF_SECONDS)
            elif what == b"error":
                self.error = rest[0].decode(errors="replace")

    def hand_on(self):
        """Give our reader what fits. poll() promised room for PIPE_BUF bytes, so this cannot block."""
        try:
            n = os.write(1, self.pending[:select.PIPE_BUF])
            del self.pending[:n]
        except BlockingIOError:
            pass
        except OSError:
            self.reader_gone = True
            self.pending.clear()

    def loop(self):
        """Until QEMU is gone and everything it said has been read, or a deadline. Returns "done", "timeout", "panic"."""
        open_fds = set(self.handlers)
        while open_fds or self.pending:
            now = time.monotonic()
            if now >= self.deadline:
                return "timeout"
            if self.panic_at is not None and self.status is None:
                if now - self.last_log > QUIET_AFTER_PANIC or now - self.panic_at > LONGEST_BACKTRACE:
                    return "panic"
            poll = select.poll()
            for fd in open_fds:
                if fd != self.output_fd or len(self.pending) < OUTPUT_BUFFER:
                    poll.register(fd, select.POLLIN)
            if self.pending:
                poll.register(1, select.POLLOUT)
            wait = self.deadline - now if self.panic_at is None else 0.1
            for fd, _ in poll.poll(min(wait, 3600) * 1000 + 1):
                if fd == 1:
                    self.hand_on()
                    continue
                try:
                    data = os.read(fd, 1 << 16)
                except BlockingIOError:
                    continue
                if data:
                    self.handlers[fd](data)
                else:
                    open_fds.discard(fd)
                    os.close(fd)
        return "done"

    def stop(self):
        if self.qemu.poll() is None:
            self.qemu.kill()
        self.qemu.wait()

    def flush(self):
        """After the end: hand on what is left, but do not wait for a reader who does not read."""
        for fd in list(self.handlers):
            try:
                while data := os.read(fd, 1 << 16):
                    self.handlers[fd](data)
            except OSError:
                pass
        end = time.monotonic() + 5
        poll = select.poll()
        poll.register(1, select.POLLOUT)
        while self.pending and time.monotonic() < end:
            if poll.poll(200):
                self.hand_on()
        if self.log_file:
            self.log_file.flush()


def tail(log, lines):
    """The end of the log; from well before the panic when there is one, so that the cause is seen."""
    text = re.sub(r"\x1b\[[0-9;=?]*[A-Za-z]|[^\n\t\x20-\x7e\x80-\U0010ffff]", "", log.decode(errors="replace"))
    text = text.rstrip("\n").split("\n")
    where = next((i for i, line in enumerate(text) if PANIC.match(line.encode())), None)
    begin = len(text) - lines
    if where is not None:
        begin = min(begin, where - 10)
    return text[max(begin, 0):][:400]


def show_log(run, lines):
    for line in tail(run.log, lines):
        note("| " + line)
    errors = run.errors.decode(errors="replace").strip()
    if errors:
        note("guest: QEMU said: " + errors)


def verdict(run, end):
    """The status to exit with; its last line on stderr says the same."""
    if end == "timeout" and run.status is None:
        show_log(run, 25)
        note("guest: timeout")
        return TIMEOUT
    if run.status is not None and run.received == run.expected:
        if end == "timeout":
            note("guest: warning: the command ended, but the machine did not power off")
        note(f"guest: status {run.status}")
        return run.status
    show_log(run, 40)
    if run.status is not None:
        note(f"guest: the command wrote {run.expected} bytes but {run.received} arrived")
    elif run.error:
        note(f"guest: the guest could not be set up: {run.error}")
    elif run.panic_at is None:
        code = run.qemu.returncode
        note("guest: the machine went off or was reset before the command ended" if code == 0 else
             f"guest: QEMU ended with status {code} before the command did")
    note("guest: panic")
    return PANICKED


class Expired(Exception):
    """SIGUSR1: whoever runs us has waited long enough; as if --timeout had passed."""


def expired(number, frame):
    raise Expired


def interrupted(number, frame):
    # The handlers' only job is to leave through the finally clauses.
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def main(argv):
    for fd in range(3):			# a caller may have closed some; no pipe of ours may land there
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        o = parse(argv)
        qemu = vm.Qemu(o.qemu)
        targets = ["build/initramfs.cpio", "build/tests/guest-init"]
        if o.kernel == "faultline":
            if not os.environ.get("FAULTLINE_KERNEL"):
                targets.append(f"build/{o.build}/faultline.elf")
            if o.media != "direct":
                targets.append("build/faultline.iso")
        vm.make(*targets)
        release = f"{o.build} build" if o.kernel == "faultline" else vm.fetch_linux()
        secret = secrets.token_hex(16)
        directory = tempfile.mkdtemp(prefix="faultline-guest.")
    except Trouble as e:
        note(f"guest.sh: {e}")
        return USAGE
    run = None
    try:
        machine = build_machine(o, qemu, directory, secret)
        how = {"kvm": "hardware virtualisation", "tcg": "software emulation"}[machine.accelerator]
        note(f"guest: {o.kernel} ({release}), {o.cpus} CPU{'s' * (o.cpus > 1)}, {o.mem}, {o.firmware}, {o.media}, "
             f"QEMU {qemu.version()}, {how} ({machine.why})")
        log_file = open(o.log, "wb") if o.log else None
        for tries_left in (2, 1, 0):
            run = Run(machine, secret, o.timeout, log_file, o.monitor)
            signal.signal(signal.SIGUSR1, expired)
            try:
                end = run.loop()
            except Expired:
                end = "timeout"
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            run.stop()
            run.flush()
            # Linux patches its own code with int3 while it boots, and an emulated processor may meet one that is gone already: one boot
            # in some forty ends with "Oops: int3". As long as the command has not begun, nothing of it is lost. Faultline has one try.
            if o.kernel != "linux" or end == "timeout" or run.panic_at is None or run.ready_after is not None or not tries_left:
                break
            show_log(run, 12)
            note("guest: the reference panicked before the command began; once more")
        if os.environ.get("FAULTLINE_TIMES") and run.ready_after is not None:
            note(f"guest: command started after {run.ready_after:.2f} s, off after {time.monotonic() - run.start:.2f} s")
        return verdict(run, end)
    except Trouble as e:
        note(f"guest.sh: {e}")
        return USAGE
    except (OSError, ValueError) as e:
        note(f"guest.sh: {e}")
        return USAGE
    finally:
        if run:
            run.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
