// A tree of folders, each of which is read when it is opened.

import { server } from "../api.js";
import { icon, make } from "../dom.js";
import { base, join, parent, pathQuery } from "./paths.js";

/** Tree shows folders. It emits choose with the path of the folder that the user chose. */
export class Tree extends EventTarget {
  root = make("ul", { role: "tree", "aria-label": "Folders", className: "tree" });
  #nodes = new Map(); // by path

  constructor() {
    super();
    this.root.addEventListener("keydown", (event) => this.#key(event));
  }

  /** select shows a folder and what is around it. top is the folder at the top of the tree. */
  async select(path, top) {
    if (!this.#nodes.has(top)) {
      this.#nodes.clear();
      this.root.replaceChildren(this.#node(top, top));
    }
    const way = [];
    for (let p = path; p !== top && p !== "/"; p = parent(p)) way.unshift(p);
    await this.#open(this.#nodes.get(top));
    for (const p of way) {
      if (!this.#nodes.has(p)) break; // hidden, or just removed
      await this.#open(this.#nodes.get(p));
    }
    const chosen = this.#nodes.get(path);
    for (const node of this.#nodes.values()) {
      node.item.setAttribute("aria-selected", String(node === chosen));
      node.item.tabIndex = node === (chosen ?? this.#nodes.get(top)) ? 0 : -1;
    }
    chosen?.row.scrollIntoView({ block: "nearest" });
  }

  /** refresh reads a folder again, if it is open. */
  async refresh(path) {
    const node = this.#nodes.get(path);
    if (node?.read) await this.#read(node);
  }

  #node(path, name) {
    const twist = make("span", { className: "twist", "aria-hidden": "true" }, icon("next"));
    const row = make("div", { className: "row", "data-folder": path }, twist, icon("folder"), make("span", {}, name === "/" ? "/" : base(name)));
    const item = make("li", { role: "treeitem", "aria-expanded": "false", "aria-selected": "false", tabIndex: -1 }, row);
    const node = { path, item, row, list: null, read: false };
    item.dataset.path = path;
    twist.addEventListener("click", (event) => {
      event.stopPropagation();
      if (item.getAttribute("aria-expanded") === "true") this.#close(node);
      else this.#open(node);
    });
    row.addEventListener("click", () => this.#choose(node));
    this.#nodes.set(path, node);
    return item;
  }

  async #open(node) {
    if (!node.read) await this.#read(node);
    node.item.setAttribute("aria-expanded", "true");
    node.list.hidden = false;
  }

  async #read(node) {
    let folders = [];
    try {
      folders = (await server("GET", `fs/entries?${pathQuery(node)}&limit=2000`)).filter((e) => e.entryType === "directory" && !e.pathBase64);
    } catch {
      // A folder that may not be read has nothing to show here; the list says why.
    }
    node.read = true;
    if (!node.list) node.item.append(node.list = make("ul", { role: "group" }));
    for (const path of this.#nodes.keys()) if (parent(path) === node.path && path !== node.path && !folders.some((f) => f.path === path)) this.#nodes.delete(path);
    node.list.replaceChildren(...folders.map(({ name }) => {
      const path = join(node.path, name);
      return this.#nodes.get(path)?.item ?? this.#node(path, path);
    }));
  }

  #close(node) {
    node.item.setAttribute("aria-expanded", "false");
    if (node.list) node.list.hidden = true;
  }

  #choose(node) { this.dispatchEvent(new CustomEvent("choose", { detail: node.path })); }

  async #key(event) {
    const node = this.#nodes.get(event.target.dataset?.path);
    if (!node) return;
    const seen = [...this.root.querySelectorAll("[role=treeitem]")].filter((item) => item.offsetParent);
    const at = seen.indexOf(node.item);
    const open = node.item.getAttribute("aria-expanded") === "true";
    const go = (item) => {
      if (!item) return;
      node.item.tabIndex = -1;
      item.tabIndex = 0;
      item.focus();
    };
    const keys = {
      ArrowDown: () => go(seen[at + 1]), ArrowUp: () => go(seen[at - 1]), Home: () => go(seen[0]), End: () => go(seen.at(-1)),
      ArrowRight: () => (open ? go(node.list?.firstElementChild) : this.#open(node)),
      ArrowLeft: () => (open ? this.#close(node) : go(node.item.parentElement.closest("[role=treeitem]"))),
      Enter: () => this.#choose(node), " ": () => this.#choose(node),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    await keys[event.key]();
  }
}
