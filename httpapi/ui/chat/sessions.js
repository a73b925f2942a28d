// The server's sessions: the list, and the calls that change them.

import { allSessions, request, server, serverURL, streamURL } from "../api.js";

/** Sessions follows the server's list of sessions. It emits change. */
export class Sessions extends EventTarget {
  list = null; // null until it is known
  agents = new Map(); // by id
  problem = null;
  #heard = new Set(); // for each list on its way, the sessions that changed meanwhile, by id

  constructor({ events }) {
    super();
    events.addEventListener("connect", () => this.refresh());
    events.addEventListener("sessions", ({ detail }) => this.take(detail.session));
  }

  /** start reads the list. */
  async start() {
    this.loadAgents().catch(() => {}); // names only
    await this.refresh();
  }

  /** loadAgents asks for the agents and their options. */
  async loadAgents() {
    const { agents } = await server("GET", "agents?config=true");
    this.agents = new Map(agents.map((agent) => [agent.id, agent]));
    this.#emit();
  }

  /** refresh asks for the list. */
  async refresh() {
    const heard = new Map();
    this.#heard.add(heard);
    try {
      const sessions = await allSessions();
      this.list = [...sessions.filter(({ sessionId }) => !heard.has(sessionId)), ...heard.values()];
      this.problem = null;
    } catch (error) {
      this.problem = error;
      this.list ??= [];
    } finally {
      this.#heard.delete(heard);
    }
    this.#emit();
  }

  /** take replaces a session in the list, or adds it. */
  take(session) {
    for (const heard of this.#heard) heard.set(session.sessionId, session);
    this.list = [...(this.list ?? []).filter(({ sessionId }) => sessionId !== session.sessionId), session];
    this.#emit();
  }

  /** get returns a session, or undefined. */
  get(id) { return this.list?.find(({ sessionId }) => sessionId === id); }

  /** agent returns an agent, also one that the server does not list. */
  agent(id) { return this.agents.get(id) ?? { id, name: id || "Agent" }; }

  #emit() { this.dispatchEvent(new Event("change")); }
}

const at = (id) => `sessions/${encodeURIComponent(id)}`;

/** create makes a session. It throws an error with the server's reason if the agent does not start. */
export async function create(id, options) {
  const made = await server("POST", at(id), options);
  if (made.healthy) return made;
  throw made.error ? Object.assign(new Error(made.error.message), { code: made.error.type, details: made.error.details, title: "" }) : failed(made);
}

/** events returns a page of events, and whether there are more. */
export const events = (id, offset, limit) => server("GET", `${at(id)}/events?include_raw=true&offset=${offset}&limit=${limit}`);

/** send sends a message with files of the server: { path, mime, filename }. */
export const send = (id, message, attachments) => server("POST", `${at(id)}/messages`, { message, ...(attachments.length && { attachments }) });

export const cancel = (id) => server("POST", `${at(id)}/cancel`, {});
export const terminate = (id) => server("POST", `${at(id)}/terminate`);

/** answer chooses an option of a permission request or a question. */
export function answer(session, { id, question }, { optionId, answers, skip }) {
  if (skip) return server("POST", `${at(session)}/questions/${encodeURIComponent(id)}/reject`);
  if (answers) return server("POST", `${at(session)}/questions/${encodeURIComponent(id)}/reply`, { answers });
  if (question) return server("POST", `${at(session)}/questions/${encodeURIComponent(id)}/reply`, { answers: [[optionId]] });
  return server("POST", `${at(session)}/permissions/${encodeURIComponent(id)}/reply`, { option: optionId });
}

/** change sets options of the agent: agentMode, model, variant. */
export const change = (id, options) => server("PATCH", at(id), options);

/** describe returns a session with the options that its agent offers. */
export const describe = (id) => server("GET", at(id));

/** archive archives a session, or takes it out of the archive. */
export const archive = (id, archived) => change(id, { archived });

/** files returns the entries of a folder of the server. */
export const files = async (folder) => (await request("GET", serverURL(`fs/entries?path=${encodeURIComponent(folder)}&limit=2000`))).json();

/** remove deletes a file of the server. */
export const remove = (path) => server("DELETE", `fs/entry?path=${encodeURIComponent(path)}`);

/** upload writes a file to a folder of the server, and returns its path. */
export async function upload(folder, name, file) {
  const path = `${folder.replace(/\/$/, "")}/${name}`;
  const response = await request("PUT", serverURL(`fs/file?path=${encodeURIComponent(path)}`), { file });
  return (await response.json()).path;
}

/** install installs an agent. progress gets each step. */
export async function install(id, progress) {
  const stream = new EventSource(streamURL(`agents/${encodeURIComponent(id)}/install/events`));
  stream.addEventListener("progress", ({ data }) => {
    const step = JSON.parse(data);
    progress(step);
    if (["done", "failed"].includes(step.stage)) stream.close();
  });
  try {
    const answered = await server("POST", `agents/${encodeURIComponent(id)}/install`, {});
    if (answered.status) throw failed(answered); // a slow answer begins before it is known
    return answered;
  } finally {
    stream.close();
  }
}

const failed = ({ title, detail }) => new Error(detail || title || "The server refused the request.");
