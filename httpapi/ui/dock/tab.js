// One terminal of the pane: its tab, its screen, and what it says about its end.

import { icon, make, setText, show } from "../dom.js";
import { Connection } from "./connection.js";
import { ask } from "../ask.js";

/** endOf says how a process ended. */
export const endOf = ({ exitCode, signal }) => (signal ? `Ended by ${signal}` : `Exited with code ${exitCode ?? 0}`);

/**
 * Tab shows the terminal of a process. It emits close and restart, when the user asks for
 * it, and leave, when the keys are to go to the page again.
 */
export class Tab extends EventTarget {
  info;
  button;
  panel;
  #Screen;
  #screen;
  #connection;
  #label = make("span");
  #status = make("p", { role: "status" });
  #end;
  #place = make("div", { className: "screen" });

  constructor(info, name, Screen) {
    super();
    this.#Screen = Screen;
    const close = make("span", { className: "x", "aria-hidden": "true", title: "Close" }, icon("close"));
    close.addEventListener("click", (event) => { event.stopPropagation(); this.dispatchEvent(new Event("close")); });
    this.button = make("button", { type: "button", role: "tab", id: `tab-${info.id}`, "aria-controls": `terminal-${info.id}`, "aria-selected": "false", tabIndex: -1 }, this.#label, close);
    const restart = make("button", { type: "button", className: "small", onclick: () => this.dispatchEvent(new Event("restart")) }, "Restart");
    this.#end = make("div", { className: "end", hidden: true }, this.#status, restart);
    this.panel = make("div", { role: "tabpanel", id: `terminal-${info.id}`, "aria-labelledby": `tab-${info.id}`, hidden: true }, this.#place, this.#end);
    setText(this.#label, name);
    this.#open(info);
  }

  /** The name on the tab. */
  get name() { return this.#label.textContent; }
  set name(name) { setText(this.#label, name); }

  get running() { return this.#connection.state === "open"; }

  focus() { this.#screen?.focus(); }

  /** fit makes the terminal as large as its place, which must be visible. */
  fit() {
    this.#screen ??= this.#make();
    this.#screen.fit();
  }

  /** find selects the next place of a text, and returns whether there is one. */
  find(text, down) { return this.#screen?.find(text, down) ?? false; }

  select(selected) {
    this.button.setAttribute("aria-selected", String(selected));
    this.button.tabIndex = selected ? 0 : -1;
    show(this.panel, selected);
    if (selected) this.fit();
  }

  /** replace shows another process, such as the same program once more. */
  replace(info) {
    this.#connection.close();
    this.#screen?.reset();
    this.#open(info);
    if (this.#screen) this.#connection.resize(this.#screen.size);
  }

  destroy() {
    this.#connection.close();
    this.#screen?.destroy();
    this.button.remove();
    this.panel.remove();
  }

  #early = []; // output before there is a screen

  #open(info) {
    this.info = info;
    this.button.title = [info.command, ...info.args].join(" ");
    const connection = this.#connection = new Connection(info);
    this.#early = [];
    connection.addEventListener("output", ({ detail }) => {
      if (this.#screen) this.#screen.write(detail.data, detail.earlier);
      else this.#early.push(detail);
    });
    connection.addEventListener("state", () => {
      if (connection.state === "open") this.#screen?.reset(); // all output is sent again
      this.#draw();
    });
    this.#draw();
  }

  // The screen is made when the tab is first seen: xterm.js measures its place.
  #make() {
    const screen = new this.#Screen({
      root: this.#place,
      send: (data) => this.#connection.send(data),
      resized: (size) => this.#connection.resize(size),
      leave: () => this.dispatchEvent(new Event("leave")),
      paste: (text) => this.#paste(text),
    });
    for (const { data, earlier } of this.#early) screen.write(data, earlier);
    this.#early = [];
    if (screen.size.cols) this.#connection.resize(screen.size);
    return screen;
  }

  async #paste(text) {
    const lines = text.replace(/[\r\n]+$/, "").split(/\r\n|\r|\n/);
    const about = make("p", { className: "dim" }, "A shell runs each line as soon as it is pasted.");
    const choice = await ask(lines.length === 1 ? "Paste with the line break?" : `Paste ${lines.length} lines?`, [about, make("pre", { tabIndex: 0, className: "preview" }, text)], [
      { label: "Paste without line breaks", value: "one" }, { label: "Paste", value: "all", kind: "primary" },
    ]);
    if (choice) this.#screen.paste(choice === "one" ? lines.map((line) => line.trim()).join(" ") : text);
    this.focus();
  }

  #draw() {
    const { state, exit } = this.#connection;
    const over = state === "ended" || state === "gone";
    this.button.dataset.state = over ? "ended" : state;
    setText(this.#status, state === "ended" ? endOf(exit) : state === "gone" ? "The server has restarted, and the process is gone" : "Connecting…");
    show(this.#end, state !== "open");
    show(this.#end.lastElementChild, over);
    if (this.#screen && !this.panel.hidden) this.#screen.fit();
  }
}
