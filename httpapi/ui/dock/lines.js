// Lines of text that come in quickly: the latest ones, searched, and still while paused.

import { make, setText, show } from "../dom.js";
import { Plain } from "./plain.js";

/** Lines shows the last most lines. count gets how many lines are found, and how many there are. */
export class Lines extends EventTarget {
  most = 3000;
  paused = false;
  root;
  #list = make("div", { className: "lines", role: "log", "aria-label": "Log", "aria-live": "off", tabIndex: 0 });
  #below = make("button", { type: "button", className: "small below", hidden: true });
  #count;
  #texts = new Map(); // by stream: plain text
  #open = new Map(); // by stream: the line that has no end yet
  #new = []; // lines that are not shown yet
  #query = "";
  #found = 0;
  #unseen = 0;
  #frame = 0;
  #atEnd = true; // where the reader was at the last scrolling

  constructor({ count }) {
    super();
    this.#count = count;
    this.root = make("div", { className: "log" }, this.#list, this.#below);
    this.#below.addEventListener("click", () => {
      this.#list.scrollTop = this.#list.scrollHeight;
      this.#list.focus();
    });
    this.#list.addEventListener("scroll", () => {
      this.#atEnd = this.#pinned;
      if (this.#atEnd) this.#see();
    }, { passive: true });
    new ResizeObserver(() => { if (this.#atEnd) this.#list.scrollTop = this.#list.scrollHeight; }).observe(this.#list);
  }

  /** How many lines wait for the end of the pause. */
  get waiting() { return this.#new.length; }

  /** add adds what a stream prints, in any pieces. */
  add(stream, data) {
    if (!this.#texts.has(stream)) this.#texts.set(stream, new Plain());
    const pieces = this.#texts.get(stream).text(data).split("\n");
    pieces.forEach((piece, i) => {
      const open = this.#open.get(stream);
      if (open) this.#extend(open, piece);
      else if (piece || i < pieces.length - 1) this.#open.set(stream, this.#line(piece, stream));
      if (i < pieces.length - 1) this.#open.delete(stream);
    });
    this.#soon();
  }

  /** note adds a line of the page's own. */
  note(text) {
    this.#line(text, "note");
    this.#soon();
  }

  clear() {
    this.#texts.clear();
    this.#open.clear();
    this.#new = [];
    this.#found = 0;
    this.#list.replaceChildren();
    this.#see();
  }

  /** pause keeps the picture still. What comes meanwhile is shown later. */
  pause(paused) {
    this.paused = paused;
    if (!paused) this.#soon();
  }

  /** search shows only the lines that contain a text. */
  search(query) {
    this.#query = query.toLowerCase();
    this.#found = 0;
    for (const element of this.#list.children) this.#match(element);
    this.#tell();
    if (!query) this.#list.scrollTop = this.#list.scrollHeight;
  }

  get #pinned() { return this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < 24; }

  #line(text, stream) {
    const line = { text, stream, element: null };
    this.#new.push(line);
    if (this.#new.length > this.most) this.#new.shift();
    return line;
  }

  #extend(line, text) {
    line.text += text;
    if (line.element && text) {
      if (!line.element.hidden) this.#found--;
      line.element.textContent = line.text;
      this.#match(line.element);
    }
  }

  #match(element) {
    element.hidden = Boolean(this.#query) && !element.textContent.toLowerCase().includes(this.#query);
    if (!element.hidden) this.#found++;
  }

  #soon() { this.#frame ||= requestAnimationFrame(() => this.#flush()); }

  #flush() {
    this.#frame = 0;
    if (this.paused) return this.dispatchEvent(new Event("waiting"));
    const pinned = this.#pinned;
    const elements = this.#new.map((line) => {
      line.element = make("div", { className: line.stream }, line.text);
      this.#match(line.element);
      return line.element;
    });
    this.#new = [];
    this.#list.append(...elements);
    for (let over = this.#list.children.length - this.most; over > 0; over--) {
      if (!this.#list.firstChild.hidden) this.#found--;
      this.#list.firstChild.remove();
    }
    this.#tell();
    if (pinned) {
      this.#list.scrollTop = this.#list.scrollHeight;
      return;
    }
    this.#unseen += elements.filter((e) => !e.hidden).length;
    setText(this.#below, `${this.#unseen} new ↓`);
    show(this.#below, this.#unseen > 0);
  }

  #see() {
    this.#unseen = 0;
    show(this.#below, false);
  }

  #tell() { this.#count(this.#found, this.#list.children.length); }
}
