// The preview of a file: its text, or its picture.

import { request, serverURL } from "../api.js";
import { icon, make, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { bytes } from "../format.js";
import { pathQuery } from "./paths.js";

const pictures = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", avif: "image/avif", bmp: "image/bmp", ico: "image/x-icon", svg: "image/svg+xml" };
const mostPicture = 20e6; // bytes
const mostText = 256 << 10;

/** Preview shows a file. closed is called when the user closes it. */
export class Preview {
  root = make("section", { className: "preview-pane", "aria-label": "Preview", hidden: true });
  #closed;
  #url = "";
  #path = "";

  constructor({ closed }) {
    this.#closed = closed;
  }

  get path() { return this.#path; }

  async show(entry) {
    this.#path = entry.path;
    const content = make("div", { className: "content" }, make("p", { className: "empty" }, "Loading…"));
    const close = make("button", { type: "button", className: "plain", "aria-label": "Close the preview", title: "Close the preview", onclick: () => { this.hide(); this.#closed(); } }, icon("close"));
    this.root.replaceChildren(make("header", {}, make("h3", { title: entry.path }, entry.name), make("span", { className: "dim" }, bytes(entry.size)), close), content);
    show(this.root, true);
    let shown;
    try {
      shown = await this.#content(entry);
    } catch (error) {
      shown = make("p", { className: "problem" }, inOneLine(error));
    }
    if (this.#path === entry.path) content.replaceChildren(shown);
  }

  hide() {
    this.#path = "";
    URL.revokeObjectURL(this.#url);
    show(this.root, false);
    this.root.replaceChildren();
  }

  async #content(entry) {
    const none = (text) => make("p", { className: "empty" }, text);
    if (!entry.size) return none("The file is empty");
    const type = pictures[entry.name.split(".").pop().toLowerCase()];
    const url = serverURL(`fs/file?${pathQuery(entry)}`);
    if (type && entry.size <= mostPicture) {
      const data = await (await request("GET", url)).arrayBuffer();
      URL.revokeObjectURL(this.#url);
      this.#url = URL.createObjectURL(new Blob([data], { type }));
      return make("img", { src: this.#url, alt: entry.name });
    }
    const data = new Uint8Array(await (await request("GET", url, { headers: { Range: `bytes=0-${mostText - 1}` } })).arrayBuffer());
    if (data.subarray(0, 8192).includes(0)) return none("No preview: the file isn't text");
    const text = new TextDecoder().decode(data);
    const box = make("div", {}, make("pre", { tabIndex: 0 }, text));
    if (entry.size > mostText) box.append(make("p", { className: "dim" }, `The first ${bytes(mostText)} of ${bytes(entry.size)}`));
    return box;
  }
}
