// One session: its transcript, the questions of the agent, and the composer.

import { ask, askText } from "../ask.js";
import { announce, icon, make, once, setText, show, toast } from "../dom.js";
import { inOneLine } from "../errors.js";
import { Composer } from "./composer.js";
import { badgeOf } from "./list.js";
import { Permissions } from "./permission.js";
import { Plan } from "./plan.js";
import { Rows } from "./rows.js";
import { Scroller } from "./scroller.js";
import * as api from "./sessions.js";
import { Settings } from "./settings.js";
import { tick } from "./tools.js";
import { Transcript } from "./transcript.js";
import { titleOf } from "./words.js";

const page = 1000; // events
const most = 2000; // events in one frame
const hiddenTime = 500; // milliseconds between looks while the page is hidden

/** Conversation shows the session id in its root. stream has the events of the server. */
export class Conversation {
  root;
  transcript = new Transcript();
  #id;
  #sessions;
  #stream;
  #queue = [];
  #frame = 0;
  #older = null; // a promise, while older events are on their way
  #reading = 0; // requests for events that the stream continues
  #ended = false;
  #missed = 0; // rows below what is visible
  #said = "";
  #title = make("h2", {});
  #about = make("p", { className: "dim about" });
  #badge = make("span");
  #scroller;
  #plan = new Plan();
  #permissions;
  #composer;
  #settings;
  #pill = make("button", { type: "button", className: "pill", hidden: true });
  #problem = make("div", { className: "problem load", role: "alert", hidden: true });
  #wait = make("p", { className: "busy wait" }, "Loading…");
  #none = make("p", { className: "dim first", hidden: true });
  #working = make("p", { className: "working", hidden: true }, icon("busy"), make("span", {}, "Working…"));

  constructor({ id, sessions, stream, back, show: enlarge }) {
    [this.#id, this.#sessions, this.#stream] = [id, sessions, stream];
    const list = make("div", { className: "rows", role: "list", "aria-label": "Conversation" });
    const box = make("div", { className: "transcript", tabIndex: 0, role: "region", "aria-label": "Transcript" }, this.#wait, this.#problem, this.#none, list, this.#working);
    const rows = new Rows({
      agent: () => this.#agent, show: enlarge, remedies: (row) => this.#remedies(row),
      // An agent acts within a call, after it has permission: began is then.
      seek: ({ sequence, time, began, ended }) => document.dispatchEvent(new CustomEvent("deskhand:seek", { detail: { session: id, seq: ended ? undefined : sequence, from: began ?? time, time: ended ?? time, source: "chat" } })),
    });
    this.#scroller = new Scroller({ box, list, render: (row) => rows.render(row), refresh: (row, element) => rows.refresh(row, element) });
    this.#scroller.addEventListener("follow", () => this.#followed());
    this.#scroller.addEventListener("top", () => this.#showOlder());
    this.#pill.addEventListener("click", () => this.#scroller.toEnd());
    const questions = make("div", { className: "questions", hidden: true });
    const alarm = make("p", { className: "hidden", role: "alert" });
    questions.addEventListener("answered", () => this.#composer.focus());
    this.#permissions = new Permissions({ box: questions, alarm, answer: (asked, option) => api.answer(id, asked, option), folder: () => this.#info.directory ?? "" });
    this.#settings = new Settings({ change: (options) => this.#change(options) });
    this.#composer = new Composer({
      session: id, settings: this.#settings.element, folder: () => this.#info.directory ?? "~",
      send: async (text, files) => { await api.send(id, text, files); this.#scroller.toEnd(); }, stop: () => this.stop(), commands: () => this.#commands(),
    });
    const menu = this.#menu();
    this.#badge.className = "state";
    this.root = make("div", { className: "view conversation" },
      make("header", {}, make("button", { type: "button", className: "plain", "aria-label": "Back to the sessions", title: "Back to the sessions", onclick: back }, icon("back")),
        make("div", { className: "heading" }, this.#title, this.#about), this.#badge, menu),
      this.#plan.element, make("div", { className: "scroll" }, box, this.#pill), questions, alarm, this.#composer.element);
    this.root.addEventListener("keydown", (event) => this.#key(event));
    this.root.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) { event.preventDefault(); this.root.classList.add("dropping"); } });
    this.root.addEventListener("dragleave", (event) => { if (!this.root.contains(event.relatedTarget)) this.root.classList.remove("dropping"); });
    this.root.addEventListener("drop", (event) => {
      this.root.classList.remove("dropping");
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      this.#composer.attach(event.dataTransfer.files);
    });
    sessions.addEventListener("change", this.#listed);
    stream.addEventListener("session", this.#heard);
    stream.addEventListener("connect", this.#connected);
    this.#ticker = setInterval(() => {
      if (this.state === "running" && !document.hidden) for (const element of list.querySelectorAll(".call[data-status=in_progress]")) tick(element);
    }, 1000);
    this.#draw();
    this.#opened = this.#open();
  }

  #opened;
  #ticker;
  #endButton;
  #archiveButton;
  #listed = () => this.#draw();
  #connected = async () => {
    await this.#opened;
    if (this.#problem.hidden) this.#read().catch(() => {}); // the next connect tries again
  };
  #heard = ({ detail }) => {
    if (detail.session_id !== this.#id) return;
    this.#queue.push(detail);
    this.#schedule();
  };

  get #info() { return this.#sessions.get(this.#id) ?? { sessionId: this.#id, state: "idle" }; }
  get #agent() { return this.#sessions.agent(this.#info.agent); }

  /** The state of the session: what its events say, or else the server's list. */
  get state() {
    const { asked, turns } = this.transcript;
    return asked.size ? "waiting" : turns.size ? "running" : this.#info.state;
  }

  focus() {
    if (this.transcript.asked.size) this.#permissions.focus();
    else this.#composer.focus();
  }

  /** stop ends the running turn. */
  async stop() {
    if (!["running", "waiting"].includes(this.state)) return;
    try {
      await api.cancel(this.#id);
    } catch (error) {
      toast(inOneLine(error));
    }
  }

  /** reveal scrolls to the row of the event with a sequence number, and marks it. */
  async reveal(sequence) {
    if (!sequence) return;
    await this.#opened;
    while (this.transcript.first > Math.max(1, sequence) && !this.#ended) if (!await this.#showOlder()) return;
    const { rows } = this.transcript;
    const row = rows.findLast((other) => other.sequence <= sequence) ?? rows[0];
    const element = row && this.#scroller.reveal(row);
    element?.classList.add("marked");
    setTimeout(() => element?.classList.remove("marked"), 2000);
  }

  destroy() {
    this.#ended = true;
    cancelAnimationFrame(this.#frame);
    clearInterval(this.#ticker);
    this.#sessions.removeEventListener("change", this.#listed);
    this.#stream.removeEventListener("session", this.#heard);
    this.#stream.removeEventListener("connect", this.#connected);
    this.root.remove();
  }

  // ---- events ------------------------------------------------------------------

  async #open() {
    show(this.#problem, false);
    try {
      const { eventCount, configOptions } = await api.describe(this.#id);
      this.#stream.watch(this.#id);
      await this.#read(Math.max(0, eventCount - page / 2));
      if (this.#ended) return;
      show(this.#wait, false);
      this.transcript.options ??= configOptions ?? null;
      this.#flush();
      if (this.#composer.element.contains(document.activeElement)) this.focus(); // now the questions are known
    } catch (error) {
      show(this.#wait, false);
      const again = make("button", { type: "button", className: "small", onclick: () => { this.#opened = this.#open(); } }, "Try again");
      this.#problem.replaceChildren(make("p", {}, inOneLine(error)), again);
      show(this.#problem, true);
    }
  }

  // The server's events after the ones that are known. Events of the stream wait meanwhile.
  async #read(offset = this.transcript.last) {
    this.#reading++;
    try {
      for (let more = true; more && !this.#ended;) {
        const { events, hasMore } = await api.events(this.#id, offset, page);
        this.transcript.apply(events);
        [offset, more] = [events.at(-1)?.sequence ?? offset, hasMore && events.length > 0];
      }
    } finally {
      this.#reading--;
      this.#schedule();
    }
  }

  #schedule() {
    if (this.#frame || this.#reading) return;
    const run = () => { this.#frame = 0; this.#flush(); };
    this.#frame = document.hidden ? setTimeout(run, hiddenTime) : requestAnimationFrame(run);
  }

  #flush() {
    if (this.#ended) return;
    const { transcript } = this;
    if (!this.#reading) transcript.apply(this.#queue.splice(0, most));
    if (this.#queue.length) this.#schedule();
    const { added, changed } = transcript.takeChanges();
    this.#scroller.append(added);
    for (const row of changed) if (!added.includes(row)) this.#scroller.update(row);
    if (!this.#scroller.following) this.#missed += added.length;
    this.#draw();
  }

  // One page of older events, when the first rows come near.
  #showOlder() {
    if (this.transcript.first <= 1 || this.transcript.first === Infinity) return false;
    this.#older ??= this.#loadOlder().finally(() => { this.#older = null; });
    return this.#older;
  }

  // It returns whether it has loaded them.
  async #loadOlder() {
    await this.#opened;
    const { transcript } = this;
    try {
      const offset = Math.max(0, transcript.first - 1 - page);
      const events = [];
      for (let [at, end] = [offset, transcript.first - 1]; at < end; at = events.at(-1).sequence) { // large events come in several pages
        const more = (await api.events(this.#id, at, end - at)).events;
        if (!more.length) break;
        events.push(...more);
      }
      if (this.#ended) return false;
      this.#flush();
      const { rows, moved } = transcript.prepend(events);
      for (const row of moved) this.#scroller.remove(row);
      this.#scroller.prepend(rows);
      if (!events.length) transcript.first = 1; // the log no longer has them
      this.#flush();
      return true;
    } catch (error) {
      toast(`Can't load older messages. ${inOneLine(error)}`);
      await new Promise((done) => { setTimeout(done, 3000); });
      return false;
    }
  }

  // ---- what is shown --------------------------------------------------------------

  #draw() {
    const { transcript } = this;
    const info = this.#info;
    const { name } = this.#agent;
    const { state } = this;
    setText(this.#title, titleOf({ ...info, title: info.title || transcript.title, agentName: name }));
    setText(this.#about, [name, info.directory].filter(Boolean).join(" · "));
    this.#about.title = info.directory ?? "";
    if (this.#badge.dataset.state !== state) {
      const badge = badgeOf(state);
      badge.dataset.state = state;
      this.#badge.replaceWith(badge);
      this.#badge = badge;
      if (this.#said && state !== this.#said) this.#announce(state, name);
      this.#said = state;
    }
    show(this.#endButton, !["ended", "failed"].includes(state));
    setText(this.#archiveButton, info.archived ? "Restore from archive" : "Archive");
    show(this.#none, this.#wait.hidden && !transcript.rows.length && state === "idle");
    setText(this.#none, `No messages yet. Tell ${name} what to do.`);
    show(this.#working, state === "running" || state === "starting");
    attempt(() => this.#plan.show(transcript.plan));
    attempt(() => this.#permissions.show(transcript.asked, name));
    attempt(() => this.#settings.show({ agent: this.#agent, options: transcript.options, info, mode: transcript.mode, usage: transcript.usage, disabled: ["ended", "failed", "starting"].includes(state) }));
    this.#composer.update(state, name);
    this.#followed();
    this.#state(state, info);
  }

  // A session that did not start says why, one that was interrupted offers to continue.
  #state(state, { error }) {
    if (state === "failed" && error) {
      this.#problem.replaceChildren(make("strong", {}, "The session couldn't start"), make("p", {}, error.message), error.stderr ? make("pre", { tabIndex: 0 }, error.stderr) : "");
      show(this.#problem, true);
    }
    for (const button of this.root.querySelectorAll(".remedy-button")) button.disabled = !["idle", "interrupted"].includes(state);
  }

  #announce(state, name) {
    const text = { running: `${name} is working`, idle: `${name} has finished`, interrupted: `${name} was interrupted`, ended: "The session has ended" }[state];
    if (text) announce(text);
  }

  #followed() {
    if (this.#scroller.following) this.#missed = 0;
    show(this.#pill, !this.#scroller.following);
    setText(this.#pill, this.#missed ? `${this.#missed} new ↓` : "To the end ↓");
  }

  // Retry sends the last message again; after an interruption the agent goes on.
  #remedies(row) {
    if (row.code === "configuration") return [];
    const exited = row.code === "agent_exited";
    const button = make("button", { type: "button", className: "small remedy-button" }, icon("restart"), exited ? "Continue" : "Retry");
    once(button, async () => {
      const last = this.transcript.rows.findLast(({ kind, sequence }) => kind === "user" && sequence < row.sequence);
      const text = exited || !last ? "Continue where you left off." : last.text;
      try {
        await api.send(this.#id, text, []);
        this.#scroller.toEnd();
      } catch (error) {
        toast(inOneLine(error));
      }
    });
    return [make("div", { className: "row" }, button)];
  }

  async #change(options) {
    try {
      await api.change(this.#id, options);
    } catch (error) {
      toast(inOneLine(error));
    }
    await this.#sessions.refresh();
    this.#settings.forget();
    this.#draw();
  }

  // ---- the menu ----------------------------------------------------------------

  #menu() {
    const item = (label, act, className = "") => {
      const button = make("button", { type: "button", className }, label);
      once(button, async () => {
        menu.open = false;
        await act().catch((error) => toast(inOneLine(error)));
      });
      return button;
    };
    this.#archiveButton = item("Archive", () => this.#archive());
    this.#endButton = item("End session…", () => this.#end(), "danger");
    const menu = make("details", { className: "options-menu" }, make("summary", { "aria-label": "Session options", title: "Session options" }, icon("more")),
      make("div", { className: "items" }, item("Rename…", () => this.#rename()), this.#archiveButton, this.#endButton));
    menu.addEventListener("focusout", ({ relatedTarget }) => { if (!menu.contains(relatedTarget)) menu.open = false; });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      event.preventDefault();
      menu.open = false;
      menu.firstElementChild.focus();
    });
    return menu;
  }

  async #rename() {
    const title = await askText("Rename the session", "Title", this.#info.title ?? "", "Rename");
    if (title) await api.change(this.#id, { title });
  }

  async #archive() {
    const archived = !this.#info.archived;
    await api.archive(this.#id, archived);
    if (archived) toast("Session archived", { label: "Undo", act: () => api.archive(this.#id, false) });
  }

  async #end() {
    const choice = await ask("End the session?", [make("p", { className: "dim" }, "The agent stops, and gets no more messages. The transcript is kept.")], [{ label: "End session", value: "end", kind: "danger primary" }]);
    if (choice) await api.terminate(this.#id);
  }

  // The agent offers its commands when the session begins.
  async #commands() {
    if (!this.transcript.commands && this.transcript.first > 1) {
      const { events } = await api.events(this.#id, 0, 100);
      const begin = new Transcript();
      begin.apply(events);
      this.transcript.commands ??= begin.commands;
    }
    return this.transcript.commands ?? [];
  }

  #key(event) {
    if (event.key === "." && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.stop();
    }
  }
}

// attempt keeps the rest of the page right if a value of the agent cannot be shown.
function attempt(draw) {
  try {
    draw();
  } catch {
    // The value stays in the log.
  }
}
