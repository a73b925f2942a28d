// The keys of the page. They work while the keyboard does not belong to the desktop, to a
// terminal or to a text.

import { $, announce } from "../dom.js";
import { commandsOf, pressable } from "./commands.js";
import { Help, Palette } from "./palette.js";
import { styled } from "./styled.js";

const storage = "shortcuts";
const pause = 1500; // milliseconds between G and the next key

// Keys that act on the desktop do so only while it can be seen.
const ofDesktop = ["T", "R"];

/** Shortcuts follows the keyboard of the page. */
export class Shortcuts {
  #context;
  #palette;
  #help;
  #enabled = localStorage.getItem(storage) !== "off";
  #began = -Infinity; // when G was pressed

  constructor(context) {
    this.#context = { ...context, openHelp: () => this.#help.open() };
    this.#palette = new Palette(this.#context);
    this.#help = new Help({ enabled: () => this.#enabled, setEnabled: (on) => this.#set(on) });
    document.addEventListener("keydown", (event) => this.#key(event));
    for (const [id, open] of [["commands-open", () => this.#palette.open()], ["shortcuts-open", () => this.#help.open()]]) {
      $(id).hidden = false;
      $(id).addEventListener("click", () => {
        $("more-panel").hidePopover();
        open();
      });
    }
  }

  #set(on) {
    this.#enabled = on;
    localStorage.setItem(storage, on ? "" : "off");
  }

  #key(event) {
    if (event.defaultPrevented || event.isComposing || event.target.closest?.(".xterm")) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) return this.#withControl(event);
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !this.#enabled) return;
    if (writes(event.target) || document.querySelector("dialog[open]")) return;
    this.#single(event);
  }

  #withControl(event) {
    if (event.key.toLowerCase() === "k") {
      if (this.#palette.isOpen) this.#palette.close();
      else if (!document.querySelector("dialog[open]")) this.#palette.open();
      else return;
    } else if (event.key === "." && pressable(document.querySelector(".composer .stop"))) {
      document.querySelector(".composer .stop").click();
    } else return;
    event.preventDefault();
  }

  #single(event) {
    const second = performance.now() - this.#began < pause;
    this.#began = -Infinity;
    const key = event.key === "?" ? "?" : event.key.toUpperCase();
    if (key === "G" && !second) {
      this.#began = performance.now();
      announce("Go to");
      return event.preventDefault();
    }
    const wanted = second ? `G ${key}` : key;
    if (ofDesktop.includes(wanted) && document.body.dataset.covered === "true") return;
    const command = commandsOf(this.#context).find(({ keys }) => keys === wanted);
    if (!command) return;
    event.preventDefault();
    document.querySelector("[popover]:popover-open")?.hidePopover();
    command.run();
  }
}

const writes = (element) => Boolean(element.closest?.("textarea, select, input:not([type=checkbox], [type=radio], [type=range]), [contenteditable]"));

/** followKeys adds the keys of the page. */
export async function followKeys(context) {
  await styled("./palette.js");
  return new Shortcuts(context);
}
