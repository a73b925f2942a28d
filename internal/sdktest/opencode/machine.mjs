// The routes that need no session, and those that answer 501.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { baseUrl, directory, fails, follow, ok, signal, until, v1, v2 } from "./lib.mjs";

mkdirSync(join(directory, "sub"));
writeFileSync(join(directory, "sub", "note.txt"), "first line\nfind this line\n");

test("files are listed, read and found", async () => {
  for (const list of [v1.file.list({ query: { path: "sub" } }), v2.file.list({ path: "sub" })]) {
    assert.deepEqual((await ok(list)).map((f) => [f.name, f.path, f.type]), [["note.txt", "sub/note.txt", "file"]]);
  }
  for (const read of [v1.file.read({ query: { path: "sub/note.txt" } }), v2.file.read({ path: "sub/note.txt" })]) {
    assert.ok((await ok(read)).content.includes("find this"));
  }
  for (const found of [v1.find.text({ query: { pattern: "f.nd this" } }), v2.find.text({ pattern: "f.nd this" })]) {
    assert.deepEqual((await ok(found)).map((m) => [m.path.text, m.line_number]), [["sub/note.txt", 2]]);
  }
  for (const found of [v1.find.files({ query: { query: "note" } }), v2.find.files({ query: "note" })]) {
    assert.deepEqual(await ok(found), ["sub/note.txt"]);
  }
  for (const changed of [v1.file.status(), v2.file.status(), v2.vcs.status()]) assert.deepEqual(await ok(changed), []);
  await fails(v2.file.read({ path: "none.txt" }), 404, "NotFoundError");
});

test("the server, its projects, agents, models and settings are described", async () => {
  assert.equal((await ok(v2.global.health())).healthy, true);
  for (const path of [v1.path.get(), v2.path.get()]) assert.equal((await ok(path)).directory, directory);
  for (const project of [v1.project.current(), v2.project.current()]) assert.equal((await ok(project)).worktree, "/");
  for (const list of [v1.project.list(), v2.project.list()]) assert.ok(Array.isArray(await ok(list)));
  for (const vcs of [v1.vcs.get(), v2.vcs.get()]) assert.equal(typeof (await ok(vcs)), "object");
  for (const list of [v1.provider.list(), v2.provider.list()]) assert.ok((await ok(list)).connected.includes("scripted"));
  for (const list of [v1.config.providers(), v2.config.providers()]) {
    assert.ok((await ok(list)).providers.find((p) => p.id === "mock").models.default);
  }
  for (const methods of [v1.provider.auth(), v2.provider.auth()]) assert.deepEqual(await ok(methods), {});
  for (const agents of [v1.app.agents(), v2.app.agents()]) assert.equal((await ok(agents))[0].name, "build");
  for (const list of [v1.command.list(), v2.command.list()]) assert.ok(Array.isArray(await ok(list)));
  assert.equal((await ok(v1.config.update({ body: { theme: "one" } }))).theme, "one");
  assert.equal((await ok(v2.config.update({ config: { theme: "two" } }))).theme, "two");
  for (const config of [v1.config.get(), v2.config.get()]) assert.equal((await ok(config)).theme, "two");
  assert.equal((await ok(v2.global.config.update({ config: { username: "me" } }))).username, "me");
  assert.equal((await ok(v2.global.config.get())).username, "me");
  const entry = { service: "test", level: "info", message: "hello" };
  for (const logged of [v1.app.log({ body: entry }), v2.app.log(entry)]) assert.equal(await ok(logged), true);
});

test("what there is none of is empty", async () => {
  for (const list of [
    v1.lsp.status(), v2.lsp.status(), v1.formatter.status(), v2.formatter.status(), v2.experimental.workspace.list(), v2.experimental.workspace.status(),
    v2.experimental.workspace.adapter.list(),
  ]) {
    assert.deepEqual(await ok(list), []);
  }
  assert.deepEqual(await ok(v2.experimental.resource.list()), {});
  assert.deepEqual((await ok(v2.experimental.console.listOrgs())).orgs, []);
  assert.equal((await ok(v2.experimental.console.get())).switchableOrgCount, 0);
  assert.equal((await ok(v2.experimental.capabilities.get())).backgroundSubagents, false);
});

test("MCP servers are added and switched", async () => {
  const config = { type: "local", command: ["true"] };
  assert.equal((await ok(v1.mcp.add({ body: { name: "one", config } }))).one.status, "connected");
  assert.equal((await ok(v2.mcp.add({ name: "two", config }))).two.status, "connected");
  assert.equal(await ok(v1.mcp.disconnect({ path: { name: "one" } })), true);
  assert.equal(await ok(v2.mcp.disconnect({ name: "two" })), true);
  for (const all of [v1.mcp.status(), v2.mcp.status()]) assert.deepEqual(Object.values(await ok(all)).map((s) => s.status), ["disabled", "disabled"]);
  assert.equal(await ok(v1.mcp.connect({ path: { name: "one" } })), true);
  assert.equal(await ok(v2.mcp.connect({ name: "two" })), true);
  assert.equal((await ok(v2.mcp.status())).two.status, "connected");
  await fails(v2.mcp.connect({ name: "none" }), 404, "NotFoundError");
});

// typed types a line into a terminal and waits for its output.
async function typed(ptyID) {
  const token = Buffer.from(`opencode:${process.env.SDKTEST_TOKEN}`).toString("base64");
  const socket = new WebSocket(`${baseUrl.replace("http", "ws")}/pty/${ptyID}/connect?auth_token=${encodeURIComponent(token)}`);
  let output = "";
  await new Promise((resolve, reject) => {
    socket.onopen = () => socket.send("echo $((40+2))\n");
    socket.onerror = () => reject(new Error(`the terminal ended after ${output}`));
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") output += data;
      if (output.includes("42")) resolve();
    };
  });
  socket.close();
}

test("terminals are made, used, changed and ended", async () => {
  const stream = await follow();
  const first = await ok(v1.pty.create({ body: { command: "/bin/sh", title: "one" } }));
  const second = await ok(v2.pty.create({ command: "/bin/sh" }));
  assert.equal((await until(stream, (e) => e.type === "pty.created")).at(-1).properties.info.id, first.id);
  await typed(second.id);
  assert.equal((await ok(v1.pty.get({ path: { id: first.id } }))).title, "one");
  assert.equal((await ok(v1.pty.update({ path: { id: first.id }, body: { title: "new" } }))).title, "new");
  await ok(v2.pty.update({ ptyID: second.id, size: { rows: 30, cols: 90 } }));
  assert.equal((await ok(v2.pty.get({ ptyID: second.id }))).status, "running");
  for (const list of [v1.pty.list(), v2.pty.list()]) assert.equal((await ok(list)).length, 2);
  assert.ok((await ok(v2.pty.shells())).length > 0);
  // These are no WebSockets, which the routes want.
  for (const call of [v1.pty.connect({ path: { id: first.id } }), v2.pty.connect({ ptyID: second.id })]) assert.ok((await call).response.status >= 400);
  assert.equal(await ok(v1.pty.remove({ path: { id: first.id } })), true);
  assert.equal(await ok(v2.pty.remove({ ptyID: second.id })), true);
  assert.deepEqual(await ok(v2.pty.list()), []);
});

test("terminal UIs are controlled by events", async () => {
  const { stream } = await v1.global.event({ signal });
  await stream.next();
  const command = (call, name) => [call, (e) => e.type === "tui.command.execute" && e.properties.command === name];
  for (const [call, match] of [
    command(() => v1.tui.openHelp(), "help.show"), command(() => v2.tui.openHelp(), "help.show"),
    command(() => v1.tui.openSessions(), "session.list"), command(() => v2.tui.openSessions(), "session.list"),
    command(() => v1.tui.openThemes(), "theme.list"), command(() => v2.tui.openThemes(), "theme.list"),
    command(() => v1.tui.openModels(), "model.list"), command(() => v2.tui.openModels(), "model.list"),
    command(() => v1.tui.submitPrompt(), "prompt.submit"), command(() => v2.tui.submitPrompt(), "prompt.submit"),
    command(() => v1.tui.clearPrompt(), "prompt.clear"), command(() => v2.tui.clearPrompt(), "prompt.clear"),
    command(() => v1.tui.executeCommand({ body: { command: "session_new" } }), "session.new"), command(() => v2.tui.executeCommand({ command: "session.new" }), "session.new"),
    [() => v1.tui.appendPrompt({ body: { text: "a" } }), (e) => e.type === "tui.prompt.append"],
    [() => v2.tui.appendPrompt({ text: "a" }), (e) => e.type === "tui.prompt.append"],
    [() => v1.tui.showToast({ body: { message: "m", variant: "info" } }), (e) => e.type === "tui.toast.show"],
    [() => v2.tui.showToast({ message: "m", variant: "info" }), (e) => e.type === "tui.toast.show"],
    [() => v1.tui.publish({ body: { type: "tui.prompt.append", properties: { text: "b" } } }), (e) => e.properties.text === "b"],
    [() => v2.tui.publish({ body: { type: "tui.prompt.append", properties: { text: "c" } } }), (e) => e.properties.text === "c"],
    [() => v2.tui.selectSession({ sessionID: "ses_1" }), (e) => e.type === "tui.session.select"],
  ]) {
    assert.equal(await ok(call()), true);
    await until(stream, match);
  }
  for (const { instance } of [v1, v2]) {
    assert.equal(await ok(instance.dispose()), true);
    await until(stream, (e) => e.type === "server.instance.disposed");
  }
});

test("what is not supported says so", async () => {
  const projectID = "p", name = "n", providerID = "claude", body = {};
  const path = { name, id: "claude" };
  for (const answer of [
    v1.auth.set({ path: { id: "claude" }, body }), v2.auth.set({ providerID, auth: { type: "api", key: "k" } }), v2.auth.remove({ providerID }),
    v1.provider.oauth.authorize({ path, body }), v1.provider.oauth.callback({ path, body }),
    v2.provider.oauth.authorize({ providerID, method: 0 }), v2.provider.oauth.callback({ providerID, method: 0 }),
    ...[v1.mcp.auth, v1.auth].flatMap((auth) => [auth.remove({ path }), auth.start({ path }), auth.callback({ path, body: { code: "c" } }), auth.authenticate({ path })]),
    v1.mcp.auth.set({ path, body }),
    v2.mcp.auth.remove({ name }), v2.mcp.auth.start({ name }), v2.mcp.auth.callback({ name, code: "c" }), v2.mcp.auth.authenticate({ name }),
    v1.tool.ids(), v1.tool.list({ query: { provider: "mock", model: "m" } }), v2.tool.ids(), v2.tool.list({ provider: "mock", model: "m" }),
    v1.find.symbols({ query: { query: "x" } }), v2.find.symbols({ query: "x" }), v2.app.skills(),
    v1.tui.control.next(), v1.tui.control.response({ body }), v2.tui.control.next(), v2.tui.control.response({ body }),
    v2.global.upgrade({ target: "1" }), v2.global.dispose(), v2.pty.connectToken({ ptyID: "pty_1" }),
    v2.vcs.diff({ mode: "git" }), v2.vcs.diff2.raw(), v2.vcs.apply({ patch: "" }),
    v2.project.initGit(), v2.project.update({ projectID, name: "n" }), v2.project.directories({ projectID }),
    v2.worktree.list(), v2.worktree.create({}), v2.worktree.remove({}), v2.worktree.reset({}),
    v2.sync.start(), v2.sync.replay({ events: [] }), v2.sync.steal({ sessionID: "s" }), v2.sync.history.list({ body }),
    v2.experimental.controlPlane.moveSession({ sessionID: "s" }), v2.experimental.console.switchOrg({ accountID: "a", orgID: "o" }),
    v2.experimental.session.list(), v2.experimental.session.background({ sessionID: "s" }), v2.experimental.projectCopy.generateName({ projectID }),
    v2.experimental.workspace.create({ type: "t" }), v2.experimental.workspace.syncList(), v2.experimental.workspace.remove({ id: "w" }),
    v2.experimental.workspace.warp({ id: "w", sessionID: "s" }),
  ]) {
    const message = await fails(answer, 501, "NotImplementedError");
    const { pathname } = new URL((await answer).response.url);
    assert.ok(message.includes(`/${pathname.split("/")[2]}`), `${pathname}: ${message}`);
  }
});

// Where the experimental routes below /api have their counterparts.
test("the routes below /api say which ones to use", async () => {
  const ids = { sessionID: "s", requestID: "r", messageID: "m", ptyID: "p", providerID: "x", integrationID: "i", attemptID: "a", credentialID: "c", projectID: "j", id: "d", name: "n", action: "a", resources: [], key: "k", methodID: "o", agent: "a", model: { id: "m", providerID: "p" }, prompt: { text: "x" }, path: "a", query: "q", directory, strategy: "s", "*": "a" };
  const call = async (api, path) => {
    for (const name of new Set([...Object.keys(api), ...Object.getOwnPropertyNames(Object.getPrototypeOf(api))])) {
      if (name === "constructor" || name === "client" || name.startsWith("_")) continue;
      const member = api[name];
      if (typeof member !== "function") {
        await call(member, `${path}.${name}`);
      } else if (name === "subscribe" || name === "events") {
        const options = { signal, sseMaxRetryAttempts: 1, onSseError: (error) => assert.match(String(error), /501/) };
        const { stream } = await (name === "subscribe" ? member(options) : member(ids, options));
        for await (const event of stream) assert.fail(`${path}.${name} has the event ${JSON.stringify(event)}`);
      } else {
        const { error, response } = await member(ids);
        assert.equal(response.status, 501, `${path}.${name}: ${JSON.stringify(error)}`);
        assert.match(error.data.message, /not supported: /);
      }
    }
  };
  await call(v2.v2, "v2");
});
