// The published SDK's methods of processes, terminals, files and configuration
// against a running server.
import assert from "node:assert/strict";
import { after as close, test } from "node:test";
import { ProcessTerminalSession, SandboxAgent } from "sandbox-agent";
import * as configuration from "./configuration.mjs";
import * as files from "./files.mjs";
import { agent, hostMethods, terminalMethods, uncalled } from "./lib.mjs";
import * as processes from "./processes.mjs";
import * as terminals from "./terminals.mjs";

processes.config();
processes.run();
processes.managed();
processes.logging();
processes.input();
terminals.processes();
terminals.sockets();
terminals.sessions();
files.contents();
files.tree();
files.upload();
configuration.mcp();
configuration.skills();

test("every process, file and configuration method of the SDK was called", () => {
  assert.equal(hostMethods().length, 30, hostMethods().join(" "));
  assert.deepEqual(uncalled(SandboxAgent, hostMethods()), []);
  assert.equal(terminalMethods().length, 8, terminalMethods().join(" "));
  assert.deepEqual(uncalled(ProcessTerminalSession, terminalMethods()), []);
});

close(() => agent.dispose());
