-- How far the redo log beside the file was taken over, and which one is ours.

create table redo (
  id      text    not null,
  applied integer not null -- the number of the last commit
);

insert into redo (id, applied) values (lower(hex(randomblob(16))), 0);
