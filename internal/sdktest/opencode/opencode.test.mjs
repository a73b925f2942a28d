// OpenCode's SDK, both of its clients, against a running server with the mock agent and an
// agent with a script.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./sessions.mjs";
import "./machine.mjs";
import "./script.mjs";
import "./older.mjs";
import "./crash.mjs";
import { uncalled } from "./lib.mjs";

test("each method of both clients was called", () => {
  assert.deepEqual(uncalled(), []);
});
