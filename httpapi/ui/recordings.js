// Recordings: the button in the bar that makes one, and the panel that lists
// them.

import { get, mediaURL, post, request, urlOf, viewOnly } from "./api.js";
import { $, announce, make, once, setText, show, sure, toast } from "./dom.js";
import { inOneLine } from "./errors.js";
import { bytes, clock, exactly } from "./format.js";

const sizeTime = 2000; // between requests for a running recording's size

// Labels for recordings that are running or broken, and for the reason of an early end.
const words = { recording: "Recording", recovering: "Recovering", recovered: "Recovered after an interruption", failed: "Failed" };
const reasons = {
  max_duration: "Stopped at the time limit",
  max_bytes: "Stopped at the size limit",
  segment: "Continues in the next recording",
  disk_full: "Stopped because the disk is almost full",
  store_full: "Stopped because too many recordings of guests are kept",
  desktop_closed: "Stopped with the desktop",
  store_closed: "Stopped with the server",
};

/** Recordings lists the recordings of the desktop. play shows one. */
export class Recordings {
  #session;
  #play;
  #all = new Map(); // by id, from the server
  #since = new Map(); // by id, the start of each running recording by this page's clock
  #timer = 0;
  #looked = 0;
  #shown = "";
  #known = false; // the list is up to date

  constructor({ session, control, events, play }) {
    this.#session = session;
    this.#play = play;
    session.addEventListener("state", () => this.#follow(session.state.name));
    events.addEventListener("open", () => this.#refresh());
    events.addEventListener("recording", ({ detail }) => this.#changed(detail));
    control.addEventListener("change", () => this.#draw()); // the viewer's rights may have changed
    once($("record"), () => this.#press());
    $("recordings-panel").addEventListener("toggle", ({ newState }) => { if (newState === "open") this.#refresh(); });
    $("recordings-open").addEventListener("click", () => {
      $("more-panel").hidePopover();
      this.open();
    });
  }

  /** open shows the panel. */
  open() { $("recordings-panel").showPopover({ source: $("record").hidden ? $("more") : $("record") }); }

  /** newest is the latest running recording, which the button stops. */
  get newest() { return [...this.#all.values()].filter(({ status }) => status === "recording").at(-1) ?? null; }

  // ---- the server's list -------------------------------------------------

  // While the desktop runs, its events report every change. Its recordings end with it.
  #follow(state) {
    if (!["live", "loading", "locked", "install"].includes(state)) this.#refresh();
  }

  #changed({ recording }) {
    if (recording.status === "deleted") this.#all.delete(recording.id);
    else this.#take(recording);
    this.#draw();
  }

  async #refresh() {
    try {
      const { recordings } = await get("/recordings");
      this.#all = new Map();
      for (const one of recordings) this.#take(one);
      this.#known = true;
      this.#showProblem("");
    } catch (error) {
      this.#known = false;
      this.#showProblem(error);
    }
    this.#draw();
  }

  #take(info) {
    const { id, status, durationMs } = info;
    if (status === "recording") this.#since.set(id, performance.now() - durationMs);
    else this.#since.delete(id);
    this.#all.set(id, info);
  }

  // ---- the button ---------------------------------------------------------------

  async #press() {
    const running = this.newest;
    try {
      if (!running) return this.#take(await post("/recordings"));
      const info = await post(`/recordings/${running.id}/stop`);
      this.#take(info);
      toast(`Recording saved (${clock(info.durationMs)}, ${bytes(info.bytes)})`, { label: "Show", act: () => this.open() });
    } catch (error) {
      toast(inOneLine(error));
    } finally {
      this.#draw();
    }
  }

  #draw() {
    const running = this.newest;
    const live = this.#session.state.name === "live";
    const mayAct = !viewOnly && document.body.dataset.role !== "view";
    show($("record"), live && (mayAct || running !== null));
    $("record").disabled = !mayAct;
    const label = !running ? "Record" : mayAct ? "Stop recording" : "Recording in progress";
    if ($("record").getAttribute("aria-label") !== label) {
      if ($("record").dataset.on !== undefined) announce(running ? "Recording" : "Recording stopped");
      $("record").setAttribute("aria-label", label);
      $("record").title = label;
    }
    $("record").dataset.on = String(running !== null);
    this.#tick();
    if ($("recordings-panel").matches(":popover-open")) this.#list();
  }

  // The page counts the elapsed time, and requests the size every two seconds.
  #tick() {
    clearTimeout(this.#timer);
    const running = this.newest;
    if (!running || this.#session.state.name !== "live") {
      setText($("record-time"), "Record");
      setText($("record-size"), "");
      return;
    }
    const elapsed = performance.now() - this.#since.get(running.id);
    setText($("record-time"), clock(elapsed));
    setText($("record-size"), bytes(running.bytes));
    for (const cell of document.querySelectorAll("#recordings [data-since]")) setText(cell, this.#about(this.#all.get(cell.dataset.since)));
    if (performance.now() - this.#looked > sizeTime && !document.hidden) this.#measure(running);
    this.#timer = setTimeout(() => this.#tick(), 1000 - (elapsed % 1000) + 10);
  }

  async #measure({ id }) {
    this.#looked = performance.now();
    const info = await get(`/recordings/${id}`).catch(() => null);
    if (info && this.#all.has(id)) this.#take(info);
  }

  // ---- the panel ------------------------------------------------------------------

  #list() {
    const all = [...this.#all.values()].reverse();
    const key = JSON.stringify(all.map(({ id, status, reason, title }) => [id, status, reason, title]));
    show($("recordings-none"), this.#known && all.length === 0);
    if (key === this.#shown) return; // the focus stays where it is
    this.#shown = key;
    $("recordings").replaceChildren(...all.map((info) => this.#item(info)));
  }

  #about({ id, status, reason, durationMs, bytes: size }) {
    const length = this.#since.has(id) ? performance.now() - this.#since.get(id) : durationMs;
    return [clock(length), bytes(size), words[status] ?? reasons[reason] ?? ""].filter(Boolean).join(" · ");
  }

  #item(info) {
    const { id, title, startedAt, status, error } = info;
    const when = exactly(startedAt);
    const name = title || when;
    const about = make("small", {}, this.#about(info));
    if (status === "recording") about.dataset.since = id;
    const picture = make("span", { className: "poster" });
    if (["completed", "recovered"].includes(status)) {
      const image = make("img", { src: mediaURL(`/recordings/${id}/poster.jpg`), alt: "", loading: "lazy" });
      image.addEventListener("error", () => image.remove());
      picture.append(image);
    }
    const text = make("span", { className: "name" }, name, title ? make("small", {}, when) : "", about);
    if (error) text.append(make("small", { className: "problem" }, error));
    const parts = [picture, text];
    if (status !== "failed" && status !== "recovering") {
      const play = make("button", { type: "button", className: "small", "aria-label": `Play ${name}` }, "Play");
      play.addEventListener("click", () => {
        $("recordings-panel").hidePopover();
        this.#play(info);
      });
      parts.push(play, make("a", {
        className: "button small", href: mediaURL(`/recordings/${id}/download`), download: info.fileName, "aria-label": `Download ${name}`,
      }, "Download"));
    }
    if (status === "recording") {
      const stop = make("button", { type: "button", className: "small", "data-act": "", "aria-label": `Stop ${name}` }, "Stop");
      once(stop, () => this.#change("POST", `/recordings/${id}/stop`));
      parts.push(stop);
    } else if (status !== "recovering") {
      parts.push(this.#deleteButton(id, name));
    }
    return make("li", {}, ...parts);
  }

  // A deleted recording cannot be restored, so the button asks for a second press.
  #deleteButton(id, name) {
    const button = make("button", { type: "button", className: "small danger", "data-act": "", "aria-label": `Delete ${name}` }, "Delete");
    sure(button, "Delete permanently?", () => this.#change("DELETE", `/recordings/${id}`));
    return button;
  }

  async #change(method, path) {
    try {
      await request(method, urlOf(path));
      await this.#refresh();
    } catch (error) {
      this.#showProblem(error);
    }
  }

  #showProblem(error) {
    setText($("recordings-problem"), error && `${this.#known ? "" : "Couldn't list recordings. "}${inOneLine(error)}`);
    show($("recordings-problem"), Boolean(error));
  }
}
