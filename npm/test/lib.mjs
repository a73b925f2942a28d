// What the tests of the packages share. DIST holds the packages' tarballs,
// MODULES the packages that the providers are built with.
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const execFileAsync = promisify(execFile);

export const dist = process.env.DIST;
export const modules = process.env.MODULES;

// cleanups run when this process ends, in reverse order.
const cleanups = [];
process.on("exit", () => {
  for (const cleanup of cleanups.reverse()) cleanup();
});

/** scratch makes a folder that is removed after the tests. */
export function scratch() {
  const folder = mkdtempSync(join(tmpdir(), "deskhand-npmtest-"));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** registry serves the tarballs of DIST as an npm registry and returns its URL. */
export async function registry() {
  const packages = new Map();
  for (const file of readdirSync(dist).filter((name) => name.endsWith(".tgz"))) {
    const { stdout } = await execFileAsync("tar", ["-xzOf", join(dist, file), "package/package.json"]);
    const manifest = JSON.parse(stdout);
    packages.set(manifest.name, { manifest, file });
  }
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url.slice(1));
    if (path.endsWith(".tgz")) return response.end(readFileSync(join(dist, path)));
    const found = packages.get(path);
    if (!found) return response.writeHead(404).end("{}");
    const { manifest, file } = found;
    const integrity = "sha512-" + createHash("sha512").update(readFileSync(join(dist, file))).digest("base64");
    const tarball = `http://${request.headers.host}/${file}`;
    response.end(
      JSON.stringify({
        name: manifest.name,
        "dist-tags": { latest: manifest.version },
        versions: { [manifest.version]: { ...manifest, dist: { tarball, integrity } } },
      }),
    );
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return `http://127.0.0.1:${server.address().port}`;
}

/** npm runs npm in a folder, against a registry, with a cache of its own. */
export async function npm(folder, url, ...args) {
  const flags = [`--registry=${url}`, `--cache=${join(folder, ".npm")}`, "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
  return await execFileAsync("npm", [...args, ...flags], { cwd: folder });
}

/** installed returns an empty folder into which npm has installed packages of DIST. */
export async function installed(packages, ...flags) {
  const folder = scratch();
  await npm(folder, await registry(), "install", ...packages, ...flags);
  return folder;
}

/** link makes packages of MODULES available in a folder. */
export function link(folder, ...names) {
  for (const name of names) {
    const path = join(folder, "node_modules", name);
    mkdirSync(dirname(path), { recursive: true });
    if (!existsSync(path)) symlinkSync(join(modules, name), path);
  }
}

/** programs returns the programs in a README below npm/. */
export function programs(readme) {
  const text = readFileSync(new URL(`../${readme}`, import.meta.url), "utf8");
  return [...text.matchAll(/^```(?:js|ts)\n(.*?)^```$/gms)].map(([, program]) => program);
}

/**
 * start starts a program. until waits for a match in its output and exited for
 * its end; both reject after 20 seconds, with the output.
 */
export function start(program, args, options = {}) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], ...options });
  cleanups.push(() => child.kill("SIGKILL"));
  let output = "";
  const waiting = new Set();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (data) => {
      output += data;
      for (const check of waiting) check();
    });
  }
  const limited = (what, setup) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${program}: no ${what} in 20 s; it printed:\n${output}`)), 20_000);
      setup((value) => {
        clearTimeout(timer);
        resolve(value);
      });
    });
  const end = new Promise((resolve) => child.on("close", (code, signal) => resolve({ code, signal, output })));
  return {
    child,
    until: (pattern) =>
      limited(`output like ${pattern}`, (resolve) => {
        const check = () => {
          const match = pattern.exec(output);
          if (!match) return;
          waiting.delete(check);
          resolve(match);
        };
        waiting.add(check);
        check();
      }),
    exited: () => limited("exit", (resolve) => void end.then(resolve)),
  };
}
