#!/bin/bash
# The one door to a guest: boot a kernel in QEMU, run a command in it, print what it printed, exit as it exited.
# `tests/guest.sh --help` tells the options; tests/README.md tells how it works.

lib=$(cd "$(dirname "${BASH_SOURCE[0]}")/lib" && pwd) || exit 2
if ! command -v python3 >/dev/null; then
	echo "guest.sh: no python3; run 'make deps'" >&2
	exit 2
fi
# exec, so that a signal to the caller's child reaches the program that has to clean up.
exec python3 -B "$lib/guest.py" "$@"
