// The transcript: rows made of a session's events.

import { argument } from "./verbatim.js";

const remembered = ["plan", "usage", "options", "mode", "title", "error", "commands"];

/**
 * Transcript makes rows of the events of a session, which come in the order of their
 * sequence, older pages by prepend. A row has a kind (user, text, thought, tool, error,
 * notice, broken), a key and the time of its first event. takeChanges returns what has changed.
 */
export class Transcript {
  rows = [];
  first = Infinity; // the lowest and the highest sequence
  last = 0;
  turns = new Map(); // that run: when they began, by id
  asked = new Map(); // permissions and questions that wait, by id
  plan = null;
  usage = null;
  commands = null; // null: unknown
  options = null; // of the agent, as ACP has them
  mode = "";
  title = "";
  error = null; // why the last turn failed
  #items = new Map();
  #calls = new Map(); // the latest tool row of a call
  #answered = new Set();
  #screen = null; // the latest picture of the whole screen
  #head = null; // rows of an older page
  #moved = []; // rows that begin in it
  #fresh = new Set(); // rows that it has made
  #orphans = []; // results whose call is in an older page
  #changes = { added: [], changed: new Set() };

  /** apply adds events that follow the others. */
  apply(events) {
    for (const event of events) {
      if (event.sequence <= this.last) continue; // sent again after a reconnect
      this.first = Math.min(this.first, event.sequence);
      this.last = event.sequence;
      this.#event(event);
    }
  }

  /**
   * prepend adds events that precede the others. It returns their rows, and the rows
   * of them that existed before, because their last events are in a later page.
   */
  prepend(events) {
    const kept = Object.fromEntries(remembered.map((name) => [name, this[name]]));
    const [calls, screen] = [this.#calls, this.#screen];
    [this.#calls, this.#screen, this.#head, this.#moved, this.#fresh] = [new Map(), null, [], [], new Set()];
    for (const event of events) this.#event(event);
    const [rows, moved] = [this.#head, this.#moved];
    this.#head = null;
    for (const name of remembered) this[name] = kept[name] || this[name];
    this.#calls = new Map([...this.#calls, ...calls]);
    this.#screen = screen ?? this.#screen;
    for (const [item, at] of this.#orphans.splice(0)) this.#attempt(item, at, () => this.#result(item, at));
    this.rows = [...rows, ...this.rows];
    for (const row of this.rows) if (row.before) [row.text, row.before] = [row.before + row.text, ""];
    this.first = Math.min(this.first, events[0]?.sequence ?? Infinity);
    return { rows, moved };
  }

  /** takeChanges returns the rows that were added and changed since the last call. */
  takeChanges() {
    const changes = this.#changes;
    this.#changes = { added: [], changed: new Set() };
    return changes;
  }

  #add(row) {
    if (this.#head) {
      this.#head.push(row);
      this.#fresh.add(row);
      return row;
    }
    this.rows.push(row);
    this.#changes.added.push(row);
    return row;
  }

  #touch(row) { this.#changes.changed.add(row); }

  // In an older page, a row that a later page has begins here.
  #move(row) {
    this.rows = this.rows.filter((other) => other !== row);
    this.#head.push(row);
    this.#moved.push(row);
  }

  #event(event) {
    const at = { time: Date.parse(event.time), sequence: event.sequence };
    this.#attempt(event, at, () => this.#read(event, at));
  }

  // Parts of an event can have any shape. What cannot be read becomes a row of its own.
  #attempt(value, at, read) {
    try {
      read();
    } catch {
      this.#add({ kind: "broken", key: `e${at.sequence}`, ...at, text: argument(value) });
    }
  }

  #read({ type, data, raw, sequence }, at) {
    switch (type) {
      case "item.started": return this.#started(data.item, at, raw);
      case "item.delta": return this.#delta(data, at, raw);
      case "item.completed": return this.#completed(data.item, at, raw);
      case "turn.started":
        if (this.#head) return;
        this.turns.set(data.turn_id, at.time);
        this.error = null;
        if (this.plan?.every(({ status }) => status === "completed")) this.plan = null;
        return;
      case "turn.ended": return this.#turnEnded(data, at);
      case "permission.requested":
      case "question.requested": return this.#ask(type, data, at, raw);
      case "permission.resolved":
      case "question.resolved": return this.#answer(type, data, at);
      case "session.started":
        if (data.metadata?.restored) this.#add({ kind: "notice", key: `e${sequence}`, ...at, text: "restored" });
        return;
      case "session.ended":
        if (!this.#head) this.turns.clear();
        if (data.reason === "terminated") this.#add({ kind: "notice", key: `e${sequence}`, ...at, text: "ended" });
        return;
      case "error": return this.#failed(data, at);
    }
  }

  #failed({ message, code, details }, at) {
    const row = this.#add({ kind: "error", key: `e${at.sequence}`, ...at, message, code, details });
    if (code !== "configuration") this.error = row;
  }

  #turnEnded({ turn_id: id, metadata }, at) {
    const reason = metadata?.stopReason;
    if (reason && !["end_turn", "error"].includes(reason)) this.#add({ kind: "notice", key: `e${at.sequence}`, ...at, text: reason });
    if (!this.#head) this.turns.delete(id);
  }

  // ---- items -----------------------------------------------------------------

  #started(item, at, raw) {
    if (item.kind === "tool_call") return this.#tool(item, at, raw);
    if (item.kind !== "message") return;
    const known = this.#items.get(item.item_id);
    if (known && this.#head) {
      Object.assign(known, at);
      return this.#move(known);
    }
    this.#message(item, at);
  }

  #message(item, at) {
    const kind = item.role === "user" ? "user" : "text";
    const row = this.#add({ kind, key: item.item_id, ...at, text: "", parts: null, open: item.status === "in_progress" });
    this.#items.set(item.item_id, row);
    return row;
  }

  #delta({ item_id: id, delta }, at, raw) {
    let row = this.#items.get(id);
    if (!row && raw?.params?.update) row = this.#message({ item_id: id, role: "assistant", status: "in_progress" }, at);
    if (row?.kind === "tool") return this.#progress(row, raw?.params?.update);
    if (!row || row.parts || !delta) return;
    if (raw?.params?.update?.sessionUpdate === "agent_thought_chunk") row.kind = "thought";
    // An older page has the beginning of a text.
    if (this.#head && !this.#fresh.has(row)) row.before = (row.before ?? "") + delta;
    else row.text += delta;
    this.#touch(row);
  }

  #completed(item, at, raw) {
    switch (item.kind) {
      case "tool_call": return this.#tool(item, at, raw);
      case "tool_result": return this.#result(item, at);
      case "status": return this.#status(item);
      case "message": break;
      default: return;
    }
    const row = this.#items.get(item.item_id) ?? this.#message(item, at);
    const thoughts = item.content.filter(({ type }) => type === "reasoning");
    if (thoughts.length) row.kind = "thought";
    row.parts = item.content;
    row.text = item.content.map(({ text }) => text ?? "").join("");
    row.open = false;
    row.ended = at.time;
    this.#touch(row);
  }

  #tool(item, at, raw) {
    const [call, ...places] = item.content;
    let row = this.#items.get(item.item_id);
    if (!row) {
      row = this.#add({ kind: "tool", key: item.item_id, ...at, what: "", status: "in_progress", places: [], diffs: [], output: "", pictures: [], screen: this.#screen });
      this.#items.set(item.item_id, row);
    } else if (this.#head && item.status === "in_progress") {
      Object.assign(row, at);
      this.#move(row);
    }
    this.#calls.set(call.call_id, row);
    row.call = call.call_id;
    row.title = call.name;
    row.input = parsed(call.arguments);
    for (const { path } of places) if (!row.places.includes(path)) row.places.push(path);
    this.#details(row, raw?.params?.update ?? raw?.params?.toolCall);
    if (item.status !== "in_progress") this.#end(row, item.status, at);
    this.#touch(row);
  }

  // What only the agent's own message has: the kind, places and texts of edits.
  #details(row, update) {
    if (!update || typeof update !== "object") return;
    if (update.kind) row.what = update.kind;
    for (const { path } of list(update.locations)) if (path && !row.places.includes(path)) row.places.push(path);
    const diffs = diffsOf(update);
    if (diffs.length) row.diffs = diffs;
  }

  // What a tool that runs has printed until now. Its result replaces it.
  #progress(row, update) {
    if (!update || row.ended) return;
    this.#details(row, update);
    const texts = list(update.content).map(({ content }) => content?.text).filter((text) => typeof text === "string");
    if (texts.length) row.output = texts.join("\n");
    else if (typeof update.rawOutput === "string") row.output = update.rawOutput;
    this.#touch(row);
  }

  #end(row, status, at) {
    row.status = status;
    row.ended ??= at.time;
  }

  #result(item, at) {
    const row = this.#calls.get(item.native_item_id);
    if (!row) return void this.#orphans.push([item, at]);
    for (const part of item.content) {
      if (part.type === "tool_result") row.output = part.output ?? "";
      else if (part.type === "image") row.pictures.push(part.path);
      else if (part.diff && !row.diffs.some(({ path, after }) => path === part.path && after !== undefined)) row.diffs.push({ path: part.path, unified: part.diff });
    }
    if (row.pictures.length && isScreen(row)) this.#screen = row.pictures.at(-1);
    this.#end(row, item.status, at);
    this.#touch(row);
  }

  #status(item) {
    const [{ label, detail }] = item.content;
    const value = parsed(detail);
    switch (label) {
      case "plan": {
        const entries = value.entries?.filter(Boolean);
        this.plan = entries?.length ? entries : null;
        break;
      }
      case "usage": this.usage = value; break;
      case "available commands": this.commands = value.availableCommands?.filter(Boolean) ?? []; break;
      case "current mode": if (value.currentModeId != null) this.mode = String(value.currentModeId); break;
      case "config option": this.options = value.configOptions?.filter(Boolean) ?? this.options; break;
      case "session info": if (value.title != null) this.title = String(value.title); break;
    }
  }

  // ---- questions -----------------------------------------------------------------

  #ask(type, data, at, raw) {
    const id = data.permission_id ?? data.question_id;
    if (this.#answered.has(id)) return;
    const call = data.metadata?.toolCall ?? raw?.params?.toolCall ?? {};
    const row = this.#calls.get(call.toolCallId);
    if (row && !row.ended) {
      this.#details(row, call);
      row.asked = type.split(".")[0];
      this.#touch(row);
    }
    const options = list(data.metadata?.options ?? raw?.params?.options ?? data.options.map((name) => ({ name, optionId: name })));
    const [title, ...text] = (data.prompt ?? data.action ?? "").split("\n\n");
    this.asked.set(id, {
      id, ...at, question: type.startsWith("question"), title: call.title ?? title, text: text.join("\n\n"),
      questions: data.questions, what: call.kind ?? row?.what ?? "", input: call.rawInput ?? row?.input ?? {}, diffs: row?.diffs ?? [], options, row,
    });
  }

  #answer(type, data, at) {
    const id = data.permission_id ?? data.question_id;
    this.#answered.add(id);
    const asked = this.asked.get(id);
    this.asked.delete(id);
    if (asked?.row) {
      asked.row.asked = "";
      asked.row.began = at.time; // an action waits for its permission
      this.#touch(asked.row);
    }
    const text = type.startsWith("question") ? (data.response ?? "rejected") : data.status;
    this.#add({ kind: "answer", key: `e${at.sequence}`, ...at, text, status: data.status, title: data.action ?? data.prompt ?? "" });
  }
}

/** list returns the entries of a list of ACP, which can have any shape. */
export const list = (value) => (Array.isArray(value) ? value.filter(Boolean) : []);

/** diffsOf returns the changes of files in a tool call of ACP. */
export const diffsOf = ({ content }) => list(content).filter(({ type }) => type === "diff").map(({ path, oldText, newText }) => ({ path, before: oldText ?? "", after: newText ?? "" }));

/** An action of a computer tool: { name, points }, or null. */
export function computerAction({ title, input }) {
  const name = String(input?.action ?? String(title).split(/__|[:./ ]+/).filter(Boolean).pop() ?? "").toLowerCase();
  const points = [input?.start_coordinate, input?.coordinate, [input?.x, input?.y], ...list(input?.path)]
    .map((p) => (Array.isArray(p) ? p : [p?.x, p?.y]))
    .filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  return points.length && acts.test(name) ? { name, points } : null;
}

const acts = /click|drag|move|scroll|tap|press|hover|mouse|swipe/;

// isScreen reports whether a tool's picture shows the whole screen.
const isScreen = ({ title, input }) => !/zoom|image|read/i.test(`${title} ${input?.action ?? ""}`);

function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {}; // still incomplete
  }
}
