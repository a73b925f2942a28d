// The clipboards of this computer and of the desktop.
//
// From here to there text goes when it is pasted, or by the box; on request also
// whenever this page gets the focus. From there to here it goes as it is copied,
// if the browser lets it; otherwise a click does it.

import { get } from "./api.js";

const most = 1 << 20; // bytes, as the server's bound
const storage = "clipboard";

/** Clipboard keeps both in step. Events: copied (text came that is not here yet), change, trouble. */
export class Clipboard extends EventTarget {
  #control;
  #known = null; // the text that both have
  /** The latest text of the desktop's. */
  remote = "";

  constructor({ control }) {
    super();
    this.#control = control;
    this.sync = localStorage.getItem(storage) === "sync" && this.canRead;
    addEventListener("focus", () => { this.#toHere(); this.#toThere(); });
    control.addEventListener("change", () => { if (control.mine) this.#toThere(); });
  }

  /** Browsers have a clipboard for pages that came over https, or from this machine. */
  get canWrite() { return navigator.clipboard?.writeText !== undefined; }
  get canRead() { return navigator.clipboard?.readText !== undefined; }

  follow(link) {
    link?.addEventListener("clipboard", ({ detail }) => {
      this.remote = detail;
      this.dispatchEvent(new Event("change"));
      this.#toHere();
    });
  }

  async #toHere() {
    const text = this.remote;
    if (!text || text === this.#known) return;
    if (!document.hasFocus()) return; // it is tried again when it gets it
    if (await this.write(text)) return;
    this.dispatchEvent(new Event("copied"));
  }

  /**
   * write puts a text on this computer's clipboard, and says whether it could.
   * More is possible within a click.
   */
  async write(text, clicked = false) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      if (!clicked || !writeOldWay(text)) return false;
    }
    this.#known = text;
    return true;
  }

  /** send puts a text on the desktop's clipboard, and says whether it may. */
  send(text) {
    const bytes = new Blob([text]).size;
    if (bytes > most) {
      const size = `${(bytes / most).toFixed(1)} MiB`;
      this.dispatchEvent(new CustomEvent("trouble", { detail: `The text is ${size}. The clipboard holds at most 1 MiB.` }));
      return false;
    }
    const sent = this.#control.act((link) => link.setClipboard(text));
    if (sent) this.#known = this.remote = text;
    return sent;
  }

  /** setSync has this computer's clipboard read whenever the page gets the focus. */
  async setSync(on) {
    this.sync = on && this.canRead;
    if (this.sync) await this.#toThere(true);
    localStorage.setItem(storage, this.sync ? "sync" : "");
    this.dispatchEvent(new Event("change"));
  }

  async #toThere(asked = false) {
    if (!this.sync || !(asked || (document.hasFocus() && this.#control.mine))) return;
    let text;
    try {
      text = await navigator.clipboard.readText();
    } catch {
      this.sync = false;
      const detail = "Your browser blocks clipboard access. Allow it in the site settings, next to the address bar.";
      this.dispatchEvent(new CustomEvent("trouble", { detail }));
      this.dispatchEvent(new Event("change"));
      return;
    }
    if (text && text !== this.#known && this.#control.mine) this.send(text);
  }

  /** look asks for the desktop's text; the server sends it only to clients that may act. */
  async look() {
    const { text } = await get("/clipboard");
    this.remote = text;
    return text;
  }
}

// This works without the permission, and on plain http, but takes the focus.
function writeOldWay(text) {
  const focus = document.activeElement;
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "hidden";
  (focus?.closest?.("[popover]") ?? document.body).append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  focus?.focus?.({ preventScroll: true });
  return done;
}
