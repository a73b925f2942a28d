#!/bin/sh
# Runs before the removal of the package. The argument is that of dpkg (remove,
# upgrade) or of rpm (0 for a removal, 1 for an upgrade).
set -e

case $1 in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now deskhand.socket deskhand.service
	fi
	;;
esac
