// What the tests of sessions share: clients, sessions whose events are kept,
// and what those say.
import assert from "node:assert/strict";
import { SandboxAgent } from "sandbox-agent";
import { baseUrl, eventually, noting, scratch, token, within } from "./lib.mjs";

export const text = (words) => [{ type: "text", text: words }];

const clients = [];

// client returns another client of the server, or of what stands before it.
export async function client(options = {}) {
  const made = noting(await SandboxAgent.connect({ baseUrl, token, ...options }));
  clients.push(made);
  return made;
}

// dispose disposes of all of them.
export const dispose = () => Promise.all(clients.map((c) => c.dispose()));

// begin makes a session with the mock agent, and keeps its events.
export async function begin(of, options = {}) {
  return watched(await of.createSession({ agent: "mock", cwd: scratch, ...options }));
}

// watched keeps the events of a session from now on.
export function watched(made) {
  const session = noting(made);
  const events = [];
  session.onEvent((event) => events.push(event));
  return { session, events };
}

export const updates = (events) =>
  events.map(({ payload }) => payload).filter(({ method }) => method === "session/update").map(({ params }) => params.update);

// said is what the agent has said.
export const said = (events) =>
  updates(events)
    .filter(({ sessionUpdate, content }) => sessionUpdate === "agent_message_chunk" && content.type === "text")
    .map(({ content }) => content.text)
    .join("");

// says waits until the agent has said something: what a prompt returns may be
// there before the last of what came before it, which takes another way.
export const says = (events, words) =>
  eventually(`the agent says ${words}`, () => (said(events).includes(words) ? true : undefined), 30_000);

// contiguous asserts that events are numbered without a gap.
export function contiguous(events) {
  const first = events[0]?.eventIndex;
  assert.deepEqual(events.map(({ eventIndex }) => eventIndex), events.map((_, n) => first + n));
}

// counted returns the numbers of the messages of a burst, in their order.
export const counted = (events) => [...said(events).matchAll(/^message (\d+)$/gm)].map(([, n]) => Number(n));

// all is 1 to n.
export const all = (n) => Array.from({ length: n }, (_, i) => i + 1);

// unhandled makes a call and returns the rejection that no code handles. When a
// connection fails, the SDK leaves such a rejection, which would fail the test, and
// never settles calls that wait for an answer.
export async function unhandled(call) {
  const name = "unhandledRejection";
  const others = process.rawListeners(name);
  process.removeAllListeners(name);
  const seen = new Promise((resolve) => process.once(name, resolve));
  try {
    await call();
    return await within(30_000, seen);
  } finally {
    process.removeAllListeners(name);
    for (const other of others) process.on(name, other);
  }
}

// serverOf returns the id of the ACP server that was made last.
export async function serverOf(of) {
  const { servers } = await of.listAcpServers();
  return servers.sort((a, b) => a.createdAtMs - b.createdAtMs).at(-1).serverId;
}

// follow reads the event stream of an ACP server without the SDK.
export async function follow(serverId, headers = {}) {
  const stop = new AbortController();
  const events = [];
  const response = await fetch(`${baseUrl}/v1/acp/${encodeURIComponent(serverId)}`, {
    headers: { Authorization: `Bearer ${token}`, Accept: "text/event-stream", ...headers },
    signal: stop.signal,
  });
  assert.equal(response.status, 200);
  const ended = (async () => {
    let rest = "";
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const blocks = (rest + chunk).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const field = (name) => block.match(new RegExp(`^${name}: ?(.*)$`, "m"))?.[1];
        if (field("data")) events.push({ id: Number(field("id")), message: field("data") });
      }
    }
  })().catch(() => {}); // it was cut
  return { events, ended, close: () => stop.abort() };
}
