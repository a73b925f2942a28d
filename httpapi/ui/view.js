// The layout of the picture: scaled to fit, at its own size, or the
// desktop resized to the page. And full screen.

import { post } from "./api.js";

const storage = "view";
const quiet = 400; // milliseconds without a change before the desktop is resized
const least = 320;
const mostZoom = 8;
const margin = 40; // pixels between a revealed point and the edge

const modes = ["fit", "full", "match"];

/** View lays out frame, which holds the picture, in stage. Events: change, trouble. */
export class View extends EventTarget {
  #stage;
  #frame;
  #size = { width: 0, height: 0 };
  #timer = 0;
  #zoom = 1; // by the fingers
  #former = null; // the size of the desktop before this page resized it
  scale = 1;
  /** Whether this viewer may resize the desktop. */
  mayResize = () => false;

  constructor({ stage, frame }) {
    super();
    this.#stage = stage;
    this.#frame = frame;
    const kept = localStorage.getItem(storage);
    this.mode = modes.includes(kept) ? kept : "fit";
    new ResizeObserver(() => { this.layout(); this.match(); }).observe(stage);
    document.addEventListener("fullscreenchange", () => this.#fullScreenChanged());
  }

  get size() { return this.#size; }

  setMode(mode) {
    this.mode = mode;
    this.#zoom = 1;
    localStorage.setItem(storage, mode);
    this.layout();
    if (mode === "match") this.match();
    else this.#restore();
  }

  // What this page has resized gets its size back.
  #restore() {
    clearTimeout(this.#timer);
    const size = this.#former;
    this.#former = null;
    if (size && this.mayResize()) this.#resize(size);
  }

  async #resize(size) {
    try {
      await post("/resize", size);
    } catch (error) {
      this.dispatchEvent(new CustomEvent("trouble", { detail: error }));
    }
  }

  /** setSize sets the picture's size. */
  setSize({ width, height }) {
    if (!width || !height || (width === this.#size.width && height === this.#size.height)) return;
    this.#size = { width, height };
    this.layout();
  }

  /** clear removes the picture. */
  clear() { this.#size = { width: 0, height: 0 }; }

  layout() {
    const { width, height } = this.#size;
    if (!width) return;
    const { clientWidth, clientHeight } = this.#stage;
    const fits = Math.min(clientWidth / width, clientHeight / height);
    // A scale near 1 becomes 1: scaled text is hard to read.
    const near = this.mode === "match" && fits > 0.98 && fits < 1.02;
    this.scale = (this.mode === "full" || near ? 1 : fits) * this.#zoom;
    this.#stage.dataset.mode = this.mode;
    this.#stage.dataset.zoomed = String(this.#zoom > 1);
    this.#frame.style.width = `${Math.round(width * this.scale)}px`;
    this.#frame.style.height = `${Math.round(height * this.scale)}px`;
    this.dispatchEvent(new Event("change"));
  }

  /** room returns the size of the page in pixels of the desktop. */
  room() {
    const { clientWidth, clientHeight } = this.#stage;
    return { width: Math.max(least, clientWidth), height: Math.max(least, clientHeight) };
  }

  /** match resizes the desktop to the page after a pause, if the viewer chose that. */
  match() {
    clearTimeout(this.#timer);
    if (this.mode !== "match") return;
    this.#timer = setTimeout(() => {
      const room = this.room();
      const same = room.width === this.#size.width && room.height === this.#size.height;
      if (same || this.mode !== "match" || !this.mayResize()) return;
      this.#former ??= this.#size;
      this.#resize(room);
    }, quiet);
  }

  /** place returns the pixel of the desktop for a pointer event. */
  place({ clientX, clientY }) {
    const box = this.#frame.getBoundingClientRect();
    const { width, height } = this.#size;
    const within = (at, length, pixels) => Math.max(0, Math.min(pixels - 1, Math.floor((at / length) * pixels)));
    return { x: within(clientX - box.left, box.width, width), y: within(clientY - box.top, box.height, height) };
  }

  /** pan moves a picture that is larger than the page and returns whether it is. */
  pan(dx, dy) {
    const { scrollWidth, scrollHeight, clientWidth, clientHeight } = this.#stage;
    if (scrollWidth <= clientWidth && scrollHeight <= clientHeight) return false;
    this.#stage.scrollBy(-dx, -dy);
    return true;
  }

  /** zoomBy makes the picture larger, by up to eightfold, and keeps a point of it in place. */
  zoomBy(factor, { clientX, clientY }) {
    const zoom = Math.max(1, Math.min(mostZoom, this.#zoom * factor));
    if (zoom === this.#zoom) return;
    const before = this.#frame.getBoundingClientRect();
    const [x, y] = [(clientX - before.left) / before.width, (clientY - before.top) / before.height];
    this.#zoom = zoom;
    this.layout();
    const after = this.#frame.getBoundingClientRect();
    this.#stage.scrollBy(after.left + x * after.width - clientX, after.top + y * after.height - clientY);
  }

  /** reveal scrolls to a point of the desktop. It returns the nearest one within the desktop. */
  reveal({ x, y }) {
    const at = { x: Math.round(Math.max(0, Math.min(this.#size.width - 1, x))), y: Math.round(Math.max(0, Math.min(this.#size.height - 1, y))) };
    const [stage, frame] = [this.#stage.getBoundingClientRect(), this.#frame.getBoundingClientRect()];
    const past = (pixel, start, from, to) => Math.min(0, start + pixel * this.scale - from - margin) + Math.max(0, start + pixel * this.scale - to + margin);
    this.#stage.scrollBy(past(at.x, frame.left, stage.left, stage.right), past(at.y, frame.top, stage.top, stage.bottom));
    return at;
  }

  // ---- full screen --------------------------------------------------------

  get canFillScreen() { return document.fullscreenEnabled; }
  get fillsScreen() { return document.fullscreenElement !== null; }

  async toggleFullScreen() {
    if (this.fillsScreen) return document.exitFullscreen();
    await document.documentElement.requestFullscreen({ navigationUI: "hide" });
    // Esc, Ctrl+W and the like go to the desktop, too; Esc held leaves.
    await navigator.keyboard?.lock?.().catch(() => {});
  }

  #fullScreenChanged() {
    if (!this.fillsScreen) navigator.keyboard?.unlock?.();
    document.body.classList.toggle("full", this.fillsScreen);
    this.dispatchEvent(new Event("change"));
  }
}
