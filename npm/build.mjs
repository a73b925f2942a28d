// Builds the npm packages as tarballs: node npm/build.mjs [FOLDER]
//
// VERSION is the version of the binary, as of git describe. PLATFORMS limits
// the platform packages, for example to "x64".
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const out = resolve(process.argv[2] ?? join(root, "dist/npm"));
const described = process.env.VERSION ?? "unknown";
const semver = /^v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$/.exec(described);
const version = semver ? semver[1] : `0.0.0-dev-${described}`;
const architectures = { x64: "amd64", arm64: "arm64", arm: "arm" }; // of Node.js: of Go
const platforms = process.env.PLATFORMS?.split(",") ?? Object.keys(architectures);

const stage = mkdtempSync(join(tmpdir(), "deskhand-npm-"));
try {
  mkdirSync(out, { recursive: true });
  for (const arch of platforms) platform(arch);
  pack("cli", {
    optionalDependencies: Object.fromEntries(Object.keys(architectures).map((arch) => [`@deskhand/cli-linux-${arch}`, version])),
  });
  providers();
} finally {
  rmSync(stage, { recursive: true });
}

// run runs a program and shows what it prints.
function run(cwd, program, ...args) {
  execFileSync(program, args, { cwd, stdio: "inherit" });
}

// platform packs the binary of one architecture.
function platform(arch) {
  const name = `cli-linux-${arch}`;
  const folder = join(stage, name);
  run(root, "make", "--no-print-directory", "build", `BIN=${join(folder, "bin")}`, `VERSION=${described}`, "GOOS=linux", `GOARCH=${architectures[arch]}`);
  renameSync(join(folder, "bin/THIRD_PARTY_NOTICES"), join(folder, "THIRD_PARTY_NOTICES"));
  chmodSync(join(folder, "bin/deskhand"), 0o755);
  const { license, repository, engines } = JSON.parse(readFileSync(join(root, "npm/cli/package.json")));
  pack(name, {
    name: `@deskhand/${name}`,
    description: `The deskhand binary for Linux on ${arch}`,
    license,
    repository,
    engines,
    os: ["linux"],
    cpu: [arch],
    files: ["bin", "THIRD_PARTY_NOTICES"],
    preferUnplugged: true,
  });
}

// providers compiles the providers and packs them.
function providers() {
  const folder = join(stage, "providers");
  cpSync(join(root, "npm/providers"), folder, { recursive: true });
  symlinkSync(modules(folder), join(folder, "node_modules"));
  writeFileSync(join(folder, "src/version.ts"), `export const version = ${JSON.stringify(version)};\n`);
  run(folder, "node_modules/.bin/tsc");
  pack("providers", { devDependencies: undefined, optionalDependencies: undefined, overrides: undefined });
}

// pack makes a tarball of a package, whose manifest gets more fields.
function pack(name, fields) {
  const folder = join(stage, name);
  const own = join(root, "npm", name);
  if (existsSync(own)) cpSync(own, folder, { recursive: true, filter: (file) => !file.endsWith("node_modules") });
  const file = join(folder, "package.json");
  const manifest = existsSync(file) ? JSON.parse(readFileSync(file)) : {};
  writeFileSync(file, JSON.stringify({ ...manifest, ...fields, version }, null, 2) + "\n");
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  run(folder, "npm", "pack", "--ignore-scripts", "--loglevel=error", `--pack-destination=${out}`);
}

// modules returns a node_modules folder with the packages of a lock file. It
// lies in the user's cache and appears complete or not at all.
function modules(folder) {
  const sum = createHash("sha256");
  for (const file of ["package.json", "package-lock.json"]) sum.update(readFileSync(join(folder, file)));
  const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "deskhand");
  const final = join(cache, `npm-${sum.digest("hex").slice(0, 16)}`);
  if (!existsSync(final)) {
    mkdirSync(cache, { recursive: true });
    const fresh = mkdtempSync(join(cache, "npm-"));
    for (const file of ["package.json", "package-lock.json"]) cpSync(join(folder, file), join(fresh, file));
    try {
      run(fresh, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error");
      renameSync(fresh, final);
    } catch (error) {
      rmSync(fresh, { recursive: true });
      if (!existsSync(final)) throw error; // another program was faster
    }
  }
  return join(final, "node_modules");
}
