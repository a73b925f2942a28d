// Pointer, keyboard and clipboard, judged by the programs that receive them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { screen } from "./lifecycle.mjs";
import { agent, contents, eventually, known, onDesktop, position, refused, windowTitled } from "./lib.mjs";

export function pointer() {
  test("moveDesktopMouse and getDesktopMousePosition", async () => {
    position(await agent.moveDesktopMouse({ x: 123, y: 45 }), 123, 45);
    position(await agent.getDesktopMousePosition(), 123, 45);
    position(await agent.moveDesktopMouse({ x: 5000, y: 5000 }), screen.width - 1, screen.height - 1);
  });

  test("clickDesktop", async () => {
    const at = await target();
    for (const [button, number] of [["left", 1], ["middle", 2], ["right", 3]]) {
      const [events, answer] = await recorded(() => agent.clickDesktop({ ...at, button }), 2);
      position(answer, at.x, at.y);
      assert.deepEqual(events, [press(at, number), release(at, number)]);
    }
  });

  test("clickDesktop twice", async () => {
    const at = await target();
    const [events] = await recorded(() => agent.clickDesktop({ ...at, clickCount: 2 }), 4);
    assert.deepEqual(events, [press(at, 1), release(at, 1), press(at, 1), release(at, 1)]);
  });

  test("mouseDownDesktop and mouseUpDesktop", async () => {
    const from = await target();
    const to = { x: from.x + 30, y: from.y + 20 };
    const [down] = await recorded(() => agent.mouseDownDesktop({ ...from, button: "right" }), 1);
    assert.deepEqual(down, [press(from, 3)]);
    await agent.moveDesktopMouse(to);
    const [up, answer] = await recorded(() => agent.mouseUpDesktop({ button: "right" }), 1);
    assert.deepEqual(up, [release(to, 3)]);
    position(answer, to.x, to.y);
  });

  test("dragDesktopMouse", async () => {
    const at = await target();
    const end = { x: at.x + 40, y: at.y + 30 };
    const drag = { startX: at.x, startY: at.y, endX: end.x, endY: end.y };
    const [events, answer] = await recorded(() => agent.dragDesktopMouse(drag), 2);
    assert.deepEqual(events, [press(at, 1), release(end, 1)]);
    position(answer, end.x, end.y);
  });

  test("scrollDesktop", async () => {
    const at = await target();
    for (const [delta, button] of [[{ deltaY: 2 }, 5], [{ deltaY: -2 }, 4], [{ deltaX: 2 }, 7], [{ deltaX: -2 }, 6]]) {
      const [events, answer] = await recorded(() => agent.scrollDesktop({ ...at, ...delta }), 4);
      assert.deepEqual(events, [press(at, button), release(at, button), press(at, button), release(at, button)]);
      position(answer, at.x, at.y);
    }
  });

  test("bad pointer arguments are refused", async () => {
    const invalid = (call) => refused(call, 400, "desktop_invalid_action");
    await invalid(agent.moveDesktopMouse({ x: -1, y: 5 }));
    await invalid(agent.clickDesktop({ x: 5, y: 5, clickCount: 0 }));
    await invalid(agent.mouseDownDesktop({ x: 5 }));
    await invalid(agent.scrollDesktop({ x: 5, y: 5 }));
    await invalid(agent.dragDesktopMouse({ startX: 0, startY: -1, endX: 5, endY: 5 }));
  });

  test("a wrong type is a problem document", known("plain text"), async () => {
    await refused(agent.moveDesktopMouse({ x: "1", y: 5 }), 422, "invalid_request");
    await refused(agent.clickDesktop({ x: 5, y: 5, button: "thumb" }), 422, "invalid_request");
  });
}

export function keyboard() {
  test("typeDesktopText reaches a terminal", async () => {
    await focus("typed");
    const text = "Hello, World! ~`@#$%^&*()_+-={}[]|\\:;\"'<>?/ 0123456789";
    assert.deepEqual(await agent.typeDesktopText({ text }), { ok: true });
    assert.deepEqual(await agent.pressDesktopKey({ key: "Return" }), { ok: true });
    assert.equal(await line(1), text);
    await agent.typeDesktopText({ text: "second\nthird\n", delayMs: 0 });
    assert.equal(await line(2), "second");
    assert.equal(await line(3), "third");
  });

  test("pressDesktopKey with modifiers", async () => {
    await agent.typeDesktopText({ text: "dropped" });
    await agent.pressDesktopKey({ key: "u", modifiers: { ctrl: true } });
    await agent.typeDesktopText({ text: "kept", delayMs: 1 });
    await agent.pressDesktopKey({ key: "m", modifiers: { ctrl: true } });
    assert.equal(await line(4), "kept");
    await agent.typeDesktopText({ text: "gone" });
    await agent.pressDesktopKey({ key: "ctrl+u" });
    await agent.typeDesktopText({ text: "fifth\n" });
    assert.equal(await line(5), "fifth");
  });

  test("typeDesktopText beyond the keymap", known("loses characters"), async () => {
    const text = "é ñ ü € 漢字 한글 😀 Ω ж";
    await agent.typeDesktopText({ text: text + "\n", delayMs: 0 });
    assert.equal(await line(6), text);
  });

  test("keyDownDesktop and keyUpDesktop", async () => {
    await focus("events");
    const [down, pressed] = await recorded(() => agent.keyDownDesktop({ key: "Shift_L" }), 1);
    assert.deepEqual(pressed, { ok: true });
    assert.deepEqual(down, ["KeyPress Shift_L state 0"]);
    const [held] = await recorded(() => agent.pressDesktopKey({ key: "F5" }), 2);
    assert.deepEqual(held, ["KeyPress F5 state 1", "KeyRelease F5 state 1"]);
    const [up, released] = await recorded(() => agent.keyUpDesktop({ key: "Shift_L" }), 1);
    assert.deepEqual(released, { ok: true });
    assert.deepEqual(up, ["KeyRelease Shift_L state 1"]);
  });

  test("each modifier", async () => {
    for (const [name, state] of [["shift", 1], ["ctrl", 4], ["alt", 8], ["cmd", 64]]) {
      const [events] = await recorded(() => agent.pressDesktopKey({ key: "F6", modifiers: { [name]: true } }), 4);
      assert.ok(events.includes(`KeyPress F6 state ${state}`), `${name}: ${events}`);
    }
  });

  test("bad keyboard arguments are refused", async () => {
    const invalid = (call) => refused(call, 400, "desktop_invalid_action");
    assert.match((await invalid(agent.typeDesktopText({ text: "" }))).detail, /text/);
    assert.match((await invalid(agent.pressDesktopKey({ key: " " }))).detail, /key/);
    await invalid(agent.keyDownDesktop({ key: "" }));
    await invalid(agent.keyUpDesktop({ key: "" }));
  });

  test("an unknown key is refused", known("answers ok"), async () => {
    assert.match((await refused(agent.pressDesktopKey({ key: "NoSuchKey" }), 400, "desktop_invalid_action")).detail, /NoSuchKey/);
  });
}

export function clipboard() {
  test("getDesktopClipboard of an empty clipboard", async () => {
    assert.deepEqual(await agent.getDesktopClipboard(), { selection: "clipboard", text: "" });
  });

  test("getDesktopClipboard reads what a program copied", async () => {
    for (const selection of ["clipboard", "primary"]) {
      const text = `from ${selection} é 漢 😀\nsecond line`;
      await agent.launchDesktopApp({ app: "sh", args: ["-c", `printf '%s' "$1" | exec xclip -quiet -selection ${selection} -i`, "sh", text] });
      await eventually(`text on ${selection}`, async () => {
        const got = await agent.getDesktopClipboard({ selection });
        return got.text === text && got.selection === selection ? true : undefined;
      });
    }
  });

  test("setDesktopClipboard is what programs paste", known("never answers"), async () => {
    const paste = (selection) => onDesktop("xclip", "-selection", selection, "-o");
    assert.deepEqual(await agent.setDesktopClipboard({ text: "first é 漢 😀" }), { ok: true });
    assert.equal(await paste("clipboard"), "first é 漢 😀");
    await agent.setDesktopClipboard({ text: "second", selection: "primary" });
    assert.equal(await paste("primary"), "second");
    assert.equal(await paste("clipboard"), "first é 漢 😀");
    await agent.setDesktopClipboard({ text: "third", selection: "both" });
    assert.equal(await paste("primary"), "third");
    assert.equal(await paste("clipboard"), "third");
    const long = "0123456789abcdef".repeat(64 * 1024);
    await agent.setDesktopClipboard({ text: long });
    assert.equal((await agent.getDesktopClipboard({ selection: "clipboard" })).text, long);
  });
}

const press = (at, button) => `ButtonPress ${button} at ${at.x},${at.y}`;
const release = (at, button) => `ButtonRelease ${button} at ${at.x},${at.y}`;

// A point in the window of xev, after making that window the focused one.
async function target() {
  await focus("events");
  const { x, y, width, height } = await windowTitled("events");
  return { x: x + Math.floor(width / 2), y: y + Math.floor(height / 2) };
}

async function focus(title) {
  const { id } = await windowTitled(title);
  await agent.focusDesktopWindow(id);
  await eventually(`focus on ${title}`, async () => ((await agent.getDesktopFocusedWindow()).id === id ? true : undefined));
}

async function line(number) {
  return eventually(`line ${number} of the terminal`, async () => {
    const lines = (await contents("typed.txt")).split("\n");
    return lines.length > number ? lines[number - 1] : undefined;
  });
}

// recorded returns what xev saw of a call: at least that many events.
async function recorded(call, count) {
  const seen = xevEvents(await contents("events.txt")).length;
  const answer = await call();
  const events = await eventually(`${count} events`, async () => {
    const fresh = xevEvents(await contents("events.txt")).slice(seen);
    return fresh.length >= count ? fresh : undefined;
  });
  return [events, answer];
}

function xevEvents(text) {
  const blocks = text.split("\n\n").filter((b) => /^(Button|Key)(Press|Release) event/.test(b));
  return blocks.filter((b) => /same_screen/.test(b)).map((block) => {
    const kind = block.match(/^\w+/)[0];
    if (kind.startsWith("Key")) {
      const key = block.match(/keysym 0x[0-9a-f]+, (\w+)/)[1];
      return `${kind} ${key} state ${parseInt(block.match(/state 0x([0-9a-f]+)/)[1], 16)}`;
    }
    const [, x, y] = block.match(/root:\((-?\d+),(-?\d+)\)/);
    return `${kind} ${block.match(/button (\d+)/)[1]} at ${x},${y}`;
  });
}
