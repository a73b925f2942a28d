-- Times are microseconds since 1970, 0 for none. What is opaque, JSON too, is a
-- blob: the bytes come back as they came.

create table stream (
  id   integer primary key,
  name text not null unique
);

create table event (
  stream  integer not null, -- stream.id
  seq     integer not null, -- from 1 on, without holes
  id      text    not null,
  at      integer not null,
  life    text    not null,
  session text    not null,
  dir     integer not null,
  kind    text    not null,
  form    integer not null, -- how the payload is stored: see form.go
  size    integer not null, -- of the payload as it came
  payload blob    not null,
  primary key (stream, seq)
) without rowid;

-- There is no index of events by session: only exports would use it, and every
-- event would pay for it.

create table blob (
  hash blob    primary key, -- SHA-256 of the data
  size integer not null,
  data blob    not null
) without rowid;

create table event_blob ( -- which events need which blobs
  stream integer not null,
  seq    integer not null,
  hash   blob    not null,
  primary key (stream, seq, hash)
) without rowid;

create index event_blob_hash on event_blob (hash);

create table session (
  id         text    primary key,
  agent      text    not null,
  server     text    not null,
  native     text    not null,
  origin     text    not null,
  continues  text    not null,
  cwd        text    not null,
  title      text    not null,
  init       blob,
  modes      blob,
  config     blob,
  caps       blob,
  data       blob,
  state      text    not null,
  end_reason text    not null,
  exit_code  integer,
  error      blob,
  created_at integer not null,
  updated_at integer not null,
  ended_at   integer not null
);

create index session_created on session (created_at, id);
create index session_server on session (server);

create table life (
  id          text    primary key,
  server      text    not null,
  agent       text    not null,
  version     text    not null,
  instance    text    not null,
  pid         integer not null,
  pid_started integer not null,
  boot_id     text    not null,
  init        blob,
  data        blob,
  base        integer not null,
  started_at  integer not null,
  exited_at   integer not null,
  reason      text    not null,
  exit_code   integer,
  stderr      blob
) without rowid;

create index life_server on life (server, started_at);
create index life_open on life (id) where exited_at = 0;

create table request (
  life        text    not null,
  dir         integer not null,
  rpc_id      text    not null,
  session     text    not null,
  public_id   text    unique,
  method      text    not null,
  params      blob,
  state       text    not null,
  answer      blob,
  asked_at    integer not null,
  answered_at integer not null,
  primary key (life, dir, rpc_id)
) without rowid;

create index request_session on request (session);
create index request_open on request (life) where state = 'pending';
