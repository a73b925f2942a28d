// The picture of a recording, with the actions over it.

import { drawing } from "../actions.js";
import { make, setText, show } from "../dom.js";
import { lastBefore } from "./scale.js";

const markTime = 1600; // milliseconds of the viewer's time
const chipTime = 3000;
const mostMarks = 12;
const mostChips = 4;

/** Stage has the video in root and draws the actions of the moment. */
export class Stage {
  #layer = make("div", { className: "actions", "aria-hidden": "true" });
  #chips = make("div", { className: "chips", "aria-hidden": "true" });
  #frame;
  #actions = [];
  #sizes = []; // of the screen, by time: { at, width, height }
  #region = null; // of the screen that the video shows; null: all of it
  #drawn = new Map(); // by moment: the elements
  actionsShown = true;
  chipsShown = true;

  constructor() {
    this.video = make("video", { playsInline: true, tabIndex: -1, "aria-hidden": "true" });
    this.problem = make("p", { className: "problem", role: "alert", hidden: true });
    this.note = make("p", { className: "skipped", role: "status", hidden: true });
    this.#frame = make("div", { className: "frame" }, this.video, this.#layer);
    this.root = make("div", { className: "stage" }, this.#frame, this.#chips, this.note, this.problem);
    new ResizeObserver(() => this.layout()).observe(this.root);
    this.video.addEventListener("loadedmetadata", () => this.layout());
  }

  /** set sets the moments, the entries of the timeline with the sizes of the screen, and the region of the recording. */
  set(moments, entries, region = null) {
    this.#region = region;
    this.#actions = moments.filter(({ action }) => action);
    this.#sizes = entries.filter(({ size }) => size).map(({ at, size }) => ({ at, ...size }));
    this.clear();
  }

  clear() {
    this.#drawn.clear();
    this.#layer.replaceChildren();
    this.#chips.replaceChildren();
  }

  /** layout fits the video into root. */
  layout() {
    const { videoWidth: width, videoHeight: height } = this.video;
    const { clientWidth, clientHeight } = this.root;
    if (!width || !clientWidth) return;
    const scale = Math.min(clientWidth / width, clientHeight / height);
    this.#frame.style.width = `${Math.round(width * scale)}px`;
    this.#frame.style.height = `${Math.round(height * scale)}px`;
  }

  /** draw shows the actions at a time, in milliseconds of the video. */
  draw(at, rate = 1) {
    const wanted = new Set();
    const size = this.#place(at);
    if (this.actionsShown && size) {
      const speed = Math.max(1, rate);
      let marks = 0;
      let chips = 0;
      for (let n = lastBefore(this.#actions, at); n >= 0 && at - this.#actions[n].at < chipTime * speed; n--) {
        const moment = this.#actions[n];
        const pointed = Boolean(moment.action.at);
        if (pointed ? at - moment.at < markTime * speed && marks++ < mostMarks : this.chipsShown && chips++ < mostChips) wanted.add(moment);
      }
    }
    for (const [moment, elements] of this.#drawn) {
      if (wanted.has(moment)) continue;
      for (const element of elements) element.remove();
      this.#drawn.delete(moment);
    }
    for (const moment of [...wanted].reverse()) {
      if (this.#drawn.has(moment)) continue;
      const { marks, chips } = drawing(moment.action, size);
      this.#layer.append(...marks);
      this.#chips.append(...chips);
      this.#drawn.set(moment, [...marks, ...chips]);
    }
  }

  // The size of the screen at a time, of which the layer covers as much as the video shows.
  // A screen of another shape than the video has is within black bars.
  #place(at) {
    const { videoWidth, videoHeight } = this.video;
    const size = this.#sizes[Math.max(0, lastBefore(this.#sizes, at))];
    if (!size || !videoWidth) return null;
    const part = this.#region;
    if (part) {
      const inset = (pixels, all) => `${(-pixels / all) * 100}%`;
      this.#layer.style.inset = [inset(part.y, part.height), inset(size.width - part.x - part.width, part.width), inset(size.height - part.y - part.height, part.height), inset(part.x, part.width)].join(" ");
      return size;
    }
    const first = this.#sizes[0];
    const off = (a, b) => Math.abs(a - b) > 2;
    const scale = videoWidth / first.width;
    if (scale > 1.01 || off(first.height * scale, videoHeight)) return null;
    const fit = Math.min(scale, videoWidth / size.width, videoHeight / size.height);
    const [width, height] = [(size.width * fit) / videoWidth, (size.height * fit) / videoHeight];
    const inset = (part) => `${((1 - Math.min(1, part)) / 2) * 100}%`;
    this.#layer.style.inset = `${inset(height)} ${inset(width)}`;
    return size;
  }

  /** say shows a problem in place of the video. */
  say(text) {
    setText(this.problem, text);
    show(this.problem, text !== "");
    show(this.#frame, text === "");
  }
}
