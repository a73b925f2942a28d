// The server's events, which all parts of the page share: one stream, because browsers
// open few connections to a server.

import { desktop, scope, streamURL } from "./api.js";

const types = "action,control,failed,restarted,window_opened,window_closed"; // of the desktop's events
const pause = 3000; // milliseconds before a stream that was refused is opened again
const rest = 10_000; // before a stream without the agents' topics gets them again

/**
 * Events has the server's events from start on. It emits connect when the stream begins, and
 * open when the desktop is live as well: what was before must be read. It emits the desktop's
 * events by their types, recording, and sessions, permissions and session with an event of
 * the topic.
 */
export class Events extends EventTarget {
  #desktop;
  #stream = null;
  #last = ""; // the id of the last event
  #session = "";
  #refused = 0; // times, one after the other
  #plain = false; // without the agents' topics, which the server has refused
  #timer = 0;
  #live = false;

  constructor({ session }) {
    super();
    this.#desktop = session;
    session.addEventListener("state", () => this.#begin());
  }

  /** start opens the stream. The scope of the token must be known. */
  start() { this.#open(); }

  /** watch adds the events of a session, in place of another's. They begin with the next connect. */
  watch(id) {
    if (id === this.#session) return;
    this.#session = id;
    if (this.#stream) this.#open();
  }

  #open() {
    clearTimeout(this.#timer);
    this.#stream?.close();
    const url = streamURL("events");
    const agents = ["admin", "supervise"].includes(scope) && !this.#plain;
    url.searchParams.set("topics", ["desktop", "recordings", ...(agents ? ["sessions", "permissions"] : []), ...(agents && this.#session ? [`session:${this.#session}`] : [])].join());
    url.searchParams.set("types", types);
    if (this.#session) url.searchParams.set("include_raw", true);
    if (this.#last) url.searchParams.set("after", this.#last);
    const stream = this.#stream = new EventSource(url);
    stream.addEventListener("open", () => {
      this.#live = false;
      this.#refused = 0;
      this.#emit("connect");
      this.#begin();
      if (this.#plain) this.#again(rest, false);
    });
    // The browser connects again by itself, except after a refusal.
    stream.addEventListener("error", () => {
      if (stream === this.#stream && stream.readyState === EventSource.CLOSED) this.#again(pause, agents && ++this.#refused > 1);
    });
    const on = (name, act) => stream.addEventListener(name, ({ data, lastEventId }) => {
      this.#last = lastEventId;
      act(JSON.parse(data));
    });
    on("desktop", (event) => { if (event.desktop === desktop) this.#emit(event.type, event); });
    on("recordings", (event) => { if (event.desktop === desktop) this.#emit("recording", event); });
    for (const topic of ["sessions", "permissions", "session"]) on(topic, (event) => this.#emit(topic, event));
    on("reset", (event) => {
      if (event.topic === "permissions") return this.#emit("permissions", event);
      this.#live = false;
      this.#begin();
    });
  }

  #again(time, plain) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.#desktop.state.name === "locked") return this.#again(pause, plain); // without a token
      this.#plain = plain;
      this.#open();
    }, time);
  }

  #begin() {
    const live = this.#desktop.state.name === "live" && this.#stream?.readyState === EventSource.OPEN;
    if (live === this.#live) return;
    this.#live = live;
    if (live) this.#emit("open");
  }

  #emit(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }
}
