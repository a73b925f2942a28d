// The card above a timeline: the picture of a moment, and what happened.

import { make, setText, show } from "../dom.js";

/** Hover is the card. Its root is in the top layer while it is shown. */
export class Hover {
  #picture = make("img", { alt: "", hidden: true });
  #when = make("span", { className: "when" });
  #text = make("span");
  #acts = make("div", { className: "row", hidden: true });

  constructor() {
    this.root = make("div", { className: "moment-card", popover: "manual" }, this.#picture, make("p", {}, this.#when, " ", this.#text), this.#acts);
    this.#picture.addEventListener("error", () => show(this.#picture, false));
    this.#picture.addEventListener("load", () => { show(this.#picture, true); this.#place(); });
  }

  #at = { x: 0, y: 0 };

  get shown() { return this.root.matches(":popover-open"); }

  /** show shows a moment above a point of the page. picture is a URL or "", acts are buttons. */
  show({ x, y, picture = "", when, text, acts = [] }) {
    this.#at = { x, y };
    if (picture !== this.#picture.getAttribute("src")) {
      if (picture) this.#picture.src = picture;
      else { this.#picture.removeAttribute("src"); show(this.#picture, false); }
    }
    setText(this.#when, when);
    setText(this.#text, text);
    this.#acts.replaceChildren(...acts);
    show(this.#acts, acts.length > 0);
    this.root.showPopover();
    this.#place();
  }

  hide() {
    if (this.shown) this.root.hidePopover();
  }

  #place() {
    const { offsetWidth } = this.root;
    this.root.style.left = `${Math.max(8, Math.min(innerWidth - offsetWidth - 8, this.#at.x - offsetWidth / 2))}px`;
    this.root.style.bottom = `${innerHeight - this.#at.y + 8}px`;
  }
}
