// The timeline below the picture: what agents and people did in the last minutes, live at its right end.

import { mediaURL } from "../api.js";
import { make, show } from "../dom.js";
import { Feed } from "./feed.js";
import { Hover } from "./hover.js";
import { textOfGroup } from "./moments.js";
import { Pictures } from "./pictures.js";
import { Scale } from "./scale.js";
import { sessionEvent } from "./sources.js";
import { Track } from "./track.js";

const storage = "timeline";
const spans = [[60, "1 min"], [300, "5 min"], [1800, "30 min"], [7200, "2 h"]].map(([seconds, label]) => [seconds * 1000, label]);
const margin = 8; // pixels right of the present
const slot = 64; // pixels for each picture
const soon = 1000; // between two drawings
const thumbnailTime = 10_000; // between two of a recording
const near = 250; // milliseconds by which the times of two programs may differ

/** mount fills root with the timeline. */
export function mount(root, context) {
  const strip = new Strip(root, context);
  return { show: () => strip.start(), hide: () => strip.stop() };
}

class Strip {
  #root;
  #router;
  #feed;
  #pictures;
  #track = new Track({ label: "Timeline of the desktop", clock: timeOf });
  #hover = new Hover();
  #span = make("select", { "aria-label": "Time shown", title: "Time shown" }, ...spans.map(([value, label]) => make("option", { value }, label)));
  #live = make("button", { type: "button", className: "small live" }, make("i"), "Live");
  #shots = make("div", { className: "shots", "aria-hidden": "true" });
  #line = make("div", { className: "line", "aria-hidden": "true", hidden: true });
  #none = make("p", { className: "none" }, "What agents and people do appears here");
  #images = new Map(); // by slot
  #end = 0; // the time at the right end; 0 is now
  #held = 0; // the same, while there is a card: what a pointer is over does not move away
  #timer = 0;
  #pinned = false; // the card stays

  constructor(root, { session, events, router }) {
    this.#root = root;
    this.#router = router;
    this.#feed = new Feed({ session, events });
    this.#pictures = new Pictures({ session });
    root.append(this.#span, make("div", { className: "field" }, this.#shots, this.#track.root, this.#line, this.#none), this.#live, this.#hover.root);
    const kept = localStorage.getItem(storage);
    this.#span.value = spans.some(([value]) => String(value) === kept) ? kept : spans[1][0];
    this.#span.addEventListener("change", () => { localStorage.setItem(storage, this.#span.value); this.#draw(); });
    this.#live.addEventListener("click", () => this.#follow());
    this.#feed.addEventListener("change", () => this.#draw());
    router.addEventListener("change", () => this.#route());
    this.#track.addEventListener("hover", ({ detail }) => { if (!this.#pinned) this.#card(detail); });
    this.#track.addEventListener("select", ({ detail }) => this.#card({ at: detail.from, group: detail, x: this.#scale.x(detail.from) }));
    this.#track.addEventListener("choose", ({ detail }) => this.#choose(detail));
    this.#track.root.addEventListener("blur", () => { if (!this.#pinned) this.#unpin(); });
    this.#track.root.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    root.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.defaultPrevented || !this.#hover.shown) return;
      this.#unpin();
      event.preventDefault();
    });
    document.addEventListener("pointerdown", ({ target }) => { if (!this.#hover.root.contains(target)) this.#unpin(); });
    document.addEventListener("deskhand:seek", ({ detail }) => { if (detail.source !== "timeline") this.#seek(detail); });
    this.#track.addEventListener("resize", () => this.#draw());
    this.#route();
  }

  start() {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.#tick(), soon);
    this.#draw();
  }

  stop() {
    clearInterval(this.#timer);
    this.#unpin();
  }

  // The session that is shown, or was shown last.
  #route() {
    const [first, id] = this.#router.parts;
    if (first !== "s") return this.#unpin();
    if (id && id !== "new") this.#feed.follow(id);
  }

  #tick() {
    if (document.hidden || !this.#track.width) return;
    whenIdle(() => this.#pictures.take(this.#feed.now));
    if (!this.#end && !this.#held) this.#draw();
  }

  // ---- drawing ------------------------------------------------------------------

  get #length() { return Number(this.#span.value); }
  get #perSlot() { return (slot * this.#length) / Math.max(slot, this.#track.width); }

  get #scale() {
    const to = (this.#end || this.#held || this.#feed.now) + (margin * this.#length) / Math.max(margin, this.#track.width);
    return new Scale(to - this.#length, to, this.#track.width);
  }

  #draw() {
    if (!this.#track.width) return;
    const scale = this.#scale;
    this.#track.draw(this.#feed.moments, scale);
    this.#drawShots(scale);
    show(this.#none, this.#feed.moments.length === 0);
    this.#live.setAttribute("aria-pressed", String(!this.#end));
    this.#live.title = this.#end ? "Go to the present" : "The right end is the present";
  }

  // A picture for each slot. Slots are at round times, so that they move with the rest.
  #drawShots(scale) {
    const step = this.#perSlot;
    const wanted = new Set();
    for (let n = Math.floor(scale.from / step); n * step < scale.to; n++) {
      const at = n * step;
      const source = this.#pictureAt(Math.min(at + step / 2, scale.to), step * 1.5);
      if (!source) continue;
      const key = `${at} ${source}`;
      wanted.add(key);
      if (!this.#images.has(key)) {
        const image = make("img", { src: source, alt: "" });
        image.addEventListener("error", () => { image.hidden = true; });
        this.#images.set(key, image);
        this.#shots.append(image);
      }
      const image = this.#images.get(key);
      image.style.transform = `translateX(${scale.x(at).toFixed(1)}px)`;
    }
    for (const [key, image] of this.#images) if (!wanted.has(key)) { image.remove(); this.#images.delete(key); }
  }

  // The URL of the picture at a time, at most older milliseconds before it, or "".
  #pictureAt(at, older) {
    const recording = this.#feed.recordingAt(at);
    if (!recording) return this.#pictures.near(at, older, this.#feed.now);
    const position = Math.floor((at - recording.from) / thumbnailTime) * thumbnailTime;
    return mediaURL(`/recordings/${recording.id}/thumbnails/${position}.jpg`);
  }

  // ---- the card --------------------------------------------------------------------

  #card(over, acts = []) {
    if (!over) return this.#unpin();
    const { at, group, x } = over;
    this.#held ||= this.#feed.now;
    const box = this.#track.root.getBoundingClientRect();
    const recorded = Boolean(this.#feed.recordingAt(at));
    const text = group ? textOfGroup(group) + (acts.length && !recorded ? " · Not recorded" : "") : recorded ? "Select to replay" : "";
    this.#hover.show({ x: box.left + x, y: box.top, picture: this.#pictureAt(at, 0), when: timeOf(at), text, acts });
    this.#line.style.left = `${x}px`;
    show(this.#line, acts.length > 0 || this.#pinned);
  }

  #pin(over) {
    const moment = momentAt(over);
    const recording = this.#feed.recordingAt(over.at);
    const acts = [];
    if (recording) acts.push(make("button", { type: "button", className: "small primary", onclick: () => this.#replay(recording, over.at) }, "Replay"));
    if (moment?.session) acts.push(make("button", { type: "button", className: "small", onclick: () => this.#showInChat(moment) }, "Show in chat"));
    this.#pinned = true;
    this.#card(over, acts);
  }

  #unpin() {
    this.#pinned = false;
    this.#held = 0;
    this.#hover.hide();
    show(this.#line, false);
  }

  // ---- moments -----------------------------------------------------------------------

  #choose({ at, group, x }) {
    const moment = momentAt({ at, group });
    const row = moment?.session ? moment : this.#feed.nearest(at);
    if (row) this.#announce(row);
    const recording = this.#feed.recordingAt(at);
    if (recording) return this.#replay(recording, at);
    if (moment?.session) this.#showInChat(moment);
    if (group) this.#pin({ at, group, x });
  }

  #replay({ id, from }, at) {
    this.#unpin();
    this.#router.go("replay", id, String(Math.max(0, Math.round(at - from))));
  }

  #showInChat(moment) {
    this.#router.go("s", moment.session, String(moment.seq));
    this.#announce(moment);
  }

  // The transcript shows the same moment.
  #announce({ session, seq, at }) {
    document.dispatchEvent(new CustomEvent("deskhand:seek", { detail: { session, seq, time: at, source: "timeline" } }));
  }

  // The transcript was asked for a moment: the timeline shows it.
  async #seek({ session, seq, from, time }) {
    const those = this.#feed.moments.filter((moment) => moment.session === session);
    let at = time;
    if (at === undefined) at = Date.parse((await sessionEvent(session, seq).catch(() => null))?.time);
    if (Number.isNaN(at)) return;
    // What an agent did during a call is where the call can be seen.
    const acted = from && this.#feed.moments.find((one) => one.action && one.action.actor.kind !== "viewer" && one.at >= from - near && one.at <= at + near);
    if (acted) at = acted.at;
    // A row has the time at which its part began, and a moment the one at which it ended.
    const moment = acted || (those.find((one) => (seq === undefined ? one.at >= at : one.seq >= seq)) ?? those.at(-1));
    if (!this.#scale.shows(at)) this.#end = Math.min(this.#feed.now, at + this.#length / 2);
    this.#draw();
    this.#track.selectAt(moment);
    this.#pin({ at, group: moment && { lane: moment.lane, from: moment.at, to: moment.at, moments: [moment] }, x: this.#scale.x(at) });
  }

  // ---- panning -----------------------------------------------------------------------

  #follow() {
    this.#end = 0;
    this.#unpin();
    this.#draw();
  }

  #pan(ms) {
    const { now } = this.#feed;
    const end = (this.#end || now) + ms;
    this.#end = end >= now ? 0 : end;
    this.#unpin();
    this.#draw();
  }

  #wheel(event) {
    if (event.ctrlKey) return;
    event.preventDefault();
    const pixels = (event.deltaX || event.deltaY) * (event.deltaMode ? 16 : 1);
    this.#pan(pixels * this.#scale.perPixel);
  }

  #key(event) {
    const pages = { PageUp: -0.8, PageDown: 0.8 }[event.key];
    if (!pages || event.target !== this.#track.root) return;
    this.#pan(pages * this.#length);
    event.preventDefault();
  }
}

const whenIdle = window.requestIdleCallback ?? ((act) => act());

// The moment of a group at a time.
const momentAt = ({ at, group }) => group && (group.moments.findLast((moment) => moment.at <= at) ?? group.moments[0]);

const timeOf = (at) => new Date(at).toLocaleTimeString([], { timeStyle: "medium" });
