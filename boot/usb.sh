#!/bin/bash
# Write the boot image to a USB stick, or to a plain file.
#
#     boot/usb.sh IMAGE DEVICE		(make usb DEV=/dev/sdX)
#
# Everything on the stick is lost, so: the device is shown with its model and size, the answer must be typed, and a disk that
# is mounted, in use or built in is refused. No option skips this.
set -eu

image=$1
device=${2:-}
die() { echo "usb: $*" >&2; exit 1; }

if [ -z "$device" ]; then
	echo "usage: make usb DEV=/dev/sdX    (or a plain file)" >&2
	echo "Removable disks here:" >&2
	lsblk -dpno NAME,RM,SIZE,MODEL,TRAN 2>/dev/null | awk '$2 == 1 || /usb/ { print "  " $0; n++ } END { if (!n) print "  none" }' >&2
	exit 2
fi
[ -f "$image" ] || die "$image: no such image"
size=$(stat -Lc %s "$image")

if [ -f "$device" ] || { [ ! -e "$device" ] && [ -d "$(dirname "$device")" ] && [[ $device != /dev/* ]]; }; then
	[ ! "$image" -ef "$device" ] || die "$device is the image itself"
	dd if="$image" of="$device" bs=1M conv=fsync,notrunc status=none
	cmp -n "$size" "$image" "$device" || die "$device does not read back what was written"
	echo "usb: wrote $((size >> 20)) MiB to the file $device"
	exit 0
fi
[ -b "$device" ] || die "$device: not a disk, and not a file"
device=$(readlink -f "$device")
name=$(basename "$device")

[ -e "/sys/block/$name" ] || die "$device is a partition or a mapped device; name the whole disk"
removable=$(cat "/sys/block/$name/removable")
transport=$(lsblk -dno TRAN "$device" 2>/dev/null | tr -d ' ' || :)
[ "$removable" = 1 ] || [ "$transport" = usb ] || die "$device is not a removable disk; refusing"
mounted=$(lsblk -nro MOUNTPOINT "$device" | sed '/^$/d' | head -1)
[ -z "$mounted" ] || die "$device is in use (mounted at $mounted); unmount it first"
[ -z "$(ls "/sys/block/$name/holders")" ] || die "$device is in use by another block device; refusing"
for slave in /sys/block/"$name"/"$name"*/holders; do
	[ ! -d "$slave" ] || [ -z "$(ls "$slave")" ] || die "a partition of $device is in use by another block device; refusing"
done
! grep -q "^$device" /proc/swaps || die "$device holds swap space in use; refusing"
[ "$(blockdev --getsize64 "$device" 2>/dev/null || echo 0)" -ge "$size" ] || die "$device is smaller than the image, or you may not read it (try sudo)"
[ -w "$device" ] || die "you may not write to $device; run with sudo"

echo "Disk:   $device"
echo "Model:  $(lsblk -dno VENDOR,MODEL "$device" | tr -s ' ')"
echo "Size:   $(lsblk -dno SIZE "$device" | tr -d ' ')"
echo "Holds:  $(lsblk -nro FSTYPE,LABEL "$device" | sed '/^ *$/d' | tr '\n' ';' | sed 's/;$//')"
echo "EVERYTHING ON IT WILL BE LOST."
read -r -p "Type the name of the disk ($name) to write it: " answer || die "not written"
[ "$answer" = "$name" ] || die "not written"

# Opened exclusively, so a disk that was mounted meanwhile is refused by the kernel.
dd if="$image" of="$device" bs=4M oflag=excl,direct conv=fsync status=progress
blockdev --flushbufs "$device" 2>/dev/null || :
cmp -n "$size" "$image" "$device" || die "$device does not read back what was written: a bad stick?"
echo "usb: $device is ready; start the machine from it"
