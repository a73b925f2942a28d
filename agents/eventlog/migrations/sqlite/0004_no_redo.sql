-- Commits go to the database alone.

drop table redo;
