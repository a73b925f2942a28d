#!/bin/sh
# shellcheck disable=SC2015 # "A && B || fail" fails where B does, too.
# Installs deskhand, or replaces it by the newest release:
#
#   curl -fsSL https://github.com/deskhand/deskhand/releases/latest/download/install.sh | sh
#   curl -fsSL ... | sh -s -- --prefix ~/.local --version v1.2.3
#
# It downloads the archive for this machine, checks its SHA-256 sum, and writes
# below the prefix: bin/deskhand, bin/sandbox-agent (a link), the manual page,
# completions of shells, and licences. DESKHAND_BASE_URL names another place
# that has releases.
set -eu

say() { printf '%s\n' "$*"; }
fail() {
	printf 'install.sh: %s\n' "$*" >&2
	exit 1
}

usage() {
	say 'Usage: install.sh [--prefix DIR] [--version VERSION]

  --prefix DIR       install below DIR; /usr/local for root, ~/.local for others, unless given
  --version VERSION  install this version, as v1.2.3; the newest, unless given

DESKHAND_BASE_URL is where releases are; GitHub, unless given.'
}

# fetch URL FILE
fetch() {
	status=0
	case $fetcher in
	curl)
		# A redirect from https must not lead to http.
		case $1 in https:*) curl -fsSL --proto '=https' -o "$2" "$1" || status=$? ;; *) curl -fsSL -o "$2" "$1" || status=$? ;; esac
		[ "$status" != 18 ] || fail "the download of $1 was cut off; try again"
		;;
	wget)
		if wget --help 2>&1 | grep -q -e --tries; then
			LC_ALL=C wget --progress=dot:giga --tries=1 --timeout=60 -O "$2" "$1" 2>"$tmp/wget" || status=$?
			# It has no option for that, but tells each address: --2026-01-31 23:59:59--  http://...
			case $1 in https:*) ! grep -q '^--.*--  http:' "$tmp/wget" || fail "$1 redirects to http, which is not encrypted; nothing was installed" ;; esac
		else # of busybox
			wget -O "$2" "$1" 2>"$tmp/wget" || status=$?
		fi
		[ "$status" = 0 ] || cat "$tmp/wget" >&2
		;;
	esac
	[ "$status" = 0 ] || fail "cannot download $1; is the version right, and can this machine reach that address?"
	case $(head -c 64 "$2" | tr -d '\000 \t\r\n') in
	'<'*) fail "$1 gave a web page, perhaps of a proxy or a login, and not the file" ;;
	esac
}

# sum FILE
sum() {
	if command -v sha256sum >/dev/null; then
		sha256sum "$1" | cut -d ' ' -f 1
	elif command -v shasum >/dev/null; then
		shasum -a 256 "$1" | cut -d ' ' -f 1
	elif command -v openssl >/dev/null; then
		openssl dgst -sha256 "$1" | sed 's/.* //'
	else
		fail 'none of sha256sum, shasum and openssl is installed, so the download cannot be checked; install coreutils'
	fi
}

# put FILE FOLDER NAME: copies a file that need not be there for deskhand to work.
put() {
	mkdir -p "$prefix/share/$2" && cp "$archive/$1" "$prefix/share/$2/$3" && chmod 644 "$prefix/share/$2/$3" ||
		fail "cannot write to $prefix/share/$2"
}

machine() {
	[ "$(uname -s)" = Linux ] || fail "deskhand is for Linux, and this is $(uname -s)"
	case $(uname -m) in
	x86_64 | amd64) say amd64 ;;
	aarch64 | arm64) say arm64 ;;
	armv6* | armv7* | armv8*) say arm ;;
	*) fail "there is no deskhand for $(uname -m); there is one for x86_64, aarch64, and arm from version 6 up" ;;
	esac
}

main() {
	prefix='' version=''
	while [ $# -gt 0 ]; do
		case $1 in
		--prefix | --version) [ $# -gt 1 ] && [ -n "$2" ] || fail "$1 needs a value; see --help" ;;
		esac
		case $1 in
		--prefix) prefix=$2 && shift ;;
		--prefix=*) prefix=${1#*=} ;;
		--version) version=v${2#v} && shift ;;
		--version=*) version=${1#*=} && version=v${version#v} ;;
		-h | --help) usage && exit ;;
		*) fail "there is no option $1; see --help" ;;
		esac
		shift
	done
	base=${DESKHAND_BASE_URL:-https://github.com/deskhand/deskhand/releases}
	base=${base%/}
	arch=$(machine)
	if command -v curl >/dev/null; then
		fetcher=curl
	elif command -v wget >/dev/null; then
		fetcher=wget
	else
		fail 'neither curl nor wget is installed; install one of them'
	fi
	command -v tar >/dev/null && command -v gzip >/dev/null || fail 'tar or gzip is not installed; install them'
	if [ -z "$prefix" ] && [ "$(id -u)" = 0 ]; then
		prefix=/usr/local
	elif [ -z "$prefix" ]; then
		prefix=${HOME:?is not set; give --prefix}/.local
		say "This user is not root, so deskhand is installed for this user alone, below $prefix."
	fi
	mkdir -p "$prefix/bin" 2>/dev/null && new=$(mktemp "$prefix/bin/.deskhand-install-XXXXXX" 2>/dev/null) ||
		fail "cannot write to $prefix/bin: run this as root, or choose another --prefix that can be written to, such as ~/.local"
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp" "$new"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM

	if [ -z "$version" ]; then
		fetch "$base/latest/download/VERSION" "$tmp/VERSION"
		version=$(cat "$tmp/VERSION")
	fi
	case $version in
	*[!0-9A-Za-z.+-]*) fail "$version is no version; a version is as v1.2.3" ;;
	v[0-9]*.[0-9]*.[0-9]*) ;;
	*) fail "$version is no version; a version is as v1.2.3" ;;
	esac
	name=deskhand-linux-$arch
	fetch "$base/download/$version/SHA256SUMS" "$tmp/SHA256SUMS"
	want=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$name\.tar\.gz\$/\1/p" "$tmp/SHA256SUMS")
	[ -n "$want" ] || fail "release $version has no $name.tar.gz in its SHA256SUMS"
	fetch "$base/download/$version/$name.tar.gz" "$tmp/$name.tar.gz"
	got=$(sum "$tmp/$name.tar.gz")
	[ "$got" = "$want" ] ||
		fail "the SHA-256 sum of $name.tar.gz is $got, and SHA256SUMS says $want: the download is damaged or was changed on its way; nothing was installed"
	tar -xzf "$tmp/$name.tar.gz" -C "$tmp" || fail "cannot unpack $name.tar.gz"
	archive=$tmp/$name

	cat "$archive/deskhand" >"$new" || fail "cannot write to $prefix/bin; is the disk full?"
	chmod 755 "$new"
	said=$("$new" version 2>&1 </dev/null) || fail "the program does not run on this machine, and nothing was installed: $said"
	[ "$said" = "deskhand $version" ] || fail "the program says that it is $said, not deskhand $version; nothing was installed"
	mv -f "$new" "$prefix/bin/deskhand" || fail "cannot replace $prefix/bin/deskhand"
	old=$prefix/bin/sandbox-agent
	if [ "$(readlink "$old" 2>/dev/null)" = deskhand ] || [ ! -e "$old" ] && [ ! -L "$old" ]; then
		ln -sf deskhand "$old" || fail "cannot write $old"
	else
		say "$old is another program, and stays. To put deskhand in its place: ln -sf deskhand $old"
	fi
	put deskhand.1 man/man1 deskhand.1
	put completions/deskhand.bash bash-completion/completions deskhand
	put completions/_deskhand zsh/site-functions _deskhand
	put completions/deskhand.fish fish/vendor_completions.d deskhand.fish
	put LICENSE doc/deskhand LICENSE
	put THIRD_PARTY_NOTICES doc/deskhand THIRD_PARTY_NOTICES

	say "deskhand $version is installed: $prefix/bin/deskhand"
	case ":${PATH:-}:" in
	*":$prefix/bin:"*) ;;
	*) say "$prefix/bin is not in your PATH. Add to the profile of your shell: PATH=$prefix/bin:\$PATH" ;;
	esac
	say 'Next: "deskhand install desktop" installs what desktops need, "deskhand server --demo" shows one.'
}

# Last, so that a script that was cut off on its way does nothing.
main "$@"
