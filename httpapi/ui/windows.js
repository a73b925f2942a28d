// The panel of the desktop's windows, from which programs are launched, too.

import { get, post } from "./api.js";
import { $, icon, make, setText, show } from "./dom.js";
import { inOneLine } from "./errors.js";

const period = 2000;

/** Windows fills the panel while it is open. */
export class Windows {
  #panel = $("windows-panel");
  #timer = 0;
  #key = "";

  constructor() {
    this.#panel.addEventListener("toggle", ({ newState }) => {
      clearTimeout(this.#timer);
      if (newState !== "open") return;
      this.#showProblem("");
      this.#refresh();
    });
    $("launch").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#launch();
    });
  }

  async #refresh() {
    clearTimeout(this.#timer);
    try {
      this.#list((await get("/windows")).windows);
    } catch (error) {
      this.#showProblem(error);
    }
    if (this.#panel.matches(":popover-open")) this.#timer = setTimeout(() => this.#refresh(), period);
  }

  #list(windows) {
    const key = JSON.stringify(windows.map((w) => [w.id, w.title, w.isActive, w.isMinimised]));
    if (key === this.#key) return; // the focus stays where it is
    this.#key = key;
    show($("windows-none"), windows.length === 0);
    $("windows").replaceChildren(...windows.map((w) => this.#item(w)));
  }

  #item({ id, title, class: kind, isActive, isMinimised }) {
    const text = title || kind || `Window ${id}`;
    const name = make("button", { type: "button", className: "name", title: text, onclick: () => this.#act(`/windows/${id}/focus`) }, text, ...(isMinimised ? [make("small", {}, "Minimized")] : []));
    if (isActive) name.setAttribute("aria-current", "true");
    const close = make("button", {
      type: "button", className: "plain", "aria-label": `Close ${text}`, title: "Close", onclick: () => this.#act(`/windows/${id}/close`),
    }, icon("close"));
    return make("li", {}, name, close);
  }

  async #act(path, body) {
    this.#showProblem("");
    try {
      await post(path, body);
      return true;
    } catch (error) {
      this.#showProblem(error);
      return false;
    } finally {
      this.#refresh();
    }
  }

  async #launch() {
    const app = $("app").value.trim();
    $("launch-button").setAttribute("aria-busy", "true");
    if (await this.#act("/launch", { app, wait: true })) $("app").value = "";
    $("launch-button").removeAttribute("aria-busy");
  }

  #showProblem(error) {
    setText($("windows-problem"), error && inOneLine(error));
    show($("windows-problem"), Boolean(error));
  }
}
