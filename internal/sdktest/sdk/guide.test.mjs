// The programs of docs/clients.md, against a running server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { call, follow, traces } from "./guide.mjs";
import { agent, baseUrl, token } from "./lib.mjs";

const server = { url: baseUrl, token };

test("several clients share a session, and its turn becomes spans", async () => {
  // The first client begins the session by the SDK of sandbox-agent.
  const session = await agent.createSession({ agent: "mock", sessionInit: { cwd: "/tmp", mcpServers: [] } });
  session.onPermissionRequest(() => {}); // another client answers
  const id = session.agentSessionId;
  const prompted = session.prompt([{ type: "text", text: "permission" }]);

  // The second one answers its question.
  const stop = new AbortController();
  for await (const { type, data } of follow(server, id, 0, stop.signal)) {
    if (type === "permission.requested") await call(server, `/v1/sessions/${id}/permissions/${data.permission_id}/reply`, { reply: "once" });
    if (type === "turn.ended") stop.abort();
  }
  assert.equal((await prompted).stopReason, "end_turn");

  // The third one says something, and begins with the events after those that it knows.
  const { sessions } = await call(server, "/v1/sessions");
  const known = sessions.find(({ sessionId }) => sessionId === id).eventCount;
  await call(server, `/v1/sessions/${id}/messages`, { message: "hello from another client" });
  const again = new AbortController();
  const seen = [];
  for await (const event of follow(server, id, known, again.signal)) {
    seen.push(event);
    if (event.type === "turn.ended") again.abort();
  }
  assert.ok(seen.every(({ sequence }, i) => sequence === known + 1 + i), "no event is missing or there twice");
  await assert.rejects(follow(server, "never").next(), /not.found/i);

  // Traces of the whole session.
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const context = { with: (span) => trace.setSpan(ROOT_CONTEXT, span) };
  const { events } = await call(server, `/v1/sessions/${id}/events`);
  await traces(provider.getTracer("guide"), events, context);
  const spans = exporter.getFinishedSpans();
  const turns = spans.filter(({ name }) => name === "turn");
  assert.equal(turns.length, 2);
  const [wait] = spans.filter(({ name }) => name === "wait");
  assert.equal(wait.attributes.answer, "accept");
  const [tool] = spans.filter(({ name }) => name === "tool");
  assert.equal(tool.attributes["tool.name"], "`rm -rf build`");
  for (const span of [wait, tool]) assert.equal(span.parentSpanContext.spanId, turns[0].spanContext().spanId);
  await agent.dispose();
});
