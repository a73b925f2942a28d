// Cards for the questions of an agent: permissions, and plans that need approval.

import { icon, make } from "../dom.js";
import { inOneLine } from "../errors.js";
import { MarkdownText } from "./markdown.js";
import { commandOf, difference } from "./tools.js";
import { argument, joined, verbatim } from "./verbatim.js";

const settling = 500; // milliseconds in which a card that has moved takes no clicks

// A card that appears or moves under the pointer gets no click that was meant for another.
function hold(element) {
  element.classList.add("moved");
  clearTimeout(held.get(element));
  held.set(element, setTimeout(() => element.classList.remove("moved"), settling));
}

const held = new WeakMap(); // by element: the timer that lets it take clicks again

/**
 * Permissions shows a card for each open question in box. answer(asked, option) answers it.
 * No button is the default: neither Enter nor Space answers before a button has the focus.
 */
export class Permissions {
  #box;
  #alarm;
  #answer;
  #folder;
  #cards = new Map();

  constructor({ box, alarm, answer, folder }) {
    [this.#box, this.#alarm, this.#answer, this.#folder] = [box, alarm, answer, folder];
  }

  /** show shows the questions that are open. */
  show(asked, name) {
    for (const [id, card] of this.#cards) {
      if (asked.has(id)) continue;
      const had = card.contains(document.activeElement);
      card.remove();
      hold(this.#box);
      this.#cards.delete(id);
      if (had) this.#box.dispatchEvent(new Event("answered"));
    }
    for (const [id, question] of asked) {
      if (this.#cards.has(id)) continue;
      const card = this.#card(question, name);
      this.#cards.set(id, card);
      this.#box.append(card);
      hold(card);
      this.#alarm.textContent = `${name} asks: ${question.title.replaceAll("`", "")}`;
    }
    this.#box.hidden = this.#cards.size === 0;
    if (this.#box.hidden) this.#alarm.textContent = "";
  }

  /** focus moves the focus to the first card. */
  focus() { this.#box.firstElementChild?.focus(); }

  #card(asked, name) {
    const { question } = asked;
    const form = asked.questions && new Form(asked.questions);
    const options = form ? [{ name: "Answer" }, { name: "Skip", kind: "reject", skip: true }] : asked.options;
    const card = make("section", { className: "permission", tabIndex: 0, "aria-label": question ? `Question from ${name}` : `Permission request from ${name}` });
    card.append(make("h3", {}, icon(question ? "plan" : "shield"), question ? `${name} asks` : `${name} needs permission`));
    try {
      this.#describe(asked, card, form);
    } catch { // a value of the agent has a shape that the card does not expect
      const { title, input, diffs } = asked;
      card.append(make("p", {}, "This request can't be shown in full:"), make("pre", { className: "verbatim", tabIndex: 0 }, argument({ title, input, diffs })));
    }
    const problem = make("p", { className: "problem", role: "alert", hidden: true });
    const buttons = options.map((option, i) => {
      const number = i < 9 ? make("kbd", { "aria-hidden": "true" }, String(i + 1)) : "";
      return make("button", { type: "button", className: /reject/.test(joined(option.kind)) ? "reject" : "", onclick: (event) => choose(option, event) }, number, argument(option.name));
    });
    const choose = async (option, event) => {
      if (event.detail === 0) card.focus(); // by a key: a button that is disabled loses the focus
      for (const button of buttons) button.disabled = true;
      problem.hidden = true;
      try {
        await this.#answer(asked, form ? { skip: option.skip, answers: form.answers() } : option);
      } catch (error) {
        for (const button of buttons) button.disabled = false;
        problem.textContent = error.status === 404 ? "This question was already answered." : inOneLine(error);
        problem.hidden = false;
      }
    };
    card.append(make("div", { className: "options", role: "group", "aria-label": "Answers" }, ...buttons), problem);
    card.addEventListener("keydown", (event) => {
      const button = buttons[Number(event.key) - 1];
      if (!button || button.disabled || event.target.matches("input") || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      button.click();
    });
    return card;
  }

  // What is asked, above the options.
  #describe({ what, input, text, diffs, title: words }, card, form) {
    const title = verbatim(words.replace(/^`(.*)`$/s, "$1"));
    const command = verbatim(commandOf(input));
    if (command) card.append(make("pre", { className: "verbatim", tabIndex: 0 }, command));
    else card.append(make("p", { className: "verbatim" }, title));
    if (command && title !== command) card.append(make("p", { className: "dim" }, title));
    if (form) card.append(form.element);
    else if (text) {
      const body = new MarkdownText();
      body.set(text, true);
      card.append(make("div", { className: "plan-text", tabIndex: 0 }, body.element));
    }
    for (const change of diffs) card.append(difference(change, verbatim));
    const shown = ([key, value]) => (key === "plan" && text) || (["command", "cmd"].includes(key) && verbatim(commandOf({ command: value })) === command);
    const all = typeof input === "object" ? Object.entries(input) : [["input", input]];
    const rest = all.filter((entry) => !shown(entry));
    if (rest.length) card.append(make("dl", {}, ...rest.flatMap(([key, value]) => [make("dt", {}, verbatim(key)), make("dd", {}, argument(value))])));
    const folder = input.cwd ?? input.workdir ?? this.#folder();
    if (folder && (what === "execute" || command)) card.append(make("p", { className: "dim folder" }, "in ", make("code", {}, argument(folder))));
  }
}

// Form has the questions of an agent that are not about permission.
class Form {
  #fields;

  constructor(questions) {
    this.#fields = questions.map(({ question, header, options = [], multiple, custom }, i) => {
      const name = `form-${i}-${Math.random()}`;
      const choices = options.map(({ value }) => make("input", { type: multiple ? "checkbox" : "radio", name, value }));
      const own = custom || !options.length ? make("input", { type: "text", "aria-label": options.length ? "Other" : question || header }) : null;
      const element = make("fieldset", {}, make("legend", {}, question || header || ""),
        ...options.map(({ label, description }, j) => make("label", {}, choices[j], " ", label, description ? make("small", { className: "dim" }, ` ${description}`) : "")),
        ...(own ? [make("label", {}, options.length ? "Other " : "", own)] : []));
      return { choices, own, element };
    });
    this.element = make("div", { className: "form" }, ...this.#fields.map(({ element }) => element));
  }

  /** answers returns the list of the answers to each question. */
  answers() {
    return this.#fields.map(({ choices, own }) => [...choices.filter((c) => c.checked).map((c) => c.value), ...(own?.value.trim() ? [own.value.trim()] : [])]);
  }
}
