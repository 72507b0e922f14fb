#!/bin/bash
# Does the kernel build without a warning, with both compilers, and does what the second one made boot? And do the scripts that
# write to disks refuse what they must?
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/lib/report.sh
report_prefix=build/
work=$(mktemp -d "${TMPDIR:-/tmp}/faultline-build.XXXXXX")
trap 'rm -rf "$work"' EXIT

for compiler in gcc clang; do
	command -v $compiler >/dev/null || { skip $compiler "not installed"; continue; }
	make -s -j"$(nproc)" O=build/$compiler CC=$compiler WERROR= kernels >"$work/log" 2>&1
	status=$?
	if [ $status = 0 ] && ! grep -q 'warning:' "$work/log"; then
		ok $compiler
	else
		fail $compiler "status $status; $(grep -cE 'warning:' "$work/log") warnings"
		grep -E 'warning:|error:|undefined' "$work/log" | head -20 | sed 's/^/    | /'
	fi
done
if [ -f build/clang/release/faultline.elf ]; then
	expect clang_kernel_boots "hi 0" \
		"$(FAULTLINE_KERNEL=build/clang/release/faultline.elf tests/guest.sh -- echo hi 2>"$work/err" </dev/null) $?"
	expect clang_debug_kernel_boots "hi 0" \
		"$(FAULTLINE_KERNEL=build/clang/debug/faultline.elf tests/guest.sh -- echo hi 2>"$work/err" </dev/null) $?"
fi

# A second make has nothing to do, and help fits a screen.
make -s -j"$(nproc)" kernels >/dev/null 2>&1
expect nothing_to_rebuild "" "$(make kernels 2>&1 | grep -vE 'Nothing to be done')"
expect help_fits_a_screen 1 $(($(make help | wc -l) <= 24))

# boot/usb.sh: a file is written whole; a disk that is not removable, a partition, a directory are refused and not touched.
if [ -f build/faultline.iso ]; then
	boot/usb.sh build/faultline.iso "$work/stick" >/dev/null
	expect usb_writes_a_file "0" "$(cmp build/faultline.iso "$work/stick" && echo 0)"
	head -c 20000000 /dev/zero >"$work/old"
	boot/usb.sh build/faultline.iso "$work/old" >/dev/null
	expect usb_overwrites_a_file "0" "$(cmp -n "$(stat -c %s build/faultline.iso)" build/faultline.iso "$work/old" && echo 0)"
fi
for target in "$work" /dev/null "$(findmnt -no SOURCE / | grep '^/dev/' || echo /dev/zero)" /dev/does-not-exist build/faultline.iso; do
	boot/usb.sh build/faultline.iso "$target" >"$work/out" 2>&1 </dev/null
	expect "usb_refuses_${target##*/}" 1 $?
done

# The archive writer and the reader that everybody has agree.
if command -v cpio >/dev/null; then
	boot/mkcpio.py "$work/a.cpio" tests/lib=/lib
	expect cpio_is_readable "$(cd tests/lib && find . -type f | wc -l)" "$(cpio -t <"$work/a.cpio" 2>/dev/null | grep -c /)"
fi
report_end
