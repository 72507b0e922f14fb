"""Programs that run in a guest: build them, run many of them per boot, on Linux and on Faultline, and report each one.

usage: guest_tests.py [--kernel linux|faultline]... [--slow] [--only NAME]... [--append WORDS] DIRECTORY

--append gives kernel parameters for each boot of faultline, to try a switch by hand.

Every .c, .cc and .sh file of DIRECTORY is a test. It passes with status 0, is skipped with 77 (its last line says why)
and fails with anything else. Its first comment may hold settings, one a line:

    only: faultline | linux        the other kernel does not run it
    libc: glibc                    glibc instead of musl
    link: dynamic                  with the C library's loader and shared objects in the guest (musl only)
    libs: -lNAME...                more libraries, from Debian packages (tests/lib/deps.sh lists those)
    cpus: 1 2 4 8                  a boot, and a result, for each number (2)
    slow-cpus: 1 4 8               and these with check-slow
    mem: 2G                        memory of the guest (1G)
    append: PARAMETERS             more kernel parameters
    device: MODEL[,...]...         more devices, as QEMU's -device takes them
    cpu: MODEL[,...]               another processor, as QEMU's -cpu takes it
    slow-append: WORDS | WORDS     with check-slow also once with each of these, on faultline
    build: debug                   with the debug build of faultline
    timeout: SECONDS               for this one test (60)
    slow                           only for check-slow
    linux: slow                    on Linux only with check-slow, each time in a boot of its own
    expect: fail                   a race that a switch re-opens: at least one of its boots must fail
    fails: PARAMETERS              kernel parameters with which it must fail, and
    shows: REGEX                   what the failure must say (tests/lib/race_fails.py runs that)
    arguments: WORDS               given to the program
    files: PATH...                 host files that it finds in /t

Tests with the same boot settings share a boot. One that hangs is killed; one that takes the kernel down is failed, and
another boot runs the rest: no test can take others with it.
"""
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import vm
from vm import Trouble, note

KEYS = ("only", "device", "cpu", "libc", "link", "libs", "cpus", "slow-cpus", "mem", "append", "slow-append", "build", "timeout", "slow", "linux", "expect", "fails", "shows", "arguments", "files")
GUEST = os.path.join(vm.TOP, "tests/guest.sh")
MUSL_LOADER = "/lib/ld-musl-x86_64.so.1"		# the loader and libc are one file
BOOT_SECONDS = 90
SHOWN_BYTES = 4000

# Runs in the guest. A line that starts with the nonce is ours; what a test prints is shown only when it fails.
RUNNER = r'''
nonce=$1
while read -r name limit arguments <&3; do
	echo "$nonce begin $name"
	begin=$(cut -d. -f1 /proc/uptime)
	timeout -s KILL "$limit" /t/tests/"$name" $arguments >/tmp/.output 2>&1 3<&- </dev/null
	status=$?
	kill -9 -1 2>/dev/null			# whatever it left running; spares us and process 1
	end=$(cut -d. -f1 /proc/uptime)
	if [ $status != 0 ]; then
		echo "$nonce output"
		tail -c 4000 /tmp/.output
		echo
	fi
	echo "$nonce end $name $status $((end - begin))"
	rm -rf /tmp/.output /tmp/* /dev/shm/* 2>/dev/null
done 3</t/list
echo "$nonce all"
'''


class Test:
    slow = False			# check-slow

    def __init__(self, path):
        self.path = path
        base = os.path.basename(path)
        self.name, self.kind = os.path.splitext(base)
        self.settings = {}
        with open(path, encoding="utf-8", errors="replace") as f:
            head = f.read(4000)
        comment = re.match(r"(?s)\s*(?:#!.*?\n)?((?:/\*.*?\*/)|(?:(?:(?://|#)[^\n]*\n)+))", head)
        for line in (comment.group(1) if comment else "").split("\n"):
            found = re.match(r"[\s*/#]*([a-z-]+)(?::[ \t]*(.*?))?[\s*/]*$", line)
            if found and found.group(1) in KEYS and (found.group(2) or found.group(1) == "slow"):
                self.settings[found.group(1)] = found.group(2) or True

    def get(self, key, default=None):
        return self.settings.get(key, default)

    def cpus(self):
        more = " " + str(self.get("slow-cpus", "")) if Test.slow else ""
        return sorted({int(n) for n in (str(self.get("cpus", "2")) + more).split()})

    def limit(self):
        return int(self.get("timeout", 60))

    def boots(self, kernel, more):
        """One (cpus, memory, parameters, build, device, processor) for each time that it is to run; @more: parameters for faultline."""
        variants = [more] if kernel == "faultline" else [""]
        if kernel == "faultline" and Test.slow:
            variants += [v.strip() for v in str(self.get("slow-append", "")).split("|") if v.strip()]
        for cpus in self.cpus():
            for variant in variants:
                append = f"{self.get('append', '')} {variant}".strip()
                if (kernel, self.get("linux")) == ("linux", "slow"):
                    append += f" test.alone={self.name}"
                yield cpus, self.get("mem", "1G"), append, self.get("build", "release"), self.get("device", ""), self.get("cpu", "")


def build(test, directory, output):
    """Compile one test unless its program is newer than everything that it may be made of. Returns an error or None."""
    program = os.path.join(output, test.name)
    sources = [test.path] + [os.path.join(directory, h) for h in os.listdir(directory) if h.endswith(".h")]
    if os.path.exists(program) and all(os.path.getmtime(s) < os.path.getmtime(program) for s in sources):
        return None
    if test.kind == ".sh":
        with open(test.path) as source, open(program, "w") as f:
            text = source.read()
            f.write(text if text.startswith("#!") else "#!/bin/sh\n" + text)
        os.chmod(program, 0o755)
        return None
    compiler = "g++" if test.kind == ".cc" else "gcc" if test.get("libc") == "glibc" else "musl-gcc"
    flags = ["-std=gnu++17"] if test.kind == ".cc" else ["-std=gnu11"]
    linking = [] if test.get("link") == "dynamic" else ["-static"]
    done = subprocess.run([compiler, *flags, *linking, "-O2", "-g1", "-fno-strict-aliasing", "-Wall", "-Wextra", "-pthread",
                           "-I", vm.TOP, "-I", directory, "-o", program, test.path, *str(test.get("libs", "")).split()],
                          capture_output=True, text=True)
    warnings = [line for line in done.stderr.split("\n") if "warning:" in line and "statically linked" not in line]
    if done.returncode == 0 and warnings:
        note("\n".join(warnings))
    return None if done.returncode == 0 else done.stderr


class Reporter:
    def __init__(self, prefix):
        self.prefix = prefix
        self.failed = False

    def say(self, test, cpus, status, seconds, output, variant=""):
        name = f"{self.prefix}/{test.name}" + (f"@{cpus}" if len(test.cpus()) > 1 else "") + (f"[{variant}]" if variant else "")
        took = f" ({seconds} s)" if seconds >= 5 else ""
        if status == 0:
            print(f"ok: {name}{took}", flush=True)
        elif status == 77:
            why = output.strip().split("\n")[-1][:150]
            print(f"skip: {name}: {why}", flush=True)
        else:
            self.failed = True
            how = status if isinstance(status, str) else f"killed after {test.limit()} s" if status == 137 and \
                seconds >= test.limit() - 1 else f"signal {status - 128}" if 128 < status < 193 else f"status {status}"
            print(f"FAIL: {name}: {how}{took}", flush=True)
            for line in output.rstrip("\n").split("\n")[-40:]:
                print(f"    | {line}", flush=True)


def lines_of(guest, patience):
    """The guest's lines; when none came for patience() seconds, the door is told that the time is over."""
    buffered = b""
    fd = guest.stdout.fileno()
    while True:
        if not select.select([fd], [], [], patience())[0]:
            guest.send_signal(signal.SIGUSR1)
            if not select.select([fd], [], [], 30)[0]:
                return
        data = os.read(fd, 65536)
        if not data:
            return
        *lines, buffered = (buffered + data).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")


def run_boot(kernel, boot, tests, output, report, kernel_file=None):
    """One boot for these tests; another one for what is left whenever the guest does not survive a test. @kernel_file: this kernel."""
    cpus, mem, append, build_kind, device, cpu_model = boot
    left = list(tests)
    while left:
        nonce = secrets.token_hex(8)
        with tempfile.TemporaryDirectory(prefix="faultline-tests.") as d:
            with open(os.path.join(d, "list"), "w") as f:
                f.writelines(f"{t.name} {t.limit()} {t.get('arguments', '')}\n" for t in left)
            with open(os.path.join(d, "runner"), "w") as f:
                f.write(RUNNER)
            loaders = [MUSL_LOADER] if any(t.get("link") == "dynamic" for t in left) else []
            command = [GUEST, "--kernel", kernel, "--cpus", str(cpus), "--mem", mem,
                       "--timeout", str(BOOT_SECONDS + sum(t.limit() for t in left)),
                       "--add", os.path.join(d, "list"), "--add", os.path.join(d, "runner")]
            if kernel == "faultline":
                command += ["--build", build_kind]
            for one in device.split():
                command += ["--device", one]
            if cpu_model:
                command += ["--cpu", cpu_model]
            if append:
                command += ["--append", append]
            for loader in loaders:
                command += ["--add", f"{os.path.realpath(loader)}:{loader}"]
            for t in left:
                command += ["--add", f"{os.path.join(output, t.name)}:/t/tests/{t.name}"]
                for extra in str(t.get("files", "")).split():
                    command += ["--add", os.path.join(vm.TOP, extra)]
            guest = subprocess.Popen(command + ["--", f"exec ash /t/runner {nonce}"], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     env={**os.environ, **({"FAULTLINE_KERNEL": kernel_file} if kernel_file else {})})
            running, text, finished = None, None, False
            # Silence is what tells a hang: no test says anything for longer than it may take.
            patience = BOOT_SECONDS + 3 * cpus
            by_name = {t.name: t for t in left}
            with ThreadPoolExecutor(1) as pool:
                errors = pool.submit(guest.stderr.read)
                try:
                    for line in lines_of(guest, lambda: patience):
                        word, _, rest = line.partition(" ")
                        if word != nonce:
                            if text is not None and len(text) < SHOWN_BYTES * 2:
                                text += line + "\n"
                            continue
                        what, *values = rest.split()
                        if what == "begin":
                            running, text = by_name[values[0]], ""
                            patience = running.limit() + 30
                        elif what == "end":
                            report(by_name[values[0]], cpus, int(values[1]), int(values[2]), text)
                            left.remove(by_name[values[0]])
                            running, text = None, None
                        elif what == "all":
                            finished = True
                    guest.wait()
                finally:
                    if guest.poll() is None:
                        guest.terminate()
                    guest.wait()
                said = errors.result().decode(errors="replace")
        if finished and not left:
            return
        how = "the kernel panicked" if guest.returncode == 125 else "the guest hung" if guest.returncode == 124 else \
            f"the run ended with status {guest.returncode}"
        if running is None:
            how = "no test began: " + how
        # With no test to blame (the guest never got going) blame the first, so that this loop always ends.
        victim = running or left[0]
        report(victim, cpus, how, 0, (text or "") + said)
        left.remove(victim)
        if running is None:
            for t in left:
                report(t, cpus, "not run: " + how, 0, "")
            return


def main(argv):
    kernels, only, directory, slow, more = [], [], None, False, ""
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--kernel":
            kernels.append(words.pop(0))
        elif word == "--only":
            only.append(words.pop(0))
        elif word == "--append":
            more = words.pop(0)
        elif word == "--slow":
            slow = Test.slow = True
        else:
            directory = os.path.abspath(word)
    if directory is None:
        raise Trouble("which directory?")
    group = os.path.basename(directory)
    tests = [Test(os.path.join(directory, f)) for f in sorted(os.listdir(directory)) if f.endswith((".c", ".cc", ".sh"))]
    tests = [t for t in tests if not only or t.name in only]
    output = os.path.join(vm.BUILD, "tests", group)
    os.makedirs(output, exist_ok=True)
    failed = False

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = list(pool.map(lambda t: build(t, directory, output), tests))
    for t, error in zip(tests, errors):
        if error:
            failed = True
            print(f"FAIL: {group}/{t.name}: does not compile", flush=True)
            print("\n".join("    | " + line for line in error.rstrip().split("\n")[:20]), flush=True)
    tests = [t for t, error in zip(tests, errors) if not error]

    for kernel in kernels or ["linux", "faultline"]:
        reporter = Reporter(f"{group}/{kernel}")
        boots, expected = {}, {}
        for t in tests:
            if t.get("only", kernel) != kernel:
                continue
            if (t.get("slow") or (kernel, t.get("linux")) == ("linux", "slow")) and not slow:
                print(f"skip: {reporter.prefix}/{t.name}: slow (make check-slow)")
                continue
            for boot in t.boots(kernel, more):
                boots.setdefault(boot, []).append(t)

        def reporter_of(boot):
            def report(test, cpus, status, seconds, text):
                if kernel == "linux" and status not in (0, 77) and test.get("expect") != "fail":
                    second_chance(boot, test, status)
                elif test.get("expect") == "fail":
                    expected.setdefault(test, []).append(status)
                else:
                    reporter.say(test, cpus, status, seconds, text, boot[2].replace(test.get("append", ""), "", 1).strip())
            return report

        def second_chance(boot, test, first):
            """The reference says whether a test is right: what fails here now and then and passes alone is a fault of Linux or of
            the host, not of the test. It is said, and does not count. Faultline has no second chance."""
            def report(test, cpus, status, seconds, text):
                if status == 0:
                    print(f"note: {reporter.prefix}/{test.name}: failed at first ({first}), passes in a boot of its own", flush=True)
                reporter.say(test, cpus, status, seconds, text)
            run_boot(kernel, boot, [test], output, report)

        for boot in sorted(boots):
            run_boot(kernel, boot, boots[boot], output, reporter_of(boot))
        for t, seen in expected.items():
            if any(s not in (0, 77) for s in seen):
                print(f"ok: {reporter.prefix}/{t.name} (fails, as it must)")
            else:
                reporter.failed = True
                print(f"FAIL: {reporter.prefix}/{t.name}: it must fail with '{t.get('append', '')}', but passed")
        failed |= reporter.failed
    print(f"end: {group}")
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Trouble as e:
        note(f"guest_tests: {e}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
