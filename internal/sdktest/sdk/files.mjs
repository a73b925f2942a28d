// Files: their contents, the tree that they are in, and uploads of many.
import assert from "node:assert/strict";
import { lstat, mkdir, readFile, readdir, stat, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { agent, file, known, reference, refused, serverHome } from "./lib.mjs";

// missing asserts that a call is refused because there is no such file. The
// reference says 400.
async function missing(call, name) {
  const problem = reference ? await refused(call, 400, "invalid_request") : await refused(call, 404, "not_found");
  assert.ok(problem.detail.includes(name), problem.detail);
}

// clash asserts that a call is refused because of an existing file.
const clash = (call, status, type) => (reference ? refused(call, status, type) : refused(call, 409, "conflict"));

const exists = (name) => lstat(name).then(() => true, () => false);

// Bytes of every value, in no order that a text conversion would keep.
const bytes = (length) => Uint8Array.from({ length }, (_, i) => (i * 167 + (i >> 8)) & 255);

export function contents() {
  test("writeFsFile and readFsFile", async () => {
    const name = file("new/directories/file.bin");
    for (const [body, wanted] of [
      ["text ü\n", Buffer.from("text ü\n")],
      [bytes(100_000), bytes(100_000)],
      [new Blob(["bl", "ob"]), Buffer.from("blob")],
      ["", Buffer.alloc(0)],
    ]) {
      assert.deepEqual(await agent.writeFsFile({ path: name }, body), { path: name, bytesWritten: wanted.length });
      assert.ok((await readFile(name)).equals(wanted));
      const got = await agent.readFsFile({ path: name });
      assert.ok(got instanceof Uint8Array && Buffer.from(wanted).equals(got));
    }
    assert.deepEqual(await readdir(path.dirname(name)), ["file.bin"]);
  });

  test("writeFsFile of more than 2 MiB", known("refuses it"), async () => {
    const name = file("large.bin");
    const body = bytes(5 << 20);
    assert.deepEqual(await agent.writeFsFile({ path: name }, body), { path: name, bytesWritten: body.length });
    assert.ok(Buffer.from(body).equals(await agent.readFsFile({ path: name })));
  });

  test("readFsFile of a large file", async () => {
    const name = file("large");
    const body = bytes(5 << 20);
    await writeFile(name, body);
    assert.ok(Buffer.from(body).equals(await agent.readFsFile({ path: name })));
  });

  test("relative paths are below HOME", async () => {
    const { path: answered } = await agent.writeFsFile({ path: "sdktest/relative.txt" }, "relative");
    assert.equal(answered, path.join(serverHome, "sdktest/relative.txt"));
    assert.equal(await readFile(answered, "utf8"), "relative");
    const problem = await refused(agent.writeFsFile({ path: "sdktest/../out.txt" }, ""), 400, "invalid_request");
    assert.match(problem.detail, /invalid relative path: sdktest\/\.\.\/out\.txt/);
  });

  test("~ is HOME", known("creates a directory of that name"), async () => {
    const { path: answered } = await agent.writeFsFile({ path: "~/sdktest/tilde.txt" }, "tilde");
    assert.equal(answered, path.join(serverHome, "sdktest/tilde.txt"));
    assert.equal(await readFile(answered, "utf8"), "tilde");
  });

  test("names that need escaping", async () => {
    for (const base of ["a b&c=d?e#f%20+.txt", "ü漢字😀", "line\nbreak", "-rf", "..."]) {
      const name = file(`names/${base}`);
      await agent.writeFsFile({ path: name }, base);
      assert.equal(await readFile(name, "utf8"), base);
      assert.equal(Buffer.from(await agent.readFsFile({ path: name })).toString(), base);
      assert.equal((await agent.statFs({ path: name })).path, name);
    }
  });

  test("readFsFile refuses a directory", async () => {
    await missing(agent.readFsFile({ path: file("no-such-file") }), "no-such-file");
    const problem = await refused(agent.readFsFile({ path: file("names") }), 400, "invalid_request");
    assert.match(problem.detail, /path is not a file/);
  });
}

export function tree() {
  test("statFs", async () => {
    const name = file("new/directories/sized");
    await writeFile(name, "12345");
    const { mtimeMs } = await stat(name);
    const got = await agent.statFs({ path: name });
    assert.deepEqual(got, { path: name, entryType: "file", size: 5, modified: got.modified });
    assert.match(got.modified, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)$/);
    assert.ok(Math.abs(Date.parse(got.modified) - mtimeMs) < 2);
    assert.equal((await agent.statFs({ path: path.dirname(name) })).entryType, "directory");
    await missing(agent.statFs({ path: file("no-such-file") }), "no-such-file");
  });

  test("statFs follows links", async () => {
    await symlink(file("new"), file("link"));
    assert.equal((await agent.statFs({ path: file("link") })).entryType, "directory");
  });

  test("listFsEntries", async () => {
    await mkdir(file("listed/directory"), { recursive: true });
    await writeFile(file("listed/file"), "123");
    await writeFile(file("listed/Another"), "");
    await writeFile(file("listed/directory/inside"), "");
    const entries = await agent.listFsEntries({ path: file("listed") });
    assert.deepEqual(
      entries.map(({ modified, size, ...rest }) => (rest.entryType === "file" ? { ...rest, size } : rest)).sort((a, b) => (a.name < b.name ? -1 : 1)),
      [
        { name: "Another", path: file("listed/Another"), entryType: "file", size: 0 },
        { name: "directory", path: file("listed/directory"), entryType: "directory" },
        { name: "file", path: file("listed/file"), entryType: "file", size: 3 },
      ],
    );
    for (const entry of entries) assert.deepEqual(await agent.statFs({ path: entry.path }).then(({ path: _, ...stated }) => stated), {
      entryType: entry.entryType, size: entry.size, modified: entry.modified,
    });
    assert.deepEqual(await agent.listFsEntries({ path: file("listed/directory") }).then((all) => all.map((e) => e.name)), ["inside"]);
  });

  test("listFsEntries without a path is that of HOME", async () => {
    await writeFile(path.join(serverHome, "at-home"), "");
    const names = async (query) => (await agent.listFsEntries(query)).map((e) => e.path);
    assert.ok((await names()).includes(path.join(serverHome, "at-home")));
    assert.deepEqual(await names({ path: "" }), await names());
    assert.deepEqual(await names({ path: serverHome }), await names());
  });

  test("listFsEntries is sorted", known("in the order of the disk"), async () => {
    await mkdir(file("sorted"));
    const wanted = [];
    for (let i = 0; i < 40; i++) wanted.push(`n${(i * 7919) % 1000}`);
    for (const name of wanted) await writeFile(file(`sorted/${name}`), "");
    const got = (await agent.listFsEntries({ path: file("sorted") })).map((e) => e.name);
    assert.deepEqual(got, wanted.sort());
  });

  test("listFsEntries refuses a file", async () => {
    await missing(agent.listFsEntries({ path: file("no-such-directory") }), "no-such-directory");
    const problem = await refused(agent.listFsEntries({ path: file("listed/file") }), 400, "invalid_request");
    assert.match(problem.detail, /path is not a directory/);
  });

  test("mkdirFs", async () => {
    const name = file("made/by/mkdir");
    for (let i = 0; i < 2; i++) {
      assert.deepEqual(await agent.mkdirFs({ path: name }), { path: name });
      assert.ok((await stat(name)).isDirectory());
    }
    await writeFile(file("made/file"), "");
    await clash(agent.mkdirFs({ path: file("made/file") }), 502, "stream_error");
  });

  test("moveFs", async () => {
    const [from, to] = [file("moved/from"), file("moved/new/directory/to")];
    await mkdir(file("moved"));
    await writeFile(from, "1");
    assert.deepEqual(await agent.moveFs({ from, to }), { from, to });
    assert.equal(await readFile(to, "utf8"), "1");
    assert.equal(await exists(from), false);

    await writeFile(from, "2");
    const problem = await clash(agent.moveFs({ from, to }), 400, "invalid_request");
    assert.match(problem.detail, /destination already exists/);
    assert.deepEqual([await readFile(from, "utf8"), await readFile(to, "utf8")], ["2", "1"]);
    await agent.moveFs({ from, to, overwrite: true });
    assert.equal(await readFile(to, "utf8"), "2");
    assert.equal(await exists(from), false);

    await agent.moveFs({ from: file("moved/new"), to: file("moved/newer") });
    assert.equal(await readFile(file("moved/newer/directory/to"), "utf8"), "2");
    await missing(agent.moveFs({ from, to: file("moved/other") }), from);
  });

  test("moveFs destroys nothing that it cannot replace", known("removes the target first"), async () => {
    const tree = file("kept");
    await mkdir(tree);
    await writeFile(path.join(tree, "inside"), "kept");
    await missing(agent.moveFs({ from: file("no-such-file"), to: tree, overwrite: true }), "no-such-file");
    const name = path.join(tree, "inside");
    await agent.moveFs({ from: name, to: name, overwrite: true }).catch(() => {});
    assert.equal(await readFile(name, "utf8"), "kept");
  });

  test("deleteFsEntry", async () => {
    await mkdir(file("deleted/inner"), { recursive: true });
    await writeFile(file("deleted/inner/file"), "");
    await writeFile(file("deleted/file"), "");
    const name = file("deleted/file");
    assert.deepEqual(await agent.deleteFsEntry({ path: name }), { path: name });
    assert.equal(await exists(name), false);
    await missing(agent.deleteFsEntry({ path: name }), name);

    await clash(agent.deleteFsEntry({ path: file("deleted") }), 502, "stream_error");
    assert.ok(await exists(file("deleted/inner/file")));
    await agent.deleteFsEntry({ path: file("deleted"), recursive: true });
    assert.equal(await exists(file("deleted")), false);

    await mkdir(file("empty"));
    await agent.deleteFsEntry({ path: file("empty"), recursive: false });
    assert.equal(await exists(file("empty")), false);
  });

  test("deleteFsEntry removes a link, not what it leads to", async () => {
    await agent.deleteFsEntry({ path: file("link"), recursive: true });
    assert.equal(await exists(file("link")), false);
    assert.ok(await exists(file("new/directories/sized")));
  });

  test("deleteFsEntry of a link to nowhere", known("path not found"), async () => {
    await symlink(file("nowhere"), file("dangling"));
    await agent.deleteFsEntry({ path: file("dangling") });
    assert.equal(await exists(file("dangling")), false);
  });
}

// tar packs entries of the form {name, type?, data?, link?}: ustar, as POSIX
// 1003.1 (pax, "ustar Interchange Format") has it.
function tar(entries) {
  const blocks = entries.flatMap(({ name, type = "0", data = "", link = "" }) => {
    const content = Buffer.from(data);
    const header = Buffer.alloc(512);
    const octal = (value, at, length) => header.write(value.toString(8).padStart(length - 1, "0"), at);
    header.write(name, 0);
    octal(type === "5" ? 0o755 : 0o640, 100, 8);
    octal(0, 108, 8);
    octal(0, 116, 8);
    octal(content.length, 124, 12);
    octal(1_700_000_000, 136, 12);
    header.write("        ", 148);
    header.write(type, 156);
    header.write(link, 157);
    header.write("ustar\x0000", 257, "latin1");
    octal(header.reduce((a, b) => a + b), 148, 7);
    return [header, content, Buffer.alloc(-content.length & 511)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

export function upload() {
  test("uploadFsBatch", async () => {
    const to = file("uploaded");
    const answer = await agent.uploadFsBatch(
      tar([{ name: "directory/", type: "5" }, { name: "directory/a.txt", data: "a" }, { name: "other/b.bin", data: bytes(1000) }]),
      { path: to },
    );
    assert.equal(answer.truncated, false);
    const files = answer.paths.filter((name) => !name.endsWith("/directory") && !name.endsWith("/directory/"));
    assert.deepEqual(files, [path.join(to, "directory/a.txt"), path.join(to, "other/b.bin")]);
    assert.equal(await readFile(path.join(to, "directory/a.txt"), "utf8"), "a");
    assert.ok((await readFile(path.join(to, "other/b.bin"))).equals(bytes(1000)));
    assert.equal((await stat(path.join(to, "directory/a.txt"))).mode & 0o777, 0o640);
    assert.ok((await stat(path.join(to, "directory"))).isDirectory());
  });

  test("uploadFsBatch without a path is that of HOME", async () => {
    await agent.uploadFsBatch(tar([{ name: "sdktest/uploaded.txt", data: "home" }]));
    assert.equal(await readFile(path.join(serverHome, "sdktest/uploaded.txt"), "utf8"), "home");
  });

  test("uploadFsBatch of nothing", async () => {
    assert.deepEqual(await agent.uploadFsBatch("", { path: file("nothing") }), { paths: [], truncated: false });
  });

  test("uploadFsBatch names the first 1024 paths", async () => {
    const entries = Array.from({ length: 1100 }, (_, i) => ({ name: `many/${i}` }));
    const { paths, truncated } = await agent.uploadFsBatch(tar(entries), { path: file("many") });
    assert.deepEqual([paths.length, truncated], [1024, true]);
    assert.equal((await readdir(file("many/many"))).length, 1100);
  });

  test("uploadFsBatch of more than 2 MiB", known("refuses it"), async () => {
    const body = bytes(5 << 20);
    await agent.uploadFsBatch(tar([{ name: "large.bin", data: body }]), { path: file("many") });
    assert.ok((await readFile(file("many/large.bin"))).equals(body));
  });

  test("uploadFsBatch refuses paths that lead out", async () => {
    for (const name of ["../outside.txt", "a/../../outside.txt", file("outside.txt")]) {
      const problem = await refused(agent.uploadFsBatch(tar([{ name, data: "x" }]), { path: file("refused") }), 400, "invalid_request");
      assert.ok(problem.detail.includes(name), problem.detail);
    }
    assert.equal(await exists(file("outside.txt")), false);
  });

  test("a refused upload leaves nothing", known("leaves what came before the refused entry"), async () => {
    const body = tar([{ name: "before.txt", data: "x" }, { name: "../outside.txt", data: "x" }]);
    await refused(agent.uploadFsBatch(body, { path: file("refused") }), 400, "invalid_request");
    assert.equal(await exists(file("refused/before.txt")), false);
    assert.equal(await exists(file("outside.txt")), false);
  });

  test("links in an upload do not lead out", known("follows them"), async () => {
    await mkdir(file("prison"));
    await mkdir(file("outside"));
    const body = tar([{ name: "way", type: "2", link: file("outside") }, { name: "way/out.txt", data: "x" }]);
    await agent.uploadFsBatch(body, { path: file("prison") }).catch(() => {});
    assert.deepEqual(await readdir(file("outside")), []);
  });

  test("uploadFsBatch of a file that is not an archive", async () => {
    const call = agent.uploadFsBatch("x".repeat(2000), { path: file("refused") });
    await (reference ? refused(call, 502, "stream_error") : refused(call, 400, "invalid_request"));
  });
}
