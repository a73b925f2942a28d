#!/bin/sh
# Does what the entry point of the image postgres does with an empty volume: makes a cluster and a database, with
# a server that listens on its socket only, then runs the server as the user postgres.
set -eu
data=/var/lib/postgresql/data
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH

if [ "$(id -u)" = 0 ]; then
	chown postgres "$data"
	chmod 0700 "$data"
	exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$data/PG_VERSION" ]; then
	printf '%s\n' "$POSTGRES_PASSWORD" >/tmp/password
	initdb --pgdata="$data" --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=trust --encoding=UTF8 --locale=C.UTF-8
	rm /tmp/password
	echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
	pg_ctl --pgdata="$data" --options='-c listen_addresses=' --wait start
	psql --username="$POSTGRES_USER" --dbname=postgres --command="CREATE DATABASE $POSTGRES_DB"
	pg_ctl --pgdata="$data" --mode=fast --wait stop
fi
exec postgres -D "$data" -c 'listen_addresses=*' "$@"
