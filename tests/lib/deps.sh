#!/bin/bash
# Install with apt what building, running and testing need, and nothing else. Quick and silent when all is there.
#
#     tests/lib/deps.sh [--check]		--check only tells
set -u

# What we look for, and the Debian package that has it. A path means that file; a word means a command.
needs='
gcc			gcc
/usr/include/stdio.h	libc6-dev
g++			g++
as			binutils
musl-gcc		musl-tools
python3			python3
qemu-system-x86_64	qemu-system-x86
grub-mkrescue		grub-common
/usr/lib/grub/i386-pc/moddep.lst	grub-pc-bin
/usr/lib/grub/x86_64-efi/moddep.lst	grub-efi-amd64-bin
/usr/share/grub/unicode.pf2	grub-common
xorriso			xorriso
mformat			mtools
/usr/share/OVMF/OVMF_CODE_4M.fd	ovmf
busybox			busybox-static
zstd			zstd
xz			xz-utils
/usr/include/lua5.4/lua.h	liblua5.4-dev
/usr/include/sqlite3.h	libsqlite3-dev
/usr/include/libtcc.h	libtcc-dev
spin			spin
patch			patch
'
# Where both compilers are to be tried.
[ "${CI-}" != true ] || needs+='clang			clang
'
# What draws pictures: make experiments.
[ "${EXPERIMENTS-}" != 1 ] || needs+='/usr/lib/python3/dist-packages/matplotlib/__init__.py	python3-matplotlib
'
# What makes the book.
[ "${BOOK-}" != 1 ] || needs+='/usr/share/doc/python3-sphinx/copyright	python3-sphinx
/usr/lib/python3/dist-packages/myst_parser/__init__.py	python3-myst-parser
'
missing=()
while read -r thing package; do
	[ -n "$thing" ] || continue
	case $thing in
	/*)	[ -e "$thing" ] ;;
	# The dynamic busybox is of no use in a guest.
	busybox) [ -x /bin/busybox ] && ! readelf -lW /bin/busybox 2>/dev/null | grep -q INTERP ;;
	*)	command -v "$thing" >/dev/null ;;
	esac || [[ " ${missing[*]-} " == *" $package "* ]] || missing+=("$package")
done <<<"$needs"

if [ ${#missing[@]} -eq 0 ]; then
	[ "${1-}" != --check ] || echo "packages: all there"
	exit 0
fi
echo "Missing packages: ${missing[*]}"
[ "${1-}" != --check ] || exit 1
if ! command -v apt-get >/dev/null; then
	echo "There is no apt here; install what corresponds to them, then try again." >&2
	exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || { echo "Run as root:  apt-get install ${missing[*]}" >&2; exit 1; }
	as_root=sudo
fi

# A failed run leaves its whole log; a good one, a line per package.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" </dev/null 2>&1 |
		tee -a "$log" | grep --line-buffered -E '^(Setting up|E:|Fetched)' | sed -u 's/^/  /'
	return "${PIPESTATUS[0]}"
}
echo "Installing them with apt (${as_root:+sudo }apt-get install --no-install-recommends) ..."
apt install --no-install-recommends "${missing[@]}" ||
	{ echo "Once more, with fresh package lists ..."; apt update && apt install --no-install-recommends "${missing[@]}"; } ||
	{ cat "$log" >&2; echo "Could not install: ${missing[*]}" >&2; exit 1; }
echo "Installed: ${missing[*]}"
