// The clipboards of this computer and of the desktop.
//
// Text is sent to the desktop when the viewer pastes it or sends the box, and on request also
// whenever this page gets the focus. Text that is copied on the desktop is put on this
// computer's clipboard if the browser allows it, otherwise after a click.

import { get } from "./api.js";

const most = 1 << 20; // bytes, the server's limit
const storage = "clipboard";
const storageHere = "clipboard-here";

/** Clipboard synchronizes both. Events: copied (new text of the desktop), change, trouble. */
export class Clipboard extends EventTarget {
  #control;
  #known = null; // the text of both
  /** Whether text of the desktop is put on this computer's clipboard by itself. */
  here = localStorage.getItem(storageHere) !== "off";
  /** The latest text of the desktop's clipboard. */
  remote = "";

  constructor({ control }) {
    super();
    this.#control = control;
    this.sync = localStorage.getItem(storage) === "sync" && this.canRead;
    addEventListener("focus", () => { this.#toHere(); this.#toThere(); });
    control.addEventListener("change", () => { if (control.mine) this.#toThere(); });
  }

  /** Whether the browser has a clipboard API: it does on pages from https or localhost. */
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
    if (!this.here || !text || text === this.#known) return;
    if (!document.hasFocus()) return; // tried again on focus
    if (await this.write(text)) return;
    this.dispatchEvent(new Event("copied"));
  }

  /**
   * write puts a text on this computer's clipboard and returns whether that succeeded.
   * Within a click handler browsers allow more.
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

  /** send puts a text on the desktop's clipboard and returns whether the viewer may. */
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

  /** setHere turns on or off that text of the desktop is put on this computer's clipboard by itself. */
  setHere(on) {
    this.here = on;
    localStorage.setItem(storageHere, on ? "" : "off");
    this.#toHere();
  }

  /** setSync turns on or off that this computer's clipboard is read when the page gets the focus. */
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

  /** look requests the desktop's text. The server sends it only to clients that may act. */
  async look() {
    const { text } = await get("/clipboard");
    this.remote = text;
    return text;
  }
}

/** writeOldWay copies a text after a click. It needs no permission and works on plain http, but takes the focus. */
export function writeOldWay(text) {
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
