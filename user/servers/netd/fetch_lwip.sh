#!/bin/bash
# Fetch lwIP, Debian's source package of it, and unpack it with Debian's patches. Nothing of the host's apt configuration is touched
# or needed beyond the name of its mirror.
#
#     user/servers/netd/fetch_lwip.sh DIRECTORY		leaves src/ and what else upstream ships there
#
# LWIP_SRC=PATH: a directory with an unpacked lwIP 2.1 or 2.2, or an archive, is taken instead, as it is.
#
# apt checks what it downloads against an index that Debian's key has signed; the sums below say which of the versions that were
# so signed we have built and tested with.
set -eu -o pipefail

known='
83729c274c499d3348e9fbbe043a3113f3fa8953e7efddc7c21c7fcbb1f2b7b1  lwip_2.2.1+dfsg1.orig.tar.xz
faa343b3c76d69080240ae1323932b7348fa1d0042f6ad29bd286246660720a9  lwip_2.2.1+dfsg1-1+deb13u1.debian.tar.xz
0a8276d09fc4e97bbba2f953d74af2388fc2195ea156be9d7589e297a68fde24  lwip_2.1.3+dfsg1.orig.tar.xz
c5a48413d362cc757032cdd58f528f75eb64ee781ca46ca24f010b49b0e62a90  lwip_2.1.3+dfsg1-2.debian.tar.xz
'
suites='trixie bookworm'
destination=$1
say() { echo "lwip: $*" >&2; }
die() { say "$*"; exit 1; }

work=$(mktemp -d "${TMPDIR:-/tmp}/faultline-lwip.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/download" "$work/tree"

finish() {
	[ -f "$work/tree/src/core/tcp.c" ] || die "that is no lwIP: it has no src/core/tcp.c"
	mkdir -p "$(dirname "$destination")"
	rm -rf "$destination"
	mv "$work/tree" "$destination"
	exit 0
}

if [ -n "${LWIP_SRC-}" ]; then
	if [ -d "$LWIP_SRC" ]; then
		cp -R "$LWIP_SRC/." "$work/tree/"
	else
		tar xf "$LWIP_SRC" -C "$work/tree" --strip-components=1
	fi
	finish
fi

for tool in apt-get patch xz; do
	command -v $tool >/dev/null || die "no $tool; name an unpacked lwIP by LWIP_SRC=PATH instead"
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r $keyring ] || die "no $keyring (package debian-archive-keyring); or LWIP_SRC=PATH"

mirrors() {
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
		sed -n 's/^deb \(\[[^]]*\] *\)\?\([^ ]*\).*/\2/p' || :
	cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs: *//p' | tr ' ' '\n' || :
}
mirror=$(mirrors | grep '/debian/\?$' | head -1 || :)
[ -n "$mirror" ] || die "no Debian mirror in /etc/apt; or LWIP_SRC=PATH"

private_apt() {
	apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$work/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$work" \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

for suite in $suites; do
	echo "deb-src [signed-by=$keyring] $mirror $suite main" >"$work/sources.list"
	rm -f "$work"/download/*
	say "downloading the source package from $suite"
	private_apt update >"$work/log" 2>&1 || continue
	(cd "$work/download" && private_apt source --download-only lwip) >>"$work/log" 2>&1 || continue
	# Each archive must be one that we know; an unknown version is no error yet, another suite may have a known one.
	good=1
	for file in "$work"/download/*.tar.*; do
		sum=$(sha256sum "$file" | cut -d' ' -f1)
		grep -q "^$sum  $(basename "$file")\$" <<<"$known" || { say "$(basename "$file") has an unknown sum, $sum"; good=; }
	done
	[ -n "$good" ] || continue
	tar xf "$work"/download/*.orig.tar.xz -C "$work/tree" --strip-components=1
	tar xf "$work"/download/*.debian.tar.xz -C "$work/tree"
	if [ -r "$work/tree/debian/patches/series" ]; then
		while read -r name _; do
			case $name in ''|'#'*) continue ;; esac
			patch -s -p1 -d "$work/tree" <"$work/tree/debian/patches/$name" || die "Debian's patch $name does not apply"
		done <"$work/tree/debian/patches/series"
	fi
	finish
done
cat "$work/log" >&2
die "could not be had; LWIP_SRC=PATH takes it from a directory or an archive"
