// The link for networks that allow only plain requests: single screenshots,
// a few each second, and input through the HTTP API.

import { eventsURL, get, name, post, request, urlOf, viewOnly } from "./api.js";
import { Link, keyOf } from "./connection.js";
import { Cause } from "./errors.js";

// Pauses between screenshots, in milliseconds: while the screen changes, while it
// does not, and after a failure.
const quick = 250;
const slow = 1000;
const failed = 2000;
const patience = 5; // failures in a row that end the link

// The API's names of the buttons.
const buttons = { 1: "left", 2: "middle", 3: "right", 8: "back", 9: "forward" };

// The actor name of this page, which lets it hold control.
const actor = `${name.replaceAll(/[^\p{L}\p{N} ._@-]/gu, "").trim() || "viewer"} ${Math.random().toString(36).slice(2, 6)}`.slice(-64);

export class ScreenshotLink extends Link {
  kind = "screenshots";
  quiet = true; // pictures come only after a change
  shots = {}; // parameters of screenshots
  pause = 0; // milliseconds between two of them; 0: by the changes of the screen
  me = actor;
  identity = { "Deskhand-Actor": actor, "Deskhand-Typing": "secret" };
  #stop = new AbortController();
  #events;
  #decoded = 0;
  #codec = "PNG";
  #bytes = 0;
  #roundTrip = 0;
  #observation = "";
  #at = { x: 0, y: 0 };
  #queue = [];
  #busy = false;
  #wake = () => {};

  constructor({ canvas }) {
    super();
    this.surface = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
  }

  async open() {
    await this.#shoot();
    this.#follow();
    this.#listen();
  }

  // ---- picture ----------------------------------------------------------

  // Returns whether the picture has changed.
  async #shoot() {
    const url = urlOf("/screenshot");
    if (!this.host?.me) url.searchParams.set("cursorStyle", "pointer");
    for (const [name, value] of Object.entries(this.shots)) url.searchParams.set(name, value);
    const begun = performance.now();
    const given = this.#observation ? { "If-None-Match": `"${this.#observation}"` } : {};
    const response = await request("GET", url, { headers: given, signal: this.#stop.signal });
    this.#roundTrip = performance.now() - begun;
    if (response.status === 304) return false;
    this.#observation = response.headers.get("Deskhand-Observation");
    const blob = await response.blob();
    const picture = await createImageBitmap(blob);
    const { width, height } = picture;
    if (this.surface.width !== width || this.surface.height !== height) {
      Object.assign(this.surface, { width, height });
      this.emit("size", { width, height });
      this.emit("picture", { width, height });
    }
    this.context.drawImage(picture, 0, 0);
    picture.close();
    this.#decoded++;
    this.#bytes += blob.size;
    this.#codec = blob.type.slice(6).toUpperCase();
    return true;
  }

  async #follow() {
    let failures = 0;
    let pause = quick;
    while (!this.ended) {
      await this.#pause(pause);
      if (this.ended || document.hidden) continue;
      try {
        pause = (await this.#shoot()) ? this.pause || quick : Math.max(this.pause, slow);
        failures = 0;
      } catch (error) {
        if (this.ended) return;
        if (error.status === 401 || error.status === 409 || ++failures === patience) return this.end(new Cause("lost"));
        pause = failed;
      }
    }
  }

  // Input may change the picture, so the next screenshot comes soon.
  #pause(ms) {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.#wake = () => { clearTimeout(timer); setTimeout(done, 60); };
    });
  }

  // ---- events -------------------------------------------------

  #listen() {
    const events = this.#events = new EventSource(eventsURL("control,clipboard_changed,failed,restarted,closed", viewOnly ? "" : actor));
    const on = (type, take) => events.addEventListener(type, ({ data }) => take(JSON.parse(data)));
    on("control", ({ control }) => this.#held(control));
    on("clipboard_changed", ({ selection }) => { if (selection === "clipboard") this.#copied(); });
    for (const type of ["failed", "restarted"]) on(type, ({ failure }) => this.emit(type, { code: failure?.Code, message: failure?.Message }));
    on("closed", () => this.end(new Cause("lost")));
    get("/control").then((control) => this.#held(control), () => {});
  }

  #held({ holder, taken }) {
    if (!holder) return this.setHost("");
    const me = holder.kind === "api" && holder.name === actor;
    this.setHost(me ? actor : keyOf(holder), holder.kind, holder.name, taken);
  }

  async #copied() {
    if (!this.host?.me) return;
    const { text } = await get("/clipboard", { headers: this.identity }).catch(() => ({})); // for people the server limits it to 1 MiB
    if (text) this.emit("clipboard", text);
  }

  // ---- control and input ----------------------------------------------------

  #call(path, body) { return post(path, body, { headers: this.identity }); }

  // Requests are sent one after the other. Of consecutive moves only the last is sent.
  #do(path, body) {
    const last = this.#queue.at(-1);
    if (path === "/mouse/move" && last?.path === path) last.body = body;
    else this.#queue.push({ path, body });
    this.#work();
  }

  async #work() {
    if (this.#busy) return;
    this.#busy = true;
    for (let next; (next = this.#queue.shift()) && !this.ended;) {
      try {
        await this.#call(next.path, next.body);
      } catch (error) {
        this.#queue.length = 0;
        if (error.status !== 0) this.emit("refused", error.message);
      }
      this.#wake();
    }
    this.#busy = false;
  }

  take({ exclusive = false, force = false } = {}) {
    this.#call("/control/take", { shared: !exclusive, force }).catch((error) => this.emit("refused", error.message));
  }

  request() { this.take(); }
  release() { this.#call("/control/release").catch(() => {}); }
  give() {}

  setClipboard(text) { this.#do("/clipboard", { text }); }
  type(text) { this.#do("/keyboard/type", { text, delayMs: 0 }); }

  move(x, y) {
    this.#at = { x, y };
    this.#do("/mouse/move", this.#at);
  }

  button(down, code) {
    if (buttons[code]) this.#do(down ? "/mouse/down" : "/mouse/up", { ...this.#at, button: buttons[code] });
  }

  key(down, keysym) { this.#do(down ? "/keyboard/down" : "/keyboard/up", { key: `0x${keysym.toString(16)}` }); }
  keyAfter(down, keysym) { this.key(down, keysym); }

  wheel(x, y) {
    const [deltaX, deltaY] = [Math.trunc(x / 100), Math.trunc(y / 100)];
    if (deltaX || deltaY) this.#do("/mouse/scroll", { ...this.#at, deltaX, deltaY });
  }

  async stats() {
    return { transport: "Screenshots", path: "HTTP", codec: this.#codec, decoded: this.#decoded, bytes: this.#bytes, roundTrip: this.#roundTrip };
  }

  close() {
    if (this.host?.me && !viewOnly) post("/control/release", {}, { headers: this.identity, keepalive: true }).catch(() => {});
    this.ended = true;
    this.#stop.abort();
    this.#events?.close();
    this.#wake();
  }
}
