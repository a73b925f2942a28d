// Installs @deskhand/providers with npm, compiles the programs of its
// documents, and starts a server by its local provider.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { installed, link, modules, programs, scratch } from "./lib.mjs";

const run = promisify(execFile);

test("local() starts the binary of @deskhand/cli", async () => {
  const folder = await installed(["@deskhand/cli", "@deskhand/providers"], "--legacy-peer-deps");
  link(folder, "sandbox-agent");
  writeFileSync(
    join(folder, "local.mjs"),
    `import { local } from "@deskhand/providers/local";
    import { SandboxAgent } from "sandbox-agent";
    const agent = await SandboxAgent.start({ sandbox: local({ log: "silent" }) });
    const { stdout } = await agent.runProcess({ command: "sh", args: ["-c", "readlink /proc/$PPID/exe"] });
    console.log(stdout.trim());
    await agent.destroySandbox();`,
  );
  const env = { PATH: process.env.PATH, HOME: scratch() };
  const { stdout } = await run(process.execPath, ["local.mjs"], { cwd: folder, env });
  assert.equal(stdout, join(folder, `node_modules/@deskhand/cli-linux-${process.arch}/bin/deskhand\n`));
});

test("the documents' programs compile", async () => {
  const folder = await installed(["@deskhand/cli", "@deskhand/providers"], "--legacy-peer-deps");
  link(folder, "sandbox-agent", "e2b", "@daytonaio/sdk", "@vercel/sandbox", "modal", "@cloudflare/sandbox", "@types/node");
  const texts = ["cli/README.md", "providers/README.md", "../docs/deploy/cloud.md"].flatMap(programs);
  assert.equal(texts.length, 8);
  mkdirSync(join(folder, "src"));
  texts.forEach((text, i) => writeFileSync(join(folder, `src/${i}.ts`), text));
  const compilerOptions = { target: "es2022", module: "nodenext", strict: true, skipLibCheck: true, noEmit: true, types: ["node"] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["src"] }));
  writeFileSync(join(folder, "package.json"), '{"type": "module"}');
  const compile = () => run(join(modules, ".bin/tsc"), ["--project", folder]);
  await compile().catch((error) => assert.fail(error.stdout));

  writeFileSync(join(folder, "src/wrong.ts"), 'import { e2b } from "@deskhand/providers/e2b";\ne2b({ port: "2468" });\n');
  await assert.rejects(compile(), ({ stdout }) => /src\/wrong\.ts.*not assignable to type 'number'/.test(stdout));
});
