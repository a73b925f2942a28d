// The moments of a timeline that is live: of the desktop, of the session that is shown, and
// the recordings that have them.

import { get, request, server, urlOf } from "../api.js";
import { momentOf, momentOfSession } from "./moments.js";
import { lastBefore } from "./scale.js";

const types = ["action", "control", "failed", "gap", "restarted"];
const most = 5000; // moments
const history = 1000; // events of a session that were before
const silence = 400; // after which the desktop's older events are complete

/** Feed collects moments, in order. It emits change. */
export class Feed extends EventTarget {
  moments = [];
  #keys = new Set();
  #recordings = new Map();
  #session = null; // { id, agent }
  #ahead = -Infinity; // the server's clock, compared with this one

  constructor({ session, events }) {
    super();
    for (const type of types) {
      events.addEventListener(type, ({ detail }) => {
        this.#ahead = Math.max(this.#ahead, Date.parse(detail.time) - Date.now());
        this.#add([ofDesktop(detail)]);
      });
    }
    events.addEventListener("recording", ({ detail: { recording } }) => { this.#recorded(recording); this.#changed(); });
    const begin = () => { this.#look(); this.#recall(); };
    events.addEventListener("open", begin);
    if (session.state.name === "live") begin();
    events.addEventListener("session", ({ detail }) => {
      if (detail.session_id === this.session && this.#session.agent) this.#add([momentOfSession(detail, this.#session.agent)]);
    });
  }

  /** now is the time by the server's clock. */
  get now() { return Date.now() + (Number.isFinite(this.#ahead) ? this.#ahead : 0); }

  get session() { return this.#session?.id ?? ""; }

  /** recordingAt returns { id, from } of the recording that has a time, or null. */
  recordingAt(time) {
    return [...this.#recordings.values()].findLast(({ from, to }) => time >= from && time <= (to ?? this.now)) ?? null;
  }

  /** nearest returns the last moment of the session that is shown until a time, or its first one. */
  nearest(time) {
    const those = this.moments.filter(({ session }) => session && session === this.session);
    return those[Math.max(0, lastBefore(those, time))] ?? null;
  }

  /** follow adds the moments of a session, and of its events to come. */
  async follow(id) {
    if (id === this.session) return;
    const session = this.#session = { id, agent: "" };
    const at = `sessions/${encodeURIComponent(id)}`;
    try {
      const { agent, eventCount } = await server("GET", at);
      session.agent = agent;
      let offset = Math.max(0, eventCount - history);
      for (let more = true; more && session === this.#session;) {
        const { events, hasMore } = await server("GET", `${at}/events?offset=${offset}`);
        this.#add(events.map((event) => momentOfSession(event, agent)));
        [offset, more] = [events.at(-1)?.sequence ?? offset, hasMore && events.length > 0];
      }
    } catch {
      // the pane of the session says why
    }
  }

  // ---- the desktop ---------------------------------------------------------------

  async #look() {
    const { recordings } = await get("/recordings").catch(() => ({ recordings: [] }));
    for (const recording of recordings) this.#recorded(recording);
    this.#changed();
  }

  #recorded({ id, startedAt, durationMs, status }) {
    const from = Date.parse(startedAt);
    if (["recording", "completed", "recovered"].includes(status)) this.#recordings.set(id, { id, from, to: status === "recording" ? null : from + durationMs });
    else this.#recordings.delete(id);
  }

  // The server keeps the desktop's latest events: the timeline is there after a reload.
  async #recall() {
    const stop = new AbortController();
    let timer = 0;
    let text = "";
    try {
      const url = urlOf("/events");
      url.searchParams.set("types", types.join());
      const response = await request("GET", url, { headers: { "Last-Event-ID": "1" }, signal: stop.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        timer = setTimeout(() => stop.abort(), silence);
        const { value, done } = await reader.read();
        clearTimeout(timer);
        if (done) break;
        text += value;
      }
    } catch {
      clearTimeout(timer); // new events come by the page's own stream
    }
    this.#add([...text.matchAll(/^data: ?(.*)$/gm)].map(([, data]) => parsed(data)).filter(Boolean).map(ofDesktop));
  }

  #add(moments) {
    let added = false;
    for (const moment of moments) {
      if (!moment || this.#keys.has(moment.key)) continue;
      this.#keys.add(moment.key);
      this.moments.splice(lastBefore(this.moments, moment.at) + 1, 0, moment);
      added = true;
    }
    while (this.moments.length > most) this.#keys.delete(this.moments.shift().key);
    if (added) this.#changed();
  }

  #changed() { this.dispatchEvent(new Event("change")); }
}

const ofDesktop = (event) => momentOf(event, Date.parse(event.action?.time ?? event.time));

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    return null; // the stream was cut in the middle of an event
  }
}
