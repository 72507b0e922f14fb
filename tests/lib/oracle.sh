#!/bin/bash
# Fetch the reference kernel, Debian's linux-image-6.12 for clouds, without installing it or touching the host's apt.
#
#     tests/lib/oracle.sh DIRECTORY		leaves vmlinuz, vmlinux, modules/*.ko and version there
#
# apt does the checking: the package's hash is in an index whose hash is in a Release file signed by Debian's key. We give it a
# private configuration: the mirror that this host's own sources name, the suite that has 6.12, and lists of its own.
set -eu -o pipefail

release=6.12
modules='failover net_failover virtio_net virtio_blk'
destination=$1
say() { echo "oracle: $*" >&2; }
die() { say "$*"; exit 1; }

for tool in apt-get apt-cache dpkg-deb; do
	command -v $tool >/dev/null || die "no $tool: the reference kernel comes from Debian's archive; use a Debian or Ubuntu host"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/faultline-oracle.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/x"

# The first mirror of the host's own sources that is a Debian archive (not security: it has no backports).
mirrors() {
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
		sed -n 's/^deb \(\[[^]]*\] *\)\?\([^ ]*\).*/\2/p' || :
	cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs: *//p' | tr ' ' '\n' || :
}
mirror=$(mirrors | grep '/debian/\?$' | head -1 || :)
[ -n "$mirror" ] || mirror=$(mirrors | grep -v security | head -1 || :)
[ -n "$mirror" ] || die "no Debian mirror in /etc/apt"

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r $keyring ] || die "no $keyring (package debian-archive-keyring)"

private_apt() {
	local program=$1
	shift
	"$program" -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$work/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$work" \
		-o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Sandbox::User="$(id -un)" \
		-o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

package=
for suite in bookworm-backports trixie; do
	echo "deb [signed-by=$keyring] $mirror $suite main" >"$work/sources.list"
	say "looking for linux-image-$release in $suite"
	private_apt apt-get update >"$work/log" 2>&1 || continue
	package=$(private_apt apt-cache search --names-only "^linux-image-$release.*-cloud-amd64\$" |
		cut -d' ' -f1 | sort -V | tail -1)
	[ -z "$package" ] || break
done
if [ -z "$package" ]; then
	cat "$work/log" >&2
	die "no linux-image-$release cloud kernel to be had from this host's mirror"
fi

say "downloading $package"
(cd "$work" && private_apt apt-get download "$package") >"$work/log" 2>&1 || { cat "$work/log" >&2; die "download failed"; }
dpkg-deb -x "$work"/*.deb "$work/x"
version=$(basename "$work"/x/boot/vmlinuz-*)
version=${version#vmlinuz-}

rm -rf "$destination"
mkdir -p "$destination/modules"
cp "$work/x/boot/vmlinuz-$version" "$destination/vmlinuz"
cp "$work/x/boot/config-$version" "$destination/config"
for module in $modules; do
	file=$(find "$work/x" -name "$module.ko*" | head -1)
	case $file in
	*.xz)	xz -dc "$file" >"$destination/modules/$module.ko" ;;
	*.zst)	zstd -qdc "$file" >"$destination/modules/$module.ko" ;;
	*.gz)	gzip -dc "$file" >"$destination/modules/$module.ko" ;;
	*.ko)	cp "$file" "$destination/modules/" ;;
	esac
done

# Unpacking the kernel takes a software-emulated guest seconds, at every boot. Do it here once; QEMU enters the unpacked
# kernel through its PVH note. Where that does not work out, vmlinuz is booted instead.
python3 - "$destination" <<'EOF' || say "cannot unpack vmlinuz; boots will be slower"
import struct, subprocess, sys
where = sys.argv[1]
image = open(where + "/vmlinuz", "rb").read()
offset, length = struct.unpack_from("<II", image, 0x248)		# payload_offset, payload_length of the boot protocol
packed = image[((image[0x1F1] or 4) + 1) * 512 + offset:][:length]
tool = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip", b"\xfd7zX": "xz", b"BZh": "bzip2"}
name = next(t for magic, t in tool.items() if packed.startswith(magic))
# The last four bytes are the unpacked size, which a strict unpacker takes for damage.
unpacked = subprocess.run([name, "-dc"], input=packed[:-4], stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
if unpacked[:4] != b"\x7fELF" or len(unpacked) != struct.unpack("<I", packed[-4:])[0]:
    sys.exit("oracle: the unpacked kernel is damaged")
open(where + "/vmlinux", "wb").write(unpacked)
EOF
echo "$version" >"$destination/version"
say "Linux $version is in $destination"
