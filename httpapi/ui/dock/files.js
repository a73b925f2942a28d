// The pane of files: a tree, the files of a folder, and uploads by drop.

import { request, server, serverURL, streamURL } from "../api.js";
import { icon, make, once, setText, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { bytes } from "../format.js";
import { ask, askText } from "../ask.js";
import { base, join, parent, pathQuery } from "./paths.js";
import { Preview } from "./preview.js";
import { Tree } from "./tree.js";
import { dropped, Uploads } from "./uploads.js";

const storage = "folder";
const most = 2000; // entries that are shown

/** mount fills root with the files. */
export const mount = (root) => new Files(root);

class Files {
  #root;
  #path = make("input", { "aria-label": "Folder", autocomplete: "off", autocapitalize: "off", spellcheck: false, className: "grow" });
  #rows = make("tbody");
  #problem = make("p", { className: "problem", role: "alert", hidden: true });
  #drop = make("p", { className: "drop", hidden: true });
  #more = make("p", { className: "dim more", hidden: true });
  #tree = new Tree();
  #uploads = new Uploads();
  #preview = new Preview({ closed: () => this.#focus(this.#seen) });
  #known = new Map(); // rows, by what the server says of them
  #folder = "";
  #top = "/";
  #seen = ""; // the file of the preview
  #watch = null;
  #timer = 0;

  constructor(root) {
    this.#root = root;
    const button = (name, label, act) => {
      const element = make("button", { type: "button", className: "plain", title: label, "aria-label": label }, icon(name));
      once(element, act);
      return element;
    };
    const picker = make("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files to upload" });
    picker.addEventListener("change", () => {
      this.#uploads.add(this.#folder, [...picker.files].map((file) => ({ file, path: file.name })));
      picker.value = "";
    });
    const header = make("header", {},
      button("up", "Parent folder", () => this.#go(parent(this.#folder))), this.#path,
      button("plus", "New folder", () => this.#create()), button("upload", "Upload files", () => picker.click()), picker);
    const head = make("thead", {}, make("tr", {}, ...["Name", "Size", "Changed", "Actions"].map((name) => make("th", { scope: "col", className: name.toLowerCase() }, name))));
    const list = make("div", { className: "scroller" }, make("table", {}, head, this.#rows), this.#more);
    root.append(header, this.#problem, make("div", { className: "parts" }, this.#tree.root, list, this.#preview.root), this.#uploads.root, this.#drop);
    this.#path.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) this.#go(this.#path.value.trim() || "~"); });
    this.#tree.addEventListener("choose", ({ detail }) => this.#go(detail));
    this.#uploads.addEventListener("done", ({ detail }) => { if (detail === this.#folder) this.#soon(); else this.#tree.refresh(parent(detail)); });
    this.#dropZone();
  }

  async show() {
    if (this.#folder) await this.#read();
    else await this.#go(localStorage.getItem(storage) || "~", "~");
    this.#follow();
  }

  hide() {
    this.#watch?.close();
    this.#watch = null;
    clearTimeout(this.#timer);
  }

  destroy() { this.hide(); }

  async route([path]) { if (path) await this.#go(path); }

  // ---- folder ----------------------------------------------------------------------

  // #go shows a folder, or another one if it cannot be read.
  async #go(path, otherwise) {
    try {
      const { path: folder, entryType } = await server("GET", `fs/stat?path=${encodeURIComponent(path)}`);
      this.#folder = entryType === "directory" ? folder : parent(folder);
      this.#path.value = this.#folder;
      localStorage.setItem(storage, this.#folder);
      this.#preview.hide();
      await this.#read();
      this.#follow();
      await this.#select();
    } catch (error) {
      if (otherwise && path !== otherwise) return this.#go(otherwise);
      this.#fail(error);
    }
  }

  async #read() {
    const folder = this.#folder;
    const response = await request("GET", serverURL(`fs/entries?path=${encodeURIComponent(this.#folder)}&limit=${most}`)).catch((error) => error);
    if (response instanceof Error) return this.#fail(response);
    const entries = await response.json();
    if (folder !== this.#folder) return;
    this.#fail(null);
    entries.sort((a, b) => (a.entryType === b.entryType ? a.name.localeCompare(b.name, undefined, { numeric: true }) : a.entryType === "directory" ? -1 : 1));
    // Rows that are as before stay: one of them may have the focus, or be clicked just now.
    const before = this.#known;
    this.#known = new Map(entries.map((entry) => {
      const text = JSON.stringify(entry);
      return [text, before.get(text) ?? this.#row(entry)];
    }));
    const rows = [...this.#known.values()];
    for (const row of [...this.#rows.children]) if (!rows.includes(row)) row.remove();
    rows.forEach((row, i) => { if (this.#rows.children[i] !== row) this.#rows.insertBefore(row, this.#rows.children[i] ?? null); });
    if (!entries.length) this.#rows.append(make("tr", {}, make("td", { colSpan: 4, className: "dim" }, "This folder is empty. Drop files here to upload them.")));
    setText(this.#more, `Only the first ${most} entries are shown`);
    show(this.#more, response.headers.has("Deskhand-Next"));
  }

  // The tree begins at the root of the file system, or at the first folder that clients reach.
  async #select() {
    this.#top = await server("GET", "fs/stat?path=/").then(() => "/", () => (this.#folder.startsWith(this.#top) && this.#top !== "/" ? this.#top : this.#folder));
    await this.#tree.select(this.#folder, this.#top);
  }

  #fail(error) {
    setText(this.#problem, error ? inOneLine(error) : "");
    show(this.#problem, Boolean(error));
  }

  #focus(path) { this.#rows.querySelector(`[data-name="${CSS.escape(base(path))}"]`)?.focus(); }

  #follow() {
    if (this.#watch?.url.endsWith(encodeURIComponent(this.#folder))) return;
    this.#watch?.close();
    const url = streamURL("fs/watch");
    this.#watch = new EventSource(`${url}${url.search ? "&" : "?"}path=${encodeURIComponent(this.#folder)}`);
    for (const type of ["created", "changed", "removed", "renamed", "overflow"]) this.#watch.addEventListener(type, () => this.#soon());
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(async () => {
      await this.#read();
      await this.#tree.refresh(this.#folder);
    }, 150);
  }

  // ---- entries ----------------------------------------------------------------------

  #row(entry) {
    const folder = entry.entryType === "directory";
    const open = make("button", { type: "button", className: "plain open", title: entry.path }, icon(folder ? "folder" : "file"), make("span", {}, entry.name), ...(entry.link ? [make("span", { className: "dim" }, `→ ${entry.target ?? ""}`)] : []));
    open.dataset.name = entry.name;
    open.addEventListener("click", () => (folder ? this.#go(entry.path) : this.#show(entry)));
    const act = (name, label, run) => {
      const element = make("button", { type: "button", className: "plain", title: label, "aria-label": `${label} ${entry.name}` }, icon(name));
      once(element, run);
      return element;
    };
    const href = streamURL(folder ? "fs/archive" : "fs/file");
    const get = make("a", { className: "plain", href: `${href}${href.search ? "&" : "?"}${pathQuery(entry)}${folder ? "" : "&download=true"}`, download: folder ? `${entry.name}.tar` : entry.name, title: folder ? "Download as tar archive" : "Download", "aria-label": `Download ${entry.name}` }, icon("download"));
    const row = make("tr", {}, make("td", { className: "name" }, open), make("td", { className: "size" }, folder ? "" : bytes(entry.size)),
      make("td", { className: "changed" }, entry.modified ? new Date(entry.modified).toLocaleString([], { dateStyle: "short", timeStyle: "short" }) : ""),
      make("td", { className: "actions" }, get, act("edit", "Rename", () => this.#rename(entry)), act("trash", "Delete", () => this.#remove(entry))));
    if (folder) row.dataset.folder = entry.path;
    return row;
  }

  #show(entry) {
    this.#seen = entry.path;
    return this.#preview.show(entry);
  }

  async #try(act) {
    try {
      await act();
      await this.#read();
      await this.#tree.refresh(this.#folder);
    } catch (error) {
      this.#fail(error);
    }
  }

  async #create() {
    const name = await askText("New folder", "Name", "", "Create");
    if (!name) return;
    await this.#try(() => server("POST", `fs/mkdir?path=${encodeURIComponent(join(this.#folder, name))}`));
    this.#focus(name);
  }

  async #rename(entry) {
    const name = await askText(`Rename ${entry.name}`, "New name", entry.name, "Rename");
    if (!name || name === entry.name) return;
    await this.#try(() => server("POST", "fs/move", { from: entry.path, to: name.startsWith("/") ? name : join(this.#folder, name) }));
    this.#focus(name);
  }

  async #remove(entry) {
    const folder = entry.entryType === "directory" && !entry.link;
    const about = make("p", { className: "dim" }, folder ? "Everything in it is deleted, too. This can't be undone." : "This can't be undone.");
    if (!await ask(`Delete ${entry.name}?`, [about], [{ label: "Delete", value: "yes", kind: "danger primary" }])) return;
    if (this.#preview.path === entry.path) this.#preview.hide();
    await this.#try(() => server("DELETE", `fs/entry?${pathQuery(entry)}${folder ? "&recursive=true" : ""}`));
  }

  // ---- drop ---------------------------------------------------------------------------

  #dropZone() {
    const target = (event) => event.target.closest?.("[data-folder]")?.dataset.folder ?? this.#folder;
    const over = (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = target(event) ? "copy" : "none"; // not before there is a folder
      setText(this.#drop, `Drop to upload to ${target(event)}`);
      show(this.#drop, true);
    };
    this.#root.addEventListener("dragenter", over);
    this.#root.addEventListener("dragover", over);
    this.#root.addEventListener("dragleave", (event) => { if (!this.#root.contains(event.relatedTarget)) show(this.#drop, false); });
    this.#root.addEventListener("drop", async (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      show(this.#drop, false);
      const folder = target(event);
      if (!folder) return this.#fail(new Error("The folder wasn't open yet. Drop the files again."));
      try {
        this.#uploads.add(folder, await dropped(event.dataTransfer));
      } catch (error) {
        this.#fail(error);
      }
    });
  }
}
