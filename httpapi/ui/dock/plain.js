// A terminal's screen without xterm.js: plain text, and a line to type in. And plain text
// of what programs print.

import { make } from "../dom.js";

const most = 200_000; // characters

// Sequences that control terminals: CSI, OSC and other strings, and the rest.
const control = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;
const cut = /\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?$|\r+$/;

/** Plain turns output into plain text, piece by piece. */
export class Plain {
  #decoder = new TextDecoder();
  #rest = "";

  /** text returns the text of a piece. The end of the piece may come with the next one. */
  text(data) {
    const text = this.#rest + this.#decoder.decode(data, { stream: true });
    const end = cut.exec(text)?.index ?? text.length;
    this.#rest = text.length - end < 4096 ? text.slice(end) : "";
    // What is written over a line follows it.
    return text.slice(0, end).replace(control, "").replace(/\r+\n/g, "\n").replace(/(^|\n)\r+/g, "$1").replace(/\r+/g, "\n");
  }
}

/** PlainScreen has the methods of XtermScreen. */
export class PlainScreen {
  #plain = new Plain();
  #text = make("pre", { tabIndex: 0, "aria-label": "Output" });
  #input = make("input", { "aria-label": "Input", placeholder: "Type a line, and press Enter", autocomplete: "off", autocapitalize: "off", spellcheck: false });

  constructor({ root, send }) {
    const form = make("form", { className: "row" }, this.#input, make("button", {}, "Send"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send(`${this.#input.value}\n`);
      this.#input.value = "";
    });
    root.classList.add("plain-terminal");
    root.append(make("p", { className: "dim" }, "This server was built without its terminal component, so output is plain text. make build includes it."), this.#text, form);
  }

  get size() { return {}; }

  write(data) {
    const pinned = this.#text.scrollHeight - this.#text.scrollTop - this.#text.clientHeight < 4;
    this.#text.textContent = (this.#text.textContent + this.#plain.text(data)).slice(-most);
    if (pinned) this.#text.scrollTop = this.#text.scrollHeight;
  }

  find() { return false; } // the browser's own search finds it
  paste(text) { this.#input.value += text; }
  reset() { this.#text.textContent = ""; }
  focus() { this.#input.focus(); }
  fit() {}
  destroy() {}
}
