// The server is killed and started again: clients that are connected go on, and
// new ones resume the sessions that they know.
import assert from "node:assert/strict";
import { test } from "node:test";
import { InMemorySessionPersistDriver } from "sandbox-agent";
import { baseUrl, eventually, known, token } from "./lib.mjs";
import { all, begin, client, contiguous, follow, said, says, serverOf, text, unhandled, watched } from "./talk.mjs";

// crash kills the server, and returns when there is another one.
async function crash() {
  const response = await fetch(process.env.SDKTEST_CRASH, { method: "POST" });
  assert.equal(response.status, 200, await response.text());
}

async function sessions() {
  const response = await fetch(`${baseUrl}/v1/sessions`, { headers: { Authorization: `Bearer ${token}` } });
  assert.equal(response.status, 200);
  return (await response.json()).sessions;
}

const forgets = known("it forgets everything when it ends");

export function crashes() {
  test("a client that is connected goes on after the server was killed", forgets, async () => {
    const mine = await client();
    const { session, events } = await begin(mine, { mode: "plan" });
    const server = await serverOf(mine);
    await session.prompt(text("before the crash"));
    await says(events, "before the crash");
    for (const round of [1, 2]) {
      const broken = await follow(server);
      await crash();
      await broken.ended;
      assert.equal((await session.prompt(text(`after crash ${round}`))).stopReason, "end_turn");
      await says(events, `after crash ${round}`);
    }
    assert.equal(said(events).split("before the crash").length, 2, "it was said again");
    assert.equal(said(events).split("I am the mock agent").length, 2, "the agent forgot the session");
    contiguous(events);
    await session.setMode("normal");
    session.onPermissionRequest(({ id }) => session.respondPermission(id, "once"));
    assert.equal((await session.prompt(text("permission"))).stopReason, "end_turn");
    const watcher = await follow(server, { "Last-Event-ID": "1" });
    await eventually("all events", () => (watcher.events.some(({ message }) => message.includes("I was allowed")) ? true : undefined));
    watcher.close();
    assert.deepEqual(watcher.events.map(({ id }) => id), all(watcher.events.length).map((n) => n + 1));
    assert.equal(watcher.events.filter(({ message }) => message.includes("_adapter/agent_exited")).length, 2);
  });

  test("a session whose server was killed in the middle of a turn is resumed by a new client", forgets, async () => {
    const persist = new InMemorySessionPersistDriver();
    const first = await client({ persist });
    const one = await begin(first, { id: "resumed" });
    const native = one.session.agentSessionId;
    await one.session.prompt(text("the password is swordfish"));
    void one.session.prompt(text("slow"));
    await says(one.events, "tick 1");
    await unhandled(crash);

    const second = await client({ persist });
    const two = watched(await second.resumeSession("resumed"));
    assert.notEqual(two.session.agentSessionId, native);
    assert.equal((await two.session.prompt(text("and now"))).stopReason, "end_turn");
    await says(two.events, "and now");
    contiguous(two.events);
    const all = await sessions();
    const [before, after] = [native, two.session.agentSessionId].map((id) => all.find(({ sessionId }) => sessionId === id));
    assert.equal(before.state, "interrupted");
    assert.equal(after.state, "idle");
    assert.equal(after.continues, native);
  });
}
