// Uploads: three at a time, with progress, and a choice where a file exists.

import { callHeaders, Problem, serverURL } from "../api.js";
import { icon, make, setText, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { bytes } from "../format.js";
import { requests } from "../requests.js";
import { base, join, numbered, parent, pathQuery } from "./paths.js";

const parallel = 3;

/** Uploads shows the uploads in root. It emits done with the folder of a file that has arrived. */
export class Uploads extends EventTarget {
  root = make("ul", { className: "uploads", "aria-label": "Uploads", hidden: true });
  #queue = [];
  #running = 0;

  /** add uploads files into a folder. Each is { file, path }, with its path below the folder. */
  add(folder, files) {
    for (const { file, path } of files) this.#enqueue(new Upload(file, join(folder, path)));
  }

  #enqueue(upload) {
    this.root.prepend(upload.root);
    show(this.root, true);
    upload.again = () => { this.#queue.push(upload); this.#next(); };
    upload.addEventListener("gone", () => {
      this.#queue = this.#queue.filter((other) => other !== upload);
      upload.root.remove();
      show(this.root, this.root.children.length > 0);
    });
    upload.again();
  }

  async #next() {
    if (this.#running >= parallel || !this.#queue.length) return;
    const upload = this.#queue.shift();
    this.#running++;
    const arrived = await upload.run();
    this.#running--;
    if (arrived) this.dispatchEvent(new CustomEvent("done", { detail: parent(upload.path) }));
    this.#next();
  }
}

// Upload sends one file.
class Upload extends EventTarget {
  path;
  root;
  again;
  #file;
  #first;
  #replace = false;
  #copies = 1;
  #request = null;
  #bar = make("progress", { max: 1, value: 0, "aria-label": "Progress" });
  #about = make("span", { className: "about", role: "status" }, "Waiting…");
  #choices = make("span", { className: "choices" });
  #name = make("span", { className: "name" });

  constructor(file, path) {
    super();
    this.#file = file;
    this.#first = this.path = path;
    this.root = make("li", {}, icon("file"), this.#name, this.#bar, this.#about, this.#choices);
    this.#offer(["Cancel", () => this.#cancel()]);
  }

  /** run sends the file, and returns whether it has arrived. */
  async run() {
    setText(this.#name, this.path);
    show(this.#bar, true);
    this.#offer(["Cancel", () => this.#cancel()]);
    try {
      await this.#send();
      setText(this.#about, `Uploaded, ${bytes(this.#file.size)}`);
      show(this.#bar, false);
      this.#offer(["Dismiss", () => this.#gone()]);
      setTimeout(() => this.#gone(), 4000);
      return true;
    } catch (error) {
      if (error.name === "AbortError") this.#gone();
      else if (error.status === 412) this.#conflict();
      else this.#failed(error);
      return false;
    }
  }

  #send() {
    const request = this.#request = new XMLHttpRequest();
    const url = serverURL(`fs/file?${pathQuery({ path: this.path })}`);
    const ended = requests.begin("PUT", url);
    request.open("PUT", url);
    for (const [name, value] of Object.entries(callHeaders())) request.setRequestHeader(name, value);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    if (!this.#replace) request.setRequestHeader("If-None-Match", "*");
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      this.#bar.value = total ? loaded / total : 1;
      setText(this.#about, `${bytes(loaded)} of ${bytes(total)}`);
    });
    return new Promise((done, failed) => {
      request.addEventListener("loadend", () => ended(request.status));
      request.addEventListener("load", () => {
        if (request.status < 300) return done();
        let problem = { title: request.statusText || `Status ${request.status}` };
        try { problem = JSON.parse(request.responseText); } catch { /* not of this server */ }
        failed(new Problem(request.status, problem));
      });
      request.addEventListener("error", () => failed(new Problem(0, { title: "Can't reach the server" })));
      request.addEventListener("abort", () => failed(new DOMException("canceled", "AbortError")));
      request.send(this.#file);
    });
  }

  #cancel() {
    if (this.#request) this.#request.abort();
    else this.#gone();
  }

  #gone() { this.dispatchEvent(new Event("gone")); }

  #conflict() {
    setText(this.#about, "A file of this name exists");
    show(this.#bar, false);
    const again = () => { this.#request = null; this.again(); };
    this.#offer(
      ["Replace", () => { this.#replace = true; again(); }],
      ["Keep both", () => { this.path = join(parent(this.#first), numbered(base(this.#first), ++this.#copies)); again(); }],
      ["Skip", () => this.#gone()]);
  }

  #failed(error) {
    this.root.dataset.state = "failed";
    setText(this.#about, inOneLine(error));
    this.#offer(["Retry", () => { delete this.root.dataset.state; this.#request = null; this.again(); }], ["Dismiss", () => this.#gone()]);
  }

  #offer(...choices) {
    this.#choices.replaceChildren(...choices.map(([label, act]) => make("button", { type: "button", className: "small", onclick: act, "aria-label": `${label}: ${base(this.path)}` }, label)));
  }
}

/** dropped returns the files of a drop, with those in dropped folders. */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const files = [];
  const walk = async (entry, path) => {
    if (entry.isFile) files.push({ file: await new Promise((done, failed) => entry.file(done, failed)), path });
    else {
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((done, failed) => reader.readEntries(done, failed));
        if (!some.length) break;
        for (const child of some) await walk(child, `${path}/${child.name}`);
      }
    }
  };
  for (const entry of entries) await walk(entry, entry.name);
  return files;
}
