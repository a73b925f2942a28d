// The pane of logs: what one process prints, as it comes.

import { server, streamURL } from "../api.js";
import { icon, make, once, setText, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { bytes } from "../format.js";
import { Lines } from "./lines.js";
import { endOf } from "./tab.js";

/** mount fills root with the log of a process. */
export function mount(root) {
  return new Logs(root);
}

class Logs {
  #process = make("select", { "aria-label": "Process", className: "grow" });
  #stream = make("select", { "aria-label": "Output" }, make("option", { value: "" }, "All output"), make("option", { value: "stdout" }, "Output"), make("option", { value: "stderr" }, "Errors"));
  #search = make("input", { type: "search", placeholder: "Search", "aria-label": "Search the log" });
  #found = make("span", { className: "dim found", role: "status" });
  #pause = make("button", { type: "button", className: "small", "aria-pressed": "false" });
  #end = make("p", { className: "dim end", role: "status", hidden: true });
  #problem = make("p", { className: "problem", role: "alert", hidden: true });
  #lines;
  #id = "";
  #source = null;
  #last = 0; // the sequence of the last entry

  constructor(root) {
    this.#lines = new Lines({ count: (shown, all) => setText(this.#found, this.#search.value ? `${shown} of ${all} lines` : "") });
    const download = make("button", { type: "button", className: "plain", title: "Download the log", "aria-label": "Download the log" }, icon("download"));
    once(download, () => this.#try(() => this.#download()));
    this.#process.addEventListener("change", () => this.#choose(this.#process.value));
    this.#process.addEventListener("focus", () => this.#try(() => this.#list()));
    this.#stream.addEventListener("change", () => this.#choose(this.#id));
    this.#search.addEventListener("input", () => this.#lines.search(this.#search.value));
    this.#pause.addEventListener("click", () => this.#setPaused(!this.#lines.paused));
    this.#lines.addEventListener("waiting", () => this.#drawPause());
    this.#drawPause();
    root.append(make("header", {}, this.#process, this.#stream, this.#search, this.#found, this.#pause, download), this.#problem, this.#lines.root, this.#end);
  }

  /** route shows the log of a process. */
  async route([id]) {
    if (!id) return;
    this.#id = id;
    await this.#try(() => this.#list());
    this.#choose(id);
  }

  async show() {
    await this.#try(() => this.#list());
    if (this.#id) this.#follow();
    else if (this.#process.value) this.#choose(this.#process.value);
  }

  // The stream ends: browsers open few connections. It continues after the last entry.
  hide() {
    this.#source?.close();
    this.#source = null;
  }

  destroy() { this.hide(); }

  async #try(act) {
    try {
      await act();
      show(this.#problem, false);
    } catch (error) {
      setText(this.#problem, inOneLine(error));
      show(this.#problem, true);
    }
  }

  async #list() {
    const { processes } = await server("GET", "processes");
    const groups = [["user", "Started by clients"], ["desktop", "Desktops"], ["system", "Server"]].map(([owner, label]) => make("optgroup", { label },
      ...processes.filter((p) => p.owner === owner).reverse().map(({ id, command, args, status }) => make("option", { value: id }, `${[command, ...args].join(" ").slice(0, 80)} (${id}${status === "running" ? "" : ", ended"})`))));
    this.#process.replaceChildren(...groups.filter((group) => group.children.length));
    if (this.#id) this.#process.value = this.#id;
  }

  #choose(id) {
    this.hide();
    this.#id = id;
    this.#process.value = id;
    this.#last = 0;
    this.#lines.clear();
    this.#setPaused(false);
    this.#follow();
  }

  #follow() {
    if (this.#source) return;
    show(this.#end, false);
    const from = this.#last ? `since=${this.#last}` : `tail=${this.#lines.most}`;
    const source = this.#source = new EventSource(streamURL(`processes/${encodeURIComponent(this.#id)}/logs?follow=true&${from}${this.#stream.value ? `&stream=${this.#stream.value}` : ""}`));
    source.addEventListener("log", ({ data }) => {
      const entry = JSON.parse(data);
      this.#last = entry.sequence;
      this.#lines.add(entry.stream, decode(entry.data));
    });
    source.addEventListener("gap", ({ data }) => {
      const gap = JSON.parse(data);
      this.#lines.note(gap.bytes ? `${bytes(gap.bytes)} of output were dropped` : "Output was dropped");
    });
    source.addEventListener("error", () => this.#try(() => this.#ended(source)));
  }

  // The stream ends with the process. If it breaks, the browser opens it again.
  async #ended(source) {
    const info = await server("GET", `processes/${encodeURIComponent(this.#id)}`).catch((error) => {
      if (error.status !== 404 && source.readyState !== EventSource.CLOSED) return { status: "running" };
      source.close();
      throw error;
    });
    if (source !== this.#source || info.status === "running") return;
    source.close();
    setText(this.#end, endOf(info));
    show(this.#end, true);
  }

  #setPaused(paused) {
    this.#lines.pause(paused);
    this.#drawPause();
  }

  #drawPause() {
    const { paused, waiting } = this.#lines;
    this.#pause.setAttribute("aria-pressed", String(paused));
    this.#pause.replaceChildren(icon(paused ? "play" : "pause"), paused ? `Continue${waiting ? ` (${waiting} new)` : ""}` : "Pause");
  }

  async #download() {
    if (!this.#id) return;
    const { entries } = await server("GET", `processes/${encodeURIComponent(this.#id)}/logs${this.#stream.value ? `?stream=${this.#stream.value}` : ""}`);
    const link = make("a", { href: URL.createObjectURL(new Blob(entries.map(({ data }) => decode(data)), { type: "text/plain" })), download: `${this.#id}.log` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }
}

const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
