// A client made with the published SDK, whose schemas check everything that the
// agent says. Arguments: node_modules, then the agent's command.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";

const [modules, command] = process.argv.slice(2);
const sdk = await import(pathToFileURL(`${modules}/@agentclientprotocol/sdk/dist/acp.js`));
const schema = await import(pathToFileURL(`${modules}/@agentclientprotocol/sdk/dist/schema/zod.gen.js`));

const child = spawn(command, [], { stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((done) => child.on("exit", done));
const updates = [];
const asked = [];
const connection = new sdk.ClientSideConnection(
  () => ({
    sessionUpdate: async (params) => {
      updates.push(schema.zSessionNotification.parse(params).update);
    },
    requestPermission: async (params) => {
      asked.push(schema.zRequestPermissionRequest.parse(params));
      const once = params.options.find((o) => o.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: once.optionId } };
    },
  }),
  sdk.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)),
);

// strict refuses members that the schema does not know, too.
const strict = (name, value) => {
  const parsed = schema[name].parse(value);
  for (const key of Object.keys(value)) assert.ok(key in parsed, `${name} has no ${key}`);
  return value;
};

const init = strict("zInitializeResponse", await connection.initialize({
  protocolVersion: 1,
  clientInfo: { name: "sandbox-agent-sdk", version: "v1" },
  clientCapabilities: {},
}));
assert.equal(init.agentCapabilities.loadSession, true);
await connection.authenticate({ methodId: "none" });
const { sessionId, ...about } = strict("zNewSessionResponse", await connection.newSession({ cwd: "/tmp", mcpServers: [] }));
assert.deepEqual(about.configOptions.map((o) => o.category), ["mode", "model", "thought_level"]);

const say = async (text) => {
  updates.length = 0;
  return strict("zPromptResponse", await connection.prompt({ sessionId, prompt: [{ type: "text", text }] }));
};
for (const text of ["hello", "demo", "markdown", "image", "diff", "permission", "plan", "burst 100"]) {
  assert.equal((await say(text)).stopReason, "end_turn", text);
  assert.ok(updates.length > 0, text);
}
assert.equal(asked.length, 2);
await assert.rejects(say("error"), { message: /overloaded/ });

const slow = say("slow");
while (!updates.some((u) => u.content?.text === "tick 1\n")) await new Promise((done) => setImmediate(done));
await connection.cancel({ sessionId });
assert.equal((await slow).stopReason, "cancelled");

strict("zSetSessionModeResponse", await connection.setSessionMode({ sessionId, modeId: "plan" }));
strict("zSetSessionModelResponse", await connection.unstable_setSessionModel({ sessionId, modelId: "mock-fast" }));
const set = strict("zSetSessionConfigOptionResponse", await connection.setSessionConfigOption({ sessionId, configId: "thought_level", value: "high" }));
assert.deepEqual(set.configOptions.map((o) => o.currentValue), ["plan", "mock-fast", "high"]);

const list = strict("zListSessionsResponse", await connection.listSessions({}));
assert.equal(list.sessions[0].sessionId, sessionId);
strict("zCloseSessionResponse", await connection.unstable_closeSession({ sessionId }));
updates.length = 0;
const loaded = strict("zLoadSessionResponse", await connection.loadSession({ sessionId, cwd: "/tmp", mcpServers: [] }));
assert.equal(loaded.modes.currentModeId, "plan");
assert.ok(updates.some((u) => u.sessionUpdate === "user_message_chunk"));
strict("zResumeSessionResponse", await connection.unstable_resumeSession({ sessionId, cwd: "/tmp", mcpServers: [] }));

child.stdin.end();
assert.equal(await exited, 0);
console.log(`ok ${updates.length}`);
