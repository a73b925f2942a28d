// Agents, and sessions with the mock agent: what is said in them, how they are
// set, what the agent asks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SandboxAgent, UnsupportedSessionValueError } from "sandbox-agent";
import { agent, baseUrl, eventually, noting, refused, token } from "./lib.mjs";
import { begin, client, contiguous, said, says, serverOf, text, unhandled, updates } from "./talk.mjs";

export function agents() {
  test("agents are listed, described and installed", async () => {
    const installed = await agent.installAgent("mock");
    assert.ok(Array.isArray(installed.artifacts));
    const { agents } = await agent.listAgents();
    const ids = agents.map(({ id }) => id);
    for (const id of ["claude", "codex", "opencode", "mock"]) assert.ok(ids.includes(id), ids.join(" "));
    const mock = agents.find(({ id }) => id === "mock");
    assert.equal(mock.installed, true);
    assert.equal(typeof mock.credentialsAvailable, "boolean");
    assert.equal(typeof mock.capabilities.permissions, "boolean");
    const described = await agent.getAgent("mock", { config: true });
    assert.equal(described.id, "mock");
    assert.ok(Array.isArray(described.configOptions));
  });

  test("an agent that there is not is refused", async () => {
    await refused(agent.getAgent("no-such-agent"), 400, "unsupported_agent");
    await refused(agent.installAgent("no-such-agent"), 400, "unsupported_agent");
  });
}

export function conversation() {
  test("a session begins, answers and is told in events", async () => {
    const { session, events } = await begin(agent, { id: "first" });
    assert.equal(session.id, "first");
    assert.equal(session.agent, "mock");
    assert.ok(session.agentSessionId);
    assert.ok((await agent.listAcpServers()).servers.some((s) => s.agent === "mock" && s.serverId.startsWith("sdk-mock-")));
    assert.equal((await session.prompt(text("hello you"))).stopReason, "end_turn");
    await says(events, "hello you");
    assert.match(said(events), /I am the mock agent/);
    await session.prompt(text("demo"));
    await says(events, "as you can see");
    const kinds = new Set(updates(events).map(({ sessionUpdate }) => sessionUpdate));
    for (const kind of ["agent_thought_chunk", "plan", "tool_call", "tool_call_update", "usage_update"]) assert.ok(kinds.has(kind), kind);
    assert.ok(events.some(({ sender, payload }) => sender === "client" && payload.method === "session/prompt"));
    contiguous(events);
    const kept = await agent.getEvents({ sessionId: "first" });
    assert.equal(kept.items[0].payload.method, "session/new");
    contiguous(kept.items);
  });

  test("sessions of one client do not mix", async () => {
    const [one, two] = await Promise.all([begin(agent), begin(agent)]);
    assert.notEqual(one.session.agentSessionId, two.session.agentSessionId);
    await Promise.all([one.session.prompt(text("for the one")), two.session.prompt(text("for the two"))]);
    await Promise.all([says(one.events, "for the one"), says(two.events, "for the two")]);
    assert.doesNotMatch(said(one.events), /the two/);
    assert.doesNotMatch(said(two.events), /the one/);
  });

  test("a turn that fails says why", async () => {
    const { session } = await begin(agent);
    await assert.rejects(session.prompt(text("error")), /overloaded/);
    assert.equal((await session.prompt(text("and on"))).stopReason, "end_turn");
  });

  test("raw calls reach the agent", async () => {
    const { session, events } = await begin(agent);
    const answer = await session.rawSend("session/prompt", { prompt: text("raw") });
    assert.equal(answer.stopReason, "end_turn");
    const { response } = await agent.rawSendSessionMethod(session.id, "_mock/unknown", { some: "thing" });
    assert.equal(response.echoed.method, "_mock/unknown");
    assert.equal(response.echoed.params.some, "thing");
    await session.rawSend("_mock/told", { other: 1 }, { notification: true });
    await eventually("the echo of a notification", () =>
      events.some(({ payload }) => payload.params?.other === 1) ? true : undefined);
    await assert.rejects(session.rawSend("session/cancel"), /destroySession/);
  });

  test("destroySession ends the turn", async () => {
    const { session, events } = await begin(agent);
    const turn = session.prompt(text("slow"));
    await says(events, "tick 1");
    const destroyed = await agent.destroySession(session.id);
    assert.ok(destroyed.destroyedAt);
    assert.equal((await turn).stopReason, "cancelled");
    assert.ok((await session.refresh()).destroyedAt);
  });
}

export function settings() {
  test("modes, models and thought levels can be set", async () => {
    const { session, events } = await begin(agent, { mode: "plan", model: "mock-fast", thoughtLevel: "high" });
    const now = async () => Object.fromEntries((await session.getConfigOptions()).map(({ category, currentValue }) => [category, currentValue]));
    assert.deepEqual(await now(), { mode: "plan", model: "mock-fast", thought_level: "high" });
    assert.equal((await session.getModes()).currentModeId, "plan");
    await session.setMode("normal");
    await session.setModel("mock");
    await session.setThoughtLevel("low");
    assert.deepEqual(await now(), { mode: "normal", model: "mock", thought_level: "low" });
    await session.setConfigOption("thought_level", "medium");
    await agent.setSessionMode(session.id, "plan");
    await agent.setSessionModel(session.id, "mock-fast");
    await agent.setSessionConfigOption(session.id, "model", "mock");
    await agent.setSessionThoughtLevel(session.id, "high");
    const options = await agent.getSessionConfigOptions(session.id);
    assert.equal(options.find(({ id }) => id === "thought_level").currentValue, "high");
    assert.equal((await agent.getSessionModes(session.id)).currentModeId, "plan");
    assert.ok(events.some(({ payload }) => payload.method === "session/set_config_option"));
    contiguous(events);
  });

  test("what cannot be set is refused", async () => {
    const { session } = await begin(agent);
    await assert.rejects(session.setMode("asleep"), UnsupportedSessionValueError);
    await assert.rejects(session.setModel("oracle"), UnsupportedSessionValueError);
    await assert.rejects(agent.createSession({ agent: "mock", mode: "asleep" }), UnsupportedSessionValueError);
    const bare = await agent.createSession({ agent: "mock", sessionInit: { cwd: "relative", mcpServers: [] } }).catch((error) => error);
    assert.match(String(bare), /absolute/);
  });
}

// permit runs a turn in which the agent asks, and answers the question.
async function permit(answer) {
  const { session, events } = await begin(agent);
  const asked = new Promise((resolve) => session.onPermissionRequest(resolve));
  const turn = session.prompt(text("permission"));
  const request = await asked;
  assert.equal(request.sessionId, session.id);
  assert.equal(request.agentSessionId, session.agentSessionId);
  assert.deepEqual(request.availableReplies, ["always", "once", "reject"]);
  assert.equal(request.toolCall.kind, "execute");
  await answer(session, request);
  return { session, events, result: await turn };
}

export function permissions() {
  for (const [reply, words] of [["once", "I was allowed to run it (allow_once)"], ["always", "allowed to run it (allow_always)"], ["reject", "I was not allowed"]]) {
    test(`a permission is answered with ${reply}`, async () => {
      const { session, events, result } = await permit((session, { id }) => session.respondPermission(id, reply));
      assert.equal(result.stopReason, "end_turn");
      await says(events, words);
      if (reply !== "always") return;
      assert.equal((await session.prompt(text("permission"))).stopReason, "end_turn"); // without being asked
    });
  }

  test("a permission is answered through the client, and in the agent's words", async () => {
    const { events } = await permit((_, { id }) => agent.respondPermission(id, "once"));
    await says(events, "allowed to run it");
    const chosen = { outcome: { outcome: "selected", optionId: "no" } };
    const refusedOne = await permit((session, { id }) => session.rawRespondPermission(id, chosen));
    await says(refusedOne.events, "not allowed");
    const cancelled = await permit((_, { id }) => agent.rawRespondPermission(id, { outcome: { outcome: "cancelled" } }));
    assert.equal(cancelled.result.stopReason, "cancelled");
  });

  test("a permission that is answered twice, or wrongly, is refused", async () => {
    const { id } = await new Promise((resolve) => {
      permit(async (session, request) => {
        await session.respondPermission(request.id, "once");
        resolve(request);
      });
    });
    await assert.rejects(agent.respondPermission(id, "once"), /not found/);
  });

  test("without a listener the permission is cancelled", async () => {
    const { session } = await begin(agent);
    assert.equal((await session.prompt(text("permission"))).stopReason, "cancelled");
  });

  test("a client may listen for a session's questions and events", async () => {
    const { session } = await begin(agent);
    let heard = 0;
    const off = agent.onSessionEvent(session.id, () => heard++);
    agent.onPermissionRequest(session.id, ({ id }) => agent.respondPermission(id, "reject"));
    assert.equal((await session.prompt(text("permission"))).stopReason, "end_turn");
    await eventually("events", () => (heard > 3 ? true : undefined));
    off();
    const before = heard;
    await session.prompt(text("unheard"));
    assert.equal(heard, before);
  });
}

export function persistence() {
  test("sessions are kept, listed and resumed", async () => {
    const mine = await client();
    const made = await mine.resumeOrCreateSession({ id: "kept", agent: "mock", mode: "plan" });
    const again = await mine.resumeOrCreateSession({ id: "kept", agent: "mock", model: "mock-fast", thoughtLevel: "low" });
    assert.equal(again.agentSessionId, made.agentSessionId);
    assert.equal((await mine.resumeSession("kept")).agentSessionId, made.agentSessionId);
    assert.equal((await mine.getSession("kept")).id, "kept");
    assert.equal(await mine.getSession("never"), null);
    await assert.rejects(mine.resumeSession("never"), /not found/);
    await mine.createSession({ agent: "mock" });
    const { items, nextCursor } = await mine.listSessions({ limit: 1 });
    assert.deepEqual(items.map(({ id }) => id), ["kept"]);
    assert.equal((await mine.listSessions({ cursor: nextCursor })).items.length, 1);
    const session = noting(made);
    const record = session.toRecord();
    session.apply({ ...record, createdAt: 1 });
    assert.equal(session.createdAt, 1);
    assert.equal((await session.refresh()).createdAt, record.createdAt);
  });

  test("an agent that there is not makes no session", async () => {
    const lost = await SandboxAgent.connect({ baseUrl, token }); // for ever
    const error = await unhandled(() => void lost.createSession({ agent: "no-such-agent" }));
    assert.equal(error.status, 400);
    assert.equal(error.problem.type, "urn:sandbox-agent:error:unsupported_agent");
  });

  test("dispose ends the agent", async () => {
    const mine = await client();
    await begin(mine);
    const id = await serverOf(mine);
    await mine.dispose();
    await eventually("end of the ACP server", async () => {
      const { servers } = await agent.listAcpServers();
      return servers.some(({ serverId }) => serverId === id) ? undefined : true;
    });
  });

  test("a client that has a sandbox gives it back", async () => {
    for (const [method, does] of [["destroySandbox", "destroy"], ["pauseSandbox", "pause"], ["killSandbox", "kill"]]) {
      const done = [];
      const note = (name) => async (id) => void done.push([name, id]);
      const sandbox = {
        name: "ours", create: async () => "1", getUrl: async () => baseUrl, getToken: async () => token,
        destroy: note("destroy"), pause: note("pause"), kill: note("kill"),
      };
      const mine = noting(await SandboxAgent.start({ sandbox }));
      await begin(mine);
      await mine[method]();
      assert.deepEqual(done, [[does, "1"]]);
    }
  });
}
