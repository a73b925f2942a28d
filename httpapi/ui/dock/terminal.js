// The pane of terminals: shells on the server, in tabs. They run on when the page is
// closed, and a reload shows them again.

import { desktop, scope, server } from "../api.js";
import { announce, icon, make, once, setText, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { ask, askText } from "../ask.js";
import { PlainScreen } from "./plain.js";
import { Tab } from "./tab.js";
import { load } from "./xterm.js";

const storage = "terminals";

/** mount fills root with the terminals. */
export async function mount(root, { session }) {
  const Screen = await load().catch(() => PlainScreen);
  return new Terminals(root, session, Screen);
}

class Terminals {
  #root;
  #session;
  #Screen;
  #tabs = [];
  #active = null;
  #list = make("div", { role: "tablist", className: "tabs", "aria-label": "Terminals" });
  #panels = make("div", { className: "panels" });
  #problem = make("p", { className: "problem", role: "alert", hidden: true });
  #new;
  #search = make("input", { type: "search", className: "find", placeholder: "Find; Enter goes up", "aria-label": "Find in terminal; Enter goes up, Shift+Enter down", hidden: true });
  #restored = null;
  #wanted = false; // a process's terminal, in place of a new one

  constructor(root, session, Screen) {
    this.#root = root;
    this.#session = session;
    this.#Screen = Screen;
    const add = this.#new = make("button", { type: "button", className: "plain add", title: "New terminal", "aria-label": "New terminal" }, icon("plus"));
    once(add, () => this.#start());
    const rename = make("button", { type: "button", className: "plain add", title: "Rename terminal (F2)", "aria-label": "Rename terminal", onclick: () => this.#rename() }, icon("edit"));
    const find = make("button", { type: "button", className: "plain add", title: "Find in terminal", "aria-label": "Find in terminal", onclick: () => this.#showSearch(this.#search.hidden) }, icon("search"));
    show(find, Screen !== PlainScreen);
    this.#search.addEventListener("keydown", (event) => this.#find(event));
    const help = make("p", { className: "help" }, make("kbd", {}, "Ctrl"), "+", make("kbd", {}, "Alt"), "+", make("kbd", {}, "Shift"), " leaves the terminal");
    root.append(make("header", {}, this.#list, add, rename, find, this.#search, help), this.#problem, this.#panels);
    this.#list.addEventListener("keydown", (event) => this.#key(event));
    root.addEventListener("focus", () => this.#active?.focus());
    new ResizeObserver(() => { if (this.#panels.offsetHeight) this.#active?.fit(); }).observe(this.#panels);
  }

  async show() {
    this.#restored ??= this.#restore();
    await this.#restored;
    this.#active?.fit();
  }

  /** route opens the terminal of a process. */
  async route([id]) {
    if (!id) return;
    this.#wanted = true;
    await this.#restored;
    await this.#try(async () => {
      const tab = this.#tabs.find(({ info }) => info.id === id) ?? this.#add(await server("GET", `processes/${encodeURIComponent(id)}`));
      this.#select(tab);
      tab.focus();
    });
  }

  // A process of another server's life may have the same id, but not the same time.
  async #restore() {
    await this.#try(async () => {
      const kept = read();
      const { processes } = await server("GET", "processes?owner=user");
      for (const { id, createdAtMs, active, name } of kept) {
        const info = processes.find((p) => p.id === id && p.createdAtMs === createdAtMs && p.tty);
        if (!info) continue;
        const tab = this.#add(info);
        if (name) tab.name = name;
        if (active) this.#active = tab;
      }
    });
    if (this.#tabs.length) this.#select(this.#active ?? this.#tabs[0]);
    else if (!this.#wanted) await this.#start();
  }

  async #start() {
    await this.#try(async () => {
      const tab = this.#add(await startShell(this.#session.state.name === "live"));
      this.#select(tab);
      if (this.#root.contains(document.activeElement)) tab.focus();
    });
  }

  async #try(act) {
    try {
      await act();
      show(this.#problem, false);
    } catch (error) {
      setText(this.#problem, inOneLine(error));
      show(this.#problem, true);
    }
  }

  #add(info) {
    const names = this.#tabs.map((tab) => tab.name);
    let name = info.command.split("/").pop();
    for (let n = 2; names.includes(name); n++) name = `${info.command.split("/").pop()} ${n}`;
    const tab = new Tab(info, name, this.#Screen);
    tab.button.addEventListener("click", () => { this.#select(tab); tab.focus(); });
    tab.addEventListener("close", () => this.#close(tab));
    tab.addEventListener("restart", () => this.#restart(tab));
    tab.addEventListener("leave", () => {
      tab.button.focus();
      announce("Keyboard released");
    });
    this.#tabs.push(tab);
    this.#list.append(tab.button);
    this.#panels.append(tab.panel);
    return tab;
  }

  #select(tab) {
    this.#active = tab;
    for (const other of this.#tabs) other.select(other === tab);
    this.#keep();
  }

  async #restart(tab) {
    await this.#try(async () => {
      const { command, args, cwd, owner } = tab.info;
      const info = owner === "user" && args.length ? await server("POST", "processes", { command, args, cwd, tty: true, interactive: true }) : await startShell(this.#session.state.name === "live");
      tab.replace(info);
      this.#keep();
      tab.focus();
    });
  }

  async #rename() {
    const tab = this.#active;
    if (!tab) return;
    const name = await askText("Rename the terminal", "Name", tab.name, "Rename");
    if (name) tab.name = name;
    this.#keep();
    tab.focus();
  }

  #showSearch(shown) {
    show(this.#search, shown);
    if (shown) this.#search.select();
    else this.#active?.focus();
  }

  #find(event) {
    if (event.key === "Escape") this.#showSearch(false);
    else if (event.key !== "Enter" || event.isComposing) return;
    else {
      const found = this.#active?.find(this.#search.value, event.shiftKey);
      this.#search.setAttribute("aria-invalid", String(!found));
      if (!found) announce("No match");
    }
    event.preventDefault();
  }

  async #close(tab) {
    if (tab.running) {
      const choice = await ask(`End ${tab.name}?`, [make("p", { className: "dim" }, "The programs in this terminal end, too. If you keep it running, you can open it again from Processes.")], [
        { label: "Keep running", value: "keep" }, { label: "End", value: "end", kind: "danger primary" },
      ]);
      if (!choice) return tab.focus();
      if (choice === "end") await this.#try(() => server("POST", `processes/${tab.info.id}/stop`, {}));
    }
    const index = this.#tabs.indexOf(tab);
    if (index < 0) return;
    const had = this.#root.contains(document.activeElement) || document.activeElement === document.body;
    this.#tabs.splice(index, 1);
    tab.destroy();
    const next = this.#tabs[Math.min(index, this.#tabs.length - 1)];
    if (this.#active === tab) this.#active = null;
    if (next && !this.#active) this.#select(next);
    this.#keep();
    if (had) (next?.button ?? this.#new).focus();
  }

  #key(event) {
    const index = this.#tabs.indexOf(this.#active);
    const next = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: this.#tabs.length - 1 }[event.key];
    if (event.key === "Delete") this.#close(this.#active);
    else if (event.key === "F2") this.#rename();
    else if (next === undefined || !this.#tabs.length) return;
    else {
      this.#select(this.#tabs[(next + this.#tabs.length) % this.#tabs.length]);
      this.#active.button.focus();
    }
    event.preventDefault();
  }

  #keep() {
    const kept = this.#tabs.map((tab) => ({ id: tab.info.id, createdAtMs: tab.info.createdAtMs, name: tab.name, active: tab === this.#active }));
    localStorage.setItem(storage, JSON.stringify(kept));
  }
}

// startShell starts bash, or sh where there is none, on the desktop if it runs.
async function startShell(onDesktop) {
  const home = scope === "admin" ? await server("GET", "fs/stat?path=~").catch(() => null) : null;
  const body = { tty: true, interactive: true, ...(onDesktop && { desktop }), ...(home && { cwd: home.path }) };
  try {
    return await server("POST", "processes", { ...body, command: "bash" });
  } catch (error) {
    if (error.status !== 502) throw error; // 502: there is no bash
    return server("POST", "processes", { ...body, command: "sh" });
  }
}

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(storage));
    return Array.isArray(kept) ? kept : [];
  } catch {
    return []; // not written by this page
  }
}
