// What the test files share: the client, waiting, and assertions on errors.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { ProcessTerminalSession, SandboxAgent, SandboxAgentError, Session } from "sandbox-agent";

const run = promisify(execFile);

function need(name) {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: go test runs this`);
  return value;
}

export const baseUrl = need("SDKTEST_URL");
export const token = need("SDKTEST_TOKEN");

// The server binary, for the local() provider.
export const binary = need("SDKTEST_BINARY");

// A directory that belongs to this run alone.
export const scratch = need("SDKTEST_SCRATCH");

// HOME of the server under test.
export const serverHome = need("SDKTEST_HOME");

// Set when the scripts are checked against the reference server itself. Its
// known faults are skipped by name: see the uses of known().
export const reference = process.env.SDKTEST_REFERENCE === "1";

// known returns node:test options that skip a test on the reference server.
export function known(fault) {
  return reference ? { skip: `reference fault: ${fault}` } : {};
}

const called = new Set();

// noting returns an object that does what target does, and notes which of its
// methods were called.
export function noting(target) {
  return new Proxy(target, {
    get(_, name) {
      const value = target[name];
      if (typeof value !== "function") return value;
      return (...args) => {
        called.add(`${target.constructor.name}.${name}`);
        return value.apply(target, args);
      };
    },
  });
}

// The SDK's client.
export const agent = noting(await SandboxAgent.connect({ baseUrl, token }));

// The desktop methods that the published SDK has and these tests must call.
// The live stream has tests of its own elsewhere.
export function desktopMethods() {
  return methods(SandboxAgent).filter((name) => /desktop/i.test(name) && !/stream/i.test(name));
}

// The methods of processes, files and configuration.
export function hostMethods() {
  return methods(SandboxAgent).filter((name) => /process|fs|mcp|skills/i.test(name));
}

// The methods of the session that connectProcessTerminal returns, without the three
// that its types call private.
export function terminalMethods() {
  const own = ["handleMessage", "sendFrame", "emitError"];
  return methods(ProcessTerminalSession).filter((name) => !own.includes(name));
}

// The methods of agents and their sessions: all others, except private methods and methods
// that the tests of the desktop call.
export function sessionMethods() {
  const types = readFileSync(new URL("index.d.ts", import.meta.resolve("sandbox-agent")), "utf8");
  const hidden = new Set([...types.matchAll(/^ +private (\w+);$/gm)].map(([, name]) => name));
  const elsewhere = new Set([...desktopMethods(), ...hostMethods(), "getHealth"]);
  return methods(SandboxAgent).filter((name) => !hidden.has(name) && !elsewhere.has(name) && !/stream/i.test(name));
}

// The methods of a session.
export const methodsOfSession = () => methods(Session);

// methods returns the names of a class's methods, sorted.
function methods(type) {
  return Object.entries(Object.getOwnPropertyDescriptors(type.prototype))
    .filter(([name, property]) => typeof property.value === "function" && name !== "constructor")
    .map(([name]) => name)
    .sort();
}

// uncalled returns the methods of a class that no test has called.
export const uncalled = (type, names) => names.filter((name) => !called.has(`${type.name}.${name}`));

// eventually calls probe until it neither throws nor returns undefined.
export async function eventually(what, probe, timeoutMs = 10_000) {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    let failure;
    try {
      const value = await probe();
      if (value !== undefined) return value;
    } catch (error) {
      failure = error;
    }
    if (Date.now() > deadline) {
      throw new Error(`${what}: not within ${timeoutMs} ms`, { cause: failure });
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

// refused asserts that a call ends in a SandboxAgentError that carries a
// problem document of that status and type, and returns the problem.
export async function refused(call, status, type) {
  let caught;
  try {
    await call;
  } catch (error) {
    caught = error;
  }
  assert.ok(caught instanceof SandboxAgentError, `got ${caught}, want a SandboxAgentError`);
  assert.equal(caught.status, status, JSON.stringify(caught.problem));
  assert.equal(caught.response.status, status);
  const problem = caught.problem;
  assert.ok(problem, "the body is not a problem document");
  assert.equal(problem.type, `urn:sandbox-agent:error:${type}`);
  assert.equal(problem.status, status);
  assert.ok(problem.title.length > 0);
  assert.equal(caught.message, problem.title);
  assert.ok(problem.detail.length > 0);
  if (/^desktop_|^(app|window)_not_found$|^no_focused_window$/.test(type)) assert.equal(problem.code, type);
  return problem;
}

export const file = (name) => path.join(scratch, name);
export const contents = (name) => readFile(file(name), "utf8");

// onDesktop runs a program as any X client from outside would run, with what
// display/info tells, and returns what it printed.
export async function onDesktop(program, ...args) {
  const info = await agent.getDesktopDisplayInfo();
  const env = { ...process.env, DISPLAY: info.display };
  if (info.xauthority) env.XAUTHORITY = info.xauthority;
  const { stdout } = await run(program, args, { env, timeout: 10_000 });
  return stdout;
}

// windowTitled waits for a window and returns it.
export function windowTitled(title) {
  return eventually(`window ${title}`, async () => {
    const { windows } = await agent.listDesktopWindows();
    return windows.find((w) => w.title === title);
  });
}

// windowGone waits for the end of a window.
export function windowGone(title) {
  return eventually(`end of window ${title}`, async () => {
    const { windows } = await agent.listDesktopWindows();
    return windows.some((w) => w.title === title) ? undefined : true;
  });
}

// position asserts the shape of a pointer answer and its coordinates.
export function position(answer, x, y) {
  assert.deepEqual({ x: answer.x, y: answer.y }, { x, y });
  if (answer.screen != null) assert.equal(answer.screen, 0);
  if (answer.window != null) assert.match(answer.window, /^\d+$/);
}

// running reports whether a process exists and is not a zombie.
export async function running(pid) {
  try {
    return !/^State:\tZ/m.test(await readFile(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

// ended waits for the end of a process.
export function ended(pid, timeoutMs = 5000) {
  return eventually(`end of ${pid}`, async () => ((await running(pid)) ? undefined : true), timeoutMs);
}

// within returns what a promise does, unless that takes too long.
export function within(timeoutMs, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${timeoutMs} ms`)), timeoutMs);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
