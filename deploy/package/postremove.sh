#!/bin/sh
# Runs after the removal of the package. With dpkg --purge nothing is left.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ]; then
	rm -rf /etc/deskhand /var/lib/deskhand
	if getent passwd deskhand >/dev/null; then
		userdel deskhand
	fi
fi
