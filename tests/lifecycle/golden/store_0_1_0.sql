PRAGMA application_id=1918987636;
PRAGMA user_version=0;
BEGIN TRANSACTION;
CREATE TABLE event (
        id integer primary key,
        session integer not null,
        seq integer not null,
        body text not null
    );
INSERT INTO "event" VALUES(1,1,0,'{"at":1796076038700,"depth":0,"event":"created","kind":"interactive","parent":null,"session":"s1m8q7jthc00nfn8fca","spec":{"name":"lead"},"v":1}');
INSERT INTO "event" VALUES(2,1,1,'{"activation":"a1m8q7jthc01nfn8fca","at":1796076038700,"event":"activated","v":1}');
INSERT INTO "event" VALUES(3,1,2,'{"at":1796076038700,"data":"{\"args\":[\"x\"],\"digest\":\"a5493f29d2559df57cba4440b52079328d34761b639533b3eb6f634dcb4f4e8e\",\"input\":{\"n\":1},\"limits\":\"concurrency=unbounded, agents=unbounded, start_deadline_s=unbounded, call_s=unbounded, tool_calls=unbounded, requests=unbounded\",\"python\":\"3.11.7\",\"script\":\"script_0_1_0.py\"}","event":"journaled","kind":"run.started","v":1}');
INSERT INTO "event" VALUES(4,1,3,'{"at":1796076038701,"data":"{\"name\":\"ask\"}","event":"journaled","kind":"phase","v":1}');
INSERT INTO "event" VALUES(5,2,0,'{"at":1796076038703,"contract":"{\"fallback\":null,\"kind\":\"choice\",\"members\":[\"red\",\"green\"],\"version\":1}","depth":1,"event":"created","kind":"oneshot","parent":"s1m8q7jthc00nfn8fca","session":"s1m8q7jthf00nfn8fca","spec":{"instructions":"You answer.","name":"clerk"},"v":1}');
INSERT INTO "event" VALUES(6,2,1,'{"activation":"a1m8q7jthf01nfn8fca","at":1796076038703,"event":"activated","v":1}');
INSERT INTO "event" VALUES(7,2,2,'{"at":1796076038703,"content":["Which colour?"],"digest":"090653c07d8a7918d04ee00c2a4580287f13e8842b79597f09e50523779b1d5f","event":"accepted","given":"wakeup","id":"m1m8q7jthf02nfn8fca","key":"ramet:flow.[\"agent\",1].7094f65de94d682b","sender":"s1m8q7jthc00nfn8fca","source":"prompt","v":1}');
INSERT INTO "event" VALUES(8,2,3,'{"at":1796076038704,"claimed":["m1m8q7jthf02nfn8fca"],"event":"turn_opened","turn":1,"v":1}');
INSERT INTO "event" VALUES(9,2,4,'{"at":1796076038705,"calls":[{"arguments":"{\"value\":\"green\"}","name":"reply"}],"event":"step_ended","stop":"tool_calls","text":"","v":1}');
INSERT INTO "event" VALUES(10,2,5,'{"at":1796076038705,"event":"submitted","place":0,"v":1,"value":"\"green\"","verdict":"valid"}');
INSERT INTO "event" VALUES(11,2,6,'{"at":1796076038705,"content":"Accepted. The assignment ends when the other calls of this response are done.","event":"call_ended","place":0,"v":1}');
INSERT INTO "event" VALUES(12,2,7,'{"at":1796076038706,"cause":null,"event":"turn_ended","status":"completed","v":1}');
INSERT INTO "event" VALUES(13,2,8,'{"at":1796076038705,"cause":null,"event":"concluded","message":"m1m8q7jthf02nfn8fca","receipt":"{\"attempts\":1,\"contract\":{\"fallback\":null,\"kind\":\"choice\",\"members\":[\"red\",\"green\"],\"version\":1},\"contract_digest\":\"017c86080bcdbe8d8ad4dd0f0bb48f5c46160f69d058d434cd825573319dc531\",\"duplicates\":0,\"empty\":false,\"limits\":{\"agents\":null,\"call_s\":null,\"concurrency\":null,\"requests\":null,\"start_deadline_s\":null,\"tool_calls\":null},\"message\":\"m1m8q7jthf02nfn8fca\",\"session\":\"s1m8q7jthf00nfn8fca\",\"source\":\"reply\",\"submissions\":[{\"call_id\":\"\",\"errors\":[],\"place\":0,\"raw\":\"{\\\"value\\\":\\\"green\\\"}\",\"step\":1,\"turn\":1,\"verdict\":\"valid\"}],\"usage\":{\"input_tokens\":null,\"output_tokens\":null,\"requests\":1,\"tool_calls\":0},\"value\":\"green\",\"value_digest\":\"7f3e916bf628c503cac5f6babcf2dc37b7c8f2e7e8350e0e2a77c80caee95765\",\"version\":1}","status":"completed","v":1,"value":"\"green\""}');
INSERT INTO "event" VALUES(14,2,9,'{"at":1796076038706,"event":"ended","reason":"settled","told":true,"v":1}');
INSERT INTO "event" VALUES(15,3,0,'{"at":1796076038707,"contract":"{\"kind\":\"reply\",\"version\":1}","depth":1,"event":"created","kind":"oneshot","parent":"s1m8q7jthc00nfn8fca","session":"s1m8q7jthk00nfn8fca","spec":{"instructions":"You answer.","name":"clerk"},"v":1}');
INSERT INTO "event" VALUES(16,3,1,'{"activation":"a1m8q7jthk01nfn8fca","at":1796076038707,"event":"activated","v":1}');
INSERT INTO "event" VALUES(17,3,2,'{"at":1796076038707,"content":["How big?"],"digest":"978b47ddb3c87e541360b28456723dd2e8ddf4b002020a73fd70bdcb3e62c6de","event":"accepted","given":"wakeup","id":"m1m8q7jthk02nfn8fca","key":"ramet:flow.[\"agent\",\"ask\",\"size\",1].7ace1ceea4e75917","sender":"s1m8q7jthc00nfn8fca","source":"prompt","v":1}');
INSERT INTO "event" VALUES(18,3,3,'{"at":1796076038708,"claimed":["m1m8q7jthk02nfn8fca"],"event":"turn_opened","turn":1,"v":1}');
INSERT INTO "event" VALUES(19,3,4,'{"at":1796076038709,"calls":[{"arguments":"{\"value\":{\"wide\":3}}","name":"reply"}],"event":"step_ended","stop":"tool_calls","text":"","v":1}');
INSERT INTO "event" VALUES(20,3,5,'{"at":1796076038709,"event":"submitted","place":0,"v":1,"value":"{\"wide\":3}","verdict":"valid"}');
INSERT INTO "event" VALUES(21,3,6,'{"at":1796076038709,"content":"Accepted. The assignment ends when the other calls of this response are done.","event":"call_ended","place":0,"v":1}');
INSERT INTO "event" VALUES(22,3,7,'{"at":1796076038709,"cause":null,"event":"turn_ended","status":"completed","v":1}');
INSERT INTO "event" VALUES(23,3,8,'{"at":1796076038709,"cause":null,"event":"concluded","message":"m1m8q7jthk02nfn8fca","receipt":"{\"attempts\":1,\"contract\":{\"kind\":\"reply\",\"version\":1},\"contract_digest\":\"4ef7ffeee79876f4a06d397076d6d56507506c2171227d98cdfafb74cfa80506\",\"duplicates\":0,\"empty\":false,\"limits\":{\"agents\":null,\"call_s\":null,\"concurrency\":null,\"requests\":null,\"start_deadline_s\":null,\"tool_calls\":null},\"message\":\"m1m8q7jthk02nfn8fca\",\"session\":\"s1m8q7jthk00nfn8fca\",\"source\":\"reply\",\"submissions\":[{\"call_id\":\"\",\"errors\":[],\"place\":0,\"raw\":\"{\\\"value\\\":{\\\"wide\\\":3}}\",\"step\":1,\"turn\":1,\"verdict\":\"valid\"}],\"usage\":{\"input_tokens\":null,\"output_tokens\":null,\"requests\":1,\"tool_calls\":0},\"value\":{\"wide\":3},\"value_digest\":\"2194a7419b8bfef4181d74b92e2e3d69f291b9370c54b36a5df4600f11725787\",\"version\":1}","status":"completed","v":1,"value":"{\"wide\":3}"}');
INSERT INTO "event" VALUES(24,3,9,'{"at":1796076038709,"event":"ended","reason":"settled","told":true,"v":1}');
INSERT INTO "event" VALUES(25,4,0,'{"at":1796076038713,"depth":1,"event":"created","kind":"continuable","parent":"s1m8q7jthc00nfn8fca","session":"s1m8q7jthp00nfn8fca","spec":{"instructions":"You look and report.","name":"scout"},"v":1}');
INSERT INTO "event" VALUES(26,4,1,'{"activation":"a1m8q7jths00nfn8fca","at":1796076038713,"event":"activated","v":1}');
INSERT INTO "event" VALUES(27,4,2,'{"at":1796076038713,"content":["Look around."],"digest":"a0487e8228ae8843caaa477cd1cdeb1e3462f3514cbcaceaf0a31b73c5a54f09","event":"accepted","given":"wakeup","id":"m1m8q7jths01nfn8fca","key":"ramet:flow.[\"spawn\",\"ask\",\"scout\",1].ad90d36bb780e4b1","sender":"s1m8q7jthc00nfn8fca","source":"prompt","v":1}');
INSERT INTO "event" VALUES(28,4,3,'{"at":1796076038714,"claimed":["m1m8q7jths01nfn8fca"],"event":"turn_opened","turn":1,"v":1}');
INSERT INTO "event" VALUES(29,4,4,'{"at":1796076038715,"calls":[{"arguments":"{\"output\":\"a tree\"}","name":"report"}],"event":"step_ended","stop":"tool_calls","text":"","v":1}');
INSERT INTO "event" VALUES(30,1,4,'{"asked":"quiet","at":1796076038717,"content":["a tree"],"digest":"c640fa9e56bbf94980593e4a90100d56dc5c917d13696e0c68fa370f42a75d7e","event":"accepted","given":"quiet","id":"m1m8q7jthx00nfn8fca","key":"ramet:s1m8q7jthp00nfn8fca/1/1/0","sender":"s1m8q7jthp00nfn8fca","source":"report","v":1}');
INSERT INTO "event" VALUES(31,4,5,'{"at":1796076038717,"content":"{\n  \"message_id\": \"m1m8q7jthx00nfn8fca\"\n}","event":"call_ended","place":0,"v":1}');
INSERT INTO "event" VALUES(32,4,6,'{"at":1796076038718,"calls":[],"event":"step_ended","stop":"end_turn","text":"done","v":1}');
INSERT INTO "event" VALUES(33,4,7,'{"at":1796076038718,"cause":null,"event":"turn_ended","status":"completed","v":1}');
INSERT INTO "event" VALUES(34,4,8,'{"at":1796076038718,"event":"ended","reason":"settled","reports":1,"told":true,"v":1}');
INSERT INTO "event" VALUES(35,1,5,'{"about":["m1m8q7jths01nfn8fca"],"at":1796076038718,"content":["Background subagent s1m8q7jthp00nfn8fca (scout) came to rest.\nAssignment m1m8q7jths01nfn8fca: completed.\nReports: 1. Messages that still wait: 0.\nIts transcript is session s1m8q7jthp00nfn8fca."],"event":"accepted","given":"quiet","id":"m1m8q7jthy00nfn8fca","sender":"s1m8q7jthp00nfn8fca","source":"notice","v":1}');
INSERT INTO "event" VALUES(36,5,0,'{"at":1796076038721,"contract":"{\"dialect\":\"ramet-json-subset-1\",\"digest\":\"f0765dbf409c74f001806c446f2cf171d8c46b5b15779d54423dde921a4b0670\",\"kind\":\"schema\",\"regex\":\"2026.11.19\",\"schema\":{\"type\":\"integer\"},\"version\":1}","depth":1,"event":"created","kind":"oneshot","parent":"s1m8q7jthc00nfn8fca","session":"s1m8q7jtj100nfn8fca","spec":{"instructions":"You answer.","name":"clerk"},"v":1}');
INSERT INTO "event" VALUES(37,5,1,'{"activation":"a1m8q7jtj101nfn8fca","at":1796076038721,"event":"activated","v":1}');
INSERT INTO "event" VALUES(38,5,2,'{"at":1796076038721,"content":["How many?"],"digest":"15560829e0ad89c55941310ef1062897f6c60e92f4b655c15441500e8fc7f3aa","event":"accepted","given":"wakeup","id":"m1m8q7jtj102nfn8fca","key":"ramet:flow.[\"agent\",\"key\",\"count\"]","sender":"s1m8q7jthc00nfn8fca","source":"prompt","v":1}');
INSERT INTO "event" VALUES(39,5,3,'{"at":1796076038722,"claimed":["m1m8q7jtj102nfn8fca"],"event":"turn_opened","turn":1,"v":1}');
CREATE TABLE message (
        id integer primary key,
        message text not null unique,
        session integer not null,
        sender text,
        key text,
        operation text,
        digest text
    );
INSERT INTO "message" VALUES(1,'m1m8q7jthf02nfn8fca',2,'s1m8q7jthc00nfn8fca','ramet:flow.["agent",1].7094f65de94d682b','prompt','090653c07d8a7918d04ee00c2a4580287f13e8842b79597f09e50523779b1d5f');
INSERT INTO "message" VALUES(2,'m1m8q7jthk02nfn8fca',3,'s1m8q7jthc00nfn8fca','ramet:flow.["agent","ask","size",1].7ace1ceea4e75917','prompt','978b47ddb3c87e541360b28456723dd2e8ddf4b002020a73fd70bdcb3e62c6de');
INSERT INTO "message" VALUES(3,'m1m8q7jths01nfn8fca',4,'s1m8q7jthc00nfn8fca','ramet:flow.["spawn","ask","scout",1].ad90d36bb780e4b1','prompt','a0487e8228ae8843caaa477cd1cdeb1e3462f3514cbcaceaf0a31b73c5a54f09');
INSERT INTO "message" VALUES(4,'m1m8q7jthx00nfn8fca',1,'s1m8q7jthp00nfn8fca','ramet:s1m8q7jthp00nfn8fca/1/1/0','report','c640fa9e56bbf94980593e4a90100d56dc5c917d13696e0c68fa370f42a75d7e');
INSERT INTO "message" VALUES(5,'m1m8q7jthy00nfn8fca',1,NULL,NULL,NULL,NULL);
INSERT INTO "message" VALUES(6,'m1m8q7jtj102nfn8fca',5,'s1m8q7jthc00nfn8fca','ramet:flow.["agent","key","count"]','prompt','15560829e0ad89c55941310ef1062897f6c60e92f4b655c15441500e8fc7f3aa');
CREATE TABLE meta (name text primary key, value integer not null);
INSERT INTO "meta" VALUES('format',1);
INSERT INTO "meta" VALUES('openings',1);
CREATE TABLE session (
        id integer primary key,
        session text not null unique,
        parent text,
        depth integer not null,
        name text not null,
        kind text not null,
        created_at integer not null,
        seq integer not null,
        holder text,
        epoch integer not null,
        activation text,
        turn integer not null,
        turn_open integer not null,
        parked integer not null,
        pending integer not null,
        staged integer not null,
        untold integer not null,
        requests integer not null,
        input_tokens integer,
        output_tokens integer,
        cache_read_tokens integer,
        cache_creation_tokens integer,
        tool_calls integer not null,
        last_at integer not null,
        unfinished integer not null
    );
INSERT INTO "session" VALUES(1,'s1m8q7jthc00nfn8fca',NULL,0,'lead','interactive',1796076038700,6,'h1m8q7jth600nfn8fca',1,'a1m8q7jthc01nfn8fca',0,0,0,0,0,0,0,NULL,NULL,NULL,NULL,0,1796076038718,1);
INSERT INTO "session" VALUES(2,'s1m8q7jthf00nfn8fca','s1m8q7jthc00nfn8fca',1,'clerk','oneshot',1796076038703,10,NULL,1,NULL,1,0,0,0,0,0,1,NULL,NULL,NULL,NULL,0,1796076038706,0);
INSERT INTO "session" VALUES(3,'s1m8q7jthk00nfn8fca','s1m8q7jthc00nfn8fca',1,'clerk','oneshot',1796076038707,10,NULL,1,NULL,1,0,0,0,0,0,1,NULL,NULL,NULL,NULL,0,1796076038709,0);
INSERT INTO "session" VALUES(4,'s1m8q7jthp00nfn8fca','s1m8q7jthc00nfn8fca',1,'scout','continuable',1796076038713,9,NULL,1,NULL,1,0,0,0,0,0,2,NULL,NULL,NULL,NULL,0,1796076038718,0);
INSERT INTO "session" VALUES(5,'s1m8q7jtj100nfn8fca','s1m8q7jthc00nfn8fca',1,'clerk','oneshot',1796076038721,4,'h1m8q7jth600nfn8fca',1,'a1m8q7jtj101nfn8fca',1,1,0,0,0,0,0,NULL,NULL,NULL,NULL,0,1796076038722,1);
CREATE INDEX session_children on session (parent, created_at, session);
CREATE INDEX session_unfinished on session (parent, created_at, session)
        where unfinished = 1;
CREATE UNIQUE INDEX event_place on event (session, seq);
CREATE UNIQUE INDEX message_key on message (sender, key)
        where key is not null;
COMMIT;
