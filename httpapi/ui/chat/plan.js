// The agent's plan, above the transcript.

import { icon, make, setText } from "../dom.js";

const looks = { completed: ["check", "Done"], in_progress: ["busy", "In progress"], pending: ["dot", "To do"] };

/** Plan shows the steps of a plan. */
export class Plan {
  element;
  #summary = make("span", {});
  #list = make("ul", {});
  #shown = "";

  constructor() {
    this.element = make("details", { className: "plan", hidden: true }, make("summary", {}, icon("plan"), make("b", {}, "Plan"), this.#summary), this.#list);
  }

  /** show shows the entries, or nothing for null. */
  show(entries) {
    const key = JSON.stringify(entries);
    if (key === this.#shown) return;
    this.#shown = key;
    this.element.hidden = !entries;
    if (!entries) return;
    const done = entries.filter(({ status }) => status === "completed").length;
    const now = entries.find(({ status }) => status === "in_progress");
    setText(this.#summary, `${done} of ${entries.length} done${now ? ` · ${now.content}` : ""}`);
    this.#list.replaceChildren(...entries.map(({ content, status }) => {
      const [symbol, word] = looks[status] ?? looks.pending;
      return make("li", { className: status }, icon(symbol), make("span", { className: "hidden" }, `${word}: `), make("span", {}, content));
    }));
  }
}
