// The track of a timeline: lanes with the moments of a stretch of time.

import { make } from "../dom.js";
import { groupsOf, labelOfLane, lanes, textOfGroup } from "./moments.js";

const gap = 9; // pixels between two marks
const near = 8; // from the pointer to a mark

let tracks = 0;

/**
 * Track shows moments in root, which is a list for screen readers and takes the arrow keys.
 * It emits choose with { at, group } for a click or Enter, select with a group for arrow
 * keys, hover with { at, group, x } or null, and resize. Its width is kept: asking for it
 * would make the browser lay out the page.
 */
export class Track extends EventTarget {
  width = 0;
  #lanes = new Map();
  #groups = [];
  #elements = new Map(); // by group key
  #scale = null;
  #selected = null; // the key of a group
  #clock;
  #id = `track${++tracks}`;

  /** clock returns a time as text. */
  constructor({ label, clock }) {
    super();
    this.#clock = clock;
    this.root = make("div", { className: "track", tabIndex: 0, role: "listbox", "aria-label": label, "aria-orientation": "horizontal" });
    for (const { name, label: text } of [...lanes, { name: "marker", label: "Markers" }]) {
      const lane = make("div", { className: "lane", role: "group", "aria-label": text });
      lane.dataset.lane = name;
      this.#lanes.set(name, lane);
      this.root.append(lane);
    }
    this.root.addEventListener("keydown", (event) => this.#key(event));
    this.root.addEventListener("focus", () => { if (!this.#selected && this.#groups.length) this.#select(this.#groups.at(-1)); });
    this.root.addEventListener("pointermove", (event) => this.#emit("hover", this.#under(event)));
    this.root.addEventListener("pointerleave", () => this.#emit("hover", null));
    this.root.addEventListener("click", (event) => this.#emit("choose", this.#under(event)));
    new ResizeObserver(([{ contentRect: { width } }]) => { this.width = width; this.#emit("resize", null); }).observe(this.root);
  }

  get selected() { return this.#groups.find((group) => keyOf(group) === this.#selected) ?? null; }

  /** draw shows moments, which are in order, at a scale. */
  draw(moments, scale) {
    this.#scale = scale;
    this.#groups = groupsOf(moments, scale, gap).filter(({ from, to }) => scale.shows(from, to));
    const keys = new Set(this.#groups.map(keyOf));
    for (const [key, element] of this.#elements) if (!keys.has(key)) { element.remove(); this.#elements.delete(key); }
    if (!keys.has(this.#selected)) this.#mark(null);
    for (const group of this.#groups) this.#place(group);
  }

  /** selectAt selects the group of a moment. */
  selectAt(moment) {
    const group = this.#groups.find(({ moments }) => moments.includes(moment));
    this.#mark(group ? keyOf(group) : null);
  }

  #place(group) {
    const key = keyOf(group);
    let element = this.#elements.get(key);
    if (!element) {
      element = make("i", { role: "option", id: `${this.#id}-${key.replace(/[^\w-]/g, "-")}`, "aria-selected": "false" });
      this.#elements.set(key, element);
      this.#lanes.get(group.lane)?.append(element);
    }
    const length = (group.to - group.from) / this.#scale.perPixel;
    element.style.transform = `translateX(${this.#scale.x(group.from).toFixed(1)}px)`;
    element.style.width = length > 1 ? `${length.toFixed(1)}px` : "";
    element.classList.toggle("long", length > 1);
    const when = group.to - group.from < 1000 ? this.#clock(group.from) : `${this.#clock(group.from)} to ${this.#clock(group.to)}`;
    const label = `${labelOfLane(group.lane)}, ${when}: ${textOfGroup(group)}`;
    if (element.getAttribute("aria-label") !== label) element.setAttribute("aria-label", label);
  }

  // The group near the pointer, in its lane if there is one.
  #under({ clientX, clientY }) {
    const box = this.root.getBoundingClientRect();
    const x = Math.max(0, Math.min(box.width, clientX - box.left));
    const at = this.#scale?.time(x) ?? 0;
    const reach = near * (this.#scale?.perPixel ?? 0);
    const close = this.#groups.filter(({ from, to }) => at > from - reach && at < to + reach);
    const over = (lane) => { const { top, bottom } = this.#lanes.get(lane).getBoundingClientRect(); return clientY >= top && clientY < bottom; };
    const group = close.find(({ lane }) => over(lane)) ?? close[0] ?? null;
    return { at: group && (at < group.from || at > group.to) ? group.from : at, group, x };
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || !this.#groups.length) return;
    const now = this.#groups.findIndex((group) => keyOf(group) === this.#selected);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Enter") {
      const group = this.#groups[now];
      if (group) this.#emit("choose", { at: group.from, group, x: this.#scale.x(group.from) });
    } else if (event.key === "Home" || event.key === "End") {
      this.#select(this.#groups.at(event.key === "Home" ? 0 : -1));
    } else if (step) {
      this.#select(this.#groups[Math.max(0, Math.min(this.#groups.length - 1, now < 0 ? (step > 0 ? 0 : this.#groups.length - 1) : now + step))]);
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const other = this.#inLane(this.#groups[now], event.key === "ArrowUp" ? -1 : 1);
      if (other) this.#select(other);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // The group of the next lane with moments that is nearest in time.
  #inLane(group, step) {
    if (!group) return null;
    const order = [...this.#lanes.keys()];
    for (let n = order.indexOf(group.lane) + step; n >= 0 && n < order.length; n += step) {
      const others = this.#groups.filter(({ lane }) => lane === order[n]);
      if (others.length) return others.reduce((a, b) => (Math.abs(b.from - group.from) < Math.abs(a.from - group.from) ? b : a));
    }
    return null;
  }

  #select(group) {
    this.#mark(keyOf(group));
    this.#emit("select", group);
  }

  #mark(key) {
    this.#elements.get(this.#selected)?.setAttribute("aria-selected", "false");
    this.#selected = key;
    const element = this.#elements.get(key);
    element?.setAttribute("aria-selected", "true");
    if (element) this.root.setAttribute("aria-activedescendant", element.id);
    else this.root.removeAttribute("aria-activedescendant");
  }

  #emit(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }
}

// A group keeps its key while moments are added to its end.
const keyOf = ({ lane, moments }) => `${lane} ${moments[0].key}`;
