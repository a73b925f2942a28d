// The programs of docs/clients.md.
import { SpanStatusCode } from "@opentelemetry/api";

// follow yields the events of a session after the event offset, and then new ones. It
// continues where it was when the server or the network was away.
export async function* follow(server, id, offset = 0, signal) {
  while (!signal?.aborted) {
    try {
      const response = await fetch(`${server.url}/v1/sessions/${encodeURIComponent(id)}/events/sse?offset=${offset}`, {
        headers: { Authorization: `Bearer ${server.token}` }, signal,
      });
      if (!response.ok) throw Object.assign(new Error(await response.text()), { final: response.status < 500 });
      let text = "";
      for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
        const frames = (text + chunk).split("\n\n");
        text = frames.pop();
        for (const data of frames.flatMap((frame) => frame.match(/^data: (.*)$/m)?.[1] ?? [])) {
          const event = JSON.parse(data);
          offset = event.sequence;
          yield event;
        }
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (error.final) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

// call sends a request to the server.
export async function call(server, path, body) {
  const response = await fetch(server.url + path, {
    method: body ? "POST" : "GET", body: body && JSON.stringify(body),
    headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json" },
  });
  if (!response.ok) throw new Error(await response.text());
  return response.status === 204 ? null : response.json();
}

// traces makes a span of each turn, and in it a span of each tool call and each wait for a person.
export async function traces(tracer, events, context) {
  const open = new Map();
  const begin = (key, name, at, parent, attributes) => {
    open.set(key, tracer.startSpan(name, { startTime: new Date(at), attributes }, parent ? context.with(open.get(parent)) : undefined));
  };
  const end = (key, at, failed, attributes = {}) => {
    const span = open.get(key);
    if (!span || !open.delete(key)) return;
    span.setAttributes(attributes);
    if (failed) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(new Date(at));
  };
  for await (const { type, time, session_id: session, data } of events) {
    const turn = open.has("turn") ? "turn" : null;
    const tool = data.item?.kind === "tool_call" ? data.item : null;
    if (type === "turn.started") begin("turn", "turn", time, null, { "session.id": session });
    if (type === "item.started" && tool) begin(tool.native_item_id, "tool", time, turn, { "session.id": session });
    if (type === "item.completed" && tool) end(tool.native_item_id, time, tool.status === "failed", { "tool.name": tool.content[0].name });
    if (type.endsWith(".requested")) begin(data.permission_id ?? data.question_id, "wait", time, turn, {});
    if (type.endsWith(".resolved")) end(data.permission_id ?? data.question_id, time, false, { answer: data.status });
    if (type === "turn.ended") end("turn", time, data.metadata?.stopReason === "error");
  }
}
