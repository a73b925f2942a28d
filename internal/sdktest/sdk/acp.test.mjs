// The clients that the Agent Client Protocol's own package has for agents which
// are reached over HTTP, unchanged: its Streamable HTTP and its WebSocket.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { client, methods, PROTOCOL_VERSION } from "acp-sdk";
import { createHttpStream } from "acp-sdk/experimental/http-client";
import { createWebSocketStream } from "acp-sdk/experimental/ws-client";

const { SDKTEST_URL: baseUrl, SDKTEST_TOKEN: token, SDKTEST_SCRATCH: scratch } = process.env;
const url = `${baseUrl}/v1/agents/mock/acp`;
const authorized = { Authorization: `Bearer ${token}` };
const { agent } = methods;

const overHTTP = () => createHttpStream(url, { headers: authorized });
// The WebSocket of node, as that of browsers, has no headers.
const overWebSocket = () => createWebSocketStream(`${url.replace("http", "ws")}?access_token=${token}`);

const open = new Set();
after(() => Promise.all([...open].map(close)));

async function close(peer) {
  open.delete(peer);
  peer.connection.close();
  await peer.connection.closed;
}

// connect returns a client that is initialized and keeps what it is told. answer
// chooses what it says to requests for permission.
async function connect(stream, answer = () => "allow_once") {
  const told = [];
  const asked = [];
  const app = client({ name: "deskhand-sdktest" })
    .onNotification(methods.client.session.update, ({ params }) => void told.push(params))
    .onRequest(methods.client.session.requestPermission, async ({ params }) => {
      asked.push(params);
      const kind = await answer(params);
      const option = params.options.find((o) => o.kind === kind);
      return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
    });
  const connection = app.connect(stream);
  const peer = { connection, told, asked, ask: (method, params) => connection.agent.request(method, params) };
  open.add(peer);
  peer.capabilities = (await peer.ask(agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} })).agentCapabilities;
  return peer;
}

const begin = async (peer) => (await peer.ask(agent.session.new, { cwd: scratch, mcpServers: [] })).sessionId;
const prompt = (peer, sessionId, words) => peer.ask(agent.session.prompt, { sessionId, prompt: [{ type: "text", text: words }] });
const said = (peer, session) =>
  peer.told
    .filter(({ sessionId, update }) => sessionId === session && update.sessionUpdate === "agent_message_chunk" && update.content.type === "text")
    .map(({ update }) => update.content.text)
    .join("");

// eventually waits until probe returns something.
async function eventually(what, probe, timeoutMs = 20_000) {
  for (const deadline = Date.now() + timeoutMs; ; ) {
    const value = await probe();
    if (value) return value;
    assert.ok(Date.now() < deadline, `${what}: not within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

async function servers() {
  const response = await fetch(`${baseUrl}/v1/acp`, { headers: authorized });
  return (await response.json()).servers.map(({ serverId }) => serverId);
}

for (const [name, stream] of Object.entries({ "Streamable HTTP": overHTTP, WebSocket: overWebSocket })) {
  test(`${name}: a turn with updates, a permission, and its cancellation`, async () => {
    const peer = await connect(stream());
    assert.equal(peer.capabilities.loadSession, true);
    const session = await begin(peer);
    const turn = await prompt(peer, session, "demo");
    assert.equal(turn.stopReason, "end_turn");
    const kinds = new Set(peer.told.map(({ update }) => update.sessionUpdate));
    for (const kind of ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"]) {
      assert.ok(kinds.has(kind), `no ${kind} before the answer`);
    }
    assert.equal((await prompt(peer, session, "permission")).stopReason, "end_turn");
    assert.equal(peer.asked.length, 1);
    assert.match(said(peer, session), /I was allowed/);

    const slow = prompt(peer, session, "slow");
    await eventually("a tick", () => /tick 1/.test(said(peer, session)));
    await peer.connection.agent.notify(agent.session.cancel, { sessionId: session });
    assert.equal((await slow).stopReason, "cancelled");
    await close(peer);
  });

  test(`${name}: sessions side by side, and errors of the agent`, async () => {
    const peer = await connect(stream(), async ({ sessionId }) => (sessionId === peer.refusing ? "reject_once" : "allow_once"));
    const [one, two] = [await begin(peer), await begin(peer)];
    assert.notEqual(one, two);
    peer.refusing = two;
    const words = "burst 2000";
    const turns = await Promise.all([prompt(peer, one, words), prompt(peer, two, "permission")]);
    assert.deepEqual(turns.map(({ stopReason }) => stopReason), ["end_turn", "end_turn"]);
    const counted = [...said(peer, one).matchAll(/^message (\d+)$/gm)].map(([, n]) => Number(n));
    assert.deepEqual(counted, Array.from({ length: 2000 }, (_, n) => n + 1));
    assert.doesNotMatch(said(peer, two), /I was allowed/);
    assert.deepEqual(peer.asked.map(({ sessionId }) => sessionId), [two]);
    await assert.rejects(prompt(peer, one, "error"), (error) => typeof error.code === "number");
    await assert.rejects(prompt(peer, "no such session", "hello"), (error) => typeof error.code === "number");
    assert.equal((await prompt(peer, two, "still here")).stopReason, "end_turn");
    await close(peer);
  });

  test(`${name}: a client that closes ends its agent, and loads the session in another`, async () => {
    const before = await servers();
    const first = await connect(stream());
    const session = await begin(first);
    await prompt(first, session, "the password is swordfish");
    const [mine] = (await servers()).filter((id) => !before.includes(id));
    assert.ok(mine, "the connection is listed as a server");
    await close(first);
    await eventually("the end of the agent", async () => !(await servers()).includes(mine));

    const second = await connect(stream());
    await second.ask(agent.session.load, { sessionId: session, cwd: scratch, mcpServers: [] });
    await eventually("the history", () => /swordfish/.test(JSON.stringify(second.told)));
    assert.equal((await prompt(second, session, "and now")).stopReason, "end_turn");
    assert.match(said(second, session), /and now/);
    await close(second);
  });

  test(`${name}: the end of the agent ends the connection`, async () => {
    const peer = await connect(stream());
    const session = await begin(peer);
    await assert.rejects(prompt(peer, session, "crash"));
    await peer.connection.closed;
    await close(peer);
  });
}

test("a server that was killed: the client connects again and loads its session", async () => {
  const first = await connect(overHTTP());
  const socket = await connect(overWebSocket());
  const session = await begin(first);
  const other = await begin(socket);
  await prompt(first, session, "the password is swordfish");
  await prompt(socket, other, "the password is marlin");
  const response = await fetch(process.env.SDKTEST_CRASH, { method: "POST" });
  assert.equal(response.status, 200, await response.text());
  await Promise.all([first.connection.closed, socket.connection.closed]);
  for (const [stream, lost, words] of [[overHTTP, session, /swordfish/], [overWebSocket, other, /marlin/]]) {
    const peer = await connect(stream());
    await peer.ask(agent.session.load, { sessionId: lost, cwd: scratch, mcpServers: [] });
    await eventually("the history", () => words.test(JSON.stringify(peer.told)));
    assert.equal((await prompt(peer, lost, "and now")).stopReason, "end_turn");
    await close(peer);
  }
});

// posts are the requests whose response has not come. The answer to a prompt
// comes in a stream, and may be there before the POST is known to be accepted.
const posts = new Set();

// resuming is fetch, but for streams that break: those it opens again after the
// last event that came whole, as the protocol leaves it to its implementers.
async function resuming(input, init) {
  if (init.method !== "GET") {
    const post = fetch(input, init);
    posts.add(post);
    return post.finally(() => posts.delete(post));
  }
  let last = "0"; // all, so that nothing depends on what the server remembers
  async function* events() {
    while (!init.signal.aborted) {
      try {
        const headers = new Headers(init.headers);
        headers.set("Last-Event-ID", last);
        const response = await fetch(input, { ...init, headers });
        let text = "";
        for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
          text += part;
          const whole = text.lastIndexOf("\n\n") + 2;
          if (whole < 2) continue;
          last = [...text.slice(0, whole).matchAll(/^id: (\d+)$/gm)].at(-1)?.[1] ?? last;
          yield text.slice(0, whole);
          text = text.slice(whole);
        }
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 25));
      }
    }
  }
  return new Response(ReadableStream.from(events()).pipeThrough(new TextEncoderStream()), { status: 200 });
}

test("a server that was killed: a client whose streams resume goes on, with its connection", async () => {
  const peer = await connect(createHttpStream(url, { headers: authorized, fetch: resuming }));
  const session = await begin(peer);
  await prompt(peer, session, "the password is swordfish");
  for (const round of [1, 2]) {
    await Promise.all(posts);
    const response = await fetch(process.env.SDKTEST_CRASH, { method: "POST" });
    assert.equal(response.status, 200, await response.text());
    assert.equal((await prompt(peer, session, `after crash ${round}`)).stopReason, "end_turn");
    assert.match(said(peer, session), new RegExp(`after crash ${round}`));
  }
  assert.equal(said(peer, session).split("swordfish").length, 2, "it was said again");
  assert.equal((await prompt(peer, session, "permission")).stopReason, "end_turn");
  assert.equal(peer.asked.length, 1);
  await close(peer);
});

test("no token: the client says so", async () => {
  await assert.rejects(connect(createHttpStream(url)), /401/);
});
