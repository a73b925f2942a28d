// Runs the Docker provider on a Docker engine of its own: see docker.sh.
import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { installed, link, programs, scratch, start } from "./lib.mjs";

const run = promisify(execFile);
const image = "deskhand-test";

let engine, folder, sdk, docker;
after(async () => {
  engine.child.kill("SIGTERM");
  await engine.exited();
});
before(async () => {
  const data = scratch();
  const socket = `unix://${join(data, "docker.sock")}`;
  engine = start("dockerd", [`--data-root=${data}/data`, `--exec-root=${data}/exec`, `--pidfile=${data}/pid`, "-H", socket]);
  await engine.until(/API listen on/);
  process.env.DOCKER_HOST = socket;

  folder = await installed(["@deskhand/cli", "@deskhand/providers"], "--legacy-peer-deps");
  link(folder, "sandbox-agent");
  makeImage();
  sdk = await import(pathToFileURL(join(folder, "node_modules/sandbox-agent/dist/index.js")));
  ({ docker } = await import(pathToFileURL(join(folder, "node_modules/@deskhand/providers/dist/docker.js"))));
});

// makeImage imports the small Debian of ROOTFS, with the binary. The layout is
// that of the published image.
function makeImage() {
  const root = process.env.ROOTFS;
  copyFileSync(join(folder, `node_modules/@deskhand/cli-linux-${process.arch}/bin/deskhand`), join(root, "usr/local/bin/deskhand"));
  mkdirSync(join(root, "home/sandbox"));
  const changes = ['ENTRYPOINT ["deskhand"]', "WORKDIR /home/sandbox", "ENV HOME=/home/sandbox", "ENV LANG=C.UTF-8"];
  const flags = changes.map((change) => `--change '${change}'`).join(" ");
  execFileSync("sh", ["-c", `tar -C '${root}' -c . | docker import ${flags} - ${image}`], { stdio: "pipe" });
}

test("a container serves a desktop, pauses, goes on and ends", async () => {
  const sandbox = docker({ image, args: ["--desktop-menu"], env: { MARK: "of the test" } });
  const agent = await sdk.SandboxAgent.start({ sandbox });
  const id = agent.sandboxId.split("/")[1];
  assert.deepEqual(await agent.getHealth(), { status: "ok" });
  await agent.startDesktop({ width: 640, height: 480 });
  const picture = Buffer.from(await agent.takeDesktopScreenshot());
  assert.deepEqual([picture.readUInt32BE(16), picture.readUInt32BE(20)], [640, 480]);
  const { stdout } = await agent.runProcess({ command: "sh", args: ["-c", "echo $MARK $DESKHAND_TOKEN; pwd"] });
  assert.equal(stdout, "of the test\n/home/sandbox\n", "the token is not for programs");

  const stranger = await fetch(`${await sandbox.getUrl(id)}/v1/desktop/status`);
  assert.equal(stranger.status, 401);
  const { stdout: inspected } = await run("docker", ["inspect", "--format", "{{json .Config.Cmd}} {{json .HostConfig.PortBindings}}", id]);
  assert.equal(inspected, '["server","--desktop-menu"] {"2468/tcp":[{"HostIp":"127.0.0.1","HostPort":""}]}\n');

  await agent.pauseSandbox();
  assert.equal(await state(id), "paused");
  const again = await sdk.SandboxAgent.start({ sandbox, sandboxId: `docker/${id}` });
  assert.equal((await again.getDesktopStatus()).state, "active");
  await assert.rejects(docker({ token: "another" }).reconnect(id), /has another token/);

  await run("docker", ["stop", id]);
  const third = await sdk.SandboxAgent.start({ sandbox, sandboxId: `docker/${id}` });
  assert.deepEqual(await third.getHealth(), { status: "ok" });
  await third.destroySandbox();
  await assert.rejects(state(id), /No such object/);
  await sandbox.destroy(id);
  await assert.rejects(sandbox.reconnect(id), sdk.SandboxDestroyedError);
});

test("a container whose server ends is removed, and the error has what it printed", async () => {
  await assert.rejects(docker({ image, args: ["--no-such-flag"] }).create(), (error) => {
    assert.match(error.message, /the container is exited; it printed:\n(.|\n)*no-such-flag/);
    return true;
  });
  assert.equal((await run("docker", ["ps", "--all", "--quiet"])).stdout, "");
});

test("ten fresh processes in a row reach their server", async () => {
  const [program] = programs("providers/README.md").filter((text) => text.includes("providers/docker"));
  writeFileSync(join(folder, "docker.mjs"), program.replace("docker()", `docker({ image: "${image}" })`));
  for (let i = 0; i < 10; i++) {
    const { stdout } = await run(process.execPath, ["docker.mjs"], { cwd: folder, timeout: 60_000 });
    assert.equal(stdout, "{ status: 'ok' }\n");
  }
});

async function state(id) {
  const { stdout } = await run("docker", ["inspect", "--format", "{{.State.Status}}", id]);
  return stdout.trim();
}
