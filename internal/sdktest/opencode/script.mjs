// Sessions of an agent with a script: agent.mjs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, follow, ok, said, text, until, v2 } from "./lib.mjs";

const scripted = { providerID: "scripted", modelID: "default" };
const create = async () => (await ok(v2.session.create({ title: "Script", model: { providerID: "scripted", id: "default" } }))).id;
const prompt = (sessionID, words, more = {}) => v2.session.prompt({ sessionID, parts: text(words), ...more });

test("the model, the mode and all kinds of parts of a prompt reach the agent", async () => {
  const sessionID = await create();
  assert.equal(said(await ok(prompt(sessionID, "hello"))), "small, careful: hello");
  const parts = [
    ...text("see"), { type: "file", mime: "text/plain", filename: "n.txt", url: "data:text/plain;base64,bm90ZQ==" },
    { type: "file", mime: "image/png", url: "data:image/png;base64,iVBORw0KGgo=" }, { type: "file", mime: "text/plain", url: "file:///etc/hostname" },
    { type: "agent", name: "quick" },
  ];
  const reply = await ok(v2.session.prompt({ sessionID, model: { ...scripted, modelID: "large" }, agent: "quick", parts }));
  assert.equal(said(reply), "large, quick: see | note | image/png | file:///etc/hostname | @quick");
  assert.deepEqual([reply.info.modelID, reply.info.agent], ["large", "quick"]);
  const session = await ok(v2.session.get({ sessionID }));
  assert.deepEqual([session.model.id, session.agent], ["large", "quick"]);
  await fails(prompt(sessionID, "x", { model: { ...scripted, modelID: "none" } }), 400, "BadRequest");
  await fails(prompt(sessionID, "x", { agent: "none" }), 400, "BadRequest");
  assert.ok((await fails(prompt(sessionID, "x", { model: { providerID: "mock", modelID: "default" } }), 400, "BadRequest")).includes("scripted"));
  for (const more of [{ system: "x" }, { tools: { bash: false } }, { noReply: true }, { format: { type: "json_schema", schema: {} } }]) {
    assert.ok((await fails(prompt(sessionID, "x", more), 501, "NotImplementedError")).includes(Object.keys(more)[0]));
  }
});

test("thoughts, tokens, tool calls, files and the end of a turn", async () => {
  const sessionID = await create();
  const thought = await ok(prompt(sessionID, "think"));
  assert.deepEqual(thought.parts.map((p) => p.type), ["step-start", "reasoning", "text", "step-finish"]);
  assert.equal(thought.parts[1].text, "hm");
  assert.deepEqual(thought.info.tokens, { input: 7, output: 3, reasoning: 1, cache: { read: 2, write: 0 } });
  const stream = await follow();
  const done = await ok(prompt(sessionID, "tools"));
  assert.deepEqual(done.parts.map((p) => p.type), ["step-start", "tool", "tool", "file", "step-finish", "patch"]);
  const [, failed, edited, picture, , patch] = done.parts;
  assert.deepEqual([failed.tool, failed.state.status, failed.state.error, failed.state.input.command], ["bash", "error", "no such target", "make check"]);
  assert.deepEqual([edited.tool, edited.state.status, edited.state.input.filePath], ["edit", "completed", "/a.txt"]);
  assert.equal(picture.url, "data:image/png;base64,iVBORw0KGgo=");
  assert.deepEqual(patch.files, ["/a.txt"]);
  assert.equal(done.info.finish, "length");
  const events = await until(stream, (e) => e.type === "session.idle");
  const states = events.filter((e) => e.type === "message.part.updated" && e.properties.part.callID === "t1").map((e) => e.properties.part.state.status);
  assert.deepEqual(states, ["pending", "running", "error"]);
  assert.deepEqual(events.filter((e) => e.type === "file.edited").map((e) => e.properties.file), ["/a.txt"]);
  assert.equal((await ok(v2.session.diff({ sessionID, messageID: done.info.parentID })))[0].deletions, 1);
  assert.equal((await ok(prompt(sessionID, "refuse"))).info.finish, "content-filter");
});

test("permissions reach the agent as they were answered", async () => {
  const sessionID = await create();
  for (const [reply, option] of [["once", "o-allow_once"], ["always", "o-allow_always"], ["reject", "o-reject_once"]]) {
    const stream = await follow();
    const answer = prompt(sessionID, "ask");
    const asked = (await until(stream, (e) => e.type === "permission.asked")).at(-1).properties;
    assert.deepEqual([asked.permission, asked.patterns, asked.always], ["bash", ["rm a"], ["rm a"]]);
    const both = await Promise.all([1, 2].map(() => v2.permission.reply({ requestID: asked.id, reply })));
    assert.deepEqual(both.map((b) => b.response.status).sort(), [200, 404], "it is answered once");
    assert.equal(said(await ok(answer)), option);
  }
});

test("the agent's own commands summarize and initialize", async () => {
  const sessionID = await create();
  await ok(prompt(sessionID, "hello"));
  const stream = await follow();
  assert.equal(await ok(v2.session.summarize({ sessionID, ...scripted })), true);
  await until(stream, (e) => e.type === "session.compacted" && e.properties.sessionID === sessionID);
  assert.equal(await ok(v2.session.init({ sessionID, ...scripted, messageID: "" })), true);
  const messages = await ok(v2.session.messages({ sessionID }));
  assert.deepEqual(messages.slice(-4).map(said), ["/compact", "small, careful: /compact", "/init", "small, careful: /init"]);
  assert.ok((await ok(v2.command.list())).some((c) => c.name === "compact"));
});

test("an aborted turn, and one in which the agent ends, have an error, and the session goes on", async () => {
  const sessionID = await create();
  const stream = await follow();
  const waits = prompt(sessionID, "wait");
  await until(stream, (e) => e.type === "session.status" && e.properties.status.type === "busy");
  assert.equal(await ok(v2.session.abort({ sessionID })), true);
  assert.equal((await ok(waits)).info.error.name, "MessageAbortedError");
  assert.equal((await ok(prompt(sessionID, "fail"))).info.error.data.message, "it failed");
  const died = await ok(prompt(sessionID, "die"));
  assert.equal(died.info.error.name, "UnknownError");
  assert.ok(said(await ok(prompt(sessionID, "on"))).endsWith("on"));
});

test("a prompt that waits for its agent is aborted", async () => {
  const { id: sessionID } = await ok(v2.session.create({}));
  const slow = { providerID: "slow", modelID: "default" };
  const waits = prompt(sessionID, "x", { model: slow });
  while (!(await ok(v2.session.status()))[sessionID]) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(await ok(v2.session.abort({ sessionID })), true);
  await fails(waits, 409, "ConflictError");
  assert.deepEqual(await ok(v2.session.messages({ sessionID })), []);
  assert.ok(said(await ok(prompt(sessionID, "on", { model: scripted }))).endsWith("on"), "another agent may take the session");
});
