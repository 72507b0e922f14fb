#!/bin/bash
# A program that nobody here has written, for the network to prove itself with: dropbear, an SSH server and client, from Debian's source package,
# linked statically with musl.
# Nothing of the host's apt configuration is touched or needed beyond the name of its mirror (as user/servers/netd/fetch_lwip.sh).
#
#     tests/net/dropbear.sh PROGRAM		makes that file, dropbear, dbclient and dropbearkey in one; status 77: it cannot be had here
set -eu -o pipefail

# apt checks what it downloads against an index that Debian's key has signed; these are the versions that we have built and tried.
known='
bc5a121ffbc94b5171ad5ebe01be42746d50aa797c9549a4639894a16749443b  dropbear_2022.83.orig.tar.bz2
74fb171a630f450430b771b2f781c420a4542881ae75fd2f75ca04c53a3eea93  dropbear_2022.83-1+deb12u3.debian.tar.xz
'
suites='bookworm trixie'
program=$1
say() { echo "dropbear: $*" >&2; }
die() { say "$*"; exit 77; }

work=$(mktemp -d "${TMPDIR:-/tmp}/faultline-dropbear.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/download" "$work/tree"

for tool in apt-get patch make musl-gcc; do
	command -v $tool >/dev/null || die "no $tool"
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r $keyring ] || die "no $keyring (package debian-archive-keyring)"
mirrors() {
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
		sed -n 's/^deb \(\[[^]]*\] *\)\?\([^ ]*\).*/\2/p' || :
	cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs: *//p' | tr ' ' '\n' || :
}
mirror=$(mirrors | grep '/debian/\?$' | head -1 || :)
[ -n "$mirror" ] || die "no Debian mirror in /etc/apt"

private_apt() {
	apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$work/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$work" \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# True: a source package that we know is in $work/download.
download() {
	local suite=$1 file sum
	echo "deb-src [signed-by=$keyring] $mirror $suite main" >"$work/sources.list"
	rm -f "$work"/download/*
	say "downloading the source package from $suite"
	private_apt update >"$work/log" 2>&1 || return 1
	(cd "$work/download" && private_apt source --download-only dropbear) >>"$work/log" 2>&1 || return 1
	for file in "$work"/download/*.tar.*; do
		case $file in *.asc) continue ;; esac
		sum=$(sha256sum "$file" | cut -d' ' -f1)
		grep -q "^$sum  $(basename "$file")\$" <<<"$known" || { say "$(basename "$file") has an unknown sum, $sum"; return 1; }
	done
}

build() {
	tar xf "$(ls "$work"/download/*.orig.tar.* | grep -v '\.asc$')" -C "$work/tree" --strip-components=1
	tar xf "$work"/download/*.debian.tar.* -C "$work/tree"
	local name
	while read -r name _; do
		case $name in ''|'#'*) continue ;; esac
		patch -s -p1 -d "$work/tree" <"$work/tree/debian/patches/$name" || die "Debian's patch $name does not apply"
	done < <(cat "$work/tree/debian/patches/series" 2>/dev/null)
	# Keys are enough. Warnings are upstream's.
	echo '#define DROPBEAR_SVR_PASSWORD_AUTH 0' >"$work/tree/localoptions.h"
	(cd "$work/tree" && CC=musl-gcc ./configure -q --enable-static --enable-bundled-libtom --disable-zlib --disable-pam --disable-syslog \
		--disable-lastlog --disable-utmp --disable-utmpx --disable-wtmp --disable-wtmpx --disable-harden CFLAGS='-O2 -w' &&
		make -s -j2 MULTI=1 STATIC=1 PROGRAMS='dropbear dbclient dropbearkey') >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; die "it does not build"; }
	strip -o "$program.new" "$work/tree/dropbearmulti"
	mv "$program.new" "$program"
}

mkdir -p "$(dirname "$program")"
for suite in $suites; do
	download "$suite" || continue
	build
	exit 0
done
cat "$work/log" >&2
die "no source package that we know"
