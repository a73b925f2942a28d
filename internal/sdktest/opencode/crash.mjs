// The server is killed in the middle of a turn and started again.
import assert from "node:assert/strict";
import { test } from "node:test";
import { model, ok, said, signal, text, until, v2 } from "./lib.mjs";

test("a stream connects again after the server was killed, and the session has everything", async () => {
  const { id: sessionID } = await ok(v2.session.create({}));
  const { stream } = await v2.global.event({ signal, sseDefaultRetryDelay: 50 });
  const connected = (e) => e.type === "server.connected";
  await until(stream, connected);
  await ok(v2.session.prompt({ sessionID, model, parts: text("before") }));
  await ok(v2.session.promptAsync({ sessionID, parts: text("slow") }));
  // A stream can have a text before it is stored. Half a second later it is.
  await until(stream, (e) => e.type === "message.part.delta" && e.properties.delta.includes("tick 2"));
  const response = await fetch(process.env.SDKTEST_CRASH, { method: "POST" });
  assert.equal(response.status, 200, await response.text());
  await until(stream, connected);
  const messages = await ok(v2.session.messages({ sessionID }));
  assert.equal(messages.length, 4);
  assert.ok(said(messages[1]).endsWith("before"));
  assert.ok(said(messages[3]).includes("tick 1"));
  assert.equal(messages[3].info.error.name, "UnknownError");
  assert.deepEqual(await ok(v2.session.status()), {});
  assert.equal(said(await ok(v2.session.prompt({ sessionID, parts: text("after") }))), "after");
  const ids = (await ok(v2.session.messages({ sessionID }))).map((m) => m.info.id);
  assert.deepEqual(ids, [...ids].sort());
  assert.equal(new Set(ids).size, 6);
});
