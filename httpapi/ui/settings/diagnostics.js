// Facts about the server, the desktop and the connection of this page.

import { get, server } from "../api.js";
import { copyButton, make, once } from "../dom.js";
import { write } from "./parts.js";

const lookTime = 5000;

/** diagnostics fills box with facts that help to find a fault, and copies them. */
export function diagnostics(box, { session, view, fail }) {
  const rows = make("dl");
  const check = make("button", { type: "button" }, "Check the live view");
  const verdict = make("p", { className: "dim" });
  const copy = copyButton(() => [...rows.children].map((e) => e.textContent + (e.tagName === "DT" ? ": " : "\n")).join(""), write, "Copy");
  box.append(rows, make("div", { className: "row" }, copy, check), verdict);
  let timer = 0;

  async function look() {
    clearTimeout(timer);
    timer = setTimeout(look, lookTime);
    const none = () => null;
    const [health, status] = await Promise.all([server("GET", "health").catch(fail), get("/status").catch(none)]);
    if (health) fail(null);
    const { now } = session.quality;
    const facts = [
      ["Server", health ? health.status : "no answer"],
      ["Desktop", status ? `${status.id}, ${status.state}` : "unknown"],
      ["Display", status?.display],
      ["Size", view.size.width ? `${view.size.width} × ${view.size.height}` : ""],
      ["Missing programs", status?.missingDependencies?.join(", ")],
      ["Last error", status?.lastError ? `${status.lastError.code}: ${status.lastError.message}` : ""],
      ["Sound", status?.sound ? status.sound.problem || (status.sound.running ? "playing" : "available") : ""],
      ["Log of the desktop", status?.runtimeLogPath],
      ["Connection", now ? `${now.transport}, ${session.quality.brief()}` : "none"],
      ["Browser", navigator.userAgent],
    ];
    rows.replaceChildren(...facts.filter(([, value]) => value).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  }

  once(check, async () => {
    verdict.textContent = "Checking…";
    try {
      const { verdict: found, remedy } = await get("/stream/diagnose");
      verdict.textContent = [found, remedy].filter(Boolean).join(" ");
    } catch (error) {
      verdict.textContent = "";
      fail(error);
    }
  });
  return { show: look, hide: () => clearTimeout(timer) };
}
