// The request of an agent over the picture, on a phone.

import { icon, make, show } from "../dom.js";
import { Permissions } from "./permission.js";
import { answer, describe } from "./sessions.js";
import { diffsOf, list } from "./transcript.js";
import { joined } from "./verbatim.js";

/** Sheet shows permission requests one by one. open(id) opens the session of one. */
export class Sheet {
  element;
  #cards;
  #later = new Set(); // ids of requests that the person has put off
  #shown = null;

  constructor({ open }) {
    const box = make("div", { className: "questions" });
    const alarm = make("p", { className: "hidden", role: "alert" });
    this.#cards = new Permissions({ box, alarm, answer: (asked, option) => answer(asked.session, asked, option), folder: () => this.#shown.folder });
    const session = make("button", { type: "button", className: "plain link", onclick: () => open(this.#shown.session) }, "Open session");
    const later = make("button", { type: "button", className: "plain", "aria-label": "Answer later", title: "Answer later", onclick: () => { this.#later.add(this.#shown.id); this.show(this.#all); } }, icon("close"));
    this.element = make("section", { className: "chat sheet", "aria-label": "Permission request", hidden: true }, make("div", { className: "grip" }, session, later), box, alarm);
  }

  #all = [];

  /** show shows the first of the requests that was not put off. */
  async show(requests) {
    this.#all = requests;
    const next = requests.find(({ id }) => !this.#later.has(id));
    if (next && next.id === this.#shown?.id) return;
    this.#shown = next ? askedOf(next) : null;
    const shown = this.#shown;
    show(this.element, Boolean(shown));
    this.#cards.show(new Map(), "");
    if (!shown) return;
    const { agent, directory } = await describe(shown.session).catch(() => ({})); // it can be answered without them
    if (shown !== this.#shown) return;
    shown.folder = directory ?? "";
    this.#cards.show(new Map([[shown.id, shown]]), agent || "An agent");
  }
}

// A request as cards have it. One that the sheet cannot show in full gets no answers here.
function askedOf({ id, sessionId: session, toolCall, options, truncated, message, questions }) {
  const call = toolCall ?? {};
  const asked = { id, session, title: joined(message ?? call.title ?? ""), what: call.kind ?? "", folder: "" };
  if (truncated) return { ...asked, text: "Too large to show here. Open the session to answer.", input: {}, diffs: [], options: [] };
  if (questions) return { ...asked, question: true, text: "Open the session to answer.", input: {}, diffs: [], options: [] };
  const text = list(call.content).map(({ content }) => content?.text).filter((part) => part && typeof part === "string").join("\n\n");
  return { ...asked, text, input: call.rawInput ?? {}, diffs: diffsOf(call), options: list(options) };
}
