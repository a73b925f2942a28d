// Playwright and Puppeteer, unmodified, on the browser of a desktop.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import puppeteer from "puppeteer-core";

const base = process.env.SDKTEST_URL;
const token = process.env.SDKTEST_TOKEN;
const headers = { Authorization: `Bearer ${token}` };
const endpoint = `${base}/v1/desktop/browser`;
const withToken = `${endpoint}?access_token=${token}`;

const page = `<!doctype html><title>Form</title>
<script>var early = window.prepared === true</script>
<label>Name <input id=name></label>
<input type=file id=file>
<button onclick="answer.textContent = confirm('Sure?') + ' ' + document.getElementById('name').value">Go</button>
<output id=answer></output>
<a href=/file download>Download</a>`;

const site = createServer((request, response) => {
  if (request.url === "/file") {
    response.setHeader("Content-Disposition", 'attachment; filename="report.txt"');
    response.end("the report");
    return;
  }
  response.setHeader("Content-Type", "text/html; charset=utf-8");
  response.end(page);
});
let url;

async function call(method, path, body) {
  const answer = await fetch(endpoint + path, {
    method, headers: { ...headers, "Content-Type": "application/json" }, body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return text && JSON.parse(text);
}

before(async () => {
  await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${site.address().port}/`;
  await fetch(`${base}/v1/desktop/start`, { method: "POST", headers });
  const state = await call("POST", "/start", {});
  assert.equal(state.state, "running");
});

after(async () => {
  await call("POST", "/stop");
  site.closeAllConnections();
  site.close();
});

async function flow(browser) {
  const context = browser.contexts()[0];
  const tab = await context.newPage();
  await tab.goto(url);
  assert.equal(await tab.title(), "Form");
  await tab.getByLabel("Name").fill("Zoë 你好 😀");
  let asked;
  tab.once("dialog", (dialog) => {
    asked = dialog.message();
    dialog.accept();
  });
  await tab.getByRole("button", { name: "Go" }).click();
  assert.equal(await tab.locator("#answer").textContent(), "true Zoë 你好 😀");
  assert.equal(asked, "Sure?");
  await tab.locator("#file").setInputFiles({ name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("content") });
  assert.equal(await tab.evaluate(() => document.getElementById("file").files[0].text()), "content");
  const [download] = await Promise.all([tab.waitForEvent("download"), tab.getByText("Download").click()]);
  assert.equal(download.suggestedFilename(), "report.txt");
  const picture = await tab.screenshot();
  assert.equal(picture.subarray(1, 4).toString(), "PNG");
  await tab.close();
}

async function downloaded() {
  for (let i = 0; ; i++) {
    const { downloads } = await call("GET", "/downloads");
    const done = downloads.filter((d) => d.state === "completed");
    if (done.length > 0 && done.length === downloads.length) return done;
    assert.ok(i < 200, JSON.stringify(downloads));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("Playwright connects with a token in the URL", async () => {
  const browser = await chromium.connectOverCDP(withToken);
  await flow(browser);
  await browser.close();
  const [first] = await downloaded();
  assert.match(first.path, /\/Downloads\/report\.txt$/);
  assert.equal(await readFile(first.path, "utf8"), "the report");
});

test("Playwright connects with the header Authorization, and to a desktop by id", async () => {
  const browser = await chromium.connectOverCDP(`${base}/v1/desktops/main/browser`, { headers });
  await flow(browser);
  await browser.close();
});

test("Playwright prepares a window that a page opens before its scripts run", async () => {
  const browser = await chromium.connectOverCDP(withToken);
  const context = await browser.newContext();
  await context.addInitScript(() => { window.prepared = true; });
  const tab = await context.newPage();
  await tab.goto(url);
  for (let i = 0; i < 5; i++) {
    const [popup] = await Promise.all([tab.waitForEvent("popup"), tab.evaluate(() => { window.open(location.href); })]);
    await popup.waitForLoadState();
    assert.equal(await popup.title(), "Form");
    assert.equal(await popup.evaluate(() => window.early), true);
    assert.equal(await tab.evaluate(() => 1 + 1), 2);
    await popup.close();
  }
  await browser.close();
});

test("Playwright is refused without a token", async () => {
  await assert.rejects(chromium.connectOverCDP(endpoint), /401/);
});

test("Two clients have contexts of their own", async () => {
  const [one, two] = await Promise.all([chromium.connectOverCDP(withToken), chromium.connectOverCDP(withToken)]);
  const [a, b] = await Promise.all([one.newContext(), two.newContext()]);
  const [x, y] = await Promise.all([a.newPage(), b.newPage()]);
  await Promise.all([x.goto(url), y.goto(url)]);
  await x.evaluate(() => { document.cookie = "a=1"; });
  assert.equal(await y.evaluate(() => document.cookie), "");
  await one.close();
  await y.getByLabel("Name").fill("still here");
  assert.equal(await y.getByLabel("Name").inputValue(), "still here");
  await two.close();
  assert.equal((await call("GET", "")).clients, 0);
});

test("A download of a context of its own goes where the client wants", async () => {
  const browser = await chromium.connectOverCDP(withToken);
  const context = await browser.newContext();
  const tab = await context.newPage();
  await tab.goto(url);
  const [download] = await Promise.all([tab.waitForEvent("download"), tab.getByText("Download").click()]);
  assert.equal(await readFile(await download.path(), "utf8"), "the report");
  await browser.close();
});

test("Puppeteer connects", async () => {
  const browser = await puppeteer.connect({
    browserWSEndpoint: `${base.replace("http", "ws")}/v1/desktop/browser/devtools/browser/current?access_token=${token}`,
    defaultViewport: null,
  });
  const tab = await browser.newPage();
  await tab.goto(url);
  await tab.locator("#name").fill("Zoë");
  tab.once("dialog", (dialog) => dialog.dismiss());
  await tab.locator("button").click();
  await tab.waitForFunction(() => document.getElementById("answer").textContent !== "");
  assert.equal(await tab.$eval("#answer", (e) => e.textContent), "false Zoë");
  const file = `${process.env.SDKTEST_SCRATCH}/b.txt`;
  await writeFile(file, "content");
  await (await tab.$("#file")).uploadFile(file);
  assert.equal(await tab.$eval("#file", (e) => e.files[0].text()), "content");
  assert.ok((await tab.screenshot()).length > 1000);
  await browser.close(); // ends the connection
  assert.equal((await call("GET", "")).state, "running");
});

test("The routes of the browser", async () => {
  const { id } = await call("POST", "/tabs", {});
  assert.equal((await call("POST", "/navigate", { url, tab: id })).title, "Form");
  const { outline, truncated } = await call("GET", "/outline");
  assert.equal(truncated, false);
  const refs = Object.fromEntries([...outline.matchAll(/(@e\d+) (\w+) "([^"]*)"/g)].map(([, ref, role, name]) => [`${role} ${name}`, ref]));
  await call("POST", "/fill", { ref: refs["textbox Name"], text: "Zoë 你好" });
  assert.equal((await call("POST", "/click", { ref: refs["button Go"] })).via, "pointer");
  await call("POST", "/wait", { text: "false Zoë 你好" });
  assert.equal((await call("POST", "/evaluate", { expression: "1 + 1" })).value, 2);
  assert.match((await call("GET", "/text")).text, /false Zoë/);
  const { nodes } = await call("GET", "/outline?format=json");
  assert.equal(nodes.find((n) => n.name === "Go").ref, refs["button Go"]);
  for (const [method, path, kind] of [["GET", "/screenshot?full=true", "image/png"], ["GET", "/screenshot?format=jpeg", "image/jpeg"], ["POST", "/pdf", "application/pdf"]]) {
    const answer = await fetch(endpoint + path, { method, headers: { ...headers, "Content-Type": "application/json" }, body: method === "POST" ? "{}" : undefined });
    assert.equal(answer.status, 200, path);
    assert.equal(answer.headers.get("content-type"), kind);
    assert.ok((await answer.arrayBuffer()).byteLength > 1000);
  }
  const state = await call("GET", "/state");
  await call("PUT", "/state", { cookies: [{ name: "a", value: "b", domain: "127.0.0.1", path: "/", expires: -1, httpOnly: false, secure: false }], origins: [] });
  assert.equal((await call("GET", "/state")).cookies.length, state.cookies.length + 1);
  await call("POST", "/reload", {});
  assert.ok((await call("GET", "/network")).requests.length > 0);
  assert.ok(Array.isArray((await call("GET", "/console")).messages));
  for (const [path, body, status, type] of [
    ["/click", { ref: refs["button Go"] }, 409, "stale_element"],
    ["/click", { selector: "#nothing" }, 404, "not_found"],
    ["/click", { selector: "[" }, 400, "invalid_request"],
    ["/navigate", { url: "http://127.0.0.1:1/" }, 502, "navigation_failed"],
    ["/navigate", { url: "nonsense" }, 400, "invalid_request"],
    ["/evaluate", { expression: "throw 1" }, 422, "script_failed"],
    ["/forward", { tab: "nothing" }, 404, "not_found"],
    ["/upload", { selector: "#file", files: ["/etc/passwd"] }, 400, "invalid_request"],
    ["/dialog", { accept: true }, 409, "conflict"],
  ]) {
    const answer = await fetch(endpoint + path, { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const problem = await answer.json();
    assert.deepEqual([path, answer.status, problem.type], [path, status, `urn:sandbox-agent:error:${type}`], problem.detail);
  }
  const acted = await fetch(`${base}/v1/desktop/actions`, {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify({ actions: [
      { type: "browser", do: "navigate", args: { url, tab: id } },
      { type: "browser", do: "fill", args: { selector: "#name", text: "batch" } },
      { type: "browser", do: "click", args: { selector: "button" } },
      { type: "browser", do: "wait", args: { text: "false batch" } },
    ] }),
  });
  const results = (await acted.json()).results;
  assert.deepEqual(results.map((r) => r.ok), [true, true, true, true], JSON.stringify(results));
  const tool = async (args) => {
    const answer = await fetch(`${base}/v1/mcp`, {
      method: "POST", headers: { ...headers, "Content-Type": "application/json", Accept: "application/json, text/event-stream" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "browser", arguments: args } }),
    });
    return (await answer.json()).result;
  };
  assert.match((await tool({ action: "outline" })).content[0].text, /@e\d+ button "Go"/);
  assert.equal((await tool({ action: "click", ref: "@e99999" })).isError, true);
  await call("DELETE", `/tabs/${id}`);
});
