// The actions of others on the picture: where they click, drag and scroll, and what they type.

import { drawing } from "./actions.js";
import { keyOf } from "./connection.js";

const storage = "actions";
const modes = ["off", "agents", "all"];
const markTime = 1600; // milliseconds
const chipTime = 3000;
const mostMarks = 12;
const mostChips = 4;

/** Overlay shows actions on layer, which covers the picture. */
export class Overlay {
  #layer;
  #chips;
  #view;
  #control;

  constructor({ events, control, view, layer, chips }) {
    this.#layer = layer;
    this.#chips = chips;
    this.#view = view;
    this.#control = control;
    const kept = localStorage.getItem(storage);
    this.mode = modes.includes(kept) ? kept : "agents";
    for (const choice of document.querySelectorAll('[name="actions"]')) {
      choice.checked = choice.value === this.mode;
      choice.addEventListener("change", () => this.#setMode(choice.value));
    }
    events.addEventListener("action", ({ detail }) => this.#acted(detail.action));
  }

  #setMode(mode) {
    this.mode = mode;
    localStorage.setItem(storage, mode);
    this.#layer.replaceChildren();
    this.#chips.replaceChildren();
  }

  #acted(action) {
    const { actor } = action;
    if (this.mode === "off" || (actor.kind === "viewer" && this.mode !== "all") || this.#own(actor)) return;
    const { marks, chips } = drawing(action, this.#view.size);
    for (const mark of marks) this.#add(this.#layer, mark, mostMarks, markTime);
    for (const chip of chips) this.#add(this.#chips, chip, mostChips, chipTime);
  }

  // What this viewer does needs no mark.
  #own(actor) { return [keyOf(actor), actor.name].includes(this.#control.link?.me); }

  #add(list, element, most, time) {
    list.append(element);
    while (list.children.length > most) list.firstElementChild.remove();
    setTimeout(() => element.remove(), time);
  }
}
