// The page that plays a recording: the video with the actions over it, and all that happened.

import { get, mediaURL, viewOnly } from "../api.js";
import { icon, make, once, setText, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { bytes, clock, exactly } from "../format.js";
import { Hover } from "./hover.js";
import { MomentList } from "./list.js";
import { MarkerForm } from "./marker.js";
import { inOrder, textOf, textOfGroup } from "./moments.js";
import { Scale, idleStretches, lastBefore, ticksOf } from "./scale.js";
import { momentsOf, sessionMoments, timelineOf } from "./sources.js";
import { Stage } from "./stage.js";
import { Track } from "./track.js";

const storage = "replay";
const rates = [0.5, 1, 1.5, 2, 4, 8];
const step = 5; // seconds, for the arrow keys
const jump = 10; // seconds, for J and L

/** mount fills root with the page. Its address is #/replay/RECORDING/MILLISECONDS. */
export function mount(root, context) {
  const replay = new Replay(root, context);
  return { route: (parts) => replay.open(parts), hide: () => replay.leave() };
}

class Replay {
  #root;
  #router;
  #stage = new Stage();
  #track = new Track({ label: "Events by time", clock: (at) => clock(at) });
  #list = new MomentList({ label: "All events", clock: (at) => clock(at) });
  #hover = new Hover();
  #marker = new MarkerForm(() => this.#here());
  #info = null;
  #entries = [];
  #moments = [];
  #ofSessions = [];
  #idle = [];
  #frames = 0; // the animation frame that is requested
  #choices = { rate: 1, captions: false, actions: true, skip: false, ...read() };
  #parts = {};
  #again = false; // the video was loaded again after an error
  #loading = 0; // counts, so that an answer for another recording is dropped

  constructor(root, { router, events }) {
    this.#root = root;
    this.#router = router;
    this.#build();
    const { video } = this.#stage;
    for (const type of ["timeupdate", "seeked", "loadeddata", "durationchange"]) video.addEventListener(type, () => this.#moved());
    for (const type of ["play", "pause", "ended"]) video.addEventListener(type, () => this.#playing());
    video.addEventListener("error", () => { if (video.getAttribute("src")) this.#broken(); });
    this.#track.addEventListener("choose", ({ detail }) => this.#choose(detail.at, detail.group?.moments[0]));
    this.#track.addEventListener("select", ({ detail }) => this.#choose(detail.from, detail.moments[0]));
    this.#track.addEventListener("hover", ({ detail }) => this.#point(detail));
    this.#list.addEventListener("choose", ({ detail }) => this.#choose(detail.at, detail));
    root.addEventListener("keydown", (event) => this.#key(event));
    events.addEventListener("recording", ({ detail }) => this.#changed(detail.recording));
    this.#marker.addEventListener("added", ({ detail }) => this.#marked(detail));
    this.#marker.addEventListener("failed", ({ detail }) => this.#fail(detail));
    this.#track.addEventListener("resize", () => this.#layout());
  }

  // ---- elements ----------------------------------------------------------------

  #build() {
    const p = this.#parts;
    const button = (label, sign, act) => make("button", { type: "button", className: "tool", title: label, "aria-label": label.replace(/ \(.*/, ""), onclick: act }, sign ? icon(sign) : "");
    p.title = make("h2");
    p.about = make("p", { className: "dim" });
    p.download = make("a", { className: "button small", href: "#" }, "Download");
    p.play = button("Play (K)", "play", () => this.#toggle());
    p.time = make("span", { className: "time" });
    p.rate = make("select", { "aria-label": "Speed", title: "Speed (< and >)" }, ...rates.map((rate) => make("option", { value: rate }, `${rate}×`)));
    p.rate.addEventListener("change", () => this.#set({ rate: Number(p.rate.value) }));
    p.toggles = {};
    for (const [name, label, hint] of [["skip", "Skip idle", "Pass over the parts in which nothing happens"], ["actions", "Actions", "Show clicks and keys over the picture"], ["captions", "Captions", "Describe each action in words"]]) {
      p.toggles[name] = make("button", { type: "button", className: "small toggle", title: hint, onclick: () => this.#set({ [name]: !this.#choices[name] }) }, label);
    }
    p.newer = make("button", { type: "button", className: "small", hidden: true }, "Load newer");
    once(p.newer, () => this.#reload());
    p.position = make("input", { type: "range", className: "position", min: 0, max: 0, step: "any", "aria-label": "Position" });
    p.position.addEventListener("input", () => { this.#stage.video.currentTime = p.position.value / 1000; });
    p.line = make("div", { className: "line", "aria-hidden": "true" });
    p.idle = make("div", { className: "idle", "aria-hidden": "true" });
    p.ticks = make("div", { className: "ticks", "aria-hidden": "true" });
    p.names = make("div", { className: "names", "aria-hidden": "true" }, ...["Agent", "People", "Permissions", "Errors"].map((name) => make("span", {}, name)));
    p.now = make("p", { className: "now" });
    p.chat = make("button", { type: "button", className: "small", hidden: true }, "Show in chat");
    p.trouble = make("p", { className: "problem", role: "alert", hidden: true });
    const head = make("header", {}, make("div", { className: "titles" }, p.title, p.about), p.download);
    const controls = make("div", { className: "controls", role: "group", "aria-label": "Playback" }, p.play, p.time, p.rate, p.toggles.skip, p.toggles.actions, p.toggles.captions, this.#marker.button, p.newer, this.#marker.form);
    const lanes = make("div", { className: "timeline" }, p.names, make("div", { className: "field" }, p.position, p.idle, this.#track.root, p.line, p.ticks));
    const said = make("div", { className: "said" }, p.now, p.chat);
    this.#root.append(head, p.trouble, this.#stage.root, controls, lanes, said, this.#list.root, this.#hover.root);
  }

  // ---- the recording -------------------------------------------------------------

  async open([id, at = ""]) {
    const time = /^\d+$/.test(at) ? Number(at) : null;
    if (this.#info?.id === id) return this.#begin(time);
    this.leave();
    const turn = ++this.#loading;
    this.#info = null;
    this.#again = false;
    this.#entries = [];
    this.#ofSessions = [];
    setText(this.#parts.title, "Recording");
    this.#fail("");
    this.#stage.say("");
    this.#gather();
    try {
      const info = id ? await get(`/recordings/${encodeURIComponent(id)}`) : null;
      if (turn !== this.#loading) return;
      if (!info) return this.#stage.say("Choose a recording under More, Recordings.");
      this.#info = info;
      this.#describe();
      this.#load(time);
      await this.#follow(turn);
    } catch (error) {
      if (turn === this.#loading) this.#stage.say(error.status === 404 ? "This recording doesn't exist any more." : inOneLine(error));
    }
  }

  /** leave ends the video, and the browser closes its connection. */
  leave() {
    const { video } = this.#stage;
    this.#loading++;
    this.#info = null;
    video.pause();
    video.removeAttribute("src");
    video.replaceChildren();
    video.load();
    this.#hover.hide();
    this.#marker.close();
    this.#stage.clear();
  }

  #describe() {
    const { id, title, startedAt, durationMs, bytes: size, status, fileName } = this.#info;
    const when = exactly(startedAt);
    const p = this.#parts;
    setText(p.title, title || when);
    setText(p.about, [title ? when : "", clock(durationMs), bytes(size), status === "recording" ? "Recording" : ""].filter(Boolean).join(" · "));
    Object.assign(p.download, { href: mediaURL(`/recordings/${id}/download`), download: fileName });
    show(p.newer, status === "recording");
    this.#marker.allow(!viewOnly && document.body.dataset.role !== "view");
  }

  #load(time) {
    const { id, status, bytes: size } = this.#info;
    const { video } = this.#stage;
    if (status === "failed" || status === "recovering") {
      return this.#stage.say(status === "failed" ? "This recording can't be played." : "This recording is being repaired. Try again in a minute.");
    }
    const url = (path) => mediaURL(`/recordings/${id}/${path}`);
    video.poster = time ? url(`thumbnails/${Math.floor(time)}.jpg`) : url("poster.jpg");
    video.src = url(`download?bytes=${size}`); // browsers take a URL's video to stay as it is
    video.replaceChildren(make("track", { kind: "captions", label: "Actions", srclang: "en", src: url("captions.vtt") }));
    this.#set({});
    this.#begin(time);
  }

  // The server may have replaced the file of a recording that has just ended.
  #broken() {
    if (this.#again) return this.#stage.say("Your browser can't play this recording. Download it to play it in another app.");
    this.#again = true;
    this.#reload();
  }

  #begin(time) {
    const { video } = this.#stage;
    if (time !== null) {
      video.pause();
      video.currentTime = time / 1000;
    } else {
      video.play().catch(() => {}); // the viewer can use the controls
    }
  }

  // The timeline, and the sessions of that time.
  async #follow(turn) {
    const { id, startedAt, durationMs } = this.#info;
    this.#entries = [...this.#entries, ...await timelineOf(id, this.#entries.at(-1)?.seq)];
    if (turn !== this.#loading) return;
    this.#gather();
    const from = Date.parse(startedAt);
    const moments = await sessionMoments(from, from + durationMs).catch(() => []); // a token may not show sessions
    if (turn !== this.#loading) return;
    this.#ofSessions = moments.map((moment) => ({ ...moment, at: moment.at - from }));
    this.#gather();
  }

  #gather() {
    this.#moments = inOrder([...momentsOf(this.#entries), ...this.#ofSessions]);
    this.#idle = idleStretches(this.#moments.map(({ at }) => at), this.#length);
    this.#stage.set(this.#moments, this.#entries, this.#info?.region);
    this.#list.set(this.#moments);
    this.#layout();
  }

  async #reload() {
    const turn = this.#loading;
    try {
      const info = await get(`/recordings/${this.#info.id}`);
      if (turn !== this.#loading) return;
      this.#info = info;
      this.#describe();
      const { currentTime, paused, ended } = this.#stage.video;
      this.#load(currentTime * 1000);
      if (ended || !paused) this.#stage.video.play().catch(() => {});
      await this.#follow(turn);
    } catch (error) {
      this.#fail(error);
    }
  }

  // The moment that a marker gets.
  #here() {
    this.#stage.video.pause();
    return this.#info && { id: this.#info.id, at: Math.round(this.#stage.video.currentTime * 1000) };
  }

  #marked({ id, entry }) {
    if (this.#info?.id !== id) return;
    if (!this.#entries.some(({ seq }) => seq === entry.seq)) this.#entries.push(entry);
    this.#fail("");
    this.#gather();
  }

  #changed(recording) {
    if (recording.id !== this.#info?.id) return;
    if (recording.status === "deleted") {
      this.leave();
      return this.#stage.say("This recording was deleted.");
    }
    const ended = this.#info.status === "recording" && recording.status !== "recording";
    this.#info = recording;
    this.#describe();
    if (ended) this.#reload();
  }

  #fail(error) {
    setText(this.#parts.trouble, error && inOneLine(error));
    show(this.#parts.trouble, Boolean(error));
  }

  // ---- position --------------------------------------------------------------------

  // The length in milliseconds. A recording that goes on is as long as what is loaded of it.
  get #length() {
    const { duration } = this.#stage.video;
    return Number.isFinite(duration) && duration > 0 ? duration * 1000 : this.#info?.durationMs ?? 0;
  }

  #layout() {
    const length = Math.max(1, this.#length);
    const scale = new Scale(0, length, this.#track.width);
    this.#track.draw(this.#moments, scale);
    this.#parts.ticks.replaceChildren(...ticksOf(scale).filter((at) => at < length * 0.97).map((at) => {
      const tick = make("span", {}, clock(at));
      tick.style.left = `${scale.x(at)}px`;
      return tick;
    }));
    this.#parts.idle.replaceChildren(...this.#idle.map(({ from, to }) => {
      const part = make("i");
      Object.assign(part.style, { left: `${scale.x(from)}px`, width: `${scale.x(to) - scale.x(from)}px` });
      return part;
    }));
    this.#moved();
  }

  #moved() {
    const { video } = this.#stage;
    const at = video.currentTime * 1000 + 0.5; // browsers round it
    const length = this.#length;
    const p = this.#parts;
    const times = `${clock(at)} / ${clock(length)}`;
    setText(p.time, times);
    p.position.max = length;
    p.position.value = at;
    p.position.setAttribute("aria-valuetext", times.replace("/", "of"));
    p.line.style.left = `${length ? Math.min(1, at / length) * 100 : 0}%`;
    this.#stage.draw(at, video.playbackRate);
    const last = lastBefore(this.#moments, at);
    this.#list.show(last);
    this.#tell(this.#moments[last]);
  }

  #tell(moment) {
    const p = this.#parts;
    setText(p.now, moment ? textOf(moment) : "");
    show(p.chat, Boolean(moment?.session));
    if (moment?.session) p.chat.onclick = () => this.#showInChat(moment);
  }

  #showInChat({ session, seq, at }) {
    const time = at + Date.parse(this.#info.startedAt);
    this.#router.go("s", session, String(seq));
    document.dispatchEvent(new CustomEvent("deskhand:seek", { detail: { session, seq, time, source: "timeline" } }));
  }

  #choose(at, moment) {
    this.#stage.video.currentTime = at / 1000;
    this.#hover.hide();
    if (moment) {
      this.#track.selectAt(moment);
      this.#tell(moment);
    }
  }

  #point(over) {
    if (!over || !this.#info) return this.#hover.hide();
    const box = this.#track.root.getBoundingClientRect();
    const text = over.group ? textOfGroup(over.group) : "";
    this.#hover.show({ x: box.left + over.x, y: box.top, picture: mediaURL(`/recordings/${this.#info.id}/thumbnails/${Math.floor(over.at / 1000) * 1000}.jpg`), when: clock(over.at), text });
  }

  // ---- playing ----------------------------------------------------------------------

  #toggle() {
    const { video } = this.#stage;
    if (video.paused) video.play().catch(() => {});
    else video.pause();
  }

  #playing() {
    const { paused } = this.#stage.video;
    const label = paused ? "Play" : "Pause";
    this.#parts.play.replaceChildren(icon(paused ? "play" : "pause"));
    this.#parts.play.setAttribute("aria-label", label);
    this.#parts.play.title = `${label} (K)`;
    cancelAnimationFrame(this.#frames);
    if (!paused) this.#frames = requestAnimationFrame(() => this.#frame());
  }

  #frame() {
    const { video } = this.#stage;
    const at = video.currentTime * 1000;
    const idle = this.#choices.skip && !video.seeking && this.#idle.find(({ from, to }) => at >= from && at < to - 250);
    if (idle) {
      video.currentTime = idle.to / 1000;
      this.#skipped(idle.to - at);
    }
    this.#moved();
    this.#frames = requestAnimationFrame(() => this.#frame());
  }

  #noteTimer = 0;

  #skipped(ms) {
    clearTimeout(this.#noteTimer);
    setText(this.#stage.note, `Skipped ${clock(ms)}`);
    show(this.#stage.note, true);
    this.#noteTimer = setTimeout(() => show(this.#stage.note, false), 1500);
  }

  // set changes choices, which are kept.
  #set(changes) {
    Object.assign(this.#choices, changes);
    localStorage.setItem(storage, JSON.stringify(this.#choices));
    const { rate, captions, actions } = this.#choices;
    const { video } = this.#stage;
    video.defaultPlaybackRate = video.playbackRate = rate;
    this.#parts.rate.value = rate;
    for (const [name, button] of Object.entries(this.#parts.toggles)) button.setAttribute("aria-pressed", String(this.#choices[name]));
    for (const track of video.textTracks) track.mode = captions ? "showing" : "disabled";
    this.#stage.actionsShown = actions;
    this.#stage.chipsShown = !captions; // the captions have the same texts
    this.#stage.draw(video.currentTime * 1000, rate);
  }

  // The keys of video players, wherever in the page the focus is.
  #key(event) {
    const { video } = this.#stage;
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (event.target.matches("input:not([type=range]), select")) return;
    const go = (seconds) => { video.currentTime = Math.max(0, Math.min(this.#length / 1000, video.currentTime + seconds)); };
    const frame = (sign) => { video.pause(); go(sign / (this.#info?.fps || 30)); };
    const faster = (by) => this.#set({ rate: rates[Math.max(0, Math.min(rates.length - 1, rates.indexOf(this.#choices.rate) + by))] });
    const acts = {
      ArrowLeft: () => go(-step), ArrowRight: () => go(step), j: () => go(-jump), l: () => go(jump), k: () => this.#toggle(),
      ",": () => frame(-1), ".": () => frame(1), "<": () => faster(-1), ">": () => faster(1), m: () => this.#marker.open(),
      Home: () => go(-Infinity), End: () => go(Infinity), " ": () => this.#toggle(),
    };
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!Object.hasOwn(acts, key) || (key === " " && event.target.closest("button, a"))) return;
    acts[key]();
    event.preventDefault();
  }
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(storage)) ?? {};
  } catch {
    return {}; // not written by this page
  }
}
