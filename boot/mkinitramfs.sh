#!/bin/bash
# Build the initramfs: BusyBox as /init, the files of user/rootfs, and whatever ring-3 programs were built.
#
#     boot/mkinitramfs.sh OUTPUT [PROGRAM]...	each PROGRAM lands in /sbin
#
# The archive is the same for `make run`, for the ISO and for tests; a test run appends a second archive to it.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
output=$1
shift

busybox=${BUSYBOX:-}
for candidate in /bin/busybox /usr/bin/busybox; do
	[ -n "$busybox" ] || { [ -x $candidate ] && busybox=$candidate; } || true
done
[ -n "$busybox" ] || { echo "mkinitramfs: no busybox; run 'make deps' (package busybox-static)" >&2; exit 1; }

# A dynamic busybox would need its loader and libc in the archive; say so now, not as "no init found" later.
if readelf -lW "$busybox" | grep -q INTERP; then
	echo "mkinitramfs: $busybox is linked dynamically; run 'make deps' (package busybox-static)" >&2
	exit 1
fi

stage=$(mktemp -d "${TMPDIR:-/tmp}/faultline-initramfs.XXXXXX")
trap 'rm -rf "$stage"' EXIT

mkdir -p "$stage"/{bin,sbin,usr/bin,usr/sbin,dev,proc,sys,tmp,root,mnt,run,etc,var}
cp "$busybox" "$stage/bin/busybox"
chmod 755 "$stage/bin/busybox"
"$busybox" --list-full | while read -r applet; do
	[ "$applet" = bin/busybox ] && continue
	mkdir -p "$stage/$(dirname "$applet")"
	ln -sf /bin/busybox "$stage/$applet"
done
ln -sf bin/busybox "$stage/init"
[ -e "$stage/bin/sh" ] || ln -s busybox "$stage/bin/sh"
[ -e "$stage/bin/ash" ] || ln -s busybox "$stage/bin/ash"

cp -R "$top/user/rootfs/." "$stage/"
cp -R "$top/user/demo/www" "$stage/var/www"
chmod 755 "$stage"/etc/init.d/* "$stage"/sbin/{shell-on,start-netd}
ln -s ../run/netd/resolv.conf "$stage/etc/resolv.conf"	# netd writes it when DHCP has told it the servers
for program in "$@"; do
	install -m 755 "$program" "$stage/sbin/"
done

"$top/boot/mkcpio.py" "$output" d:/tmp:1777 d:/root:0700 c:/dev/console:0600:5:1 c:/dev/null:0666:1:3 "$stage=/"
