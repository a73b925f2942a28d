// Sessions of the mock agent.
import assert from "node:assert/strict";
import { test } from "node:test";
import { directory, fails, model, ok, said, signal, text, until, v1, v2 } from "./lib.mjs";

test("v1: sessions, prompts and what was said", async () => {
  const made = await ok(v1.session.create({ body: { title: "First" } }));
  assert.equal(made.directory, directory);
  const path = { id: made.id };
  const reply = await ok(v1.session.prompt({ path, body: { model, parts: text("hello") } }));
  assert.ok(said(reply).endsWith("hello"));
  assert.equal(reply.info.providerID, "mock");
  assert.equal((await ok(v1.session.get({ path }))).title, "First");
  assert.equal((await ok(v1.session.update({ path, body: { title: "Second" } }))).title, "Second");
  assert.deepEqual((await ok(v1.session.list())).map((s) => s.id), [made.id]);
  assert.deepEqual(await ok(v1.session.status()), {});
  const child = await ok(v1.session.create({ body: { parentID: made.id } }));
  assert.deepEqual((await ok(v1.session.children({ path }))).map((s) => s.id), [child.id]);
  await ok(v1.session.prompt({ path, body: { parts: text("demo") } }));
  assert.equal((await ok(v1.session.todo({ path }))).length, 2);
  const run = await ok(v1.session.command({ path, body: { command: "review", arguments: "x" } }));
  assert.equal(said(run), "/review x");
  await ok(v1.session.prompt({ path, body: { parts: text("diff") } }));
  assert.ok((await ok(v1.session.diff({ path })))[0].additions > 0);
  const shell = await ok(v1.session.shell({ path, body: { agent: "build", command: "echo there" } }));
  assert.equal(shell.parts[0].state.output, "there\n");
  assert.equal(await ok(v1.session.init({ path, body: { ...model, messageID: "" } })), true);
  const messages = await ok(v1.session.messages({ path }));
  assert.equal(messages.length, 12);
  const one = await ok(v1.session.message({ path: { ...path, messageID: messages[1].info.id } }));
  assert.deepEqual(one, messages[1]);
  const ids = messages.map((m) => m.info.id);
  assert.deepEqual(ids, [...ids].sort());
  const fork = await ok(v1.session.fork({ path, body: { messageID: ids[2] } }));
  const copied = await ok(v1.session.messages({ path: { id: fork.id } }));
  assert.deepEqual(copied.map((m) => m.parts.map((p) => p.text)), messages.slice(0, 2).map((m) => m.parts.map((p) => p.text)));
  assert.ok(!ids.includes(copied[1].info.id), "messages of two sessions have the same id");
  const continued = said(await ok(v1.session.prompt({ path: { id: fork.id }, body: { parts: text("and now") } })));
  assert.ok(continued.includes("User: hello") && continued.endsWith("and now"), continued);
  assert.equal((await ok(v1.session.messages({ path: { id: fork.id } }))).length, 4);
  await fails(v1.session.fork({ path, body: { messageID: "msg_none" } }), 404, "NotFoundError");
  for (const method of ["share", "unshare", "revert", "unrevert", "summarize"]) {
    await fails(v1.session[method]({ path, body: { messageID: ids[0], ...model } }), 501, "NotImplementedError");
  }
  await fails(v1.session.get({ path: { id: "none" } }), 404, "NotFoundError");
  assert.equal(await ok(v1.session.delete({ path })), true);
  await fails(v1.session.get({ path }), 404, "NotFoundError");
});

test("v1: a permission is answered once, and an abort ends the turn", async () => {
  const { id } = await ok(v1.session.create({ body: {} }));
  const { stream } = await v1.event.subscribe({ signal });
  assert.equal((await stream.next()).value.type, "server.connected");
  const first = v1.session.prompt({ path: { id }, body: { model, parts: text("permission") } });
  const asked = (await until(stream, (e) => e.type === "permission.asked")).at(-1).properties;
  const path = { id, permissionID: asked.id };
  assert.equal(await ok(v1.postSessionIdPermissionsPermissionId({ path, body: { response: "once" } })), true);
  await fails(v1.postSessionIdPermissionsPermissionId({ path, body: { response: "once" } }), 404, "NotFoundError");
  assert.equal((await ok(first)).info.finish, "stop");
  const { stream: second } = await v1.event.subscribe({ signal });
  await second.next();
  await ok(v1.session.promptAsync({ path: { id }, body: { parts: text("slow") } }));
  assert.equal(await ok(v1.session.abort({ path: { id } })), true);
  const all = await until(second, (e) => e.type === "session.idle");
  assert.equal(all.find((e) => e.type === "session.error").properties.error.name, "MessageAbortedError");
});

test("v2: sessions, permissions, questions and the global stream", async () => {
  const { stream } = await v2.global.event({ signal });
  assert.equal((await stream.next()).value.payload.type, "server.connected");
  const made = await ok(v2.session.create({ title: "T", model: { providerID: "mock", id: "mock" } }));
  const sessionID = made.id;
  assert.equal(made.model.providerID, "mock");
  assert.equal((await until(stream, (e) => e.type === "session.created")).at(-1).properties.info.id, sessionID);
  await ok(v2.session.promptAsync({ sessionID, parts: text("permission") }));
  const asked = (await until(stream, (e) => e.type === "permission.asked")).at(-1).properties;
  assert.deepEqual((await ok(v2.permission.list())).map((p) => p.id), [asked.id]);
  assert.equal((await ok(v2.session.status()))[sessionID].type, "busy");
  assert.equal(await ok(v2.permission.reply({ requestID: asked.id, reply: "reject" })), true);
  await until(stream, (e) => e.type === "session.idle");
  await ok(v2.session.promptAsync({ sessionID, parts: text("plan") }));
  const question = (await until(stream, (e) => e.type === "question.asked")).at(-1).properties;
  assert.deepEqual((await ok(v2.question.list())).map((q) => q.id), [question.id]);
  const label = question.questions[0].options[0].label;
  assert.equal(await ok(v2.question.reply({ requestID: question.id, answers: [[label]] })), true);
  await until(stream, (e) => e.type === "session.idle");
  await ok(v2.session.promptAsync({ sessionID, parts: text("plan") }));
  const other = (await until(stream, (e) => e.type === "question.asked")).at(-1).properties;
  assert.equal(await ok(v2.question.reject({ requestID: other.id })), true);
  await fails(v2.question.reject({ requestID: other.id }), 404, "NotFoundError");
  await until(stream, (e) => e.type === "session.idle");
  const messages = await ok(v2.session.messages({ sessionID, limit: 2 }));
  assert.equal(messages.length, 2);
  const messageID = messages[0].info.id;
  assert.equal((await ok(v2.session.message({ sessionID, messageID }))).info.id, messageID);
  await fails(v2.session.deleteMessage({ sessionID, messageID }), 501, "NotImplementedError");
  await fails(v2.part.delete({ sessionID, messageID, partID: messages[0].parts[0].id }), 501, "NotImplementedError");
  await fails(v2.part.update({ sessionID, messageID, partID: messages[0].parts[0].id, part: messages[0].parts[0] }), 501, "NotImplementedError");
  const fork = await ok(v2.session.fork({ sessionID }));
  assert.equal((await ok(v2.session.messages({ sessionID: fork.id }))).length, 6);
  await moreOfV2(sessionID);
  await fails(v2.session.prompt({ sessionID, parts: [] }), 400, "BadRequest");
  assert.equal(await ok(v2.session.delete({ sessionID })), true);
});

// moreOfV2 calls the methods of sessions that the other tests call with the first client.
async function moreOfV2(sessionID) {
  assert.ok((await ok(v2.session.list({ limit: 1000 }))).some((s) => s.id === sessionID));
  assert.equal((await ok(v2.session.update({ sessionID, title: "Renamed" }))).title, "Renamed");
  assert.equal((await ok(v2.session.get({ sessionID }))).title, "Renamed");
  const child = await ok(v2.session.create({ parentID: sessionID }));
  assert.deepEqual((await ok(v2.session.children({ sessionID }))).map((s) => s.id), [child.id]);
  assert.equal((await ok(v2.session.shell({ sessionID, agent: "build", command: "exit 3" }))).parts[0].state.metadata.exit, 3);
  assert.equal(await ok(v2.session.init({ sessionID, ...model, messageID: "" })), true);
  await ok(v2.session.prompt({ sessionID, parts: text("demo") }));
  assert.equal(said(await ok(v2.session.command({ sessionID, command: "review", arguments: "y" }))), "/review y");
  assert.equal((await ok(v2.session.todo({ sessionID }))).length, 2);
  assert.deepEqual(await ok(v2.session.diff({ sessionID })), []);
  for (const method of ["share", "unshare", "summarize"]) {
    await fails(v2.session[method]({ sessionID, ...model }), 501, "NotImplementedError");
  }
  await fails(v2.session.revert({ sessionID, messageID: "msg_1" }), 501, "NotImplementedError");
  await fails(v2.session.unrevert({ sessionID }), 501, "NotImplementedError");
  await ok(v2.session.promptAsync({ sessionID, parts: text("permission") }));
  let open = [];
  while (open.length === 0) open = await ok(v2.permission.list());
  assert.equal(await ok(v2.permission.respond({ sessionID, permissionID: open[0].id, response: "once" })), true);
  await ok(v2.session.promptAsync({ sessionID, parts: text("slow") }));
  assert.equal(await ok(v2.session.abort({ sessionID })), true);
}

test("unknown ids and directories are errors that name them", async () => {
  const sessionID = "ses_none";
  for (const call of [
    v2.session.get({ sessionID }), v2.session.update({ sessionID, title: "x" }), v2.session.delete({ sessionID }), v2.session.children({ sessionID }),
    v2.session.messages({ sessionID }), v2.session.message({ sessionID, messageID: "msg_1" }), v2.session.todo({ sessionID }), v2.session.diff({ sessionID }),
    v2.session.prompt({ sessionID, parts: text("a") }), v2.session.promptAsync({ sessionID, parts: text("a") }), v2.session.abort({ sessionID }),
    v2.session.fork({ sessionID }), v2.session.init({ sessionID, ...model }), v2.session.summarize({ sessionID, ...model }),
    v2.session.command({ sessionID, command: "a", arguments: "" }), v2.session.shell({ sessionID, agent: "build", command: "true" }),
  ]) {
    assert.ok((await fails(call, 404, "NotFoundError")).includes(sessionID));
  }
  await fails(v2.permission.reply({ requestID: "per_none", reply: "once" }), 404, "NotFoundError");
  await fails(v2.question.reply({ requestID: "que_none", answers: [] }), 404, "NotFoundError");
  await fails(v2.pty.get({ ptyID: "pty_none" }), 404, "NotFoundError");
  assert.ok((await fails(v2.session.create({ directory: "not/absolute" }), 400, "BadRequest")).includes("directory"));
  assert.ok((await fails(v2.session.create({ directory: `${directory}/missing` }), 400, "BadRequest")).includes("missing"));
});

test("two prompts at once of a session without an agent are answered in turn", async () => {
  const { id: sessionID } = await ok(v2.session.create({}));
  const both = ["one", "two"].map((words) => v2.session.prompt({ sessionID, model, parts: text(words) }));
  const answers = await Promise.all(both.map(ok));
  assert.deepEqual(answers.map((a) => said(a).slice(-3)), ["one", "two"]);
});
