"""make run, make gdb, make doctor: a machine for a person rather than for a test. Settings come from make's variables."""
import os
import shlex
import shutil
import socket as socketlib
import subprocess
import sys
import tempfile
import time

import vm
from vm import Trouble, note

SETTINGS = {name: os.environ.get(name, "") for name in
            ("CPUS", "MEM", "FIRMWARE", "MEDIA", "APPEND", "GFX", "CPU", "QEMU", "BUILD", "WEB", "ADD")}


def initramfs(directory):
    """The usual one, with the files that ADD names in /t behind it: archives may be joined."""
    files = shlex.split(SETTINGS["ADD"])
    if not files:
        return vm.INITRAMFS
    missing = [f for f in files if not os.path.isfile(f)]
    if missing:
        raise Trouble(f"ADD: there is no file {missing[0]}")
    more, both = os.path.join(directory, "more.cpio"), os.path.join(directory, "initramfs.cpio")
    subprocess.run([os.path.join(vm.TOP, "boot/mkcpio.py"), more, *(f"{f}=/t/{os.path.basename(f)}" for f in files)], check=True)
    with open(both, "wb") as out:
        for part in (vm.INITRAMFS, more):
            with open(part, "rb") as f:
                shutil.copyfileobj(f, out)
    return both


def build_machine(qemu, directory, accelerator=None):
    s = SETTINGS
    media, firmware = s["MEDIA"] or "direct", s["FIRMWARE"] or "bios"
    if media not in ("direct", "iso", "usb"):
        raise Trouble(f"MEDIA is direct, iso or usb, not '{media}'")
    if firmware not in ("bios", "uefi"):
        raise Trouble(f"FIRMWARE is bios or uefi, not '{firmware}'")
    if firmware == "uefi" and media == "direct":
        media = "iso"
        vm.make("build/faultline.iso")
    machine = vm.Machine(qemu, s["CPUS"] or "2", s["MEM"] or "1G", s["CPU"] or None, accelerator=accelerator)
    machine.firmware(firmware, directory)
    if media == "direct":
        machine.direct(vm.faultline_kernel(s["BUILD"] or "release"), initramfs(directory), s["APPEND"])
    else:
        if s["ADD"]:
            raise Trouble("ADD goes with MEDIA=direct only")
        if s["APPEND"] or s["BUILD"]:
            note("run: APPEND and BUILD are for MEDIA=direct; here choose in the menu (e edits an entry)")
        machine.medium(media, os.path.join(vm.BUILD, "faultline.iso"))
    machine.add("-vga", "std" if s["GFX"] or media != "direct" else "none")
    if s["GFX"]:
        if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
            raise Trouble("GFX=1 needs a graphical desktop; leave it out to use this terminal")
        machine.add("-display", "gtk" if os.path.exists("/usr/share/doc/qemu-system-gui") else "sdl")
    else:
        machine.add("-display", "none")
    machine.network(forwards())
    return machine, media, firmware


def forwards():
    """The guest's web page at port 8080 here, or the port that WEB names; without it if somebody else is there."""
    port = int(SETTINGS["WEB"] or 8080)
    try:
        with socketlib.socket() as s:
            s.setsockopt(socketlib.SOL_SOCKET, socketlib.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
    except OSError:
        note(f"run: port {port} is in use here, so the guest's page cannot be seen; WEB=PORT takes another one")
        return []
    note(f"run: the guest's page will be http://localhost:{port}")
    return [(port, 80)]


def run():
    qemu = vm.Qemu(SETTINGS["QEMU"] or None)
    with tempfile.TemporaryDirectory(prefix="faultline-run.") as directory:
        machine, media, firmware = build_machine(qemu, directory)
        machine.add("-chardev", "stdio,id=terminal,mux=on,signal=off", "-serial", "chardev:terminal",
                    "-mon", "chardev=terminal")
        how = {"kvm": "hardware virtualisation", "tcg": "software emulation"}[machine.accelerator]
        note(f"run: {SETTINGS['CPUS'] or 2} CPUs, {SETTINGS['MEM'] or '1G'}, {firmware}, {media}, QEMU {qemu.version()}, "
             f"{how} ({machine.why})")
        note("run: this terminal is the serial console; Ctrl-A X ends the machine, Ctrl-A H tells more")
        status = subprocess.call(vm.kill_with_parent(machine.command))
        note("run: the machine is off" if status == 0 else f"run: QEMU ended with status {status}")
        return status


def gdb():
    """QEMU waits for gdb on a socket of its own: any number of checkouts can debug at the same time."""
    if not shutil.which("gdb"):
        raise Trouble("no gdb; install the package gdb")
    qemu = vm.Qemu(SETTINGS["QEMU"] or None)
    with tempfile.TemporaryDirectory(prefix="faultline-gdb.") as directory:
        # Software emulation: breakpoints in a guest that is just starting do not work under hardware virtualisation.
        machine, _, _ = build_machine(qemu, directory, accelerator="tcg")
        socket, log = os.path.join(directory, "gdb"), os.path.join(vm.BUILD, "gdb-console.log")
        machine.add("-chardev", f"socket,id=gdb,path={socket},server=on,wait=off", "-gdb", "chardev:gdb", "-S",
                    "-serial", f"file:{log}", "-monitor", "none")
        guest = subprocess.Popen(vm.kill_with_parent(machine.command), stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            while not os.path.exists(socket):
                if guest.poll() is not None:
                    raise Trouble("QEMU did not start")
            note(f"gdb: the console goes to {log} (tail -f it in another terminal)")
            command = ["gdb", "-q", "-iex", f"add-auto-load-safe-path {vm.TOP}", "-ex", f"directory {vm.TOP}",
                       "-ex", f"target remote {socket}"]
            helpers = os.path.join(vm.TOP, "tests/lib/gdb-helpers.py")
            if os.path.exists(helpers):
                command += ["-x", helpers]
            commands = os.environ.get("GDB_COMMANDS")	# for scripts: run these and leave
            if commands:
                command += ["-batch"] + [w for line in commands.split(";") for w in ("-ex", line.strip())]
            return subprocess.call(command + [vm.faultline_kernel(SETTINGS["BUILD"] or "debug")], env=dict(os.environ, FAULTLINE_TOP=vm.TOP))
        finally:
            guest.kill()
            guest.wait()


def trouble(what, cure):
    print(f"PROBLEM:  {what}\n  cure:   {cure}")
    return 1


def apt_line():
    """What tests/lib/deps.sh misses here, as the line that installs it; "" if nothing."""
    said = subprocess.run([os.path.join(vm.TOP, "tests/lib/deps.sh"), "--check"], capture_output=True, text=True).stdout
    missing = [line.partition(": ")[2] for line in said.split("\n") if line.startswith("Missing packages:")]
    root = "" if os.geteuid() == 0 else "sudo "
    return f"{root}apt-get update && {root}apt-get install --no-install-recommends {missing[0]}" if missing else ""


def tiny_boot():
    """By behaviour, not by version number: the kernel boots and runs a command, or what it said instead."""
    begin = time.monotonic()
    try:
        done = subprocess.run([os.path.join(vm.TOP, "tests/guest.sh"), "--mem", "128M", "--timeout", "120", "--", "echo up; nproc"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=900)
    except subprocess.TimeoutExpired:
        return "nothing came within 15 minutes", 0
    if done.returncode == 0 and done.stdout == "up\n2\n":
        return "", time.monotonic() - begin
    return "\n          ".join(line for line in done.stderr.strip().split("\n")[-8:]), 0


def doctor():
    """What this machine can do, found out by trying; each problem with the line that cures it."""
    problems = 0
    missing = apt_line()
    if missing:
        problems += trouble("packages are missing", missing if shutil.which("apt-get") else
                            "no apt here: use the container, docs/labs/container/Dockerfile (docker build -t faultline docs/labs/container)")
    try:
        qemu = vm.Qemu(SETTINGS["QEMU"] or None)
    except Trouble as e:
        trouble(str(e), missing or "make deps")
        return 1
    print(f"qemu:     {qemu.path}, version {qemu.version()}")
    kind, why = qemu.accelerator()
    print(f"speed:    {'hardware virtualisation' if kind == 'kvm' else 'software emulation'} ({why})")
    if kind != "kvm" and os.path.exists("/dev/kvm") and not os.access("/dev/kvm", os.R_OK | os.W_OK):
        print('  faster: sudo adduser "$USER" kvm, then log in again (everything works without)')
    print(f"cpu:      {vm.cpu_argument(qemu, None, False)}")
    for program in ("gcc", "clang", "ld", "grub-mkrescue", "gdb"):
        path = shutil.which(program)
        text = subprocess.run([path, "--version"], capture_output=True, text=True).stdout.split("\n")[0] if path else "not there"
        print(f"{program + ':':<9} {text}")
    if not shutil.which("gdb"):
        print("  for make gdb:  apt-get install gdb")
    version = os.path.join(vm.LINUX_DIR, "version")
    print("oracle:  ", "Linux " + open(version).read().strip() if os.path.exists(version) else "not fetched yet (make oracle)")
    free = shutil.disk_usage(vm.TOP).free >> 20
    if free < 1024:
        problems += trouble(f"only {free} MiB are free here", "make room: building and testing take about 1 GiB")
    if " " in vm.TOP or ":" in vm.TOP:
        problems += trouble(f"the path of this directory has a blank or a colon ({vm.TOP})", "move it: make cannot handle that")
    if vm.TOP.startswith("/mnt/") and "microsoft" in os.uname().release.lower():
        print("  slow:   this is a Windows disk; a copy under your Linux home directory builds many times faster")
    if not problems:
        said, seconds = tiny_boot()
        if said:
            problems += trouble(f"the kernel does not boot in this QEMU; it said:\n          {said}",
                                "if this is a build error, make clean && make; if the machine stops early, try QEMU=/path/to/another/qemu-system-x86_64, "
                                "and report these lines")
        else:
            print(f"boot:     the kernel boots and runs programs here ({seconds:.0f} s, building included)")
    print("All is well: make run" if not problems else f"{problems} problem{'s' * (problems > 1)}, each with its cure above")
    return int(problems > 0)


if __name__ == "__main__":
    try:
        action = {"--gdb": gdb, "--doctor": doctor}.get(sys.argv[1] if len(sys.argv) > 1 else "", run)
        sys.exit(action())
    except Trouble as e:
        note(f"{os.path.basename(sys.argv[0])[:-3]}: {e}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
