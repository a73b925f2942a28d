// The SDK's local() provider, which starts the server binary.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SandboxAgent } from "sandbox-agent";
import { local } from "sandbox-agent/local";
import { binary, eventually, reference, refused, running } from "./lib.mjs";
import { size } from "./image.mjs";

export function provider() {
  test("local() starts the server that SANDBOX_AGENT_BIN names", async () => {
    process.env.SANDBOX_AGENT_BIN = binary;
    const agent = await SandboxAgent.start({ sandbox: local({ log: "silent" }) });
    let processes = [];
    try {
      assert.match(agent.sandboxId, /^local\/127\.0\.0\.1:\d+$/);
      assert.deepEqual(await agent.getHealth(), { status: "ok" });
      const status = await agent.startDesktop({ width: 640, height: 480 });
      processes = status.processes;
      assert.equal(status.state, "active");
      assert.deepEqual(size(await agent.takeDesktopScreenshot()), { format: "png", width: 640, height: 480 });
    } finally {
      await agent.destroySandbox();
    }
    if (reference) return; // it leaves its X server running
    for (const { name, pid } of processes.filter((p) => p.pid)) {
      await eventually(`end of ${name}`, async () => (await running(pid)) ? undefined : true, 5000);
    }
  });

  test("local() with a token and a port of the caller", async () => {
    const token = "a-token-of-the-test";
    const sandbox = local({ log: "silent", token, binaryPath: binary });
    const agent = await SandboxAgent.start({ sandbox });
    try {
      assert.equal((await agent.getDesktopStatus()).state, "inactive");
      const baseUrl = "http://" + agent.sandboxId.split("/")[1];
      const stranger = await SandboxAgent.connect({ baseUrl, token: "wrong", skipHealthCheck: true });
      await refused(stranger.getDesktopStatus(), 401, "token_invalid");
      await stranger.dispose();
    } finally {
      await agent.destroySandbox();
    }
  });
}
