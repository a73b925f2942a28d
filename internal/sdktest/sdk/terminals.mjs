// Programs on pseudo-terminals, and the WebSocket to them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { agent, baseUrl, eventually, known, noting, reference, refused, token, within } from "./lib.mjs";

const tty = (script) => agent.createProcess({ command: "sh", args: ["-c", script], tty: true, interactive: true });

// log waits until all that a terminal has shown matches.
const log = (id, pattern) =>
  eventually(`${pattern} in the log of ${id}`, async () => {
    const { entries } = await agent.getProcessLogs(id);
    const text = Buffer.concat(entries.map((e) => Buffer.from(e.data, "base64"))).toString();
    return pattern.test(text) ? entries : undefined;
  });

async function remove(id) {
  await agent.killProcess(id, { waitMs: 5000 });
  await agent.deleteProcess(id);
}

// open connects a session and notes all that it says.
function open(id, options) {
  const session = noting(agent.connectProcessTerminal(id, options));
  const seen = { session, ready: [], bytes: [], exits: [], errors: [], closed: 0 };
  seen.text = () => Buffer.concat(seen.bytes).toString();
  session.onReady((frame) => seen.ready.push(frame));
  session.onData((bytes) => seen.bytes.push(bytes));
  session.onExit((frame) => seen.exits.push(frame));
  session.onError((error) => seen.errors.push(error));
  session.onClose(() => seen.closed++);
  return seen;
}

const readied = (seen) => eventually("ready", async () => (seen.ready.length > 0 ? true : undefined));
const shows = (seen, pattern) => eventually(`${pattern} in ${JSON.stringify(seen.text())}`, async () => (pattern.test(seen.text()) ? true : undefined));

export function processes() {
  test("a terminal has a size, and its output is in the stream pty", async () => {
    const info = await tty("stty size; tty; echo error >&2; exec cat");
    assert.equal(info.tty, true);
    const entries = await log(info.id, /^24 80\r\n\/dev\/pts\/\d+\r\nerror\r\n$/);
    assert.ok(entries.every((e) => e.stream === "pty" && e.encoding === "base64"));
    for (const query of [{}, { stream: "pty" }]) {
      assert.deepEqual(await agent.getProcessLogs(info.id, query), { processId: info.id, stream: "pty", entries });
    }
    // The reference's "combined" is of the two others alone.
    const combined = { processId: info.id, stream: "combined", entries: reference ? [] : entries };
    assert.deepEqual(await agent.getProcessLogs(info.id, { stream: "combined" }), combined);
    for (const stream of ["stdout", "stderr"]) {
      assert.deepEqual(await agent.getProcessLogs(info.id, { stream }), { processId: info.id, stream, entries: [] });
    }
    assert.deepEqual(await agent.sendProcessInput(info.id, { data: "typed\n", encoding: "text" }), { bytesWritten: 6 });
    await log(info.id, /typed\r\ntyped\r\n$/);
    await remove(info.id);
  });

  test("the end of a terminal adds nothing to what it showed", known("adds an I/O error"), async () => {
    const { id } = await tty("printf last");
    await eventually("exit", async () => ((await agent.getProcess(id)).status === "exited" ? true : undefined));
    await log(id, /^last$/);
    await agent.deleteProcess(id);
  });

  test("resizeProcessTerminal", async () => {
    const { id } = await tty("trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done");
    await log(id, /^ready/);
    assert.deepEqual(await agent.resizeProcessTerminal(id, { cols: 132, rows: 43 }), { cols: 132, rows: 43 });
    await log(id, /\n43 132\r\n$/);
    await remove(id);
    const plain = await agent.createProcess({ command: "cat" });
    const problem = await refused(agent.resizeProcessTerminal(plain.id, { cols: 1, rows: 1 }), 409, "conflict");
    assert.match(problem.detail, /process is not running in tty mode/);
    await remove(plain.id);
  });
}

export function sockets() {
  test("buildProcessTerminalWebSocketUrl", () => {
    const host = new URL(baseUrl).host;
    assert.equal(agent.buildProcessTerminalWebSocketUrl("proc_1"), `ws://${host}/v1/processes/proc_1/terminal/ws?access_token=${token}`);
    assert.equal(
      agent.buildProcessTerminalWebSocketUrl("a/b", { accessToken: "x y" }),
      `ws://${host}/v1/processes/a%2Fb/terminal/ws?access_token=x+y`,
    );
  });

  test("connectProcessTerminalWebSocket", async () => {
    const { id } = await tty("echo shown before; exec cat");
    await log(id, /^shown before\r\n$/);
    const frames = await socketFrames(id);
    assert.deepEqual(JSON.parse(await frames.next()), { type: "ready", processId: id });

    frames.socket.send(JSON.stringify({ type: "input", data: "plain\n" }));
    await frames.bytes("plain\r\nplain\r\n");
    frames.socket.send(JSON.stringify({ type: "input", data: "utf8 ü\n", encoding: "utf8" }));
    await frames.bytes("utf8 ü\r\nutf8 ü\r\n");
    frames.socket.send(JSON.stringify({ type: "input", data: btoa("base64\n"), encoding: "base64" }));
    await frames.bytes("base64\r\nbase64\r\n");

    for (const [sent, message] of [
      [new Uint8Array([1]), /^binary input is not supported; use text JSON frames$/],
      ["{", /^invalid terminal frame: /],
      ['{"type":"unknown"}', /^invalid terminal frame: /],
      [JSON.stringify({ type: "input", data: "x".repeat((64 << 10) + 1) }), /^input payload exceeds maxInputBytesPerRequest \(65536\)$/],
    ]) {
      frames.socket.send(sent);
      const frame = JSON.parse(await frames.next());
      assert.equal(frame.type, "error");
      assert.match(frame.message, message);
    }
    frames.socket.send(JSON.stringify({ type: "input", data: "still there\n" }));
    await frames.bytes("still there\r\nstill there\r\n");
    frames.socket.send(JSON.stringify({ type: "close" }));
    await frames.closed;
    assert.equal((await agent.getProcess(id)).status, "running");
    await remove(id);
  });

  test("connectProcessTerminalWebSocket with a class of the caller", async () => {
    const { id } = await tty("exec cat");
    const made = [];
    class Noted extends WebSocket {
      constructor(...args) {
        super(...args);
        made.push(args);
      }
    }
    const socket = agent.connectProcessTerminalWebSocket(id, { WebSocket: Noted });
    assert.ok(socket instanceof Noted);
    assert.deepEqual(made, [[agent.buildProcessTerminalWebSocketUrl(id), undefined]]);
    await within(5000, new Promise((resolve) => (socket.onmessage = resolve)));
    socket.close();
    await remove(id);
  });

  test("sockets that are refused", async () => {
    const plain = await agent.createProcess({ command: "cat" });
    const terminal = await tty("exec cat");
    for (const [id, options] of [
      [terminal.id, { accessToken: "wrong" }],
      [plain.id, {}],
      ["proc_4294967296", {}],
    ]) {
      const socket = agent.connectProcessTerminalWebSocket(id, options);
      const outcome = new Promise((resolve) => {
        socket.onopen = () => resolve("open");
        socket.onerror = () => resolve("error");
      });
      assert.equal(await within(5000, outcome), "error");
    }
    const seen = open(terminal.id, { accessToken: "wrong" });
    const [error] = await eventually("an error", async () => (seen.errors.length > 0 ? seen.errors : undefined));
    assert.match(error.message, /connection failed/);
    await remove(plain.id);
    await remove(terminal.id);
  });
}

// socketFrames opens a socket and gives what comes from it.
async function socketFrames(id) {
  const socket = agent.connectProcessTerminalWebSocket(id);
  socket.binaryType = "arraybuffer";
  const queue = [];
  socket.onmessage = ({ data }) => queue.push(data);
  const closed = new Promise((resolve) => (socket.onclose = resolve));
  const next = () => eventually("a frame", async () => queue.shift());
  return {
    socket, closed, next,
    async bytes(wanted) {
      let got = "";
      while (got.length < wanted.length) got += Buffer.from(await next()).toString();
      assert.equal(got, wanted);
    },
  };
}

export function sessions() {
  test("connectProcessTerminal", async () => {
    const { id } = await tty("stty -echo; echo go; while read line; do [ $line = size ] && stty size || echo got $line; done; exit 5");
    await log(id, /go/);
    const seen = open(id);
    await readied(seen);
    assert.deepEqual(seen.ready, [{ type: "ready", processId: id }]);
    seen.session.sendInput("text ü\n");
    await shows(seen, /got text ü\r\n$/);
    seen.session.sendInput(new TextEncoder().encode("bytes\n"));
    await shows(seen, /got bytes\r\n$/);
    seen.session.sendInput(new TextEncoder().encode("buffer\n").buffer);
    await shows(seen, /got buffer\r\n$/);
    seen.session.resize({ cols: 101, rows: 33 });
    seen.session.sendInput("size\n");
    await shows(seen, /33 101\r\n$/);
    seen.session.sendInput("\x04");
    await within(5000, seen.session.closed);
    assert.deepEqual(seen.exits, [{ type: "exit", exitCode: 5 }]);
    assert.equal(seen.closed, 1);
    assert.deepEqual(seen.errors, []);
    await agent.deleteProcess(id);
  });

  test("people who share a terminal", async () => {
    const { id } = await tty("stty -echo; echo go; exec cat");
    await log(id, /go/);
    const people = [open(id), open(id), open(id)];
    for (const seen of people) await readied(seen);
    people[0].session.sendInput("one\n");
    for (const seen of people) await shows(seen, /^one\r\n$/);
    people[0].session.close();
    await within(5000, people[0].session.closed);
    people[1].session.sendInput("two\n");
    for (const seen of people.slice(1)) await shows(seen, /^one\r\ntwo\r\n$/);
    assert.equal((await agent.getProcess(id)).status, "running");
    await agent.killProcess(id, { waitMs: 5000 });
    for (const seen of people.slice(1)) {
      await within(5000, seen.session.closed);
      assert.deepEqual(seen.exits, [{ type: "exit", exitCode: null, ...(reference ? {} : { signal: "SIGKILL" }) }]);
    }
    assert.deepEqual(people[0].exits, []);
    await agent.deleteProcess(id);
  });

  test("connectProcessTerminal to what has ended", async () => {
    const { id } = await tty("echo gone; exit 6");
    await eventually("exit", async () => ((await agent.getProcess(id)).status === "exited" ? true : undefined));
    const seen = open(id);
    await within(5000, seen.session.closed);
    assert.deepEqual(seen.ready, [{ type: "ready", processId: id }]);
    assert.deepEqual(seen.exits, [{ type: "exit", exitCode: 6 }]);
    await agent.deleteProcess(id);
  });

  test("a session tells of input that is too large", async () => {
    const { id } = await tty("stty -echo; echo go; exec cat");
    await log(id, /go/);
    const seen = open(id);
    await readied(seen);
    seen.session.sendInput("x".repeat((64 << 10) + 1));
    const [error] = await eventually("an error", async () => (seen.errors.length > 0 ? seen.errors : undefined));
    assert.equal(error.type, "error");
    assert.match(error.message, /maxInputBytesPerRequest \(65536\)/);
    seen.session.sendInput("small\n");
    await shows(seen, /^small\r\n$/);
    seen.session.close();
    await within(5000, seen.session.closed);
    await remove(id);
  });

  test("a megabyte of lines through a session", async () => {
    const { id } = await tty("stty -echo -onlcr; echo go; read go; exec seq 150000");
    await log(id, /go/);
    const seen = open(id);
    await readied(seen);
    seen.session.sendInput("\n");
    await within(20_000, seen.session.closed);
    const lines = Array.from({ length: 150_000 }, (_, i) => `${i + 1}\n`).join("");
    assert.ok(seen.text().startsWith(lines), "lines are missing or in disorder");
    await agent.deleteProcess(id);
  });
}
