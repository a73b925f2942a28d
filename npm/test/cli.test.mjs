// Installs @deskhand/cli with npm and runs its command.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { promisify } from "node:util";
import { installed, link, modules, npm, programs, registry, scratch, start } from "./lib.mjs";

const run = promisify(execFile);
const platform = `@deskhand/cli-linux-${process.arch}`;

// nodes are this Node.js and one whose launcher replaces its process.
const nodes = [...new Set([process.execPath, join(modules, `node-linux-${process.arch}`, "bin/node")])];

let folder;
before(async () => {
  folder = await installed(["@deskhand/cli"]);
});

test("npm installs the binary of this platform alone", async () => {
  const manifest = JSON.parse(readFileSync(join(folder, "node_modules/@deskhand/cli/package.json")));
  assert.deepEqual(Object.keys(manifest.optionalDependencies), ["x64", "arm64", "arm"].map((arch) => `@deskhand/cli-linux-${arch}`));
  for (const arch of ["x64", "arm64", "arm"]) {
    assert.equal(existsSync(join(folder, `node_modules/@deskhand/cli-linux-${arch}`)), arch === process.arch, arch);
  }
  for (const file of [`${platform}/LICENSE`, `${platform}/THIRD_PARTY_NOTICES`, "@deskhand/cli/LICENSE", "@deskhand/cli/README.md"]) {
    assert.ok(existsSync(join(folder, "node_modules", file)), file);
  }
});

test("npx deskhand --version prints the version", async () => {
  const { stdout } = await run("npx", ["deskhand", "--version"], { cwd: folder });
  assert.equal(stdout, `deskhand ${process.env.VERSION}\n`);
});

test("npx deskhand passes the exit status on", async () => {
  await assert.rejects(run("npx", ["deskhand", "no-such-command"], { cwd: folder }), { code: 2 });
});

for (const node of nodes) {
  const base = node === process.execPath ? `Node.js ${process.version}` : "a Node.js that replaces its process";
  const launcher = () => join(folder, "node_modules/@deskhand/cli/bin/deskhand.js");

  test(`a server answers, and ends with SIGTERM: ${base}`, async () => {
    const home = scratch();
    const server = start(node, [launcher(), "server", "--port", "0", "--token", "secret"], { env: { PATH: process.env.PATH, HOME: home } });
    const [url] = await server.until(/http:\/\/127\.0\.0\.1:\d+/);
    const answer = await fetch(`${url}/v1/health`, { headers: { authorization: "Bearer secret", connection: "close" } });
    assert.deepEqual(await answer.json(), { status: "ok" });
    server.child.kill("SIGTERM");
    const { code, signal } = await server.exited();
    assert.deepEqual({ code, signal }, { code: 0, signal: null });
    await assert.rejects(fetch(`${url}/v1/health`), "the server still listens");
  });

  test(`signals reach the binary, and its end is the launcher's: ${base}`, async () => {
    const first = start(node, [await withScript('trap "echo got USR1" USR1; trap "exit 7" TERM; echo ready; while :; do sleep 0.05; done')]);
    await first.until(/ready/);
    first.child.kill("SIGUSR1");
    await first.until(/got USR1/);
    first.child.kill("SIGTERM");
    assert.equal((await first.exited()).code, 7);

    const second = start(node, [await withScript("echo ready; read -r line; kill -KILL $$")]);
    await second.until(/ready/);
    second.child.stdin.end();
    assert.equal((await second.exited()).signal, "SIGKILL");
  });

  test(`Ctrl-C on a terminal is one SIGINT: ${base}`, async () => {
    const fake = await withScript(`exec '${node}' -e '
      process.on("SIGINT", () => console.log("got INT"));
      process.stdin.on("data", (text) => String(text).includes("end") && process.exit(3));
      console.log("ready");'`);
    const terminal = start("script", ["-qec", `exec '${node}' '${fake}'`, "/dev/null"]);
    await terminal.until(/ready/);
    terminal.child.stdin.write("\x03");
    await terminal.until(/got INT/);
    terminal.child.stdin.write("end\n");
    const { code, output } = await terminal.exited();
    assert.equal(code, 3, output);
    assert.equal(output.match(/got INT/g).length, 1, output);
  });
}

test("without optional dependencies the message names the missing package", async () => {
  const bare = await installed(["@deskhand/cli"], "--omit=optional");
  await assert.rejects(run(join(bare, "node_modules/.bin/deskhand"), ["--version"]), (error) => {
    assert.equal(error.code, 1);
    assert.equal(error.stderr, `@deskhand/cli: the package ${platform} is missing; install @deskhand/cli again with optional dependencies (without --omit=optional or --no-optional), on the platform where it runs\n`);
    return true;
  });
});

for (const [property, value] of [["platform", "darwin"], ["arch", "riscv64"]]) {
  test(`the message names an unsupported platform: ${value}`, async () => {
    const preload = `data:text/javascript,Object.defineProperty(process, "${property}", { value: "${value}" })`;
    const file = join(folder, "node_modules/.bin/deskhand");
    await assert.rejects(run(process.execPath, ["--import", preload, file]), (error) => {
      assert.equal(error.code, 1);
      assert.match(error.stderr, new RegExp(`^@deskhand/cli: deskhand does not run on .*${value}.*; it runs on linux-x64, linux-arm64, linux-arm\n$`));
      return true;
    });
  });
}

test("the SDK's local() starts the binary, as README.md shows", async () => {
  link(folder, "sandbox-agent");
  const [program] = programs("cli/README.md");
  writeFileSync(join(folder, "readme.mjs"), program);
  const env = { PATH: process.env.PATH, HOME: scratch() };
  const { stdout } = await run(process.execPath, ["readme.mjs"], { cwd: folder, env });
  assert.equal(stdout, "{ status: 'ok' }\n");
});

test("the SDK's local() starts the binary that SANDBOX_AGENT_BIN names", async () => {
  link(folder, "sandbox-agent");
  writeFileSync(
    join(folder, "local.mjs"),
    `import { SandboxAgent } from "sandbox-agent";
    import { local } from "sandbox-agent/local";
    const agent = await SandboxAgent.start({ sandbox: local({ log: "silent" }) });
    const { stdout } = await agent.runProcess({ command: "sh", args: ["-c", "readlink /proc/$PPID/exe"] });
    console.log(stdout.trim());
    await agent.destroySandbox();`,
  );
  const binary = join(folder, "node_modules", platform, "bin/deskhand");
  const env = { PATH: process.env.PATH, HOME: scratch(), SANDBOX_AGENT_BIN: binary };
  const { stdout } = await run(process.execPath, ["local.mjs"], { cwd: folder, env });
  assert.equal(stdout, binary + "\n");
});

test("every platform gets its own binary", { skip: !process.env.DESKHAND_NPM && "only in make test-npm" }, async () => {
  const machines = { x64: 62, arm64: 183, arm: 40 }; // e_machine of ELF
  const url = await registry();
  for (const [arch, machine] of Object.entries(machines)) {
    const other = scratch();
    await npm(other, url, "install", "@deskhand/cli", `--cpu=${arch}`, "--os=linux");
    const binary = join(other, `node_modules/@deskhand/cli-linux-${arch}/bin/deskhand`);
    assert.equal(readFileSync(binary).readUInt16LE(18), machine, arch);
  }
});

// withScript returns the launcher of an installation whose binary is a shell
// script.
async function withScript(text) {
  const other = scratch();
  await run("cp", ["-r", join(folder, "node_modules"), other]);
  const binary = join(other, "node_modules", platform, "bin/deskhand");
  writeFileSync(binary, `#!/bin/sh\n${text}\n`);
  chmodSync(binary, 0o755);
  return join(other, "node_modules/@deskhand/cli/bin/deskhand.js");
}
