// An older version of the SDK.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpencodeClient } from "opencode-sdk-older";
import { baseUrl, directory, headers, model, ok, said, signal, text, until } from "./lib.mjs";

test("an older client has prompts, events and permissions", async () => {
  const older = createOpencodeClient({ baseUrl, directory, headers });
  const { id } = await ok(older.session.create({ body: { title: "Older" } }));
  const { stream } = await older.event.subscribe({ signal });
  assert.equal((await stream.next()).value.type, "server.connected");
  assert.ok(said(await ok(older.session.prompt({ path: { id }, body: { model, parts: text("hello") } }))).endsWith("hello"));
  await until(stream, (e) => e.type === "session.idle");
  const asking = older.session.prompt({ path: { id }, body: { parts: text("permission") } });
  const { properties: asked } = (await until(stream, (e) => e.type === "permission.updated")).at(-1);
  assert.equal(asked.sessionID, id);
  assert.ok(asked.title && asked.messageID && asked.callID && asked.time.created && asked.type);
  const path = { id, permissionID: asked.id };
  assert.equal(await ok(older.postSessionIdPermissionsPermissionId({ path, body: { response: "once" } })), true);
  const { properties: replied } = (await until(stream, (e) => e.type === "permission.replied")).at(-1);
  assert.deepEqual([replied.permissionID, replied.response], [asked.id, "once"]);
  assert.equal((await ok(asking)).info.role, "assistant");
  assert.equal((await ok(older.session.messages({ path: { id } }))).length, 4);
  for (const call of [older.session.list(), older.config.get(), older.config.providers(), older.app.agents(), older.path.get(), older.project.current(), older.command.list(), older.file.list({ query: { path: "." } })]) {
    assert.ok(await ok(call));
  }
});
