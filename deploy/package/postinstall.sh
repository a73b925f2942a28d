#!/bin/sh
# Runs after the installation of the package, also of a newer version.
set -e

if ! getent passwd deskhand >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/deskhand --no-create-home --shell /bin/bash --comment 'deskhand server' deskhand
fi
if ! [ -s /etc/deskhand/token ]; then
	umask 077
	od -An -tx1 -N 32 /dev/urandom | tr -d ' \n' >/etc/deskhand/token
	echo >>/etc/deskhand/token
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart deskhand.service
fi
