// Start, status, display information and stop.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SandboxAgent } from "sandbox-agent";
import { agent, desktopMethods, eventually, reference, refused, running, uncalled } from "./lib.mjs";

export const screen = { width: 1024, height: 768, dpi: 96 };

export function before() {
  test("getHealth", async () => {
    assert.deepEqual(await agent.getHealth(), { status: "ok" });
  });

  test("status before the start", async () => {
    const status = await agent.getDesktopStatus();
    assert.equal(status.state, "inactive");
    assert.deepEqual(status.missingDependencies, []);
    assert.equal(status.display ?? null, null);
    assert.equal(status.windows ?? null, null);
  });

  test("calls before the start are refused", async () => {
    const off = (call) => refused(call, 409, "desktop_runtime_inactive");
    const problem = await off(agent.takeDesktopScreenshot());
    assert.equal(problem.title, "Desktop Runtime Inactive");
    await off(agent.getDesktopDisplayInfo());
    await off(agent.moveDesktopMouse({ x: 1, y: 1 }));
    await off(agent.typeDesktopText({ text: "x" }));
    await off(agent.listDesktopWindows());
    await off(agent.getDesktopClipboard());
    await off(agent.launchDesktopApp({ app: "xterm" }));
  });

  test("startDesktop refuses a size of zero", async () => {
    const problem = await refused(agent.startDesktop({ width: 0, height: 600 }), 400, "desktop_invalid_action");
    assert.match(problem.detail, /width/i);
  });

  test("startDesktop", async () => {
    const status = await agent.startDesktop(screen);
    await active(status);
    assert.ok(Date.parse(status.startedAt) > Date.now() - 60_000);
    assert.equal(status.lastError ?? null, null);
    const again = await agent.startDesktop({ width: 640, height: 480 });
    assert.equal(again.display, status.display);
    assert.deepEqual(again.resolution, status.resolution);
  });

  test("getDesktopStatus", async () => {
    await active(await agent.getDesktopStatus());
  });

  test("getDesktopDisplayInfo", async () => {
    const info = await agent.getDesktopDisplayInfo();
    assert.match(info.display, /^:\d+$/);
    assert.deepEqual(info.resolution, screen);
  });
}

export function after() {
  test("stopDesktop", async () => {
    const before = await agent.getDesktopStatus();
    const status = await agent.stopDesktop();
    assert.equal(status.state, "inactive");
    assert.equal((await agent.stopDesktop()).state, "inactive");
    for (const { name, pid } of before.processes.filter((p) => p.pid)) {
      await eventually(`end of ${name}`, async () => (await running(pid)) ? undefined : true, reference ? 5000 : 0);
    }
    await refused(agent.getDesktopMousePosition(), 409, "desktop_runtime_inactive");
  });

  test("a second desktop after the first", async () => {
    await active(await agent.startDesktop(screen));
    assert.equal((await agent.stopDesktop()).state, "inactive");
  });

  test("every desktop method of the SDK was called", () => {
    assert.ok(desktopMethods().length >= 32, desktopMethods().join(" "));
    assert.deepEqual(uncalled(SandboxAgent, desktopMethods()), reference ? ["setDesktopClipboard"] : []);
  });
}

async function active(status) {
  assert.equal(status.state, "active");
  assert.match(status.display, /^:\d+$/);
  assert.deepEqual(status.resolution, screen);
  assert.deepEqual(status.missingDependencies, []);
  assert.ok(status.runtimeLogPath.startsWith("/"));
  const processes = new Map(status.processes.map((p) => [p.name, p]));
  for (const name of ["Xvfb", "openbox", "dbus"]) {
    assert.equal(processes.get(name)?.running, true, `${name} runs`);
    assert.ok(await running(processes.get(name).pid), `${name} has a live pid`);
  }
}
