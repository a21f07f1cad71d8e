-- The tables of format 2, without bookmarks, places of messages and numbers of openings.
drop table bookmark;
alter table message drop column seq;
alter table session drop column opening;
update meta set value = 2 where name = 'format';
