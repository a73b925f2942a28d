// Nothing is lost on the way from the agent to clients: in a burst, with several
// of them, and when a connection breaks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { agent, eventually, known, reference } from "./lib.mjs";
import { relay } from "./relay.mjs";
import { all, begin, client, contiguous, counted, follow, said, says, serverOf, text } from "./talk.mjs";

export function streams() {
  test("a burst arrives whole", known("it drops what a slow reader does not take"), async () => {
    const { session, events } = await begin(agent);
    await session.prompt(text("burst 5000"));
    await says(events, "message 5000\n");
    assert.deepEqual(counted(events), all(5000));
    contiguous(events);
  });

  test("the events of a turn are there with its answer", known("its answers overtake them"), async () => {
    const { session, events } = await begin(agent);
    const late = [];
    for (const n of all(50)) {
      await session.prompt(text(`turn ${n}.`));
      if (!said(events).includes(`turn ${n}.`)) late.push(n);
    }
    assert.ok(late.length <= 1, `late: ${late}`); // the server waits 100 ms at most
  });

  test("all who watch see the same", async () => {
    const mine = await client();
    const { session, events } = await begin(mine);
    const server = await serverOf(mine);
    const watchers = await Promise.all([follow(server), follow(server)]);
    await session.prompt(text("burst 500"));
    await session.prompt(text("the last"));
    await says(events, "the last");
    watchers.push(await follow(server)); // late, and told all the same
    const answer = ({ events }) => events.some(({ message }) => message.includes('"the last"'));
    await eventually("the watchers have all", () => (watchers.every(answer) ? true : undefined));
    const [first, ...others] = watchers.map(({ events }) => events.map(({ message }) => message).join("\n"));
    for (const other of others) assert.equal(other, first);
    for (const w of watchers) {
      assert.deepEqual(w.events.map(({ id }) => id), all(w.events.length));
      w.close();
    }
  });

  test("clients of one server have their own sessions", async () => {
    const both = await Promise.all([client(), client()].map(async (c) => begin(await c)));
    await Promise.all(both.map(({ session }, n) => session.prompt(text(`burst ${100 + n}`))));
    for (const [n, { events }] of both.entries()) {
      await says(events, `message ${100 + n}\n`);
      assert.deepEqual(counted(events), all(100 + n));
    }
  });

  const many = reference ? 900 : 3000; // it keeps 1024 events
  for (const politely of [false, true]) {
    test(`an event stream that ${politely ? "ends" : "breaks"} in the middle is taken up again`, async () => {
      const between = await relay(300, { politely });
      try {
        const mine = await client({ baseUrl: between.url });
        const { session, events } = await begin(mine);
        await session.prompt(text(`burst ${many}`));
        await session.prompt(text("the last")); // with it the client comes back after a break
        await says(events, "the last");
        await says(events, `message ${many}\n`);
        assert.deepEqual(counted(events), all(many));
        contiguous(events);
        assert.equal(between.streams[0], null);
        assert.ok(Number(between.streams[1]) > 200, `Last-Event-ID: ${between.streams}`);
        await mine.dispose();
      } finally {
        between.close();
      }
    });
  }

  test("Last-Event-ID is where a stream goes on", async () => {
    const mine = await client();
    const { session, events } = await begin(mine);
    await session.prompt(text("burst 2000")); // more than sandbox-agent keeps
    await says(events, "message 2000\n");
    const server = await serverOf(mine);
    const watcher = await follow(server, { "Last-Event-ID": "1500" });
    await eventually("the rest", () => (watcher.events.some(({ message }) => message.includes("message 2000")) ? true : undefined));
    watcher.close();
    assert.deepEqual(watcher.events.map(({ id }) => id), all(watcher.events.length).map((n) => n + 1500));
  });

  test("nothing is lost further back than sandbox-agent remembers", known("it keeps 1024 events"), async () => {
    const mine = await client();
    const { session, events } = await begin(mine);
    await session.prompt(text("burst 3000"));
    await says(events, "message 3000\n");
    const watcher = await follow(await serverOf(mine), { "Last-Event-ID": "1" });
    await eventually("the end", () => (watcher.events.some(({ message }) => message.includes("message 3000")) ? true : undefined));
    watcher.close();
    assert.deepEqual(watcher.events.map(({ id }) => id), all(watcher.events.length).map((n) => n + 1));
  });
}
