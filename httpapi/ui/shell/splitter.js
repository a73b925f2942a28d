// A splitter: it changes the size of a pane by the pointer and by arrow keys.

const step = 16;

/** Splitter sets the size of box between least and most() pixels, and remembers it. */
export class Splitter {
  #handle;
  #box;
  #storage;
  #least;
  #most;
  #wide;
  #set = 0; // the size that the user chose

  constructor({ handle, box, name, least, most }) {
    this.#handle = handle;
    this.#box = box;
    this.#storage = `size-${name}`;
    this.#least = least;
    this.#most = most;
    this.#wide = handle.getAttribute("aria-orientation") === "vertical";
    this.#size(Number(localStorage.getItem(this.#storage)) || 0, false);
    handle.addEventListener("pointerdown", (event) => this.#drag(event));
    handle.addEventListener("keydown", (event) => this.#key(event));
    addEventListener("resize", () => this.#size(this.#set, false));
    new ResizeObserver(() => this.#tell()).observe(box);
  }

  get #now() { return this.#wide ? this.#box.offsetWidth : this.#box.offsetHeight; }

  #size(pixels, keep) {
    this.#set = pixels;
    if (!pixels) return; // the style sheet's
    const most = Math.max(this.#least, Math.floor(this.#most()));
    const size = Math.round(Math.max(this.#least, Math.min(most, pixels)));
    this.#box.style[this.#wide ? "width" : "height"] = `${size}px`;
    if (!keep) return;
    this.#set = size;
    localStorage.setItem(this.#storage, size);
  }

  // Screen readers read the size in pixels.
  #tell() {
    const values = { min: this.#least, max: Math.max(this.#least, Math.floor(this.#most())), now: this.#now };
    for (const [name, value] of Object.entries(values)) this.#handle.setAttribute(`aria-value${name}`, value);
  }

  #drag(event) {
    if (event.button !== 0) return;
    event.preventDefault();
    this.#handle.setPointerCapture(event.pointerId);
    const [from, before] = [this.#wide ? event.clientX : event.clientY, this.#now];
    const move = ({ clientX, clientY }) => this.#size(before + from - (this.#wide ? clientX : clientY), true);
    this.#handle.addEventListener("pointermove", move);
    this.#handle.addEventListener("lostpointercapture", () => this.#handle.removeEventListener("pointermove", move), { once: true });
  }

  #key(event) {
    const larger = this.#wide ? "ArrowLeft" : "ArrowUp";
    const smaller = this.#wide ? "ArrowRight" : "ArrowDown";
    const size = { [larger]: this.#now + step, [smaller]: this.#now - step, Home: this.#least, End: this.#most() }[event.key];
    if (size === undefined) return;
    event.preventDefault();
    this.#size(size, true);
  }
}
