// The mode, the model and the thought level of a session.

import { make, setText, show } from "../dom.js";

const names = { mode: "Mode", model: "Model", thought_level: "Thinking" };
const fields = { mode: "agentMode", model: "model", thought_level: "variant" };

/** Settings has a choice for each option that the agent offers. change(options) sets one. */
export class Settings {
  element = make("span", { className: "settings" });
  #selects = new Map();
  #usage = make("span", { className: "usage dim", hidden: true });
  #shown = "";

  constructor({ change }) {
    for (const [category, label] of Object.entries(names)) {
      const select = make("select", { "aria-label": label, title: label, hidden: true });
      select.addEventListener("change", () => change({ [fields[category]]: select.value }));
      this.#selects.set(category, select);
    }
    this.element.append(...this.#selects.values(), this.#usage);
  }

  /** forget lets the next show set all choices. */
  forget() { this.#shown = ""; }

  /** show shows the options of the session, or those that the agent is known to have. */
  show({ agent, options, info, mode, usage, disabled }) {
    const key = JSON.stringify([options, info.model, info.agentMode, info.variant, mode, agent.id, agent.configOptions?.length, disabled]);
    if (key !== this.#shown) {
      this.#shown = key;
      const known = { mode: mode || info.agentMode, model: info.model, thought_level: info.variant };
      for (const [category, select] of this.#selects) {
        const option = (options ?? agent.configOptions ?? []).find((o) => o.category === category);
        const choices = (option?.options ?? []).flatMap((o) => o.options ?? [o]); // they may be in groups
        show(select, choices.length > 1);
        select.disabled = disabled;
        select.replaceChildren(...choices.map(({ value, name, description }) => make("option", { value, title: description ?? "" }, name)));
        select.value = (options ? option?.currentValue : known[category] || option?.currentValue) ?? "";
      }
    }
    const known = usage?.size && Number.isFinite(usage.size) && Number.isFinite(usage.used);
    show(this.#usage, known);
    if (!known) return;
    setText(this.#usage, `${Math.round((100 * usage.used) / usage.size)} %`);
    this.#usage.title = `${usage.used.toLocaleString()} of ${usage.size.toLocaleString()} tokens of context used`;
  }
}
