-- SQLite reads the whole row when it compares a key of a table without rowid. What
-- can be large is therefore in tables with rowid, such as blob.

-- Payloads above maxInline become blobs: see formApart. Their names are made from
-- the events' keys, since SQLite has no SHA-256.

insert into blob (hash, size, data)
  select cast(printf('%016x%016x', stream, seq) as blob), length(payload), payload
  from event where length(payload) > 16384;
insert into event_blob (stream, seq, hash)
  select stream, seq, cast(printf('%016x%016x', stream, seq) as blob)
  from event where length(payload) > 16384;
update event set form = form | 4, payload = cast(printf('%016x%016x', stream, seq) as blob)
  where length(payload) > 16384;

create table request_with_rowid (
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
);

insert into request_with_rowid select * from request;
drop table request;
alter table request_with_rowid rename to request;

create index request_session on request (session);
create index request_open on request (life) where state = 'pending';
