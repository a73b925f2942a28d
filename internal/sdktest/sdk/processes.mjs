// Processes: limits, runs to completion, managed processes, logs and input.
import assert from "node:assert/strict";
import { realpath } from "node:fs/promises";
import { test } from "node:test";
import { SandboxAgentError } from "sandbox-agent";
import { agent, contents, ended, eventually, file, known, refused, running, scratch, within } from "./lib.mjs";

const defaults = {
  maxConcurrentProcesses: 64,
  defaultRunTimeoutMs: 30_000,
  maxRunTimeoutMs: 300_000,
  maxOutputBytes: 1 << 20,
  maxLogBytesPerProcess: 10 << 20,
  maxInputBytesPerRequest: 64 << 10,
};

const sh = (script, ...args) => ({ command: "sh", args: ["-c", script, "sh", ...args] });
const text = (entries) => Buffer.concat(entries.map((e) => Buffer.from(e.data, "base64"))).toString();
const logged = async (id, query) => (await agent.getProcessLogs(id, query)).entries;

// logs waits until a process has written the wanted text.
const logs = (id, wanted, query) =>
  eventually(`log ${JSON.stringify(wanted)} of ${id}`, async () => {
    const entries = await logged(id, query);
    return text(entries) === wanted ? entries : undefined;
  });

// remove ends a process, if it still runs, and its record.
async function remove(id) {
  await agent.killProcess(id, { waitMs: 5000 });
  await agent.deleteProcess(id);
}

export function config() {
  test("getProcessConfig", async () => {
    assert.deepEqual(await agent.getProcessConfig(), defaults);
  });

  test("setProcessConfig", async () => {
    const changed = { ...defaults, maxOutputBytes: 3, defaultRunTimeoutMs: 200, maxInputBytesPerRequest: 4 };
    assert.deepEqual(await agent.setProcessConfig(changed), changed);
    assert.deepEqual(await agent.getProcessConfig(), changed);
    const cut = await agent.runProcess({ command: "echo", args: ["hello"], maxOutputBytes: 100 });
    assert.deepEqual([cut.stdout, cut.stdoutTruncated], ["hel", true]);
    assert.equal((await agent.runProcess({ command: "sleep", args: ["60"] })).timedOut, true);
    const { id } = await agent.createProcess({ command: "cat" });
    const problem = await refused(agent.sendProcessInput(id, { data: "12345", encoding: "text" }), 413, "invalid_request");
    assert.equal(problem.title, "Payload Too Large");
    assert.match(problem.detail, /maxInputBytesPerRequest \(4\)/);
    assert.deepEqual(await agent.sendProcessInput(id, { data: "1234", encoding: "text" }), { bytesWritten: 4 });
    await remove(id);
    assert.deepEqual(await agent.setProcessConfig(defaults), defaults);
  });

  test("setProcessConfig refuses zero and leaves what was", async () => {
    for (const [name, detail] of [
      ["maxConcurrentProcesses", "maxConcurrentProcesses must be greater than 0"],
      ["defaultRunTimeoutMs", "timeouts must be greater than 0"],
      ["maxOutputBytes", "byte limits must be greater than 0"],
      ["maxLogBytesPerProcess", "byte limits must be greater than 0"],
      ["maxInputBytesPerRequest", "byte limits must be greater than 0"],
    ]) {
      const problem = await refused(agent.setProcessConfig({ ...defaults, [name]: 0 }), 400, "invalid_request");
      assert.ok(problem.detail.includes(detail), problem.detail);
    }
    await assert.rejects(agent.setProcessConfig({ maxOutputBytes: 5 }), (e) => e instanceof SandboxAgentError && e.status === 422);
    assert.deepEqual(await agent.getProcessConfig(), defaults);
  });

  test("the limit of concurrent processes", async () => {
    const { processes } = await agent.listProcesses();
    const count = processes.filter((p) => p.status === "running").length;
    await agent.setProcessConfig({ ...defaults, maxConcurrentProcesses: count + 1 });
    const { id } = await agent.createProcess({ command: "sleep", args: ["60"] });
    const problem = await refused(agent.createProcess({ command: "sleep", args: ["60"] }), 409, "conflict");
    assert.match(problem.detail, new RegExp(`max concurrent process limit reached \\(${count + 1}\\)`));
    await remove(id);
    await agent.setProcessConfig(defaults);
  });
}

export function run() {
  test("runProcess", async () => {
    const result = await agent.runProcess(sh("printf out; printf err >&2; exit 3"));
    assert.ok(result.durationMs >= 0 && result.durationMs < 5000, `${result.durationMs} ms`);
    assert.deepEqual(result, {
      exitCode: 3, timedOut: false, stdout: "out", stderr: "err", stdoutTruncated: false, stderrTruncated: false,
      durationMs: result.durationMs,
    });
  });

  test("runProcess passes arguments, directory and environment", async () => {
    const { stdout } = await agent.runProcess({
      ...sh('printf "%s|" "$@"; pwd; printf "%s" "$SDKTEST_VALUE"', "a b", "$HOME", "'", ""),
      cwd: scratch, env: { SDKTEST_VALUE: "ü =1" },
    });
    assert.equal(stdout, `a b|$HOME|'||${await realpath(scratch)}\nü =1`);
  });

  test("runProcess replaces invalid UTF-8, and cuts at bytes", async () => {
    const { stdout, stderr, ...flags } = await agent.runProcess({ ...sh("printf 'a\\377b'; printf 123456 >&2"), maxOutputBytes: 5 });
    assert.deepEqual([stdout, stderr], ["a\ufffdb", "12345"]);
    assert.deepEqual([flags.stdoutTruncated, flags.stderrTruncated, flags.exitCode], [false, true, 0]);
  });

  test("runProcess has no input", async () => {
    assert.equal((await agent.runProcess({ command: "cat" })).exitCode, 0);
  });

  test("runProcess of what ends by a signal", async () => {
    const { exitCode, timedOut } = await agent.runProcess(sh("kill -9 $$"));
    assert.deepEqual({ exitCode, timedOut }, { exitCode: null, timedOut: false });
  });

  test("runProcess with a timeout", async () => {
    const begin = Date.now();
    const result = await agent.runProcess({ ...sh("printf early; exec sleep 60"), timeoutMs: 200 });
    assert.deepEqual([result.exitCode, result.timedOut, result.stdout], [null, true, "early"]);
    assert.ok(Date.now() - begin < 5000);
  });

  test("runProcess with a timeout ends grandchildren, too", known("it waits for the pipe, and they live"), async () => {
    const result = await agent.runProcess({ ...sh(`sleep 60 & echo $! > ${file("grandchild")}; printf early; wait`), timeoutMs: 200 });
    assert.deepEqual([result.exitCode, result.timedOut, result.stdout], [null, true, "early"]);
    assert.ok(result.durationMs < 5000, `${result.durationMs} ms`);
    await ended(Number(await contents("grandchild")));
  });

  test("runProcess refuses what cannot be started", async () => {
    const blank = await refused(agent.runProcess({ command: " " }), 400, "invalid_request");
    assert.match(blank.detail, /command must not be empty/);
    const missing = await refused(agent.runProcess({ command: "no-such-program" }), 502, "stream_error");
    assert.match(missing.detail, /failed to spawn process: .*o such file|failed to spawn process: .*not found/);
    await refused(agent.runProcess({ command: "true", cwd: file("no-such-directory") }), 502, "stream_error");
    await refused(agent.createProcess({ command: "no-such-program" }), 502, "stream_error");
  });
}

export function managed() {
  test("createProcess, getProcess and listProcesses", async () => {
    const begin = Date.now();
    const info = await agent.createProcess({ ...sh("exec sleep 60"), cwd: scratch, interactive: true });
    assert.match(info.id, /^proc_\d+$/);
    assert.ok(await running(info.pid));
    assert.ok(info.createdAtMs >= begin - 1000 && info.createdAtMs <= Date.now() + 1000);
    assert.deepEqual(info, {
      ...sh("exec sleep 60"), id: info.id, cwd: scratch, tty: false, interactive: true, owner: "user", status: "running",
      pid: info.pid, createdAtMs: info.createdAtMs,
    });
    assert.deepEqual(await agent.getProcess(info.id), info);
    for (const query of [undefined, { owner: "user" }]) {
      const { processes } = await agent.listProcesses(query);
      assert.deepEqual(processes.find((p) => p.id === info.id), info);
    }
    const { processes } = await agent.listProcesses({ owner: "desktop" });
    assert.equal(processes.find((p) => p.id === info.id), undefined);
    await remove(info.id);
  });

  test("listProcesses by owner has what the desktop runs", async () => {
    const { processes: started } = await agent.startDesktop({ width: 320, height: 240 });
    const { processes } = await agent.listProcesses({ owner: "desktop" });
    assert.ok(processes.every((p) => p.owner === "desktop"));
    const server = started.find((p) => p.name === "Xvfb");
    const listed = processes.find((p) => p.pid === server.pid);
    assert.match(listed.command, /Xvfb$/);
    assert.equal(listed.status, "running");
    await agent.stopDesktop();
    await ended(server.pid);
  });

  test("listProcesses is in the order of creation", known("sorts as text"), async () => {
    const ids = [];
    for (let i = 0; i < 12; i++) ids.push((await agent.createProcess({ command: "true" })).id);
    const { processes } = await agent.listProcesses({ owner: "user" });
    assert.deepEqual(processes.map((p) => p.id).filter((id) => ids.includes(id)), ids);
    for (const id of ids) await remove(id);
  });

  test("an exit code, and none after a signal", async () => {
    const coded = await agent.createProcess(sh("exit 7"));
    const info = await eventually("exit", async () => {
      const p = await agent.getProcess(coded.id);
      return p.status === "exited" ? p : undefined;
    });
    assert.equal(info.exitCode, 7);
    assert.equal(info.pid ?? null, null);
    assert.ok(info.exitedAtMs >= info.createdAtMs);
    const signalled = await agent.createProcess({ command: "sleep", args: ["60"] });
    const killed = await agent.killProcess(signalled.id, { waitMs: 5000 });
    assert.deepEqual([killed.status, killed.exitCode ?? null], ["exited", null]);
    await agent.deleteProcess(coded.id);
    await agent.deleteProcess(signalled.id);
  });

  test("stopProcess is polite", async () => {
    const { id, pid } = await agent.createProcess(sh('trap "echo bye; exit 4" TERM; echo ready; while :; do sleep 0.01; done'));
    await logs(id, "ready\n", { stream: "stdout" });
    const stopped = await agent.stopProcess(id, { waitMs: 5000 });
    assert.deepEqual([stopped.id, stopped.status, stopped.exitCode], [id, "exited", 4]);
    await ended(pid);
    await logs(id, "ready\nbye\n", { stream: "stdout" });
    assert.deepEqual(await agent.stopProcess(id), stopped);
    assert.deepEqual(await agent.killProcess(id), stopped);
    await agent.deleteProcess(id);
  });

  test("stopProcess and killProcess reach the whole group", known("signals one process"), async () => {
    for (const end of [agent.stopProcess, agent.killProcess]) {
      const { id } = await agent.createProcess(sh("sleep 60 & echo $!; wait"));
      const [entry] = await eventually("pid of the grandchild", async () => {
        const entries = await logged(id);
        return entries.length > 0 ? entries : undefined;
      });
      assert.equal((await end(id, { waitMs: 5000 })).status, "exited");
      await ended(Number(text([entry])));
      await agent.deleteProcess(id);
    }
  });

  test("deleteProcess", async () => {
    const { id } = await agent.createProcess({ command: "sleep", args: ["60"] });
    const problem = await refused(agent.deleteProcess(id), 409, "conflict");
    assert.match(problem.detail, /process is still running; stop or kill it before delete/);
    await agent.killProcess(id, { waitMs: 5000 });
    assert.equal(await agent.deleteProcess(id), undefined);
    assert.equal((await agent.listProcesses()).processes.find((p) => p.id === id), undefined);
    await unknown(id);
  });

  test("unknown processes are refused", () => unknown("proc_4294967296"));
}

// unknown tries every call that names a process.
async function unknown(id) {
  for (const call of [
    () => agent.getProcess(id),
    () => agent.stopProcess(id),
    () => agent.killProcess(id, { waitMs: 1 }),
    () => agent.deleteProcess(id),
    () => agent.getProcessLogs(id),
    () => agent.followProcessLogs(id, () => {}),
    () => agent.sendProcessInput(id, { data: "" }),
    () => agent.resizeProcessTerminal(id, { cols: 1, rows: 1 }),
  ]) {
    const problem = await refused(call(), 404, "not_found");
    assert.deepEqual(problem.details, { id, resource: "process" });
  }
}

export function logging() {
  test("getProcessLogs", async () => {
    const { id } = await agent.createProcess(sh("printf one; read go; printf two >&2; read go; printf three; read go"));
    await logs(id, "one");
    await agent.sendProcessInput(id, { data: "\n", encoding: "utf8" });
    await logs(id, "onetwo");
    await agent.sendProcessInput(id, { data: "\n", encoding: "utf8" });
    const all = await logs(id, "onetwothree");
    const { timestampMs } = all[0];
    assert.ok(Math.abs(timestampMs - Date.now()) < 60_000);
    assert.deepEqual(all[0], { sequence: 1, stream: "stdout", timestampMs, data: btoa("one"), encoding: "base64" });
    assert.deepEqual(all.map((e) => [e.sequence, e.stream]), [[1, "stdout"], [2, "stderr"], [3, "stdout"]]);

    assert.deepEqual(await agent.getProcessLogs(id), { processId: id, stream: "combined", entries: all });
    assert.deepEqual(await agent.getProcessLogs(id, { stream: "stderr" }), { processId: id, stream: "stderr", entries: [all[1]] });
    assert.deepEqual(await logged(id, { stream: "stdout" }), [all[0], all[2]]);
    assert.deepEqual(await logged(id, { stream: "combined" }), all);
    assert.deepEqual(await logged(id, { stream: "pty" }), []);
    assert.deepEqual(await logged(id, { since: 1 }), all.slice(1));
    assert.deepEqual(await logged(id, { since: 3 }), []);
    assert.deepEqual(await logged(id, { tail: 2 }), all.slice(1));
    assert.deepEqual(await logged(id, { tail: 0 }), []);
    assert.deepEqual(await logged(id, { stream: "stdout", tail: 1 }), [all[2]]);
    await remove(id);
  });

  test("getProcessLogs of bytes", async () => {
    const { id } = await agent.createProcess(sh("printf '\\000\\377\\n\\303'"));
    const entries = await eventually("four bytes", async () => {
      const got = await logged(id);
      return Buffer.from(got.map((e) => e.data).join(""), "base64").length === 4 ? got : undefined;
    });
    assert.deepEqual([...Buffer.concat(entries.map((e) => Buffer.from(e.data, "base64")))], [0, 255, 10, 195]);
    await remove(id);
  });

  test("the log keeps its newest bytes", async () => {
    await agent.setProcessConfig({ ...defaults, maxLogBytesPerProcess: 100_000 });
    const { id } = await agent.createProcess(sh("i=0; while [ $i -lt 50000 ]; do echo line $i; i=$((i+1)); done; echo end"));
    const entries = await eventually("the end of the log", async () => {
      const got = await logged(id);
      return text(got).endsWith("\nend\n") ? got : undefined;
    }, 30_000);
    const kept = entries.reduce((n, e) => n + Buffer.from(e.data, "base64").length, 0);
    assert.ok(kept > 30_000 && kept <= 100_000, `${kept} bytes are kept`);
    assert.ok(entries[0].sequence > 1);
    await remove(id);
    await agent.setProcessConfig(defaults);
  });

  test("followProcessLogs replays and goes on", async () => {
    const { id } = await agent.createProcess(sh("printf one; read go; printf two; read go"));
    await logs(id, "one");
    const got = [];
    const subscription = await agent.followProcessLogs(id, (entry) => got.push(entry));
    await eventually("replay", async () => (text(got) === "one" ? true : undefined));
    await agent.sendProcessInput(id, { data: "\n", encoding: "text" });
    await eventually("what comes next", async () => (text(got) === "onetwo" ? true : undefined));
    assert.deepEqual(got, await logged(id));
    subscription.close();
    await subscription.closed;
    await remove(id);
  });

  test("followProcessLogs of one stream, after a sequence number", async () => {
    const { id } = await agent.createProcess(sh("printf a; read go; printf b >&2; read go; printf c; read go"));
    await logs(id, "a");
    const errors = [];
    const later = [];
    const first = await agent.followProcessLogs(id, (entry) => errors.push(entry), { stream: "stderr" });
    const second = await agent.followProcessLogs(id, (entry) => later.push(entry), { since: 1 });
    await agent.sendProcessInput(id, { data: "\n", encoding: "text" });
    await logs(id, "ab");
    await agent.sendProcessInput(id, { data: "\n", encoding: "text" });
    await eventually("the last entry", async () => (text(later) === "bc" ? true : undefined));
    assert.deepEqual(errors.map((e) => [e.sequence, e.stream, atob(e.data)]), [[2, "stderr", "b"]]);
    assert.deepEqual(later.map((e) => e.sequence), [2, 3]);
    for (const subscription of [first, second]) {
      subscription.close();
      await subscription.closed;
    }
    await remove(id);
  });

  test("followProcessLogs ends when the process does", known("it never ends"), async () => {
    const { id } = await agent.createProcess(sh("read go; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done"));
    const got = [];
    const subscription = await agent.followProcessLogs(id, (entry) => got.push(entry));
    await agent.sendProcessInput(id, { data: "\n", encoding: "text" });
    await within(10_000, subscription.closed).finally(subscription.close);
    assert.equal(text(got), Array.from({ length: 2000 }, (_, i) => `line ${i}\n`).join(""));
    assert.deepEqual(got.map((e) => e.sequence), got.map((_, i) => i + 1));

    const again = [];
    const late = await agent.followProcessLogs(id, (entry) => again.push(entry));
    await within(10_000, late.closed).finally(late.close);
    assert.deepEqual(again, got);
    await remove(id);
  });
}

export function input() {
  test("sendProcessInput", async () => {
    const { id } = await agent.createProcess({ command: "cat" });
    assert.deepEqual(await agent.sendProcessInput(id, { data: btoa("one\n") }), { bytesWritten: 4 });
    await logs(id, "one\n");
    assert.deepEqual(await agent.sendProcessInput(id, { data: btoa("two\n"), encoding: "base64" }), { bytesWritten: 4 });
    assert.deepEqual(await agent.sendProcessInput(id, { data: "drü\n", encoding: "utf8" }), { bytesWritten: 5 });
    assert.deepEqual(await agent.sendProcessInput(id, { data: "vier\n", encoding: "text" }), { bytesWritten: 5 });
    await logs(id, "one\ntwo\ndrü\nvier\n");

    const encoding = await refused(agent.sendProcessInput(id, { data: "", encoding: "utf16" }), 400, "invalid_request");
    assert.match(encoding.detail, /encoding must be one of: base64, utf8, text/);
    const base64 = await refused(agent.sendProcessInput(id, { data: "!" }), 400, "invalid_request");
    assert.match(base64.detail, /invalid base64 input/);

    await agent.killProcess(id, { waitMs: 5000 });
    const late = await refused(agent.sendProcessInput(id, { data: "" }), 409, "conflict");
    assert.match(late.detail, /process is not running/);
    await agent.deleteProcess(id);
  });

  test("sendProcessInput of as much as it may take", async () => {
    const { id } = await agent.createProcess({ command: "sha256sum" });
    await refused(agent.sendProcessInput(id, { data: Buffer.alloc((64 << 10) + 1).toString("base64") }), 413, "invalid_request");
    assert.deepEqual(await agent.sendProcessInput(id, { data: Buffer.alloc(64 << 10).toString("base64") }), { bytesWritten: 64 << 10 });
    await remove(id);
  });
}
