// A long list that scrolls: only the rows near what is visible are in the document.

const rowsInChunk = 40;
const guess = 56; // height of a row that was never shown, in pixels
const margin = 1200; // pixels above and below what is visible
const close = 48; // pixels from the end, within which the list follows it

/**
 * Scroller shows rows in box, which scrolls. render(row) makes a row's element, and
 * refresh(row, element)
 * changes it, or returns another. The list follows its end while the user is there.
 * It emits follow when that changes, and top when the first rows come near.
 */
export class Scroller extends EventTarget {
  following = true;
  #box;
  #list;
  #render;
  #refresh;
  #chunks = []; // { element, rows, shown }
  #places = new Map(); // chunks by row
  #elements = new Map(); // of rows that are shown
  #near;

  constructor({ box, list, render, refresh }) {
    super();
    [this.#box, this.#list, this.#render, this.#refresh] = [box, list, render, refresh];
    this.#near = new IntersectionObserver((entries) => this.#seen(entries), { root: box, rootMargin: `${margin}px 0px` });
    new ResizeObserver(() => this.#settle()).observe(list);
    new ResizeObserver(() => this.#settle()).observe(box);
    box.addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  /** The element of a row that is shown. */
  element(row) { return this.#elements.get(row); }

  get rows() { return this.#chunks.flatMap(({ rows }) => rows); }

  /** append adds rows at the end. */
  append(rows) {
    for (const row of rows) {
      let chunk = this.#chunks.at(-1);
      if (!chunk || chunk.rows.length >= rowsInChunk) {
        chunk = this.#chunk();
        this.#chunks.push(chunk);
        this.#list.append(chunk.element);
        this.#near.observe(chunk.element);
      }
      chunk.rows.push(row);
      this.#places.set(row, chunk);
      if (chunk.shown) chunk.element.append(this.#make(row));
      else this.#size(chunk);
    }
    // The last rows are shown at once, the others when they come near.
    if (this.following) for (const chunk of this.#chunks.slice(-1)) this.#fill(chunk);
  }

  /** prepend adds rows before the first. */
  prepend(rows) {
    const before = this.#box.scrollHeight;
    const chunks = [];
    for (let end = rows.length; end > 0; end -= rowsInChunk) {
      const chunk = this.#chunk();
      chunk.rows = rows.slice(Math.max(0, end - rowsInChunk), end);
      for (const row of chunk.rows) this.#places.set(row, chunk);
      this.#size(chunk);
      chunks.unshift(chunk);
    }
    this.#list.prepend(...chunks.map(({ element }) => element));
    this.#chunks.unshift(...chunks);
    for (const { element } of chunks) this.#near.observe(element);
    this.#box.scrollTop += this.#box.scrollHeight - before;
  }

  /** remove removes a row. */
  remove(row) {
    const chunk = this.#places.get(row);
    if (!chunk) return;
    chunk.rows.splice(chunk.rows.indexOf(row), 1);
    this.#places.delete(row);
    this.#elements.get(row)?.remove();
    this.#elements.delete(row);
  }

  /** update shows a row's change. */
  update(row) {
    const element = this.#elements.get(row);
    const other = element && this.#refresh(row, element);
    if (!other) return;
    element.replaceWith(other);
    this.#elements.set(row, other);
  }

  /** clear removes all rows. */
  clear() {
    this.#near.disconnect();
    this.#chunks = [];
    this.#places.clear();
    this.#elements.clear();
    this.#list.replaceChildren();
    this.following = true;
  }

  /** toEnd scrolls to the end and follows it. */
  toEnd() {
    this.#follow(true);
    this.#settle();
  }

  /** reveal scrolls to a row and returns its element, or undefined if there is no such row. */
  reveal(row) {
    const chunk = this.#places.get(row);
    if (!chunk) return undefined;
    this.#follow(false);
    this.#fill(chunk);
    const element = this.#elements.get(row);
    element.scrollIntoView({ block: "center" });
    this.#scrolled(); // there is no event if the row was at its place
    return element;
  }

  #chunk() {
    const element = document.createElement("div");
    element.className = "chunk";
    element.role = "presentation";
    return { element, rows: [], shown: false, height: 0 };
  }

  #make(row) {
    const element = this.#render(row);
    this.#elements.set(row, element);
    return element;
  }

  #size(chunk) { chunk.element.style.height = `${chunk.height || chunk.rows.length * guess}px`; }

  #seen(entries) {
    for (const { target, isIntersecting } of entries) {
      const chunk = this.#chunks.find(({ element }) => element === target);
      if (!chunk) continue;
      if (isIntersecting) this.#fill(chunk);
      else if (chunk !== this.#chunks.at(-1) && !target.contains(document.activeElement)) this.#empty(chunk);
    }
    this.#settle();
  }

  #fill(chunk) {
    if (chunk.shown) return;
    const before = chunk.element.offsetHeight;
    chunk.shown = true;
    chunk.element.style.height = "";
    chunk.element.replaceChildren(...chunk.rows.map((row) => this.#make(row)));
    if (!this.following && chunk.element.offsetTop < this.#box.scrollTop) this.#box.scrollTop += chunk.element.offsetHeight - before;
  }

  #empty(chunk) {
    if (!chunk.shown) return;
    chunk.shown = false;
    chunk.height = chunk.element.offsetHeight;
    this.#size(chunk);
    chunk.element.replaceChildren();
    for (const row of chunk.rows) this.#elements.delete(row);
  }

  #settle() {
    if (this.following) this.#box.scrollTop = this.#box.scrollHeight;
    this.#checkTop();
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#box;
    this.#follow(scrollHeight - clientHeight - scrollTop < close);
    this.#checkTop();
  }

  #checkTop() {
    if (this.#box.clientHeight && this.#box.scrollTop < margin) this.dispatchEvent(new Event("top"));
  }

  #follow(following) {
    if (following === this.following) return;
    this.following = following;
    this.dispatchEvent(new Event("follow"));
  }
}
