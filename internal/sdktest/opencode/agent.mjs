// An agent that does what the first word of a prompt says.
import { createInterface } from "node:readline";

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const answers = new Map(); // to the agent's own requests
let requests = 0;
let cancel = () => {};

const ask = (method, params) =>
  new Promise((resolve) => {
    answers.set(++requests, resolve);
    send({ id: requests, method, params });
  });

const content = (words) => ({ type: "text", text: words });

// What the agent does, by the first word. Each returns the answer to the prompt.
const script = {
  async think(update) {
    update({ sessionUpdate: "agent_thought_chunk", content: content("hm") });
    update({ sessionUpdate: "agent_message_chunk", content: content("I thought.") });
    return { stopReason: "end_turn", usage: { inputTokens: 7, outputTokens: 3, thoughtTokens: 1, cachedReadTokens: 2 } };
  },
  async tools(update) {
    const call = (more) => update({ sessionUpdate: "tool_call_update", toolCallId: "t1", ...more });
    update({ sessionUpdate: "tool_call", toolCallId: "t1", title: "make check", kind: "execute", status: "pending", rawInput: { command: "make check" } });
    call({ status: "in_progress" });
    call({ status: "failed", content: [{ type: "content", content: content("no such target") }] });
    update({ sessionUpdate: "tool_call", toolCallId: "t2", title: "a.txt", kind: "edit", status: "completed", content: [{ type: "diff", path: "/a.txt", oldText: "one\n", newText: "two\n" }] });
    update({ sessionUpdate: "agent_message_chunk", content: { type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" } });
    return { stopReason: "max_tokens" };
  },
  async ask(update, session) {
    const toolCall = { toolCallId: "t3", title: "rm a", kind: "execute", status: "pending", rawInput: { command: "rm a" } };
    const options = ["allow_once", "allow_always", "reject_once"].map((kind) => ({ optionId: `o-${kind}`, name: kind, kind }));
    const { outcome } = await ask("session/request_permission", { sessionId: session, toolCall, options });
    update({ sessionUpdate: "agent_message_chunk", content: content(outcome.optionId ?? outcome.outcome) });
    return { stopReason: "end_turn" };
  },
  async wait() {
    return new Promise((resolve) => (cancel = () => resolve({ stopReason: "cancelled" })));
  },
  async refuse() {
    return { stopReason: "refusal" };
  },
  async fail() {
    throw new Error("it failed");
  },
  async die() {
    process.exit(3);
  },
};

const chosen = { mode: "careful", model: "small" };

async function answer(method, params) {
  const update = (u) => send({ method: "session/update", params: { sessionId: params.sessionId, update: u } });
  switch (method) {
    case "initialize":
      return { protocolVersion: 1, agentCapabilities: { promptCapabilities: { image: true, embeddedContext: true } }, authMethods: [] };
    case "session/new": {
      const sessionId = `scripted-${process.pid}-${++requests}`;
      const availableCommands = ["compact", "init"].map((name) => ({ name, description: name }));
      setTimeout(() => send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "available_commands_update", availableCommands } } }));
      return {
        sessionId,
        modes: { currentModeId: chosen.mode, availableModes: ["careful", "quick"].map((id) => ({ id, name: id })) },
        models: { currentModelId: chosen.model, availableModels: ["small", "large"].map((modelId) => ({ modelId, name: modelId })) },
      };
    }
    case "session/set_mode":
      chosen.mode = params.modeId;
      return {};
    case "session/set_model":
      chosen.model = params.modelId;
      return {};
    case "session/prompt": {
      const words = params.prompt.map((b) => b.text ?? b.resource?.text ?? (b.type === "image" ? b.mimeType : b.uri)).join(" | ");
      const act = script[words.split(" ")[0]];
      if (act) return act(update, params.sessionId);
      update({ sessionUpdate: "agent_message_chunk", content: content(`${chosen.model}, ${chosen.mode}: ${words}`) });
      return { stopReason: "end_turn" };
    }
  }
  throw new Error(`no method ${method}`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, result } = JSON.parse(line);
  if (method === "session/cancel") cancel();
  else if (method === undefined) answers.get(id)?.(result);
  else if (id !== undefined) {
    answer(method, params).then(
      (result) => send({ id, result }),
      (error) => send({ id, error: { code: -32601, message: error.message } }),
    );
  }
}
