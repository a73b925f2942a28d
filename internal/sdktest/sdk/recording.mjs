// The recording methods: what they make is looked at with ffprobe.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { test } from "node:test";
import { promisify } from "node:util";
import { agent, file, known, reference, refused } from "./lib.mjs";

const run = promisify(execFile);

// probe returns what a player shows of a video.
async function probe(name) {
  const args = ["-v", "error", "-count_packets", "-show_entries", "stream=codec_name,pix_fmt,width,height,nb_read_packets:format=duration", "-of", "json", file(name)];
  const { streams: [video], format } = JSON.parse((await run("ffprobe", args)).stdout);
  return { ...video, frames: Number(video.nb_read_packets), duration: Number(format.duration) };
}

// wellFormed asserts the shape of the description of a recording.
function wellFormed(info, status) {
  assert.match(info.id, /^rec_/);
  assert.equal(info.fileName, `${info.id}.mp4`);
  assert.equal(info.status, status);
  assert.equal(typeof info.bytes, "number");
  assert.ok(!Number.isNaN(Date.parse(info.startedAt)), info.startedAt);
  if (status === "recording") assert.match(info.processId, /^proc_\d+$/);
  else assert.ok(Date.parse(info.endedAt) >= Date.parse(info.startedAt), info.endedAt);
}

export function recordings() {
  test("a recording can be made, listed, downloaded and deleted", async () => {
    assert.deepEqual(await agent.listDesktopRecordings(), { recordings: [] });
    await refused(agent.stopDesktopRecording(), 409, "conflict");
    const begun = await agent.startDesktopRecording({ fps: 20 });
    wellFormed(begun, "recording");
    const problem = await refused(agent.startDesktopRecording(), 409, "conflict");
    assert.equal(problem.detail, "conflict: a desktop recording is already active");
    const held = await refused(agent.deleteDesktopRecording(begun.id), 409, "conflict");
    assert.equal(held.detail, "conflict: stop the active desktop recording before deleting it");
    // Something moves for a second.
    for (let x = 0; x < 20; x++) {
      await agent.moveDesktopMouse({ x: 100 + 10 * x, y: 100 });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const ended = await agent.stopDesktopRecording();
    wellFormed(ended, "completed");
    assert.equal(ended.id, begun.id);
    assert.ok(ended.bytes > 0);

    const { recordings } = await agent.listDesktopRecordings();
    assert.deepEqual(recordings.map(({ id }) => id), [begun.id]);
    wellFormed(await agent.getDesktopRecording(begun.id), "completed");
    const video = await agent.downloadDesktopRecording(begun.id);
    assert.ok(video instanceof Uint8Array);
    await writeFile(file("recorded.mp4"), video);
    const { resolution } = await agent.getDesktopStatus();
    const seen = await probe("recorded.mp4");
    assert.deepEqual([seen.codec_name, seen.pix_fmt, seen.width, seen.height], ["h264", "yuv420p", resolution.width, resolution.height]);
    assert.ok(seen.duration > 0.9 && seen.duration < 20, `it takes ${seen.duration} s`);
    assert.ok(seen.frames >= 10, `${seen.frames} pictures`);

    await agent.deleteDesktopRecording(begun.id);
    assert.deepEqual(await agent.listDesktopRecordings(), { recordings: [] });
    for (const method of ["getDesktopRecording", "downloadDesktopRecording", "deleteDesktopRecording"]) {
      const missing = await refused(agent[method](begun.id), 404, "not_found");
      assert.deepEqual(missing.details, { id: begun.id, resource: "desktop_recording" });
    }
  });

  test("an id is not used again", known("a recording that is stopped immediately fails"), async () => {
    const ids = new Set();
    for (let n = 0; n < 3; n++) {
      const { id } = await agent.startDesktopRecording();
      wellFormed(await agent.stopDesktopRecording(), "completed"); // however short
      await agent.deleteDesktopRecording(id);
      ids.add(id);
    }
    assert.equal(ids.size, 3);
  });

  test("what cannot be recorded is refused", known("it takes any frame rate"), async () => {
    for (const fps of [0, 61, -1]) {
      const problem = await refused(agent.startDesktopRecording({ fps }), 400, "desktop_invalid_action");
      assert.equal(problem.field, "fps");
    }
  });
}

// ended stops the desktop in the middle of a recording, and starts it again.
export function ended(screen) {
  test("the end of the desktop ends its recording", async () => {
    const { id } = await agent.startDesktopRecording({});
    await agent.stopDesktop();
    const info = await agent.getDesktopRecording(id);
    if (!reference) wellFormed(info, "completed");
    const problem = await refused(agent.startDesktopRecording(), 409, "conflict");
    assert.match(problem.detail, /^conflict: Desktop runtime has not been started/);
    await agent.deleteDesktopRecording(id);
    await agent.startDesktop(screen);
  });
}
