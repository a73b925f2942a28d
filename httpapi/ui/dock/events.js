// The pane of events: what happens on the desktop and in sessions, and the calls of this
// page, as programs see them.

import { allSessions, desktop, serverURL, token, urlOf } from "../api.js";
import { writeOldWay } from "../clipboard.js";
import { copyButton, icon, make, setText, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { curl, requests } from "../requests.js";
import { follow } from "./stream.js";

const most = 500; // rows

const write = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return writeOldWay(text);
  }
};

/** mount fills root with the events. */
export const mount = (root) => new EventList(root);

class EventList {
  #source = make("select", { "aria-label": "Events", className: "grow" });
  #search = make("input", { type: "search", placeholder: "Search", "aria-label": "Search the events" });
  #pause = make("button", { type: "button", className: "small", "aria-pressed": "false" });
  #problem = make("p", { className: "problem", role: "alert", hidden: true });
  #list = make("ol", { className: "event-rows", tabIndex: 0, "aria-label": "Events" });
  #none = make("p", { className: "empty" });
  #copy;
  #waiting = []; // rows that come during a pause
  #stop = null; // of the stream
  #heard = (event) => this.#add(callRow(event.detail));
  #paused = false;

  constructor(root) {
    this.#copy = copyButton(() => curl({ url: this.#url(), stream: true }, token() !== ""), write, "Copy as curl");
    const clear = make("button", { type: "button", className: "plain", title: "Clear", "aria-label": "Clear", onclick: () => this.#clear() }, icon("trash"));
    this.#source.addEventListener("change", () => this.#start());
    this.#source.addEventListener("focus", () => this.#sources());
    this.#search.addEventListener("input", () => { for (const row of this.#list.children) this.#match(row); });
    this.#pause.addEventListener("click", () => this.#setPaused(!this.#paused));
    this.#setPaused(false);
    root.append(make("header", {}, this.#source, this.#search, this.#pause, this.#copy, clear), this.#problem, make("div", { className: "rows" }, this.#list, this.#none));
  }

  async show() {
    await this.#sources();
    this.#start();
  }

  hide() {
    this.#stop?.abort();
    this.#stop = null;
    requests.removeEventListener("call", this.#heard);
  }

  destroy() { this.hide(); }

  async #sources() {
    const sessions = await allSessions().catch(() => []);
    const chosen = this.#source.value;
    const options = [["calls", "Requests of this page"], ["desktop", `Desktop ${desktop}`], ...sessions.map(({ sessionId, title }) => [`session ${sessionId}`, `Session ${title || sessionId}`])];
    this.#source.replaceChildren(...options.map(([value, text]) => make("option", { value }, text.slice(0, 80))));
    if (options.some(([value]) => value === chosen)) this.#source.value = chosen;
  }

  #url() {
    const { value } = this.#source;
    return value === "desktop" ? urlOf("/events") : serverURL(`sessions/${encodeURIComponent(value.slice("session ".length))}/events/sse`);
  }

  #start() {
    this.hide();
    this.#clear();
    this.#fail(null);
    this.#setPaused(false);
    const calls = this.#source.value === "calls";
    show(this.#copy, !calls);
    if (calls) {
      for (const call of requests.list) this.#add(callRow(call));
      requests.addEventListener("call", this.#heard);
      return;
    }
    this.#stop = new AbortController();
    follow(this.#url(), { signal: this.#stop.signal, found: (event) => this.#add(eventRow(event)), failed: (error) => this.#fail(error) });
  }

  #add(row) {
    this.#match(row);
    if (this.#paused) {
      this.#waiting.push(row);
      this.#waiting.splice(0, this.#waiting.length - most);
      return this.#drawPause();
    }
    const pinned = this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < 24;
    this.#list.append(row);
    if (this.#list.children.length > most) this.#list.firstChild.remove();
    show(this.#none, false);
    if (pinned) this.#list.scrollTop = this.#list.scrollHeight;
  }

  #match(row) { row.hidden = !row.textContent.toLowerCase().includes(this.#search.value.toLowerCase()); }

  #clear() {
    this.#list.replaceChildren();
    this.#waiting = [];
    setText(this.#none, this.#source.value === "calls" ? "No requests yet" : "No events yet. They appear here as they happen.");
    show(this.#none, true);
  }

  #setPaused(paused) {
    this.#paused = paused;
    if (!paused) for (const row of this.#waiting.splice(0)) this.#add(row);
    this.#drawPause();
  }

  #drawPause() {
    this.#pause.setAttribute("aria-pressed", String(this.#paused));
    const { length } = this.#waiting;
    this.#pause.replaceChildren(icon(this.#paused ? "play" : "pause"), this.#paused ? `Continue${length ? ` (${length} new)` : ""}` : "Pause");
  }

  #fail(error) {
    setText(this.#problem, error ? inOneLine(error) : "");
    show(this.#problem, Boolean(error));
  }
}

const timeOf = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });

function callRow(call) {
  const { at, method, url, status, ms } = call;
  const { pathname, search } = new URL(url);
  const row = make("li", { className: "call" }, make("time", {}, timeOf(at)), make("b", {}, method), make("code", { title: url }, pathname + search),
    make("span", { className: status && status < 400 ? "status" : "bad status" }, status ? String(status) : "No answer"), make("span", { className: "ms" }, `${ms} ms`));
  row.append(copyButton(() => curl(call, token() !== ""), write, "Copy as curl"));
  return row;
}

function eventRow({ type, data }) {
  let value = data;
  try { value = JSON.parse(data); } catch { /* a text */ }
  const at = Date.parse(value?.time ?? "") || Date.now();
  const short = data.length > 300 ? `${data.slice(0, 300)}…` : data;
  return make("li", {}, make("details", {},
    make("summary", {}, make("time", {}, timeOf(at)), make("b", {}, value?.type && type === "message" ? value.type : type), make("code", {}, short)),
    make("pre", { tabIndex: 0 }, typeof value === "string" ? value : JSON.stringify(value, null, 2))));
}
