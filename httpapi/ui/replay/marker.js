// The form that adds a marker to a recording.

import { post } from "../api.js";
import { announce, make, show } from "../dom.js";
import { clock } from "../format.js";

/** MarkerForm is a button, and the form that it opens. It emits added with the entry, and failed with an error. */
export class MarkerForm extends EventTarget {
  button = make("button", { type: "button", className: "small", title: "Add a marker here (M)", onclick: () => this.open() }, "Add marker");
  #title = make("input", { "aria-label": "Title of the marker", placeholder: "Title of the marker", maxLength: 200, required: true, autocomplete: "off" });
  #add = make("button", { className: "small primary" }, "Add");
  form = make("form", { className: "marking", hidden: true }, this.#title, this.#add, make("button", { type: "button", className: "small", onclick: () => this.close() }, "Cancel"));
  #where;
  #place = null;

  /** where returns { id, at } of the moment that is shown, or null. */
  constructor(where) {
    super();
    this.#where = where;
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.#submit(); });
    this.form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.preventDefault(); this.close(); }
    });
  }

  /** allow shows or hides the button. */
  allow(may) { show(this.button, may && this.form.hidden); }

  open() {
    this.#place = this.button.hidden ? null : this.#where();
    if (!this.#place) return;
    this.#title.value = "";
    show(this.button, false);
    show(this.form, true);
    this.#title.focus();
  }

  close() {
    if (this.form.hidden) return;
    const had = this.form.contains(document.activeElement);
    show(this.form, false);
    show(this.button, true);
    if (had) this.button.focus();
  }

  async #submit() {
    if (this.#add.disabled) return;
    this.#add.disabled = true;
    const { id, at } = this.#place;
    try {
      const entry = await post(`/recordings/${id}/markers`, { title: this.#title.value, at });
      this.close();
      announce(`Marker added at ${clock(entry.at)}`);
      this.dispatchEvent(new CustomEvent("added", { detail: { id, entry } }));
    } catch (error) {
      this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    } finally {
      this.#add.disabled = false;
    }
  }
}
