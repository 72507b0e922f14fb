#!/bin/bash
# Make a boot image: an ISO that is also a disk image, for BIOS and UEFI.
#
#     boot/mkimage.sh OUTPUT PATH=FILE...		each FILE lands at PATH in the image
set -eu

output=$1
shift

# grub-mkrescue's own messages for a missing tool do not name the tool.
complain() { echo "mkimage: $1 is missing; run 'make deps' (package $2)" >&2; exit 1; }
command -v grub-mkrescue >/dev/null || complain grub-mkrescue grub-common
command -v xorriso >/dev/null || complain xorriso xorriso
command -v mformat >/dev/null || complain mformat mtools
[ -d /usr/lib/grub/i386-pc ] || complain "GRUB for BIOS" grub-pc-bin
[ -d /usr/lib/grub/x86_64-efi ] || complain "GRUB for UEFI" grub-efi-amd64-bin

stage=$(mktemp -d "${TMPDIR:-/tmp}/faultline-image.XXXXXX")
trap 'rm -rf "$stage" "$stage.log"' EXIT
mkdir -p "$stage/boot/grub"
for file in "$@"; do
	mkdir -p "$stage/$(dirname "${file%%=*}")"
	cp "${file#*=}" "$stage/${file%%=*}"
done
if ! grub-mkrescue -o "$output.tmp" --compress=xz --fonts=unicode --locales= --themes= "$stage" -- -volid FAULTLINE \
	>"$stage.log" 2>&1; then
	cat "$stage.log" >&2
	exit 1
fi
mv "$output.tmp" "$output"
