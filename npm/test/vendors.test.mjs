// Drives the providers with the vendors' SDKs. Recorded answers stand in for
// the vendors' services.
import assert from "node:assert/strict";
import { register } from "node:module";
import { join } from "node:path";
import { before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { installed, link } from "./lib.mjs";
import { frame, lines, recorder, sandboxFetch } from "./recorded.mjs";

let folder, sdk;
before(async () => {
  folder = await installed(["@deskhand/providers"], "--legacy-peer-deps");
  link(folder, "sandbox-agent", "e2b", "@daytonaio/sdk", "@vercel/sandbox", "modal", "@cloudflare/sandbox");
  sdk = await load("sandbox-agent/dist/index.js");
});

const load = async (path) => await import(pathToFileURL(join(folder, "node_modules", path)));
const provider = async (name) => (await load(`@deskhand/providers/dist/${name}.js`))[name];
const script = "curl -fsSL https://github.com/deskhand/deskhand/releases/download/v1.2.3-test/install.sh | sh";

// check starts a sandbox through the SDK, asks its server for its health and
// returns the client.
async function check(sandbox, url) {
  const { requests, fetch } = sandboxFetch();
  const agent = await sdk.SandboxAgent.start({ sandbox, fetch, skipHealthCheck: true });
  await agent.getHealth();
  assert.deepEqual(requests, [{ url: `${url}/v1/health`, authorization: `Bearer ${sandbox.token}` }]);
  return agent;
}

test("e2b", async () => {
  const processes = [];
  let known = true;
  const fake = await recorder(({ method, path, raw }) => {
    if (path === "/process.Process/Start") {
      const { process } = JSON.parse(raw.subarray(5));
      processes.push(process);
      return (response) => {
        response.writeHead(200, { "content-type": "application/connect+json" });
        response.write(frame({ event: { start: { pid: 7 } } }));
        if (process.args[2].startsWith("deskhand server")) return; // it goes on
        response.write(frame({ event: { end: { exitCode: 0, exited: true, status: "exit status 0" } } }));
        response.end(frame({}, 2));
      };
    }
    if (path === "/sandboxes/sbx" || path === "/sandboxes/sbx/pause") return 204;
    return known ? { sandboxID: "sbx", domain: "e2b.app", envdVersion: "0.5.0", envdAccessToken: "envd", templateID: "t" } : 404;
  });
  Object.assign(process.env, { E2B_API_URL: fake.url, E2B_SANDBOX_URL: fake.url, E2B_API_KEY: "e2b_key" });
  const e2b = await provider("e2b");
  const sandbox = e2b({ env: { ANTHROPIC_API_KEY: "sk" }, args: ["--desktop"], create: { timeoutMs: 600_000 } });

  const agent = await check(sandbox, "https://2468-sbx.e2b.app");
  assert.equal(agent.sandboxId, "e2b/sbx");
  assert.deepEqual(lines(fake.calls), ["POST /v2/sandboxes", "POST /process.Process/Start", "POST /process.Process/Start", "POST /v2/sandboxes/sbx/connect"]);
  assert.equal(fake.calls[0].headers["x-api-key"], "e2b_key");
  assert.equal(fake.calls[0].body.timeout, 600);
  const [setup, server] = processes;
  assert.deepEqual(setup.args.slice(1), ["-c", `set -e; ${script}; deskhand install desktop --yes`]);
  assert.equal(fake.calls[1].headers.authorization, `Basic ${Buffer.from("root:").toString("base64")}`);
  assert.deepEqual(server.args.slice(1), ["-c", "deskhand server --desktop"]);
  assert.deepEqual(server.envs, { ANTHROPIC_API_KEY: "sk", DESKHAND_HOST: "0.0.0.0", DESKHAND_PORT: "2468", DESKHAND_TOKEN: sandbox.token });

  fake.calls.length = 0;
  await agent.pauseSandbox();
  const again = await sdk.SandboxAgent.start({ sandbox, sandboxId: "e2b/sbx", fetch: sandboxFetch().fetch, skipHealthCheck: true });
  await again.destroySandbox();
  assert.deepEqual(lines(fake.calls), [
    "POST /sandboxes/sbx/pause",
    ...["POST /v2/sandboxes/sbx/connect", "POST /v2/sandboxes/sbx/connect", "POST /process.Process/Start", "POST /v2/sandboxes/sbx/connect"],
    "DELETE /sandboxes/sbx",
  ]);

  fake.calls.length = processes.length = 0;
  await e2b({ template: "mine" }).create();
  assert.equal(fake.calls[0].body.templateID, "mine");
  assert.equal(processes.length, 1, "a template needs no setup");

  known = false;
  await assert.rejects(sandbox.reconnect("sbx"), sdk.SandboxDestroyedError);
});

test("e2b ends a sandbox whose setup fails", async () => {
  const fake = await recorder(({ path }) => {
    if (path === "/sandboxes/sbx") return 204;
    if (path === "/v2/sandboxes") return { sandboxID: "sbx", envdVersion: "0.5.0", templateID: "t" };
    return (response) => {
      response.writeHead(200, { "content-type": "application/connect+json" });
      response.write(frame({ event: { start: { pid: 7 } } }));
      response.write(frame({ event: { end: { exitCode: 3, exited: true, status: "exit status 3" } } }));
      response.end(frame({}, 2));
    };
  });
  const at = { apiUrl: fake.url, sandboxUrl: fake.url, apiKey: "e2b_key" };
  const sandbox = (await provider("e2b"))({ setup: "false", create: at, connect: at });
  await assert.rejects(sandbox.create(), /e2b: setup: exit status 3/);
  assert.deepEqual(lines(fake.calls), ["POST /v2/sandboxes", "POST /process.Process/Start", "DELETE /sandboxes/sbx"]);
});

test("daytona", async () => {
  let state = "started";
  let exitCode = 0;
  const dto = () => ({ id: "sbx", state, organizationId: "o", user: "daytona", env: {}, labels: {}, toolboxProxyUrl: fake.url + "/toolbox", target: "eu", cpu: 1, memory: 1, disk: 3, gpu: 0 });
  const fake = await recorder(({ method, path }) => {
    if (path.endsWith("/process/execute")) return { exitCode, result: "said" };
    if (path.endsWith("/signed-preview-url")) return { url: "https://2468-signed.proxy.daytona.work", token: "signed", port: 2468, sandboxId: "sbx" };
    if (path === "/sandbox/gone") return 404;
    if (path === "/sandbox/sbx/stop") state = "stopped";
    if (path === "/sandbox/sbx/start") state = "started";
    return dto();
  });
  const daytona = await provider("daytona");
  const options = { client: { apiKey: "key", apiUrl: fake.url, useDeprecatedPolling: true } };
  const sandbox = daytona({ ...options, args: ["--desktop-menu"], env: { API_KEY: "k" }, create: { resources: { cpu: 2 } } });

  const agent = await check(sandbox, "https://2468-signed.proxy.daytona.work");
  assert.equal(agent.sandboxId, "daytona/sbx");
  const created = fake.calls.find(({ method, path }) => method === "POST" && path === "/sandbox");
  assert.equal(created.headers.authorization, "Bearer key");
  assert.equal(created.body.buildInfo.dockerfileContent, "FROM ghcr.io/deskhand/deskhand:1.2.3-test\n");
  assert.equal(created.body.cpu, 2);
  assert.deepEqual(created.body.env, { API_KEY: "k" }); // all programs of the sandbox have these
  const env = { API_KEY: "k", DESKHAND_HOST: "0.0.0.0", DESKHAND_PORT: "2468", DESKHAND_TOKEN: sandbox.token };
  const executed = fake.calls.find(({ path }) => path.endsWith("/process/execute"));
  assert.equal(executed.body.command, "nohup deskhand server --desktop-menu >/tmp/deskhand.log 2>&1 &");
  assert.deepEqual(executed.body.envs, env);
  const signed = fake.calls.find(({ path }) => path === "/sandbox/sbx/ports/2468/signed-preview-url");
  assert.equal(signed.query.expiresInSeconds, "86400");

  fake.calls.length = 0;
  await agent.pauseSandbox();
  assert.equal(state, "stopped");
  const again = await sdk.SandboxAgent.start({ sandbox, sandboxId: "daytona/sbx", fetch: sandboxFetch().fetch, skipHealthCheck: true });
  assert.equal(state, "started");
  await again.destroySandbox();
  assert.equal(lines(fake.calls).at(-1), "DELETE /sandbox/sbx");
  await assert.rejects(sandbox.reconnect("gone"), sdk.SandboxDestroyedError);
  await sandbox.destroy("gone");

  fake.calls.length = 0;
  exitCode = 1;
  await assert.rejects(daytona(options).create(), /daytona: start the server: exit status 1: said/);
  assert.equal(lines(fake.calls).at(-1), "DELETE /sandbox/sbx");
});

test("vercel", async () => {
  let exitCode = 0;
  const session = { id: "ses", memory: 1, vcpus: 1, region: "iad1", timeout: 1, status: "running", requestedAt: 1, createdAt: 1, cwd: "/", updatedAt: 1 };
  const vm = { name: "box", persistent: true, createdAt: 1, updatedAt: 1, currentSessionId: "ses", status: "running" };
  const routes = [{ url: "https://box-2468.vercel.run", subdomain: "box-2468", port: 2468 }];
  const command = (code) => ({ command: { id: "cmd", name: "sh", args: [], cwd: "/", sessionId: "ses", exitCode: code, startedAt: 1 } });
  const fake = await recorder(({ method, path, body }) => {
    if (path === "/api/v2/sandboxes/gone") return 404;
    if (path.endsWith("/cmd")) {
      if (!body.wait) return command(null);
      return (response) => {
        response.writeHead(200, { "content-type": "application/x-ndjson" });
        const said = [command(null), { stream: "stderr", data: "no disk" }, command(exitCode)];
        response.end(said.map((line) => JSON.stringify(line) + "\n").join(""));
      };
    }
    if (path.endsWith("/stop")) return { session: { ...session, status: "stopped" }, sandbox: vm };
    return { session, sandbox: vm, routes };
  });
  const connect = {
    ...{ token: "key", teamId: "team", projectId: "project" },
    fetch: (url, init) => fetch(String(url).replace("https://vercel.com", fake.url), init),
  };
  const vercel = await provider("vercel");
  const sandbox = vercel({ create: { ...connect, timeout: 600_000, ports: [8080] }, connect });

  const agent = await check(sandbox, "https://box-2468.vercel.run");
  assert.equal(agent.sandboxId, "vercel/box");
  assert.deepEqual(lines(fake.calls), ["POST /api/v3/sandboxes", "POST /api/v2/sandboxes/sessions/ses/cmd", "POST /api/v2/sandboxes/sessions/ses/cmd", "GET /api/v2/sandboxes/box"]);
  const [create, setup, server] = fake.calls;
  assert.equal(create.headers.authorization, "Bearer key");
  assert.deepEqual(create.body, { projectId: "project", ports: [2468, 8080], timeout: 600_000 });
  assert.deepEqual([setup.body.command, setup.body.args, setup.body.sudo], ["sh", ["-ec", script], true]);
  assert.deepEqual([server.body.command, server.body.args, server.body.sudo], ["deskhand", ["server"], false]);
  assert.deepEqual(server.body.env, { DESKHAND_HOST: "0.0.0.0", DESKHAND_PORT: "2468", DESKHAND_TOKEN: sandbox.token });

  fake.calls.length = 0;
  await agent.pauseSandbox();
  assert.deepEqual(lines(fake.calls), ["GET /api/v2/sandboxes/box", "POST /api/v2/sandboxes/sessions/ses/stop"]);
  fake.calls.length = 0;
  const again = await sdk.SandboxAgent.start({ sandbox, sandboxId: "vercel/box", fetch: sandboxFetch().fetch, skipHealthCheck: true });
  assert.equal(lines(fake.calls)[2], "POST /api/v2/sandboxes/sessions/ses/cmd");
  await again.destroySandbox();
  assert.equal(lines(fake.calls).at(-1), "DELETE /api/v2/sandboxes/box");
  await assert.rejects(sandbox.reconnect("gone"), sdk.SandboxDestroyedError);

  fake.calls.length = 0;
  exitCode = 2;
  await assert.rejects(vercel({ create: connect, connect }).create(), /vercel: setup: exit status 2: no disk/);
  assert.equal(lines(fake.calls).at(-1), "DELETE /api/v2/sandboxes/box");
});

test("modal", async () => {
  const calls = [];
  const answers = {
    AppGetOrCreate: { appId: "ap-1" },
    EnvironmentGetOrCreate: { environmentId: "en-1", metadata: { name: "main", settings: { imageBuilderVersion: "2025.06", webhookSuffix: "" } } },
    ImageGetOrCreate: { imageId: "im-1", result: { status: 1, exception: "" }, metadata: undefined },
    SecretGetOrCreate: { secretId: "st-1" },
    SandboxCreateV2: { sandboxId: "sb-1", taskId: "ta-1", tunnels: [] },
    SandboxGetTunnelsV2: { result: { status: 1 }, tunnels: [{ containerPort: 2468, host: "box.modal.host", port: 443 }] },
    SandboxTerminateV2: {},
    SandboxWaitV2: { result: undefined },
  };
  async function* record(call) {
    const name = call.method.path.split("/").at(-1);
    calls.push({ name, request: call.request });
    if (!(name in answers)) throw new Error(`no recorded answer to ${name}`);
    return answers[name];
  }
  const modal = await provider("modal");
  const sandbox = modal({ client: { tokenId: "id", tokenSecret: "secret", environment: "main", grpcMiddleware: [record] }, create: { memoryMiB: 2048 } });
  const request = (name) => calls.find((call) => call.name === name)?.request;

  const agent = await check(sandbox, "https://box.modal.host");
  assert.equal(agent.sandboxId, "modal/sb-1");
  assert.equal(request("AppGetOrCreate").appName, "deskhand");
  const layers = calls.filter(({ name }) => name === "ImageGetOrCreate").map(({ request }) => request.image.dockerfileCommands);
  assert.deepEqual(layers, [["FROM ghcr.io/deskhand/deskhand:1.2.3-test"], ["FROM base", "ENTRYPOINT []"]]);
  const { definition } = request("SandboxCreateV2");
  assert.deepEqual(definition.entrypointArgs, ["deskhand", "server"]);
  assert.equal(definition.resources.memoryMb, 2048);
  assert.deepEqual(definition.openPorts.ports.map(({ port, unencrypted }) => [port, unencrypted]), [[2468, false]]);
  assert.deepEqual(request("SandboxCreateV2").secretSources.map(({ env }) => env.contents), [{ DESKHAND_HOST: "0.0.0.0", DESKHAND_PORT: "2468", DESKHAND_TOKEN: sandbox.token }]);
  await agent.destroySandbox();
  assert.equal(request("SandboxTerminateV2").sandboxId, "sb-1");

  await sandbox.reconnect("sb-1");
  answers.SandboxWaitV2 = { result: { status: 2, exitcode: 1 } };
  await assert.rejects(sandbox.reconnect("sb-1"), sdk.SandboxDestroyedError);
});

test("cloudflare", async () => {
  // A Worker's runtime has this module, and bundlers complete names of files.
  const runtime = "export class DurableObject {} export class WorkerEntrypoint {} export class RpcTarget {} export const tracing = {};";
  const hook = `export async function resolve(name, context, next) {
    if (name === "cloudflare:workers") return { url: ${JSON.stringify("data:text/javascript," + encodeURIComponent(runtime))}, shortCircuit: true };
    return await next(/^[.][^]*[/][a-z]+$/.test(name) && context.parentURL.includes("@cloudflare/containers") ? name + ".js" : name, context);
  }`;
  register("data:text/javascript," + encodeURIComponent(hook));
  const calls = [];
  let running = null;
  const process = { id: "deskhand", status: "running", waitForPort: async (...args) => void calls.push(["waitForPort", ...args]) };
  const stub = new Proxy(
    {},
    {
      get: (_, method) => async (...args) => {
        calls.push([method, ...args]);
        if (method === "getProcess") return running;
        if (method === "startProcess") return process;
        if (method === "containerFetch") return Response.json({ status: "ok" });
      },
    },
  );
  const namespace = { idFromName: (name) => (calls.push(["idFromName", name]), name), get: () => stub };
  const sandbox = (await provider("cloudflare"))({ namespace, sandbox: { sleepAfter: "1h" } });

  const agent = await sdk.SandboxAgent.start({ sandbox, skipHealthCheck: true });
  const id = agent.sandboxId.split("/")[1];
  assert.equal(agent.sandboxId, `cloudflare/${id}`);
  assert.ok(calls.some(([method, name]) => method === "idFromName" && name === id));
  const made = calls.find(([method]) => method === "startProcess");
  assert.deepEqual(made.slice(1), ["deskhand server", { processId: "deskhand", env: { DESKHAND_HOST: "0.0.0.0", DESKHAND_PORT: "2468", DESKHAND_TOKEN: sandbox.token } }]);
  assert.deepEqual(calls.find(([method]) => method === "waitForPort").slice(1), [2468, { mode: "tcp" }]);

  assert.deepEqual(await agent.getHealth(), { status: "ok" });
  const [, request, port] = calls.find(([method]) => method === "containerFetch");
  assert.equal(new URL(request.url).pathname, "/v1/health");
  assert.equal(request.headers.get("authorization"), `Bearer ${sandbox.token}`);
  assert.equal(port, 2468);

  calls.length = 0;
  running = process;
  await sdk.SandboxAgent.start({ sandbox, sandboxId: agent.sandboxId, skipHealthCheck: true });
  assert.ok(!calls.some(([method]) => method === "startProcess"), "a second server was started");
  await agent.destroySandbox();
  assert.ok(calls.some(([method]) => method === "destroy"));
});
