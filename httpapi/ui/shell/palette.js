// The list of commands: one is found by typing a part of its name.

import { icon, make, show } from "../dom.js";
import { commandsOf, placesOf } from "./commands.js";

const most = 60; // choices

/** Palette is the dialog. open shows it; context is what commandsOf needs. */
export class Palette {
  #context;
  #all = [];
  #shown = [];
  #at = 0;
  #text = make("input", { type: "text", placeholder: "Type a command, or the name of a session", autocomplete: "off", autocapitalize: "off", spellcheck: false });
  #list = make("ul", { id: "palette-list", role: "listbox", "aria-label": "Commands" });
  #none = make("p", { className: "dim", role: "status", hidden: true }, "Nothing matches");
  #dialog;

  constructor(context) {
    this.#context = context;
    for (const [name, value] of Object.entries({ role: "combobox", "aria-label": "Command", "aria-autocomplete": "list", "aria-expanded": "true", "aria-controls": this.#list.id })) this.#text.setAttribute(name, value);
    this.#dialog = make("dialog", { className: "palette", "aria-label": "Commands" }, make("div", { className: "search" }, icon("search"), this.#text), this.#list, this.#none);
    this.#text.addEventListener("input", () => this.#draw());
    this.#text.addEventListener("keydown", (event) => this.#key(event));
    this.#list.addEventListener("pointerdown", (event) => event.preventDefault()); // the text keeps the focus
    this.#list.addEventListener("click", ({ target }) => {
      const item = target.closest("li");
      if (item) this.#run([...this.#list.children].indexOf(item));
    });
    this.#dialog.addEventListener("click", ({ target }) => { if (target === this.#dialog) this.close(); });
    document.body.append(this.#dialog);
  }

  get isOpen() { return this.#dialog.open; }

  close() { this.#dialog.close(); }

  async open() {
    const commands = this.#all = commandsOf(this.#context);
    this.#text.value = "";
    this.#dialog.showModal();
    this.#draw();
    const places = await placesOf(this.#context);
    if (!this.isOpen || this.#all !== commands) return;
    this.#all = [...commands, ...places];
    this.#draw(this.#at);
  }

  // Words may be anywhere; a label that begins with the text comes first.
  #draw(at = 0) {
    const text = this.#text.value.trim().toLowerCase();
    const words = text.split(/\s+/).filter(Boolean);
    const found = this.#all.filter(({ label, about = "" }) => words.every((word) => `${label} ${about}`.toLowerCase().includes(word)));
    const rank = ({ label }) => (label.toLowerCase().startsWith(text) ? 0 : 1);
    this.#shown = found.map((command, i) => ({ command, i })).sort((a, b) => rank(a.command) - rank(b.command) || a.i - b.i).map(({ command }) => command).slice(0, most);
    this.#list.replaceChildren(...this.#shown.map(({ label, about = "", icon: symbol, keys }, i) => make("li", { role: "option", id: `palette-${i}`, "aria-selected": "false" },
      icon(symbol), make("span", { className: "label" }, label), make("small", {}, about), ...keycaps(keys))));
    show(this.#none, this.#shown.length === 0);
    this.#mark(Math.min(at, this.#shown.length - 1));
  }

  #mark(at) {
    this.#at = at;
    [...this.#list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    const item = this.#list.children[at];
    if (!item) return this.#text.removeAttribute("aria-activedescendant");
    item.scrollIntoView({ block: "nearest" });
    this.#text.setAttribute("aria-activedescendant", item.id);
  }

  #key(event) {
    const { length } = this.#shown;
    const to = { ArrowDown: this.#at + 1, ArrowUp: this.#at - 1, PageDown: Math.min(length - 1, this.#at + 8), PageUp: Math.max(0, this.#at - 8) }[event.key];
    if (event.isComposing) return;
    if (event.key === "Enter") this.#run(this.#at);
    else if (to === undefined || !length) return;
    else this.#mark((to + length) % length);
    event.preventDefault();
  }

  #run(at) {
    const command = this.#shown[at];
    if (!command) return;
    this.close();
    command.run();
  }
}

const mac = /Mac|iPhone|iPad/.test(navigator.platform);

// keycaps returns the elements of keys such as "G C" or "Ctrl+K".
const keycaps = (keys) => (keys ? keys.split(" ").map((key) => make("kbd", {}, mac ? key.replace(/^Ctrl\+(.)$/, "⌘$1") : key)) : []);

/** Help is the dialog with the keys of the page. enabled and setEnabled are about the keys without Ctrl. */
export class Help {
  #dialog = make("dialog", { className: "shortcuts ask", "aria-label": "Keyboard shortcuts" });
  #box;

  constructor({ enabled, setEnabled }) {
    this.#box = make("input", { type: "checkbox", checked: enabled(), onchange: () => setEnabled(this.#box.checked) });
    const close = make("button", { type: "button", className: "plain close", "aria-label": "Close", title: "Close", onclick: () => this.#dialog.close() }, icon("close"));
    this.#dialog.append(close, make("h2", {}, "Keyboard shortcuts"), make("div", { className: "columns" }, ...groups.map(([name, rows]) => make("section", {}, make("h3", {}, name),
      make("dl", {}, ...rows.flatMap(([keys, text]) => [make("dt", {}, ...keysOf(keys)), make("dd", {}, text)]))))),
    make("label", { className: "check" }, this.#box, "Use shortcuts of a single key"));
    document.body.append(this.#dialog);
  }

  open() { this.#dialog.showModal(); }
}

// "A / B" are alternatives.
const keysOf = (keys) => keys.split(" / ").flatMap((one, i) => [...(i ? [" or "] : []), ...keycaps(one)]);

const groups = [
  ["Anywhere", [
    ["Ctrl+K", "Commands, sessions, recordings"], ["?", "This list"], ["G D", "Desktop alone"], ["G C", "Sessions"], ["G T", "Terminal"], ["G F", "Files"],
    ["G P", "Processes"], ["G L", "Logs"], ["G E", "Events"], ["G A", "All desktops"], ["G S", "Settings"],
  ]],
  ["Desktop", [
    ["T", "Take or release control"], ["R", "Start or stop recording"], ["Ctrl+Alt+Shift", "Release the keyboard"],
  ]],
  ["Sessions", [
    ["N", "New session"], ["1–9", "Choose an answer of the permission card that has the focus"], ["Enter", "Send the message"], ["Shift+Enter", "New line"], ["Ctrl+.", "Stop the turn"],
  ]],
  ["Timeline", [["← / →", "Previous or next event"], ["PageUp / PageDown", "Earlier or later"], ["Enter", "Replay the event, or show it in the session"]]],
  ["Replay", [
    ["K", "Play or pause"], ["J / L", "Back or forward 10 seconds"], ["← / →", "Back or forward 5 seconds"], [", / .", "Previous or next picture"], ["< / >", "Slower or faster"], ["M", "Add a marker"],
  ]],
];
