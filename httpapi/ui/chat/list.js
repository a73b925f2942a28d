// The list of sessions.

import { icon, make, setText, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { ago, order, states, titleOf } from "./words.js";

const searchFrom = 8; // sessions

/** List shows the sessions in root. open(id) opens one, and begin() starts a new one. */
export class List {
  root;
  #sessions;
  #open;
  #rows = new Map();
  #list = make("ul", { className: "sessions", "aria-label": "Sessions" });
  #search = make("input", { type: "search", placeholder: "Search sessions", "aria-label": "Search sessions", hidden: true });
  #empty;
  #problem = make("p", { className: "problem", role: "alert", hidden: true });
  #none = make("p", { className: "dim none", hidden: true });
  #archived = false; // the archive is shown
  #archive = make("button", { type: "button", className: "small plain link archive", hidden: true });

  constructor({ sessions, open, begin }) {
    [this.#sessions, this.#open] = [sessions, open];
    this.#empty = make("div", { className: "empty", hidden: true }, icon("agent"), make("h3", {}, "No sessions yet"),
      make("p", { className: "dim" }, "Start an agent, and watch and steer it here. Sessions that programs start appear here as well."),
      make("button", { type: "button", className: "primary", onclick: begin }, "New session"));
    this.root = make("div", { className: "view list-view" },
      make("header", {}, make("h2", {}, "Sessions"), make("button", { type: "button", className: "small new", onclick: begin }, icon("plus"), "New")),
      this.#problem, this.#search, this.#none, this.#empty, this.#list, this.#archive);
    this.#archive.addEventListener("click", () => { this.#archived = !this.#archived; this.draw(); });
    this.#search.addEventListener("input", () => this.draw());
    this.#list.addEventListener("keydown", (event) => this.#key(event));
    sessions.addEventListener("change", () => this.draw());
    setInterval(() => this.draw(), 30_000); // the times
  }

  /** draw shows the list as it is. */
  draw() {
    const { list, problem } = this.#sessions;
    setText(this.#problem, problem ? inOneLine(problem) : "");
    show(this.#problem, Boolean(problem));
    show(this.#empty, list?.length === 0 && !problem);
    show(this.#search, (list?.length ?? 0) >= searchFrom);
    const words = this.#search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (s) => words.every((word) => `${titleOf(s)} ${s.agent} ${s.directory ?? ""}`.toLowerCase().includes(word));
    // An archived session that works, or waits, is shown all the same.
    const rests = (s) => Boolean(s.archived) && !["waiting", "running"].includes(s.state);
    const shown = (list ?? []).filter((s) => matches(s) && rests(s) === this.#archived).sort(order);
    const count = (list ?? []).filter(rests).length;
    show(this.#archive, count > 0 || this.#archived);
    setText(this.#archive, this.#archived ? "Back to the sessions" : `Archived sessions (${count})`);
    setText(this.#none, words.length ? "No session matches" : this.#archived ? "The archive is empty" : "All sessions are archived");
    show(this.#none, Boolean(list?.length) && shown.length === 0);
    for (const [id, row] of this.#rows) {
      if (shown.some(({ sessionId }) => sessionId === id)) continue;
      row.remove();
      this.#rows.delete(id);
    }
    shown.forEach((session, i) => {
      const row = this.#row(session);
      if (this.#list.children[i] !== row) this.#list.insertBefore(row, this.#list.children[i] ?? null);
    });
  }

  /** focus moves the focus to the session with that id, or to the first. */
  focus(id) {
    (this.#rows.get(id) ?? this.#list.firstElementChild)?.firstElementChild.focus();
  }

  #row(session) {
    const { sessionId: id, state, agent, directory, updatedAt } = session;
    let row = this.#rows.get(id);
    if (!row) {
      const button = make("button", { type: "button", onclick: () => this.#open(id) }, make("span", { className: "title" }), make("span", { className: "state" }),
        make("span", { className: "about" }), make("time"));
      row = make("li", {}, button);
      this.#rows.set(id, row);
    }
    const [title, badge, about, time] = row.firstElementChild.children;
    const name = this.#sessions.agent(agent).name;
    setText(title, titleOf({ ...session, agentName: name }));
    setText(about, [name, directory?.split("/").filter(Boolean).pop()].filter(Boolean).join(" · "));
    about.title = directory ?? "";
    setText(time, ago(updatedAt));
    time.dateTime = new Date(updatedAt).toISOString();
    if (row.dataset.state !== state) {
      row.dataset.state = state;
      badge.replaceWith(badgeOf(state));
    }
    return row;
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const at = [...this.#list.children].indexOf(event.target.closest("li"));
    const next = step && this.#list.children[at + step];
    if (!next) return;
    event.preventDefault();
    next.firstElementChild.focus();
  }
}

/** badgeOf returns the icon and the word of a state. */
export function badgeOf(state) {
  const { icon: symbol, word, look } = states[state] ?? states.idle;
  return make("span", { className: `state ${look}` }, icon(symbol), word);
}
