-- The tables of format 1, in which every event and every message was a row of its own.
create table former_event (
    id integer primary key,
    session integer not null,
    seq integer not null,
    body text not null
);
create table former_message (
    id integer primary key,
    message text not null unique,
    session integer not null,
    sender text,
    key text,
    operation text,
    digest text
);
insert into former_event (session, seq, body)
    select place >> 32, place & 4294967295, bodies from event order by random();
insert into former_message (message, session, sender, key, operation, digest)
    select message, session, sender, key, operation, digest from message
    order by random();
drop table event;
drop table message;
alter table former_event rename to event;
alter table former_message rename to message;
create unique index event_place on event (session, seq);
create unique index message_key on message (sender, key) where key is not null;
drop table bookmark;
alter table session drop column opening;
update meta set value = 1 where name = 'format';
