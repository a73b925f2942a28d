// The published SDK's methods of agents and their sessions against a running
// server, with the mock agent.
import assert from "node:assert/strict";
import { after as close, test } from "node:test";
import { SandboxAgent, Session } from "sandbox-agent";
import { agent, methodsOfSession, sessionMethods, uncalled } from "./lib.mjs";
import * as sessions from "./sessions.mjs";
import { crashes } from "./sessions_crash.mjs";
import { streams } from "./sessions_stream.mjs";
import { dispose } from "./talk.mjs";

sessions.agents();
sessions.conversation();
sessions.settings();
sessions.permissions();
sessions.persistence();
streams();
crashes();

close(async () => {
  await dispose();
  await agent.dispose();
});

test("every method of agents and sessions of the SDK was called", () => {
  assert.equal(sessionMethods().length, 26, sessionMethods().join(" "));
  assert.deepEqual(uncalled(SandboxAgent, sessionMethods()), []);
  assert.equal(methodsOfSession().length, 15, methodsOfSession().join(" "));
  assert.deepEqual(uncalled(Session, methodsOfSession()), []);
});
