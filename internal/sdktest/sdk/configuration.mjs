// The MCP servers and skills that a directory has configured.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { agent, file, known, reference, refused } from "./lib.mjs";

const directory = file("project");
const onDisk = async (name) => JSON.parse(await readFile(path.join(directory, ".sandbox-agent/config", name), "utf8"));

const local = { type: "local", command: "server", args: ["--stdio", "a b"], env: { KEY: "ü" }, enabled: true, timeoutMs: 2000, cwd: "/tmp" };
const remote = {
  type: "remote", url: "https://mcp.example/x", headers: { "X-Key": "1" }, bearerTokenEnvVar: "TOKEN", envHeaders: { "X-Env": "NAME" },
  oauth: { clientId: "id", clientSecret: "secret", scope: "all" }, enabled: false, timeoutMs: 10, transport: "sse",
};

// missing asserts that there is no such entry. The reference takes it for a
// session.
async function missing(call, id) {
  const problem = reference ? await refused(call, 404, "session_not_found") : await refused(call, 404, "not_found");
  assert.ok(problem.detail.includes(id), problem.detail);
}

export function mcp() {
  test("setMcpConfig and getMcpConfig", async () => {
    for (const [mcpName, config] of [["z", local], ["a b/ü", remote], ["off", { ...remote, oauth: false }]]) {
      assert.equal(await agent.setMcpConfig({ directory, mcpName }, config), undefined);
      assert.deepEqual(await agent.getMcpConfig({ directory, mcpName }), config);
    }
    assert.deepEqual(await onDisk("mcp.json"), { "a b/ü": remote, off: { ...remote, oauth: false }, z: local });
    assert.deepEqual(Object.keys(await onDisk("mcp.json")), ["a b/ü", "off", "z"]);
  });

  test("setMcpConfig replaces, and knows other spellings", async () => {
    const query = { directory, mcpName: "z" };
    await agent.setMcpConfig(query, { type: "stdio", command: ["a", "b"], environment: { A: "1" }, timeout: 7 });
    assert.deepEqual(await agent.getMcpConfig(query), { type: "local", command: ["a", "b"], args: [], env: { A: "1" }, timeoutMs: 7 });
    await agent.setMcpConfig(query, { type: "http", url: "http://x", envHttpHeaders: { A: "B" } });
    assert.deepEqual(await agent.getMcpConfig(query), { type: "remote", url: "http://x", envHeaders: { A: "B" } });
  });

  test("deleteMcpConfig", async () => {
    const query = { directory, mcpName: "z" };
    for (let i = 0; i < 2; i++) assert.equal(await agent.deleteMcpConfig(query), undefined);
    await missing(agent.getMcpConfig(query), "z");
    assert.deepEqual(Object.keys(await onDisk("mcp.json")), ["a b/ü", "off"]);
    await missing(agent.getMcpConfig({ directory: file("no-such-project"), mcpName: "z" }), "z");
  });

  test("getMcpConfig without a name", async () => {
    const problem = await refused(agent.getMcpConfig({ directory, mcpName: " " }), 400, "invalid_request");
    assert.match(problem.detail, /mcpName/);
  });

  test("many concurrently", known("corrupts the file"), async () => {
    const query = (i) => ({ directory: file("crowd"), mcpName: `server-${i}` });
    const config = (i) => ({ ...local, args: [String(i), "x".repeat(i * 10)] });
    const all = Array.from({ length: 64 }, (_, i) => i);
    await Promise.all(all.map((i) => agent.setMcpConfig(query(i), config(i))));
    for (const i of all) assert.deepEqual(await agent.getMcpConfig(query(i)), config(i));
  });

  test("a corrupt file is named and left alone", async () => {
    const at = file("corrupt/.sandbox-agent/config/mcp.json");
    await mkdir(path.dirname(at), { recursive: true });
    await writeFile(at, "{ not JSON");
    const query = { directory: file("corrupt"), mcpName: "a" };
    for (const call of [() => agent.getMcpConfig(query), () => agent.setMcpConfig(query, local), () => agent.deleteMcpConfig(query)]) {
      const problem = await refused(call(), 400, "invalid_request");
      assert.ok(problem.detail.includes(`invalid config file ${at}`), problem.detail);
    }
    assert.equal(await readFile(at, "utf8"), "{ not JSON");
  });
}

export function skills() {
  const query = { directory, skillName: "review" };
  const config = {
    sources: [
      { type: "github", source: "owner/repository", skills: ["one", "two"], ref: "main", subpath: "skills" },
      { type: "local", source: "/skills" },
    ],
  };

  test("setSkillsConfig and getSkillsConfig", async () => {
    assert.equal(await agent.setSkillsConfig(query, config), undefined);
    assert.deepEqual(await agent.getSkillsConfig(query), config);
    await agent.setSkillsConfig({ ...query, skillName: "another" }, { sources: [] });
    assert.deepEqual(await onDisk("skills.json"), { another: { sources: [] }, review: config });
    const problem = await refused(agent.getSkillsConfig({ directory, skillName: "" }), 400, "invalid_request");
    assert.match(problem.detail, /skillName/);
  });

  test("deleteSkillsConfig", async () => {
    for (let i = 0; i < 2; i++) assert.equal(await agent.deleteSkillsConfig(query), undefined);
    await missing(agent.getSkillsConfig(query), "review");
    assert.deepEqual(await onDisk("skills.json"), { another: { sources: [] } });
  });
}
