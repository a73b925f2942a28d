#!/bin/sh
# Runs docker.test.mjs in namespaces of its own, which end all that the Docker
# engine starts, mounts and adds to the network. Needs root.
set -eu
cd "$(dirname "$0")"

ROOTFS=$(mktemp -d)
export ROOTFS
trap 'rm -rf --one-file-system "$ROOTFS"' EXIT
. /etc/os-release
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null | sed -n 's/^\(deb\|URIs:\) .*\(http[^ ]*\).*/\2/p' | head -n 1)
# Here and not in the test: the namespaces have no way to the mirror.
debootstrap --variant=minbase --include=xvfb,openbox,dbus,xterm,fonts-dejavu-core "$VERSION_CODENAME" "$ROOTFS" "$mirror" >"$ROOTFS.log" ||
	{ cat "$ROOTFS.log"; exit 1; }
rm "$ROOTFS.log"
unshare --net --mount --pid --fork --kill-child --mount-proc sh -c 'ip link set lo up && exec node --test-reporter=spec docker.test.mjs'
