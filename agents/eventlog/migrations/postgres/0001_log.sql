-- Times are microseconds since 1970, 0 for none. What is opaque, JSON too, is
-- bytea: the bytes come back as they came.

create table stream (
  id   bigint generated always as identity primary key,
  name text collate "C" not null unique
);

create table event (
  stream  bigint not null, -- stream.id
  seq     bigint not null, -- from 1 on, without holes
  id      text collate "C"    not null,
  at      bigint not null,
  life    text collate "C"    not null,
  session text collate "C"    not null,
  dir     bigint not null,
  kind    text collate "C"    not null,
  form    bigint not null, -- how the payload is stored: see form.go
  size    bigint not null, -- of the payload as it came
  payload bytea not null,
  primary key (stream, seq)
);

alter table event alter column payload set storage external; -- is compressed where it is worth it

create index event_session on event (session, stream, seq) where session <> '';

create table blob (
  hash bytea primary key, -- SHA-256 of the data
  size bigint not null,
  data bytea not null
);

create table event_blob ( -- which events need which blobs
  stream bigint not null,
  seq    bigint not null,
  hash   bytea not null references blob (hash),
  primary key (stream, seq, hash)
);

create index event_blob_hash on event_blob (hash);

create table session (
  id         text collate "C"    primary key,
  agent      text collate "C"    not null,
  server     text collate "C"    not null,
  native     text collate "C"    not null,
  origin     text collate "C"    not null,
  continues  text collate "C"    not null,
  cwd        text collate "C"    not null,
  title      text collate "C"    not null,
  init       bytea,
  modes      bytea,
  config     bytea,
  caps       bytea,
  data       bytea,
  state      text collate "C"    not null,
  end_reason text collate "C"    not null,
  exit_code  bigint,
  error      bytea,
  created_at bigint not null,
  updated_at bigint not null,
  ended_at   bigint not null
);

create index session_created on session (created_at, id);
create index session_server on session (server);

create table life (
  id          text collate "C"    primary key,
  server      text collate "C"    not null,
  agent       text collate "C"    not null,
  version     text collate "C"    not null,
  instance    text collate "C"    not null,
  pid         bigint not null,
  pid_started bigint not null,
  boot_id     text collate "C"    not null,
  init        bytea,
  data        bytea,
  base        bigint not null,
  started_at  bigint not null,
  exited_at   bigint not null,
  reason      text collate "C"    not null,
  exit_code   bigint,
  stderr      bytea
);

create index life_server on life (server, started_at);
create index life_open on life (id) where exited_at = 0;

create table request (
  life        text collate "C"    not null,
  dir         bigint not null,
  rpc_id      text collate "C"    not null,
  session     text collate "C"    not null,
  public_id   text collate "C"    unique,
  method      text collate "C"    not null,
  params      bytea,
  state       text collate "C"    not null,
  answer      bytea,
  asked_at    bigint not null,
  answered_at bigint not null,
  primary key (life, dir, rpc_id)
);

create index request_session on request (session);
create index request_open on request (life) where state = 'pending';
