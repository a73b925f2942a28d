// What a message can be completed with: commands of the agent after a slash, and files after an @.

import { icon, make, show } from "../dom.js";

const most = 50; // choices

/**
 * Complete offers choices for the text before the caret of a textarea. commands() returns the
 * agent's commands as ACP has them, and files(folder) the entries of a folder below the
 * session's; both return promises. changed is called after a choice.
 */
export class Complete {
  element = make("ul", { className: "choices", id: "composer-choices", role: "listbox", "aria-label": "Completions", hidden: true });
  #text;
  #commands;
  #files;
  #changed;
  #start = 0; // of the part that a choice replaces
  #at = 0;
  #turn = 0;

  constructor({ text, commands, files, changed }) {
    [this.#text, this.#commands, this.#files, this.#changed] = [text, commands, files, changed];
    for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": this.element.id })) text.setAttribute(name, value);
    text.addEventListener("input", () => this.#look());
    text.addEventListener("blur", () => this.#close());
    this.element.addEventListener("pointerdown", (event) => event.preventDefault()); // the text keeps the focus
    this.element.addEventListener("click", ({ target }) => {
      const item = target.closest("li");
      if (item) this.#choose([...this.element.children].indexOf(item));
    });
  }

  /** key takes the keys of the list. It returns whether it has used one. */
  key({ key, isComposing }) {
    const { length } = this.element.children;
    if (!length || this.element.hidden || isComposing) return false;
    if (key === "ArrowDown" || key === "ArrowUp") this.#mark((this.#at + (key === "ArrowDown" ? 1 : length - 1)) % length);
    else if (key === "Enter" || key === "Tab") this.#choose(this.#at);
    else if (key === "Escape") this.#close();
    else return false;
    return true;
  }

  async #look() {
    const turn = ++this.#turn;
    const before = this.#text.value.slice(0, this.#text.selectionStart);
    const command = /^\/(\S*)$/.exec(before);
    const file = /(?:^|\s)@(\S*)$/.exec(before);
    if (!command && !file) return this.#close();
    const [, part] = command ?? file;
    this.#start = before.length - part.length;
    const all = await (command ? this.#ofCommands(part) : this.#ofFiles(part)).catch(() => []);
    if (turn === this.#turn) this.#show(all.slice(0, most));
  }

  async #ofCommands(part) {
    const all = await this.#commands();
    return all.filter(({ name }) => name.startsWith(part)).map(({ name, description = "", input }) => ({ icon: "code", name: `/${name}`, about: input?.hint ? `${input.hint} · ${description}` : description, text: `${name} ` }));
  }

  async #ofFiles(part) {
    const slash = part.lastIndexOf("/") + 1;
    const [folder, start] = [part.slice(0, slash), part.slice(slash).toLowerCase()];
    const all = await this.#files(folder);
    const rank = ({ name, entryType }) => (name.toLowerCase().startsWith(start) ? 0 : 2) + (entryType === "directory" ? 0 : 1);
    return all.filter(({ name }) => name.toLowerCase().includes(start) && (start || !name.startsWith("."))).sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name))
      .map(({ name, entryType }) => (entryType === "directory" ? { icon: "folder", name: `${name}/`, text: `${folder}${name}/`, more: true } : { icon: "file", name, text: `${folder}${name} ` }));
  }

  #all = [];

  #show(all) {
    this.#all = all;
    this.element.replaceChildren(...all.map(({ icon: symbol, name, about = "" }, i) => make("li", { role: "option", id: `composer-choice-${i}` }, icon(symbol), make("b", {}, name), make("small", {}, about))));
    show(this.element, all.length > 0);
    this.#text.setAttribute("aria-expanded", String(all.length > 0));
    if (all.length) this.#mark(0);
    else this.#text.removeAttribute("aria-activedescendant");
  }

  #mark(at) {
    this.#at = at;
    [...this.element.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    this.element.children[at].scrollIntoView({ block: "nearest" });
    this.#text.setAttribute("aria-activedescendant", `composer-choice-${at}`);
  }

  #choose(at) {
    const { text, more } = this.#all[at];
    this.#text.setRangeText(text, this.#start, this.#text.selectionStart, "end");
    this.#close();
    this.#changed();
    if (more) this.#look(); // what is in the folder
  }

  #close() {
    this.#turn++;
    this.#show([]);
  }
}
