// What an empty desktop offers: a terminal, a browser, and an address to open in it.

import { get, post } from "./api.js";
import { $, icon, make, once, setText, show } from "./dom.js";
import { inOneLine } from "./errors.js";

const terminals = ["x-terminal-emulator", "xterm"];

/** Empty shows the offer while the desktop is live, has no window, and this viewer does not use it. events says when windows come and go. */
export class Empty {
  #session;
  #control;
  #gone = ""; // the start of the desktop for which the person closed the offer
  #element;
  #problem = make("p", { className: "problem", role: "alert", hidden: true });
  #address = make("input", { type: "text", inputMode: "url", placeholder: "example.com", "aria-label": "Address", autocomplete: "off", autocapitalize: "off", spellcheck: false, required: true });

  constructor({ session, control, events }) {
    [this.#session, this.#control] = [session, control];
    const button = (label, name, act) => {
      const element = make("button", { type: "button" }, icon(name), label);
      once(element, () => this.#try(act));
      return element;
    };
    const open = make("button", {}, "Open");
    const form = make("form", { className: "row" }, this.#address, open);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.#address.value.trim();
      this.#try(() => post("/browser/start", { url: /^[a-z][a-z\d+.-]*:/i.test(text) ? text : `https://${text}` }));
    });
    const close = make("button", { type: "button", className: "plain close", "aria-label": "Close", title: "Close", onclick: () => { this.#gone = session.status?.startedAt ?? ""; show(this.#element, false); } }, icon("close"));
    this.#element = make("section", { id: "empty", "aria-label": "Empty desktop", hidden: true }, close, make("h2", {}, "This desktop is empty"),
      make("p", { className: "dim" }, "Open something, or let an agent do it."),
      make("div", { className: "row" }, button("Terminal", "terminal", startTerminal), button("Browser", "globe", () => post("/browser/start"))), form, this.#problem);
    $("stage").after(this.#element);
    session.addEventListener("state", () => this.#look());
    control.addEventListener("change", () => this.#look());
    for (const type of ["open", "window_opened", "window_closed"]) events.addEventListener(type, () => this.#look());
    this.#look();
  }

  async #look() {
    const { status } = this.#session;
    const wanted = () => this.#session.state.name === "live" && !this.#control.mine && status?.startedAt !== this.#gone;
    if (!wanted()) return show(this.#element, false);
    const { windows } = await get("/windows").catch(() => ({ windows: null }));
    const empty = windows?.length === 0 && wanted();
    if (!empty) this.#fail(null);
    show(this.#element, empty);
  }

  async #try(act) {
    this.#fail(null);
    try {
      await act();
      await this.#look();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error) {
    setText(this.#problem, error ? inOneLine(error) : "");
    show(this.#problem, Boolean(error));
  }
}

// The first terminal that is installed on the server.
async function startTerminal() {
  for (const [i, app] of terminals.entries()) {
    try {
      return await post("/launch", { app, wait: true });
    } catch (error) {
      if (error.status !== 404 || i === terminals.length - 1) throw error;
    }
  }
}
