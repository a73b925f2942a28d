// OpenComputer's SDK from its entry, against a running server.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, test } from "node:test";
import { Sandbox } from "@opencomputer/sdk";

const options = { apiUrl: `${process.env.SDKTEST_URL}/opencomputer`, apiKey: process.env.SDKTEST_TOKEN };
const sandbox = await Sandbox.create({ ...options, envs: { COLOUR: "red" }, metadata: { a: "b" } });
after(() => sandbox.kill().catch(() => {}));
const text = (chunks) => chunks.map((chunk) => new TextDecoder().decode(chunk)).join("");

// eventually waits until a function returns something.
async function eventually(what, f) {
  for (const end = Date.now() + 60_000; ; ) {
    const found = await f();
    if (found) return found;
    assert.ok(Date.now() < end, `no ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("a sandbox is made and found again", async () => {
  const again = await Sandbox.connect(sandbox.sandboxId, options);
  assert.equal(again.sandboxId, sandbox.sandboxId);
  assert.equal(again.status, "running");
  assert.equal(await again.isRunning(), true);
  await assert.rejects(Sandbox.connect("sb_none", options), /404/);
  await assert.rejects(Sandbox.create({ ...options, apiKey: "wrong" }), /401/);
});

test("programs run with the sandbox's directory and variables", async () => {
  const done = await sandbox.exec.run("pwd; echo $COLOUR $SIZE; echo bad >&2; exit 3", { env: { SIZE: "big" } });
  assert.ok(done.stdout.includes(`${sandbox.sandboxId}\nred big\n`), done.stdout);
  assert.deepEqual([done.stderr, done.exitCode], ["bad\n", 3]);
  assert.equal((await sandbox.exec.run("cat")).exitCode, 0, "a program without input reads its end");
  assert.equal((await sandbox.exec.run("sleep 600", { timeout: 1 })).exitCode, 137);
  assert.equal((await sandbox.exec.run("pwd", { cwd: "/" })).stdout, "/\n");
});

test("a program in the background has input and output, is attached to again, and killed", async () => {
  const out = [], errors = [];
  const session = await sandbox.exec.start("sh", { args: ["-c", "read line; echo got $line; echo warn >&2; exit 4"], onStdout: (c) => out.push(c), onStderr: (c) => errors.push(c) });
  session.sendStdin("word\n");
  assert.equal(await session.done, 4);
  assert.deepEqual([text(out), text(errors)], ["got word\n", "warn\n"]);
  const again = [];
  let past = "";
  const second = await sandbox.exec.attach(session.sessionId, { onStdout: (c) => again.push(c), onScrollbackEnd: () => (past = text(again)) });
  assert.equal(await second.done, 4);
  assert.equal(past, "got word\n");
  const long = await sandbox.exec.background("sleep", { args: ["600"] });
  assert.ok((await sandbox.exec.list()).some((s) => s.sessionID === long.sessionId && s.running && s.command === "sleep"));
  await long.kill();
  assert.equal(await long.done, 137);
});

test("a shell keeps its directory and variables", async () => {
  const shell = await sandbox.exec.shell();
  assert.equal((await shell.run("cd / && export A=1")).exitCode, 0);
  assert.equal((await shell.run("echo $PWD $A")).stdout.trim(), "/ 1");
  assert.equal((await shell.run("false")).exitCode, 1);
  await shell.close();
});

test("files are written, read, listed and removed", async () => {
  await sandbox.files.makeDir("docs");
  await sandbox.files.write("docs/a.txt", "hello");
  await sandbox.files.write("docs/b.bin", new Uint8Array([0, 255, 1]));
  await sandbox.files.write("docs/c.txt", new ReadableStream({ start: (c) => (c.enqueue(new TextEncoder().encode("streamed")), c.close()) }));
  assert.equal(await sandbox.files.read("docs/a.txt"), "hello");
  assert.deepEqual([...(await sandbox.files.readBytes("docs/b.bin"))], [0, 255, 1]);
  assert.equal(await sandbox.files.read("docs/c.txt"), "streamed");
  assert.equal((await sandbox.exec.run("cat docs/a.txt")).stdout, "hello");
  const entries = await sandbox.files.list("docs");
  assert.deepEqual(entries.map((e) => [e.name, e.isDir, e.size]), [["a.txt", false, 5], ["b.bin", false, 3], ["c.txt", false, 8]]);
  assert.equal(await sandbox.files.read(entries[0].path), "hello");
  assert.equal(await sandbox.files.exists("docs/a.txt"), true);
  await sandbox.files.remove("docs/a.txt");
  assert.equal(await sandbox.files.exists("docs/a.txt"), false);
  await assert.rejects(sandbox.files.read("docs/a.txt"), /404/);
});

test("a terminal echoes what is typed", async () => {
  const out = [];
  const pty = await sandbox.pty.create({ cols: 100, rows: 30, onOutput: (chunk) => out.push(chunk) });
  await eventually("prompt", () => out.length > 0);
  pty.send("stty size; echo $((40+2))\n");
  await eventually("answer", () => text(out).includes("30 100") && text(out).includes("42"));
  pty.close();
});

test("the agent works in the sandbox", async () => {
  const events = [];
  const session = await sandbox.agent.start({ prompt: "hello", onEvent: (event) => events.push(event) });
  await eventually("end of the turn", () => events.some((e) => e.type === "turn_complete"));
  assert.ok((await sandbox.agent.list()).some((s) => s.sessionID === session.sessionId && s.running));
  await session.kill();
  assert.equal(await session.done, 137);
  const { sessions } = await (await fetch(`${process.env.SDKTEST_URL}/v1/sessions`, { headers: { Authorization: `Bearer ${process.env.SDKTEST_TOKEN}` } })).json();
  assert.ok(sessions.some((s) => s.sessionId === session.sessionId));
});

test("what is not supported says so", async () => {
  await assert.rejects(Sandbox.create({ ...options, memoryMB: 4096 }), /501.*memoryMB/s);
  await assert.rejects(Sandbox.create({ ...options, timeout: 60 }), /501.*timeout/s);
  await assert.rejects(Sandbox.create({ ...options, template: "node" }), /501.*templateID/s);
  await assert.rejects(sandbox.hibernate(), /501/);
  await assert.rejects(sandbox.createCheckpoint("x"), /501/);
  await assert.rejects(sandbox.scale({ memoryMB: 1024 }), /501/);
  await assert.rejects(sandbox.downloadUrl("/a"), /501/);
  await assert.rejects(sandbox.createPreviewURL({ port: 80 }), /501/);
  await assert.rejects(sandbox.exec.start("true", { maxRunAfterDisconnect: 1 }), /501/);
});

test("a killed sandbox has no programs, sessions and files", async () => {
  const other = await Sandbox.create(options);
  const long = await other.exec.start("sleep", { args: ["600"] });
  const directory = (await other.exec.run("pwd")).stdout.trim();
  assert.ok(existsSync(directory));
  await other.kill();
  assert.equal(await long.done, 137);
  assert.ok(!existsSync(directory));
  assert.equal(await other.isRunning(), false);
  await assert.rejects(Sandbox.connect(other.sandboxId, options), /404/);
});
