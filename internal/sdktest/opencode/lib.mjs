// What the test files share: both clients of the SDK, which note what they call, and
// assertions about answers and events.
import assert from "node:assert/strict";
import { after } from "node:test";
import { createOpencodeClient } from "@opencode-ai/sdk";
import { createOpencodeClient as createV2 } from "@opencode-ai/sdk/v2";

export const baseUrl = `${process.env.SDKTEST_URL}/opencode`;
export const directory = process.env.SDKTEST_SCRATCH;
export const headers = { Authorization: `Basic ${Buffer.from(`opencode:${process.env.SDKTEST_TOKEN}`).toString("base64")}` };

// methodsOf returns the names of a client's methods, such as session.list.
function methodsOf(value, path = [], seen = new Set()) {
  if (seen.has(value)) return [];
  seen.add(value);
  const names = new Set();
  for (let o = value; o && o !== Object.prototype; o = Object.getPrototypeOf(o)) Object.getOwnPropertyNames(o).forEach((name) => names.add(name));
  return [...names].filter((name) => name !== "constructor" && name !== "client" && !name.startsWith("_")).flatMap((name) => {
    const member = value[name];
    if (typeof member === "function") return [[...path, name].join(".")];
    return member && typeof member === "object" ? methodsOf(member, [...path, name], seen) : [];
  });
}

// noting returns a client that does what another one does, and notes the methods that are
// called.
function noting(value, called, path = []) {
  return new Proxy(value, {
    get(target, name) {
      const member = target[name];
      if (typeof name !== "string" || name.startsWith("_") || name === "client") return member;
      if (typeof member === "function") {
        return (...args) => {
          called.add([...path, name].join("."));
          return member.apply(target, args);
        };
      }
      return member && typeof member === "object" ? noting(member, called, [...path, name]) : member;
    },
  });
}

const clients = { v1: createOpencodeClient({ baseUrl, directory, headers }), v2: createV2({ baseUrl, directory, headers }) };
const called = { v1: new Set(), v2: new Set() };
export const v1 = noting(clients.v1, called.v1);
export const v2 = noting(clients.v2, called.v2);

// uncalled returns the methods of both clients that no test has called.
export const uncalled = () =>
  Object.entries(clients).flatMap(([version, client]) => methodsOf(client).filter((name) => !called[version].has(name)).map((name) => `${version}.${name}`));

// The streams end with the tests.
const streams = new AbortController();
export const { signal } = streams;
after(() => streams.abort());

// ok returns the data of an answer.
export async function ok(answer) {
  const { data, error, response } = await answer;
  assert.equal(error, undefined, `${response?.status} ${JSON.stringify(error)} ${error}`);
  return data;
}

// fails checks an error's status, name and message.
export async function fails(answer, status, name) {
  const { error, response } = await answer;
  assert.equal(response.status, status, JSON.stringify(error));
  assert.equal(error.name, name);
  assert.ok(error.data.message);
  return error.data.message;
}

export const text = (words) => [{ type: "text", text: words }];
export const said = ({ parts }) => parts.filter((p) => p.type === "text").map((p) => p.text).join("");
export const model = { providerID: "mock", modelID: "mock" };

// until returns the events of a stream up to one that matches.
export async function until(stream, match) {
  const all = [];
  for (;;) {
    const { value, done } = await stream.next();
    assert.ok(!done, `the stream ended after ${all.map((e) => e.type)}`);
    const event = value.payload ?? value;
    all.push(event);
    if (match(event)) return all;
  }
}

// follow returns a stream of events that has begun.
export async function follow() {
  const { stream } = await v2.event.subscribe({}, { signal });
  assert.equal((await stream.next()).value.type, "server.connected");
  return stream;
}
