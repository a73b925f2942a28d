// The connection to the terminal of a process.

import { server, streamURL } from "../api.js";

const replay = 256 << 10; // bytes of earlier output
const largest = 16_000; // characters of one message; the server takes 64 KiB
const longest = 5000; // milliseconds between two attempts

/**
 * Connection connects to a terminal, again and again while the process runs. It emits
 * state, "connecting", "open", "ended" or "gone" (the server no longer knows the process), and
 * output with { data, earlier }. exit has the exit code or signal once the process has ended.
 */
export class Connection extends EventTarget {
  state = "connecting";
  exit = null;
  #id;
  #created;
  #socket = null;
  #earlier = 0; // bytes still to come
  #size = null;
  #typed = ""; // while there is no connection
  #wait = 250;
  #timer = 0;
  #closed = false;

  constructor({ id, createdAtMs }) {
    super();
    this.#id = id;
    this.#created = createdAtMs;
    this.#connect();
  }

  /** send sends what the user types, now or when the terminal is connected. */
  send(data) {
    if (this.state === "open") for (const piece of pieces(data)) this.#frame({ type: "input", data: piece, encoding: "utf8" });
    else if (this.state === "connecting") this.#typed += data;
  }

  resize({ cols, rows }) {
    this.#size = { type: "resize", cols, rows };
    this.#frame(this.#size);
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#socket?.close();
  }

  #frame(frame) { if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(frame)); }

  #connect() {
    const url = streamURL(`processes/${this.#id}/terminal/ws?replay=${replay}`);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = this.#socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => this.#receive(data));
    socket.addEventListener("close", () => this.#lost());
  }

  #receive(data) {
    if (typeof data !== "string") return this.#output(new Uint8Array(data));
    const frame = JSON.parse(data);
    if (frame.type === "ready") {
      this.#earlier = frame.replay ?? 0;
      this.#wait = 250;
      this.#set("open");
      if (this.#size) this.#frame(this.#size);
      if (this.#typed) this.send(this.#typed);
      this.#typed = "";
    } else if (frame.type === "gap") {
      this.#earlier = Math.max(0, this.#earlier - frame.bytes);
    } else if (frame.type === "exit") {
      this.exit = frame;
      this.#set("ended");
    }
  }

  #output(data) {
    const earlier = data.subarray(0, this.#earlier);
    this.#earlier -= earlier.length;
    if (earlier.length) this.#emit(earlier, true);
    if (earlier.length < data.length) this.#emit(data.subarray(earlier.length), false);
  }

  #emit(data, earlier) { this.dispatchEvent(new CustomEvent("output", { detail: { data, earlier } })); }

  // A WebSocket that the server refuses does not say why. A server that was started again
  // may have another process with the same id.
  async #lost() {
    if (this.#closed || this.exit) return;
    this.#set("connecting");
    try {
      const { createdAtMs } = await server("GET", `processes/${this.#id}`);
      if (createdAtMs !== this.#created) return this.#set("gone");
    } catch (error) {
      if (error.status === 404) return this.#set("gone");
    }
    if (this.#closed) return;
    this.#timer = setTimeout(() => this.#connect(), this.#wait);
    this.#wait = Math.min(longest, 2 * this.#wait);
  }

  #set(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}

// pieces cuts a text, but not between the halves of a character.
function* pieces(text) {
  for (let from = 0; from < text.length;) {
    let to = from + largest;
    if (/[\ud800-\udbff]/.test(text[to - 1] ?? "")) to--;
    yield text.slice(from, to);
    from = to;
  }
}
