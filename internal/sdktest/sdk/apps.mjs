// Launching programs, opening targets, and the windows that appear.
import assert from "node:assert/strict";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { agent, contents, eventually, file, known, onDesktop, refused, serverHome, windowGone, windowTitled } from "./lib.mjs";

export const blue = "#204080";

// A terminal whose shell copies each line that it is given to typed.txt.
let terminal;

export function before() {
  test("launchDesktopApp waits for the window", async () => {
    const started = await agent.launchDesktopApp({
      app: "xterm",
      args: ["-T", "typed", "-geometry", "60x12+40+60", "-bg", blue, "-u8", "-e", "sh", "-c", `exec cat > ${file("typed.txt")}`],
      wait: true,
    });
    assert.match(started.processId, /^proc_\d+$/);
    assert.ok(started.pid > 1);
    assert.match(started.windowId, /^\d+$/);
    terminal = await windowTitled("typed");
    assert.equal(terminal.id, started.windowId);
  });

  test("launchDesktopApp without waiting", async () => {
    const started = await agent.launchDesktopApp({
      app: "sh",
      args: ["-c", `exec xev -name events -geometry 300x200+600+300 -event button -event keyboard > ${file("events.txt")}`],
    });
    assert.match(started.processId, /^proc_\d+$/);
    assert.equal(started.windowId ?? null, null);
    await windowTitled("events");
  });

  test("launchDesktopApp passes arguments unchanged", async () => {
    await agent.launchDesktopApp({ app: "/bin/sh", args: ["-c", `printf '%s|' "$@" > ${file("args.txt")}`, "sh", "a b", "$HOME", "'", ""] });
    assert.equal(await eventually("arguments", async () => (await contents("args.txt")) || undefined), "a b|$HOME|'||");
  });

  test("launchDesktopApp refuses what is not there", async () => {
    const problem = await refused(agent.launchDesktopApp({ app: "no-such-app" }), 404, "app_not_found");
    assert.equal(problem.title, "App Not Found");
    assert.match(problem.detail, /no-such-app/);
  });

  test("listDesktopWindows and getDesktopFocusedWindow", async () => {
    const { windows } = await agent.listDesktopWindows();
    assert.deepEqual(windows.map((w) => w.title).sort(), ["events", "typed"]);
    for (const w of windows) {
      assert.ok(w.width > 100 && w.height > 80 && w.x >= 0 && w.y >= 0, JSON.stringify(w));
      assert.equal(typeof w.isActive, "boolean");
    }
    const focused = await agent.getDesktopFocusedWindow();
    assert.equal(focused.isActive, true);
    assert.deepEqual(windows.filter((w) => w.isActive).map((w) => w.id), [focused.id]);
    const status = await agent.getDesktopStatus();
    assert.deepEqual(status.windows.map((w) => w.id).sort(), windows.map((w) => w.id).sort());
  });
}

export function windows() {
  test("focusDesktopWindow", async () => {
    for (const title of ["events", "typed", "events"]) {
      const { id } = await windowTitled(title);
      assert.equal((await agent.focusDesktopWindow(id)).id, id);
      const focused = await eventually(`focus on ${title}`, async () => {
        const w = await agent.getDesktopFocusedWindow();
        return w.id === id ? w : undefined;
      });
      assert.equal(focused.title, title);
    }
  });

  test("moveDesktopWindow", async () => {
    const moved = await agent.moveDesktopWindow(terminal.id, { x: 50, y: 80 });
    assert.equal(moved.id, terminal.id);
    assert.deepEqual({ width: moved.width, height: moved.height }, { width: terminal.width, height: terminal.height });
    await eventually("the move", async () => ((await corner()).x >= 50 && (await corner()).x <= 60 ? true : undefined));
  });

  test("moved windows tell where they are", known("decoration is counted twice"), async () => {
    const moved = await agent.moveDesktopWindow(terminal.id, { x: 70, y: 90 });
    assert.deepEqual({ x: moved.x, y: moved.y }, { x: 70, y: 90 });
    const listed = await windowTitled("typed");
    assert.deepEqual({ x: listed.x, y: listed.y }, { x: 70, y: 90 });
    const { x, y } = await corner();
    assert.ok(x >= 70 && x <= 80 && y >= 90 && y <= 130, `content at ${x},${y}`);
  });

  test("resizeDesktopWindow", async () => {
    const { id } = await windowTitled("events");
    await agent.resizeDesktopWindow(id, { width: 260, height: 180 });
    await eventually("the new size", async () => {
      const { width, height } = await windowTitled("events");
      return width === 260 && height === 180 ? true : undefined;
    });
    const info = await onDesktop("xwininfo", "-id", id);
    assert.match(info, /Width: 260\n\s+Height: 180\n/);
  });

  test("unknown windows are refused", async () => {
    const unknown = (call) => refused(call, 404, "window_not_found");
    assert.match((await unknown(agent.focusDesktopWindow("4294967295"))).detail, /4294967295/);
    await unknown(agent.moveDesktopWindow("123", { x: 0, y: 0 }));
    await unknown(agent.resizeDesktopWindow("no-number", { width: 200, height: 200 }));
  });

  test("a window id that looks like an option", known("xdotool reads it as one"), async () => {
    await refused(agent.focusDesktopWindow("--help"), 404, "window_not_found");
  });
}

async function corner() {
  const info = await onDesktop("xwininfo", "-id", terminal.id);
  const number = (name) => Number(info.match(new RegExp(`Absolute upper-left ${name}:\\s+(-?\\d+)`))[1]);
  return { x: number("X"), y: number("Y") };
}

export function after() {
  test("openDesktopTarget uses the desktop's default handler", async () => {
    const home = path.join(serverHome, ".local/state/sandbox-agent/desktop/home");
    const handler = file("handler");
    await writeFile(handler, `#!/bin/sh\nprintf '%s' "$1" > ${file("opened.txt")}\n`);
    await chmod(handler, 0o755);
    const applications = path.join(home, ".local/share/applications");
    await mkdir(applications, { recursive: true });
    await writeFile(
      path.join(applications, "sdktest.desktop"),
      `[Desktop Entry]\nType=Application\nName=sdktest\nExec=${handler} %u\nMimeType=x-scheme-handler/sdktest;\n`,
    );
    const defaults = "[Default Applications]\nx-scheme-handler/sdktest=sdktest.desktop\n";
    await writeFile(path.join(applications, "mimeapps.list"), defaults);
    const opened = await agent.openDesktopTarget({ target: "sdktest://page?a=1&b=%20" });
    assert.match(opened.processId, /^proc_\d+$/);
    assert.equal(await eventually("the handler", async () => (await contents("opened.txt")) || undefined), "sdktest://page?a=1&b=%20");
  });

  test("windows go when their programs end", async () => {
    await onDesktop("xkill", "-id", (await windowTitled("events")).id);
    await windowGone("events");
    await onDesktop("xkill", "-id", terminal.id);
    await windowGone("typed");
  });

  test("getDesktopFocusedWindow without windows", known("asks for the title of a window that is gone"), async () => {
    await eventually("nothing to have the focus", async () => refused(agent.getDesktopFocusedWindow(), 404, "no_focused_window"));
  });
}
