// Times Playwright through the server and directly at a browser with the same flags, in turns,
// and prints the medians of each operation in microseconds as JSON.
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { SDKTEST_URL: base, SDKTEST_TOKEN: token, BENCH_ROUNDS: rounds } = process.env;
const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
const site = createServer((_, response) => {
  response.setHeader("Content-Type", "text/html");
  response.end("<!doctype html><title>Bench</title><input id=name><button onclick='this.n = (this.n ?? 0) + 1'>Go</button>");
});
await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${site.address().port}/`;

async function post(path, body) {
  const answer = await fetch(base + path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
}

// flags are those that the server gives its browser, but for the way to it.
const flags = ["--no-first-run", "--no-default-browser-check", "--hide-crash-restore-bubble", "--password-store=basic", "--disable-features=Translate",
  "--headless=new", "--remote-debugging-port=0"];

// direct starts a browser, and returns its process and the URL of its WebSocket.
async function direct() {
  const child = spawn("chromium", [...flags, ...(process.getuid() === 0 ? ["--no-sandbox"] : []), `--user-data-dir=${mkdtempSync(join(tmpdir(), "direct-"))}`]);
  const address = await new Promise((resolve, reject) => {
    let text = "";
    child.stderr.on("data", (data) => {
      text += data;
      const found = text.match(/DevTools listening on (ws:\S+)/);
      if (found) resolve(found[1]);
    });
    child.on("exit", () => reject(new Error(text)));
  });
  return { child, address };
}

const operations = {
  goto: [10, (tab) => tab.goto(url)],
  evaluate: [100, (tab) => tab.evaluate("1 + 1")],
  fill: [20, (tab) => tab.fill("#name", "Zoë")],
  click: [20, (tab) => tab.click("button")],
  text: [20, (tab) => tab.textContent("button")],
  megabyte: [5, (tab) => tab.evaluate("'x'.repeat(1e6)")],
  screenshot: [5, (tab) => tab.screenshot()],
};

await post("/v1/desktop/start", {});
await post("/v1/desktop/browser/start", { headless: true });
const { child, address } = await direct();
const browsers = { server: await chromium.connectOverCDP(`${base}/v1/desktop/browser`, { headers }), direct: await chromium.connectOverCDP(address) };
const times = {};
const tabs = {};
for (const name in browsers) {
  tabs[name] = await browsers[name].contexts()[0].newPage();
  await tabs[name].setViewportSize({ width: 1280, height: 720 });
}
for (let round = -1; round < rounds; round++) { // the first one is not counted
  for (const operation in operations) {
    const [count, run] = operations[operation];
    for (const name of round % 2 ? ["server", "direct"] : ["direct", "server"]) {
      for (let i = 0; i < count; i++) {
        const begun = process.hrtime.bigint();
        await run(tabs[name]);
        if (round >= 0) ((times[operation] ??= {})[name] ??= []).push(Number(process.hrtime.bigint() - begun) / 1000);
      }
    }
  }
}
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
const result = {};
for (const operation in times) result[operation] = { server: median(times[operation].server), direct: median(times[operation].direct) };
console.log(JSON.stringify(result));
for (const name in browsers) await browsers[name].close();
child.kill();
site.closeAllConnections();
site.close();
process.exit(0);
