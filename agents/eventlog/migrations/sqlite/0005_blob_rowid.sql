-- SQLite compares a key of a table without rowid by reading the whole row, and blobs have up to
-- 48 MiB. With rowids it compares only the hashes of an index.

create table blob_by_row (
  hash blob    not null unique, -- SHA-256 of the data
  size integer not null,
  data blob    not null
);

insert into blob_by_row (hash, size, data) select hash, size, data from blob;
drop table blob;
alter table blob_by_row rename to blob;
