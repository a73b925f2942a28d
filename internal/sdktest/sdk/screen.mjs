// Screenshots: formats, sizes, what they show.
import assert from "node:assert/strict";
import { test } from "node:test";
import { blue } from "./apps.mjs";
import { decodePNG, size } from "./image.mjs";
import { screen } from "./lifecycle.mjs";
import { agent, known, refused, windowTitled } from "./lib.mjs";

export function screenshots() {
  test("takeDesktopScreenshot in each format", async () => {
    assert.deepEqual(size(await agent.takeDesktopScreenshot()), { format: "png", ...area() });
    for (const format of ["png", "jpeg", "webp"]) {
      const data = await agent.takeDesktopScreenshot({ format });
      assert.ok(data instanceof Uint8Array);
      assert.deepEqual(size(data), { format, ...area() });
    }
  });

  test("quality changes the size of a JPEG", async () => {
    const low = await agent.takeDesktopScreenshot({ format: "jpeg", quality: 10 });
    const high = await agent.takeDesktopScreenshot({ format: "jpeg", quality: 95 });
    assert.ok(low.length < high.length, `${low.length} and ${high.length} bytes`);
  });

  test("scale", async () => {
    for (const format of ["png", "jpeg", "webp"]) {
      const half = await agent.takeDesktopScreenshot({ format, scale: 0.5 });
      assert.deepEqual(size(half), { format, width: screen.width / 2, height: screen.height / 2 });
    }
    const tenth = size(await agent.takeDesktopScreenshot({ scale: 0.1 }));
    assert.deepEqual([tenth.width, tenth.height], [Math.round(screen.width / 10), Math.round(screen.height / 10)]);
  });

  test("a screenshot shows the windows", async () => {
    const picture = decodePNG(await agent.takeDesktopScreenshot());
    const { x, y } = await inside();
    assert.equal(picture.at(x, y), blue);
    const half = decodePNG(await agent.takeDesktopScreenshot({ scale: 0.5 }));
    assert.equal(half.at(x >> 1, y >> 1), blue);
  });

  test("showCursor draws a red crosshair at the pointer", async () => {
    const { x, y } = await inside();
    await agent.moveDesktopMouse({ x, y });
    const picture = decodePNG(await agent.takeDesktopScreenshot({ showCursor: true }));
    const near = [];
    for (let d = -12; d <= 12; d++) near.push(picture.at(x + d, y), picture.at(x, y + d));
    const red = near.filter((c) => parseInt(c.slice(1, 3), 16) > 200 && parseInt(c.slice(3, 5), 16) < 60);
    assert.ok(red.length >= 8, `${near}`);
    assert.equal(decodePNG(await agent.takeDesktopScreenshot()).at(x, y), blue);
  });
}

export function regions() {
  test("takeDesktopRegionScreenshot is that part of the whole", async () => {
    const { x, y } = await inside();
    const box = { x: x - 60, y: y - 40, width: 160, height: 100 };
    const part = decodePNG(await agent.takeDesktopRegionScreenshot(box));
    assert.deepEqual([part.width, part.height], [160, 100]);
    const whole = decodePNG(await agent.takeDesktopScreenshot());
    for (let dy = 0; dy < box.height; dy++) {
      for (let dx = 0; dx < box.width; dx++) {
        const [got, want] = [part.at(dx, dy), whole.at(box.x + dx, box.y + dy)];
        if (got !== want) assert.equal(got, want, `at ${dx},${dy}`);
      }
    }
  });

  test("region with format, scale and quality", async () => {
    const query = { x: 10, y: 20, width: 300, height: 200, scale: 0.5, quality: 60 };
    for (const format of ["png", "jpeg", "webp"]) {
      assert.deepEqual(size(await agent.takeDesktopRegionScreenshot({ ...query, format })), { format, width: 150, height: 100 });
    }
  });

  test("a region partly outside is cropped", async () => {
    const data = await agent.takeDesktopRegionScreenshot({ x: screen.width - 50, y: screen.height - 30, width: 400, height: 400 });
    assert.deepEqual(size(data), { format: "png", width: 50, height: 30 });
  });

  test("a region outside is refused", known("answers a picture of one pixel"), async () => {
    await refused(agent.takeDesktopRegionScreenshot({ x: 5000, y: 5000, width: 10, height: 10 }), 400, "desktop_invalid_action");
  });

  test("bad screenshot arguments are refused", async () => {
    const invalid = (call) => refused(call, 400, "desktop_invalid_action");
    assert.match((await invalid(agent.takeDesktopScreenshot({ quality: 0 }))).detail, /quality/);
    assert.match((await invalid(agent.takeDesktopScreenshot({ quality: 101 }))).detail, /quality/);
    assert.match((await invalid(agent.takeDesktopScreenshot({ scale: 0.01 }))).detail, /scale/);
    assert.match((await invalid(agent.takeDesktopScreenshot({ scale: 2 }))).detail, /scale/);
    await invalid(agent.takeDesktopRegionScreenshot({ x: -1, y: 0, width: 10, height: 10 }));
    await invalid(agent.takeDesktopRegionScreenshot({ x: 0, y: 0, width: 0, height: 10 }));
  });

  test("an unknown format is a problem document", known("plain text"), async () => {
    await refused(agent.takeDesktopScreenshot({ format: "gif" }), 400, "invalid_request");
  });
}

const area = () => ({ width: screen.width, height: screen.height });

// A point in the terminal, away from its text and its border.
async function inside() {
  const { x, y, width, height } = await windowTitled("typed");
  return { x: x + Math.floor(width / 2), y: y + Math.floor(height * 0.7) };
}
