"""The network: netd on the host under sanitizers, and in guests against QEMU's user network.

usage: net.py [--slow] [NAME]...        all of them without a name

    hosted      netd's sockets over loopback
    fuzz        hostile frames, requests and cards; --slow: minutes of it, with new seeds
    cards       an address by DHCP through each driver; loopback without a card
    programs    BusyBox wget, httpd, nc, telnet, ping in both directions
    bulk        the host fetches 100 MB from a BusyBox httpd, intact (8 MB without --slow)
    peer        Linux 6.12 on the other end of the wire: both directions at once, many connections, frames lost and reordered
    dsm         user/demo/uffd_dsm.c: memory that two processes share over TCP, on one guest of each kernel and on two guests; killed and lying peers
    speed       (only with --slow, or by name) TCP to and from Linux per second of processor time, beside Linux in our place
    page        the page that the system shows when it is booted as it is, in a headless browser if there is one
    killed      netd is killed 20 times under traffic (--slow: 1000); httpd answers again without being restarted
    restart     how long the network is away when init finds netd dead: below a second until the first new connection
    ssh         dropbear, from Debian's source package (built by --slow): data there and back, a status, a terminal
"""
import functools
import http.client
import hashlib
import http.server
import json
import os
import pty
import random
import re
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "boot"))
import vm				# noqa: E402
from mkcpio import Archive		# noqa: E402

GUEST = os.path.join(vm.TOP, "tests/guest.sh")
HOSTED = os.path.join(vm.BUILD, "tests/net")
FUZZ_KINDS = ("frames", "requests", "virtio", "e1000e")

slow = False
failed = False


def report(name, problem, shown=""):
    global failed
    if problem:
        failed = True
        print(f"FAIL: net/{name}: {problem}", flush=True)
        for line in shown.rstrip().split("\n")[-30:]:
            print(f"    | {line}", flush=True)
    else:
        print(f"ok: net/{name}", flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_hosted(name, *arguments, limit=300):
    try:
        done = subprocess.run([os.path.join(HOSTED, arguments[0]), *map(str, arguments[1:])], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        return report(name, f"no end after {limit} s")
    report(name, f"status {done.returncode}: {' '.join(map(str, arguments))}" if done.returncode else None, done.stdout)


def guest(command, *options, limit=200):
    """Status, output, and what the door said."""
    done = subprocess.run([GUEST, "--timeout", str(limit), *options, "--", command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace")
    return done.returncode, done.stdout, done.stderr


class Guest:
    """One that runs beside us, until it is told to end."""

    def __init__(self, command, *options, limit=400):
        self.limit = limit
        self.process = subprocess.Popen([GUEST, "--timeout", str(limit), *options, "--", command], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def end(self):
        out, err = self.process.communicate(timeout=self.limit + 60)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.communicate()


def tell(port, text):
    """To an nc in the guest. QEMU's network connects to the guest only after it has accepted us, so wait for the other end to close."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        s.sendall(text)
        s.shutdown(socket.SHUT_WR)
        while s.recv(4096):
            pass


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class HostServer:
    """Serves a directory; the guest sees it at 10.0.2.2."""

    def __init__(self, directory):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=directory))
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()


# --- Tests ----------------------------------------------------------------------------------------------------------------

def hosted():
    run_hosted("hosted/sockets_over_loopback", "sockets_over_loopback")


def fuzz():
    for kind in FUZZ_KINDS:
        if slow:
            end = time.monotonic() + 120
            while time.monotonic() < end and not failed:
                run_hosted(f"fuzz/{kind}", "fuzz_netd", kind, random.getrandbits(32), 300000)
        else:
            for seed in (1, 2):
                run_hosted(f"fuzz/{kind}-{seed}", "fuzz_netd", kind, seed, 20000)


def cards():
    for nic, *options in (("virtio-net",), ("e1000e",), ("virtio-net", "--iommu"), ("e1000e", "--iommu")):
        status, out, err = guest("cat /run/netd/address /etc/resolv.conf; ifconfig eth0 2>/dev/null | grep -o 'addr:10.0.2.15'; ! grep -q 'faults [1-9]' /sys/kernel/faultline/iommu", "--net", "--nic", nic, *options)
        good = status == 0 and out == "10.0.2.15\nnameserver 10.0.2.3\naddr:10.0.2.15\n"
        report(f"cards/{nic}{''.join(options)}", None if good else f"status {status}", out + err)
    status, out, err = guest("""
        /sbin/start-netd 2>/dev/null &
        sleep 1
        nc -l -p 7 -e cat &
        sleep 0.5
        echo through loopback | nc -w 2 127.0.0.1 7
        ping -c 1 -W 5 127.0.0.1 | grep -o '1 packets received'
    """)
    good = status == 0 and out == "through loopback\n1 packets received\n"
    report("cards/loopback-without-a-card", None if good else f"status {status}", out + err)


def programs():
    with tempfile.TemporaryDirectory() as d:
        data = random.Random(1).randbytes(3 << 20)
        with open(os.path.join(d, "data"), "wb") as f:
            f.write(data)
        port = free_port()
        with HostServer(d) as server:
            status, out, err = guest(f"""
                wget -q -O /tmp/data http://10.0.2.2:{server.port}/data && sha256sum /tmp/data | cut -c 1-64
                printf 'GET /nothing HTTP/1.0\\r\\n\\r\\n' | nc 10.0.2.2 {server.port} | head -1 | tr -d '\\r'
                ping -c 2 -W 5 10.0.2.2 | grep -o '2 packets received'
                wget -q -O /dev/null http://10.0.2.2:1/ 2>/dev/null; echo refused $?
                (sleep 2; echo quit) | telnet 10.0.2.2 {server.port} 2>&1 | grep -c Connected
            """, "--net")
    expected = [hashlib.sha256(data).hexdigest(), "HTTP/1.0 404 File not found", "2 packets received", "refused 1", "1"]
    report("programs/to-the-host", None if out.split("\n")[:-1] == expected else f"status {status}", out + err)

    with Guest(f"mkdir /w; echo hello from the guest >/w/index.html; httpd -p 80 -h /w; until wget -q -O /dev/null http://127.0.0.1/; do sleep 0.1; done; echo ready; nc -l -p 7; echo over", f"--net={port}:80,{port + 1}:7") as g:
        problem = None if g.line() == "ready" else "the guest was not ready"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                if answer.read() != b"hello from the guest\n":
                    problem = "the page was another one"
            tell(port + 1, b"told by the host\n")
        except OSError as e:
            problem = str(e)
        status, out, err = g.end()
        if not problem and out != "told by the host\nover\n":
            problem = f"nc said {out!r}"
        report("programs/from-the-host", problem, err)


def bulk():
    size, port = (100 if slow else 8) << 20, free_port()
    command = f"""
        mkdir /w; head -c {size} /dev/urandom >/w/data
        httpd -p 80 -h /w
        until wget -q -O /dev/null http://127.0.0.1/data; do sleep 0.1; done
        sha256sum /w/data | cut -c 1-64; nc -l -p 7
    """
    with Guest(command, f"--net={port}:80,{port + 1}:7", limit=900) as g:
        expected, problem, got = g.line(), None, 0
        try:
            start, digest = time.monotonic(), hashlib.sha256()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/data", timeout=120) as answer:
                while block := answer.read(1 << 16):
                    digest.update(block)
                    got += len(block)
            print(f"    bulk: {got >> 20} MB in {time.monotonic() - start:.1f} s", flush=True)
            if got != size or digest.hexdigest() != expected:
                problem = f"{got} bytes of {size}, or other ones"
            tell(port + 1, b"over\n")
        except (OSError, http.client.HTTPException) as e:
            problem = f"after {got} bytes: {e!r}"
        if problem:
            return report("bulk", problem)
        _, out, err = g.end()
        report("bulk", None, out + err)


def killed():
    rounds, port = 1000 if slow else 20, free_port()
    command = f"""
        mkdir /w; head -c 200000 /dev/urandom >/w/data; sha256sum /w/data | cut -c 1-64
        httpd -p 80 -h /w; sleep 0.5; P=$(pidof httpd | tr ' ' '\\n' | sort -n | head -1)		# the others serve one connection each
        n=0
        while [ $n -lt {rounds} ]; do
            sleep 1
            killall -9 netd && n=$((n + 1)); echo $n
        done
        sleep 5
        kill -0 $P && echo same httpd
        sleep 10
    """
    answers = errors = 0
    longest = since = 0.0
    problem = None
    with Guest(command, f"--net={port}:80", limit=rounds * 10 + 120) as g:
        expected = g.line()
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(iter(g.line, "")), daemon=True)
        reader.start()
        since = time.monotonic()
        while g.process.poll() is None and "same httpd" not in lines:
            try:		# one that only waits for data cannot learn that the other end is gone: do not wait long
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/data", timeout=2) as answer:
                    data = answer.read()
                if len(data) == 200000:		# a connection that died in the middle is no answer
                    if hashlib.sha256(data).hexdigest() != expected:
                        problem = "other bytes than the file has"
                        break
                    answers += 1
                    longest = max(longest, time.monotonic() - since)
                    since = time.monotonic()
                else:
                    errors += 1
            except (OSError, ValueError, http.client.HTTPException):
                errors += 1
                time.sleep(0.02)
        if not problem and "same httpd" not in lines:
            problem = "httpd did not live through it"
        if not problem and (answers < rounds // 2 or time.monotonic() - since > 15):
            problem = f"only {answers} answers between {rounds} kills"
        print(f"    killed: {rounds} times; {answers} answers, {errors} broken, longest without one {longest:.2f} s", flush=True)
        report("killed", problem, "\n".join(lines[-5:]))


def restart():
    """With the system's own init. Under --icount time is instructions, and says the same on a busy host; the other clock is shown beside it."""
    rounds = 100 if slow else 10
    inittab = open(os.path.join(vm.TOP, "user/rootfs/etc/inittab")).read()
    with tempfile.TemporaryDirectory() as d, HostServer(d) as server:
        initramfs = os.path.join(d, "initramfs")
        shutil.copyfile(vm.INITRAMFS, initramfs)
        with open(initramfs, "ab") as f:
            f.write(b"\0" * (-f.tell() % 512))
            archive = Archive(f, 0)
            archive.directory("/t", 0o755)
            with open(os.path.join(HOSTED, "restart_time"), "rb") as program:
                archive.file("/t/restart_time", program.read(), 0o755)
            archive.file("/t/measure", f"exec >/dev/ttyS1 2>&1; /t/restart_time 10.0.2.2 {server.port} {rounds}; echo end\n".encode(), 0o755)
            archive.file("/etc/inittab", f"{inittab}::once:/bin/sh /t/measure\n".encode(), 0o644)
            archive.close()
        for icount in (True, False):
            name = "restart/" + ("instructions" if icount else "emulated")
            out = os.path.join(d, f"out-{icount}")
            machine = vm.Machine(vm.Qemu(), 2, "256M", icount=icount)
            machine.direct(vm.faultline_kernel("release"), initramfs, "")
            machine.add("-vga", "none", "-display", "none", "-serial", "null", "-serial", f"file:{out}")
            machine.network([])
            said, end = "", time.monotonic() + 60 + 20 * rounds
            with subprocess.Popen(vm.kill_with_parent(machine.command), stdin=subprocess.DEVNULL) as qemu:
                while qemu.poll() is None and time.monotonic() < end and "end" not in said:
                    time.sleep(0.2)
                    said = open(out, errors="replace").read().replace("\r", "") if os.path.exists(out) else ""
                qemu.kill()
            found = dict(re.findall(r"^(loopback|card) ([0-9.]+ [0-9.]+)$", said, re.MULTILINE))
            if len(found) != 2:
                report(name, "no numbers came", said)
                continue
            for what, numbers in found.items():
                median, longest = map(float, numbers.split())
                print(f"    {name}: first connection over {what} after {median:.1f} ms (median of {rounds}), {longest:.1f} ms at most", flush=True)
            # Seconds of a busy host say nothing about us.
            late = icount and float(found["card"].split()[0]) >= 1000
            report(name, "the network was away for longer than a second" if late else None, said)


def ssh():
    """A program from outside: dropbear serves in the guest, its client runs here. Built once, by --slow; quick runs use it then."""
    program = os.path.join(vm.CACHE, "dropbear/dropbearmulti")
    if not os.path.exists(program):
        if not slow:
            return print("skip: net/ssh: dropbear is built by --slow, and then kept", flush=True)
        status = subprocess.run([os.path.join(vm.TOP, "tests/net/dropbear.sh"), program], stdin=subprocess.DEVNULL).returncode
        if status:
            return print("skip: net/ssh: no dropbear", flush=True) if status == 77 else report("ssh", "dropbear was not built")
    data, port = random.Random(2).randbytes(3 << 20), free_port()
    with tempfile.TemporaryDirectory() as d:
        for name in ("host", "client"):
            done = subprocess.run([program, "dropbearkey", "-t", "ed25519", "-f", os.path.join(d, name)], capture_output=True, text=True)
        with open(os.path.join(d, "authorized_keys"), "w") as f:
            f.write(re.search(r"^ssh-ed25519 .*$", done.stdout, re.MULTILINE).group(0) + "\n")
        command = """
            chmod 700 /root /root/.ssh; chmod 600 /root/.ssh/*; echo /bin/ash >/etc/shells
            /t/dropbearmulti dropbear -F -r /t/host -p 22 2>/tmp/log &
            until grep -q 'Not back' /tmp/log; do sleep 0.1; done
            echo ready; nc -l -p 7; cat /tmp/log
        """
        with Guest(command, f"--net={port}:22,{port + 1}:7", "--mem", "256M", "--add", program, "--add", os.path.join(d, "host"),
                   "--add", os.path.join(d, "authorized_keys") + ":/root/.ssh/authorized_keys") as g:
            problem, shown = None if g.line() == "ready" else "the server did not start", ""
            try:
                # Everything there and back, a status, and a terminal.
                there = [program, "dbclient", "-y", "-y", "-i", os.path.join(d, "client"), "-p", str(port), "root@127.0.0.1"]
                home = dict(os.environ, HOME=d)
                back = subprocess.run([*there, "cat; exit 7"], input=data, capture_output=True, timeout=200, env=home)
                shown = back.stderr.decode(errors="replace")
                if not problem and (back.returncode != 7 or back.stdout != data):
                    problem = f"status {back.returncode}, {len(back.stdout)} bytes came back"
                ours, theirs = pty.openpty()
                tty = subprocess.run([*there[:2], "-t", *there[2:], "tty; stty size"], stdin=theirs, capture_output=True, timeout=200, env=home)
                os.close(ours)
                os.close(theirs)
                if not problem and not tty.stdout.startswith(b"/dev/pts/"):
                    problem = f"no terminal: {tty.stdout!r} {tty.stderr!r}"
                tell(port + 1, b"over\n")
            except (OSError, subprocess.TimeoutExpired) as e:
                problem = problem or repr(e)
            if problem:
                g.process.terminate()
            _, out, err = g.end()
            report("ssh", problem, shown + out + err)


class Relay(threading.Thread):
    """Frames between two guests (--link), with some lost and some late: a link as it is between machines far apart."""

    def __init__(self, loss=0.0, late=0.0, seed=1):
        super().__init__(daemon=True)
        self.loss, self.late, self.random = loss, late, random.Random(seed)
        self.guests = [free_udp_port() for _ in range(2)]		# where they listen
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for s in self.sockets:
            s.bind(("127.0.0.1", 0))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.over = False
        self.carried = self.lost = self.delayed = 0
        self.start()

    def link(self, n):
        """The option of guest n: 10.9.0.1 and 10.9.0.2."""
        return "--link", f"{self.guests[n]}:{self.sockets[n].getsockname()[1]}:10.9.0.{n + 1}/24"

    def run(self):
        waiting = []			# (when, from which, frame)
        while not self.over:
            for s in select.select(self.sockets, [], [], 0.005 if waiting else 0.2)[0]:
                n = self.sockets.index(s)
                frame = s.recv(65536)
                self.carried += 1
                if self.random.random() < self.loss:
                    self.lost += 1
                elif self.random.random() < self.late:
                    self.delayed += 1
                    waiting.append((time.monotonic() + self.random.uniform(0.001, 0.03), n, frame))
                else:
                    self.pass_on(n, frame)
            now = time.monotonic()
            for item in [w for w in waiting if w[0] <= now]:
                waiting.remove(item)
                self.pass_on(*item[1:])

    def pass_on(self, n, frame):
        try:
            self.sockets[1 - n].sendto(frame, ("127.0.0.1", self.guests[1 - n]))
        except OSError:
            pass			# that guest is not there yet, or not any more

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.over = True
        self.join()
        for s in self.sockets:
            s.close()


def free_udp_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# Runs on both sides: serves, fetches what the other one serves, and goes when the other one has said that it is done.
PEER = r"""
me=$1 other=$2 size=$3 connections=$4
mkdir /w; head -c $size /dev/urandom >/w/data; echo x >/w/small; (sha256sum </w/data) >/w/sum
httpd -p 80 -h /w
nc -l -p 7 >/tmp/other-is-done & waiting=$!
until wget -q -O /tmp/sum http://$other/sum 2>/dev/null; do sleep 0.3; done
start=$(cut -d' ' -f1 /proc/uptime)
wget -q -O /tmp/data http://$other/data; echo fetched $?
end=$(cut -d' ' -f1 /proc/uptime)
sha256sum </tmp/data | cmp - /tmp/sum && echo intact
n=0; got=0
while [ $n -lt $connections ]; do n=$((n + 1)); [ "$(wget -q -O - http://$other/small)" = x ] && got=$((got + 1)); done
echo connections $got
ping -c 3 -s 1400 -W 9 $other >/dev/null && echo ping
# Frames are lost here too, and who is gone sends nothing again: so neither waits for ever, and both stay a little longer.
i=0; until echo done | nc -w 9 $other 7 || [ $i -ge 3 ]; do sleep 0.5; i=$((i + 1)); done
i=0; until [ -s /tmp/other-is-done ] || [ $i -ge 30 ]; do sleep 1; i=$((i + 1)); done
sleep 2
kill $waiting 2>/dev/null
if [ -r /proc/net/snmp ]; then
	awk '/^Tcp: [0-9]/ { print "bad sums", $16 } /^Udp: [0-9]/ { print "bad sums", $8 } /^Icmp: [0-9]/ { print "bad sums", $4 }' /proc/net/snmp
fi
echo took $start $end
"""


def two_guests(name, kernels, loss=0.0, late=0.0, size=1 << 20, connections=20):
    """Both directions at once. One processor each: two emulated machines share the host's."""
    with tempfile.TemporaryDirectory() as d, Relay(loss, late) as relay:
        script = os.path.join(d, "peer")
        with open(script, "w") as f:
            f.write(PEER)
        guests = [Guest(f"ash /t/peer 10.9.0.{n + 1} 10.9.0.{2 - n} {size} {connections}", "--kernel", kernels[n], "--cpus", "1", "--mem", "256M", "--add", script,
                        *relay.link(n), limit=400 + 3 * connections) for n in range(2)]
        problem, shown = None, ""
        for g, kernel in zip(guests, kernels):
            try:
                status, out, err = g.end()
            except subprocess.TimeoutExpired:
                g.__exit__()
                status, out, err = 124, "", ""
            shown += f"--- {kernel}: status {status}\n{out}{err}"
            expected = ["fetched 0", "intact", f"connections {connections}", "ping"]
            if status or out.split("\n")[:4] != expected or re.search(r"bad sums [1-9]", out):
                problem = problem or f"{kernel} did not get everything"
        if (loss or late) and not (relay.lost and relay.delayed):
            problem = problem or "the relay lost nothing"
        for took, kernel in zip(re.findall(r"took (\S+) (\S+)", shown), kernels):
            print(f"    {name}: {kernel} fetched {size / 1e6 / max(float(took[1]) - float(took[0]), 0.01):.2f} MB/s (its own clock)", flush=True)
        print(f"    {name}: {relay.carried} frames, {relay.lost} lost, {relay.delayed} late", flush=True)
        report(name, problem, shown)


def peer():
    """Linux 6.12 on the other end of the wire."""
    size, connections = (8 << 20, 1000) if slow else (1 << 20, 20)
    two_guests("peer/linux", ("faultline", "linux"), size=size, connections=connections)
    two_guests("peer/linux-lossy", ("faultline", "linux"), loss=0.03, late=0.05, size=size // 4, connections=connections // 4)
    if slow:
        two_guests("peer/linux-to-linux", ("linux", "linux"), size=size, connections=connections)
        two_guests("peer/faultline-to-faultline", ("faultline", "faultline"), size=size, connections=connections)


DSM_RIGHT = [f"node {n}: counted to 60, wrong messages 0, wrong buffers 0: memory right" for n in range(2)]
LOOPBACK = {"linux": "ifconfig lo up\n",
            "faultline": "/sbin/start-netd 2>/dev/null &\nuntil ping -c 1 -W 5 127.0.0.1 >/dev/null 2>&1; do sleep 0.1; done\n"}
# Who talks nonsense, and who goes away in the middle: an error, and an end.
DSM_PEERS = """
/t/uffd_dsm listen 7 & first=$!
while kill -0 $first 2>/dev/null; do (printf abcdefghijklmnop; sleep 0.2) | nc 127.0.0.1 7 2>/dev/null; sleep 0.1; done
wait $first; echo nonsense $?
/t/uffd_dsm listen 8 & first=$!
while kill -0 $first 2>/dev/null; do nc 127.0.0.1 8 </dev/null 2>/dev/null; sleep 0.1; done
wait $first; echo nobody $?
status=0
while [ $status = 0 ]; do
	/t/uffd_dsm listen 9 >/dev/null 2>&1 & first=$!
	/t/uffd_dsm connect 127.0.0.1 9 >/dev/null 2>&1 & second=$!
	while kill -0 $second 2>/dev/null && [ -z "$(ls /proc/$second/task 2>/dev/null | sed -n 4p)" ]; do :; done
	kill -9 $second 2>/dev/null; wait $second
	wait $first; status=$?
done
echo killed $status
for words in listen 'listen 0' 'listen 70000' 'listen x' 'connect 127.0.0.1' 'connect nowhere 7' 'something 7' 'listen 7 7 7'; do /t/uffd_dsm $words; echo $?; done
"""


def build_demo(name):
    exe = os.path.join(HOSTED, name)
    os.makedirs(HOSTED, exist_ok=True)
    subprocess.check_call(["musl-gcc", "-static", "-O2", "-Wall", "-Wextra", "-Werror", "-o", exe, os.path.join(vm.TOP, "user/demo", name + ".c")])
    return exe


def dsm_on_two_guests(exe, kernels):
    with Relay() as relay:
        commands = ("/t/uffd_dsm listen 7777 2>/dev/null", "/t/uffd_dsm connect 10.9.0.1 7777 2>/dev/null")
        guests = [Guest(commands[n], "--kernel", kernels[n], "--mem", "256M", "--add", exe, *relay.link(n)) for n in range(2)]
        problem, shown = None, ""
        for n, g in enumerate(guests):
            try:
                status, out, err = g.end()
            except subprocess.TimeoutExpired:
                g.__exit__()
                status, out, err = 124, "", ""
            shown += f"--- {kernels[n]}: status {status}\n{out}{err}"
            if status or out != DSM_RIGHT[n] + "\n":
                problem = problem or f"node {n} on {kernels[n]}: status {status}"
        report(f"dsm/{kernels[0]}-and-{kernels[1]}", problem, shown)


def dsm():
    """Memory that two processes share over TCP."""
    exe = build_demo("uffd_dsm")
    for kernel in LOOPBACK:
        status, out, err = guest(LOOPBACK[kernel] + f"exec 2>&1; /t/uffd_dsm; echo status $?{DSM_PEERS}", "--kernel", kernel, "--mem", "256M", "--add", exe)
        lines = [line for line in out.splitlines() if not re.search(r": asked for |^Killed|onnection reset|^usage: uffd_dsm ", line)]
        report(f"dsm/loopback-{kernel}", None if status == 0 and sorted(lines[:2]) == DSM_RIGHT and lines[2:3] == ["status 0"] else f"status {status}", out + err)
        good = lines[3:] == ["node 0: that is no message", "nonsense 1", "node 0: the other node is gone", "nobody 1", "killed 1"] + ["2"] * 8
        report(f"dsm/peers-{kernel}", None if good and out.count("usage: uffd_dsm") == 8 else f"status {status}", out + err)
    for kernels in (("faultline", "linux"), ("linux", "linux"), ("faultline", "faultline"))[:None if slow else 1]:
        dsm_on_two_guests(exe, kernels)
# The machine that is measured; the other one is always Linux. Both directions, one after the other.
MEASURED = r"""
size=$1
mkdir /w; head -c $size /dev/urandom >/w/data
httpd -p 80 -h /w
until wget -q -O /dev/null http://10.9.0.2/ready 2>/dev/null; do sleep 0.3; done
echo begin; wget -q -O /dev/null http://10.9.0.2/data || echo broken; echo end
nc -l -p 7 >/dev/null & waiting=$!
echo begin; echo >/w/ready; wait $waiting; echo end
"""
OTHER = r"""
size=$1
mkdir /w; head -c $size /dev/urandom >/w/data
httpd -p 80 -h /w; echo >/w/ready
until wget -q -O /dev/null http://10.9.0.1/ready 2>/dev/null; do sleep 0.3; done
wget -q -O /dev/null http://10.9.0.1/data; echo fetched $?
i=0; until echo done | nc -w 9 10.9.0.1 7 || [ $i -ge 9 ]; do sleep 0.3; i=$((i + 1)); done
"""


def cpu_seconds(guest):
    """Of its QEMU, which is a child of the door."""
    with open(f"/proc/{guest.process.pid}/task/{guest.process.pid}/children") as f:
        for child in f.read().split():
            with open(f"/proc/{child}/stat") as g:
                name, fields = re.match(r"\d+ \((.*)\) \S (.*)", g.read(), re.DOTALL).groups()
            if name.startswith("qemu"):
                fields = fields.split()
                return (int(fields[10]) + int(fields[11])) / os.sysconf("SC_CLK_TCK")
    raise OSError("there is no QEMU")


def one_speed(kernel, size, directory):
    """Bytes per second of its QEMU's processor time, receiving and sending; or what went wrong."""
    ports = free_udp_port(), free_udp_port()
    guests = []
    try:
        for n, (name, which) in enumerate((("measured", kernel), ("other", "linux"))):
            guests.append(Guest(f"ash /t/{name} {size}", "--kernel", which, "--cpus", "1", "--mem", "256M", "--add", os.path.join(directory, name),
                                "--link", f"{ports[n]}:{ports[1 - n]}:10.9.0.{n + 1}/24", limit=900))
        speeds = []
        for _ in range(2):
            lines = [guests[0].line()]
            start = cpu_seconds(guests[0])
            lines.append(guests[0].line())
            if lines != ["begin", "end"]:
                return f"{kernel} said {lines}"
            speeds.append(size / (cpu_seconds(guests[0]) - start))
        _, out, err = guests[1].end()
        return speeds if "fetched 0" in out else out + err
    finally:
        for g in guests:
            g.__exit__()


def speed():
    """TCP to and from Linux, beside Linux to and from Linux; alternating, because a busy host changes with time."""
    rounds, size = (5, 32 << 20) if slow else (1, 8 << 20)
    found = {"faultline": [], "linux": []}
    with tempfile.TemporaryDirectory() as d:
        for name, script in (("measured", MEASURED), ("other", OTHER)):
            with open(os.path.join(d, name), "w") as f:
                f.write(script)
        for _ in range(rounds):
            for kernel in found:
                got = one_speed(kernel, size, d)
                if isinstance(got, str):
                    return report("speed", "not everything arrived", got)
                found[kernel].append(got)
    for n, direction in enumerate(("receiving", "sending")):
        ours, theirs = (statistics.median(s[n] for s in found[k]) / 1e6 for k in ("faultline", "linux"))
        print(f"    speed: {direction}: {ours:.1f} MB per second of processor time, Linux {theirs:.1f} ({ours / theirs:.0%}); medians of {rounds}", flush=True)
    report("speed", None)


def page():
    """The system as people boot it: its own init starts netd and httpd, and a browser shows the page."""
    port = free_port()
    machine = vm.Machine(vm.Qemu(), 2, "512M")
    vm.make("build/release/faultline.elf", "build/initramfs.cpio")
    machine.direct(vm.faultline_kernel("release"), vm.INITRAMFS, "")
    machine.add("-vga", "none", "-display", "none", "-serial", "null")
    machine.network([(port, 80)])
    guest = subprocess.Popen(vm.kill_with_parent(machine.command), stdin=subprocess.DEVNULL)
    try:
        state, end = None, time.monotonic() + 90
        while state is None and time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/cgi-bin/state", timeout=10) as answer:
                    state = json.load(answer)
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.5)
        names = {p["name"]: p["user"] for p in state["processes"]} if state else {}
        good = state and state["faults"] > 0 and state["total"] > 400000 and names.get("netd") == "netd" and "httpd" in names
        report("page/state", None if good else f"not the state of a live system: {state}")
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if not browser:
            print("skip: net/page/browser: no chromium here")
            return
        shot = os.path.join(vm.BUILD, "tests/net/page.png")
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--window-size=1000,800",
                                   "--virtual-time-budget=10000", f"--screenshot={shot}", "--dump-dom", f"http://127.0.0.1:{port}/"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=120)
        faults = re.search(r'id="faults">([0-9,]+)<', done.stdout)
        live = 'data-state="live"' in done.stdout and faults and ">netd<" in done.stdout and os.path.exists(shot)
        report("page/browser", None if live else "the page did not come to life", done.stdout[-2000:])
    finally:
        guest.kill()
        guest.wait()


TESTS = {f.__name__: f for f in (hosted, fuzz, cards, programs, bulk, killed, restart, ssh, peer, dsm, page, speed)}


def main(argv):
    global slow
    slow = "--slow" in argv
    names = [a for a in argv if a != "--slow"] or [n for n in TESTS if slow or n != "speed"]
    programs_of = {"hosted": "sockets_over_loopback", "fuzz": "fuzz_netd", "restart": "restart_time"}
    vm.make("build/release/faultline.elf", "build/initramfs.cpio", *(f"build/tests/net/{programs_of[n]}" for n in names if n in programs_of))
    for name in names:
        try:
            TESTS[name]()
        except (OSError, subprocess.SubprocessError) as e:
            report(name, repr(e))
    print("end: net")
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except vm.Trouble as e:
        vm.note(f"net: {e}")
        sys.exit(2)
