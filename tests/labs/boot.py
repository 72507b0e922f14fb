"""One boot with some test programs in it, for graders: what each did, in instructions, and whose fault it is when nothing comes.

The guest runs with -icount: its time is the number of instructions. tests/labs/runner.c keeps the budgets, so they hold on any host.
What the runner cannot do is notice that its own kernel is gone. That is decided here, and not by wall clock:

    QEMU has used far more processor time than the budget can cost at the speed measured in this very run    the kernel hangs
    QEMU has nothing to run for a while, none of its threads is even waiting for a processor                the kernel sleeps for ever
    neither, but hours of wall clock have passed                                                           the host is too slow

The last one is no verdict about the kernel.
"""
import os
import re
import secrets
import select
import signal
import subprocess
import tempfile
import time

import lab as labs		# noqa: F401  sets the path for what follows
import vm
from vm import Trouble
from view import Viewer

GUEST = os.path.join(vm.TOP, "tests/guest.sh")
SLOWEST = 4e6			# instructions per second of QEMU's processor time that we are prepared for
BOOT_CPU_SECONDS = 90		# of QEMU's processor time, until the runner runs; usual is 2
IDLE_SECONDS = 15
WALL_FACTOR = 25		# wall clock for each second of processor time that is granted
OUTPUT_KEPT = 6000


class HostTooSlow(Exception):
    pass


class Outcome:
    """status: 0 passed, 77 skipped, another number or "budget", "panic", "hang", "boot" failed."""

    def __init__(self, status, instructions=0, output="", log=""):
        self.status, self.instructions, self.output, self.log = status, instructions, output, log

    @property
    def passed(self):
        return self.status == 0

    def reason(self, budget):
        first = {"budget": f"not finished after {budget} million instructions", "panic": "the kernel panicked",
                 "hang": "the kernel hangs: the machine runs, but the test comes to no end",
                 "idle": "the kernel sleeps: no processor has anything to do, and nobody will wake the test",
                 "boot": "the kernel did not get as far as running programs",
                 "reset": "the machine was reset or switched off"}.get(self.status)
        if first:
            return first
        if isinstance(self.status, int) and self.status > 128:
            return f"killed by signal {self.status - 128}" + {139: " (SIGSEGV)", 135: " (SIGBUS)", 137: " (SIGKILL)"}.get(self.status, "")
        return f"status {self.status}"


# --- QEMU, seen from the host ---------------------------------------------------------------------------------------------

def children(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as f:
                found += [int(c) for c in f.read().split()]
    except (OSError, ValueError):
        pass
    return found


class Watch:
    """Processor time of the QEMU that a guest.sh started, and whether any of its threads wants a processor."""

    def __init__(self, door):
        self.door, self.qemu = door, None

    def look(self):
        """(processor seconds so far, wants to run); (0, True) while there is no QEMU yet."""
        if self.qemu is None:
            for pid in children(self.door.pid):
                try:
                    with open(f"/proc/{pid}/comm") as f:
                        if f.read().startswith("qemu"):
                            self.qemu = pid
                except OSError:
                    pass
            if self.qemu is None:
                return 0.0, True
        try:
            with open(f"/proc/{self.qemu}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
            states = []
            for task in os.listdir(f"/proc/{self.qemu}/task"):
                with open(f"/proc/{self.qemu}/task/{task}/stat") as f:
                    states.append(f.read().rpartition(")")[2].split()[0])
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), "R" in states or "D" in states
        except (OSError, IndexError, ValueError):
            return 0.0, True


class Guest:
    """The running guest.sh, read line by line."""

    def __init__(self, command, environment):
        self.door = subprocess.Popen(vm.kill_with_parent(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        self.watch = Watch(self.door)
        self.buffered, self.errors = b"", b""
        self.rate = SLOWEST
        self.started = time.monotonic()
        self.ended = False

    def _read(self, seconds):
        fds = [self.door.stdout.fileno(), self.door.stderr.fileno()]
        for fd in select.select(fds, [], [], seconds)[0]:
            data = os.read(fd, 65536)
            if fd == fds[0]:
                self.buffered += data
                self.ended |= not data
            else:
                self.errors = (self.errors + data)[-65536:]

    def line(self, cpu_seconds):
        """The next line, or None at the end, or "hang", "idle". HostTooSlow: cannot be known."""
        begin = time.monotonic()
        cpu_begin, _ = self.watch.look()
        idle_since, idle_cpu = begin, cpu_begin
        while b"\n" not in self.buffered and not self.ended:
            self._read(0.25)
            if b"\n" in self.buffered or self.ended:
                break
            cpu, wants = self.watch.look()
            now = time.monotonic()
            if cpu - cpu_begin > cpu_seconds:
                return "hang"
            if wants or cpu - idle_cpu > 0.02 * (now - idle_since) + 0.1:
                idle_since, idle_cpu = now, cpu
            elif now - idle_since > IDLE_SECONDS:
                return "idle"
            if now - begin > 60 + WALL_FACTOR * cpu_seconds:
                raise HostTooSlow
        if b"\n" not in self.buffered:
            return None
        line, self.buffered = self.buffered.split(b"\n", 1)
        return line

    def take(self, n):
        while len(self.buffered) < n and not self.ended:
            self._read(1)
            if time.monotonic() - self.started > 36000:
                raise HostTooSlow
        data, self.buffered = self.buffered[:n], self.buffered[n:]
        return data

    def measured(self, instructions, since):
        """So many instructions have run since QEMU had used `since` seconds: how fast is that per second of its processor time?"""
        cpu, _ = self.watch.look()
        self.rate = max(SLOWEST, instructions / max(cpu - since, 0.02))

    def stop(self):
        if self.door.poll() is None:
            self.door.send_signal(signal.SIGUSR1)
            try:
                self.door.wait(20)
            except subprocess.TimeoutExpired:
                self.door.kill()
        while not self.ended:
            self._read(1)
        self.door.wait()
        try:
            self.errors += self.door.stderr.read() or b""
        except ValueError:
            pass
        for f in (self.door.stdout, self.door.stderr):
            f.close()


# --- One boot -------------------------------------------------------------------------------------------------------------

def door_said(errors):
    """What guest.sh wrote about the end: the kernel's last lines."""
    text = errors.decode(errors="replace")
    return "\n".join(line[2:] for line in text.split("\n") if line.startswith("| "))[-OUTPUT_KEPT:]


def interesting(log):
    """From a kernel's log: what is not written yet, and how it ended."""
    lines = [re.sub(r"^\[ *[0-9.]+\] ?", "", line) for line in log.split("\n")]
    kept = list(dict.fromkeys(line for line in lines if re.search(r"^lab: .* is not written yet|is not implemented", line) and not re.search(r"\((socket|rseq)\)", line)))
    for i, line in enumerate(lines):
        if re.match(r"(PANIC:|HALT:)", line) or re.match(r"lock order: ", line):
            kept += lines[i:i + 14]
            break
    return "\n".join(kept[:40])


def log_of(path):
    try:
        with open(path, "rb") as f:
            return f.read()[-200000:].decode(errors="replace")
    except OSError:
        return ""


def run_boot(tests, kernel, build, cpus, mem, append, report, program_of):
    """Boots with `tests`, as long as it takes to get an outcome for each: report(test, outcome). A test that takes the kernel down
    is failed, and another boot runs the rest; when not even one starts, all are. A report that returns True ends it: enough is known."""
    left = list(tests)
    while left:
        secret = secrets.token_hex(16)
        with tempfile.TemporaryDirectory(prefix="faultline-grade.") as d:
            with open(os.path.join(d, "list"), "w") as f:
                f.writelines(f"{t.name} {t.budget} {t.get('arguments', '')}\n" for t in left)
            with open(os.path.join(d, "secret"), "w") as f:
                f.write(secret + "\n")
            command = [GUEST, "--icount", "--build", build, "--cpus", str(cpus), "--mem", mem, "--timeout", "86400", "--log", os.path.join(d, "log"),
                       "--append", append, "--add", os.path.join(d, "list"), "--add", os.path.join(d, "secret"),
                       "--add", os.path.join(vm.BUILD, "labs/runner")]
            viewer = None
            if any(t.get("view") for t in left):
                viewer = Viewer(os.path.join(d, "monitor"))
                command += ["--monitor", viewer.path]
            for t in left:
                command += ["--add", f"{program_of(t)}:/t/tests/lab-{t.name}"]
            for name in sorted({t.get("program") for t in left} - {None}):
                command += ["--add", f"{os.path.join(os.path.dirname(program_of(left[0])), name)}:/t/{name}"]
            environment = dict(os.environ, FAULTLINE_NO_BUILD="1")
            environment.pop("FAULTLINE_KERNEL", None)
            if kernel:
                environment["FAULTLINE_KERNEL"] = kernel
            guest = Guest(command + ["--", "FAULTLINE_VIEW=1 exec /t/runner /t/list /t/secret"], environment)
            if viewer:
                viewer.start()
            by_name = {t.name: t for t in left}
            running, output, end, started, finished, since, told = None, "", None, False, False, 0.0, []
            try:
                allowed = BOOT_CPU_SECONDS
                while True:
                    line = guest.line(allowed)
                    if line is None or isinstance(line, str):
                        end = line
                        break
                    word, _, rest = line.decode(errors="replace").partition(" ")
                    if word != secret:
                        continue
                    what, *values = rest.split()
                    if what == "loop":
                        since, _ = guest.watch.look()
                    elif what == "ready":
                        started = True
                        guest.measured(int(values[0]), since)
                        allowed = 30
                    elif what == "begin":
                        running, output = by_name[values[0]], ""
                        allowed = 10 + 4 * min(running.budget, 5000) * 1e6 / guest.rate
                    elif what == "output":
                        output = guest.take(int(values[0])).decode(errors="replace")
                    elif what == "end":
                        status = values[1] if values[1] == "budget" else int(values[1])
                        outcome = Outcome(status, int(values[2]), output)
                        told.append(outcome)
                        enough = report(running, outcome)
                        left.remove(running)
                        if enough:
                            return
                        running = None
                        allowed = 30
                    elif what == "trouble":
                        raise Trouble("the test runner: " + rest)
                    elif what == "all":
                        finished = True
            finally:
                guest.stop()
                log = log_of(os.path.join(d, "log"))
                for outcome in told:		# what the kernel said in this boot; which test made it say so nobody knows
                    outcome.log = "" if outcome.passed else interesting(log)
            if guest.door.returncode == 2:
                raise Trouble("the guest could not be started: " + guest.errors.decode(errors="replace")[-500:])
        if finished and not left:
            return
        if end == "hang" or end == "idle":
            status = end
        else:
            status = "panic" if re.search(r"(?m)^(\[ *[0-9.]+\] ?)?(PANIC:|HALT:)", log) else "reset"
        said = interesting(log)
        if running is None and not started:
            for t in left:
                report(t, Outcome("boot", 0, "", said or door_said(guest.errors)))
            return
        victim = running or left[0]
        left.remove(victim)
        if report(victim, Outcome(status, 0, output, said)):
            return
