// The list of a recording's moments. It makes elements for the visible rows only.

import { make } from "../dom.js";
import { labelOfLane, textOf } from "./moments.js";

const rowHeight = 32;
const spare = 8; // rows above and below the visible ones

/** MomentList shows moments in root. It emits choose with a moment. */
export class MomentList extends EventTarget {
  #moments = [];
  #rows = new Map(); // by index
  #space = make("div", { role: "presentation" });
  #current = -1;
  #clock;

  constructor({ label, clock }) {
    super();
    this.#clock = clock;
    this.root = make("div", { className: "moments", tabIndex: 0, role: "listbox", "aria-label": label }, this.#space);
    this.root.addEventListener("scroll", () => this.#draw(), { passive: true });
    this.root.addEventListener("keydown", (event) => this.#key(event));
    this.root.addEventListener("click", ({ target }) => {
      const row = target.closest("[data-index]");
      if (row) this.#choose(Number(row.dataset.index));
    });
    new ResizeObserver(() => { this.#reveal(); this.#draw(); }).observe(this.root);
  }

  set(moments) {
    const now = this.#moments[this.#current];
    this.#moments = moments;
    this.#current = moments.indexOf(now);
    for (const row of this.#rows.values()) row.remove();
    this.#rows.clear();
    this.#space.style.height = `${moments.length * rowHeight}px`;
    this.#draw();
  }

  /** show marks the moment with an index as the current one. */
  show(index) {
    if (index === this.#current) return;
    this.#rows.get(this.#current)?.setAttribute("aria-selected", "false");
    this.#current = index;
    this.#reveal();
    this.#draw();
  }

  #reveal() {
    if (this.#current < 0) return;
    const top = this.#current * rowHeight;
    const { scrollTop, clientHeight } = this.root;
    if (top < scrollTop + rowHeight) this.root.scrollTop = top - rowHeight;
    else if (top > scrollTop + clientHeight - 2 * rowHeight) this.root.scrollTop = top - clientHeight + 2 * rowHeight;
  }

  #draw() {
    const { scrollTop, clientHeight } = this.root;
    const first = Math.max(0, Math.floor(scrollTop / rowHeight) - spare);
    const last = Math.min(this.#moments.length - 1, Math.ceil((scrollTop + clientHeight) / rowHeight) + spare);
    for (const [index, row] of this.#rows) if ((index < first || index > last) && index !== this.#current) { row.remove(); this.#rows.delete(index); }
    for (let index = first; index <= last; index++) this.#row(index);
    if (this.#current >= 0) this.#row(this.#current);
    const row = this.#rows.get(this.#current);
    row?.setAttribute("aria-selected", "true");
    if (row) this.root.setAttribute("aria-activedescendant", row.id);
    else this.root.removeAttribute("aria-activedescendant");
  }

  #row(index) {
    if (this.#rows.has(index)) return;
    const moment = this.#moments[index];
    const text = textOf(moment);
    const row = make("div", { className: "row-of-moment", role: "option", id: `moment-${index}`, "aria-selected": "false", "aria-setsize": this.#moments.length, "aria-posinset": index + 1, title: text },
      make("span", { className: "when" }, this.#clock(moment.at)),
      make("i", { className: "sign", role: "img", "aria-label": labelOfLane(moment.lane) }),
      make("span", { className: "what" }, ...(moment.by ? [make("b", {}, `${moment.by}: `)] : []), moment.text));
    row.dataset.index = index;
    row.dataset.lane = moment.lane;
    row.style.top = `${index * rowHeight}px`;
    this.#rows.set(index, row);
    this.#space.append(row);
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || !this.#moments.length) return;
    const page = Math.max(1, Math.floor(this.root.clientHeight / rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity, Enter: 0 };
    if (!(event.key in steps)) return;
    this.#choose(Math.max(0, Math.min(this.#moments.length - 1, this.#current + steps[event.key])));
    event.preventDefault();
    event.stopPropagation();
  }

  #choose(index) {
    this.show(index);
    this.dispatchEvent(new CustomEvent("choose", { detail: this.#moments[index] }));
  }
}
