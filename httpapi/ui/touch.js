// Touch as a pointer: a tap clicks, a moving finger drags, a long press
// clicks with the right button, two scroll.

const slack = 10; // pixels that a finger may move and still tap
const longPress = 550; // milliseconds
const scrollStep = 28; // pixels of two fingers to a step of the wheel

export class Touch {
  #input;
  #surface;
  #fingers = new Map(); // pointerId -> { x, y, event }
  #mode = ""; // "", "maybe", "drag", "scroll", "done"
  #timer = 0;
  #start = null;
  #middle = null;
  /** pan moves the picture within the page and returns whether it moved. */
  pan = () => false;

  constructor({ input, surface }) {
    this.#input = input;
    this.#surface = surface;
  }

  down(event) {
    event.preventDefault();
    this.#fingers.set(event.pointerId, event);
    this.#surface.setPointerCapture(event.pointerId);
    if (this.#fingers.size === 1) {
      this.#mode = "maybe";
      this.#start = event;
      this.#input.control.act(() => {}); // requests control, if necessary
      this.#input.moveTo(this.#input.place(event));
      this.#timer = setTimeout(() => this.#rested(), longPress);
    } else if (this.#fingers.size === 2 && this.#mode === "maybe") {
      clearTimeout(this.#timer);
      this.#mode = "scroll";
      this.#middle = this.#centre();
    }
  }

  move(event) {
    if (!this.#fingers.has(event.pointerId)) return;
    this.#fingers.set(event.pointerId, event);
    const far = Math.hypot(event.clientX - this.#start.clientX, event.clientY - this.#start.clientY) > slack;
    if (this.#mode === "maybe" && far) {
      clearTimeout(this.#timer);
      this.#mode = "drag";
      this.#input.moveTo(this.#input.place(this.#start));
      this.#input.button(true, 1);
    }
    if (this.#mode === "drag") this.#input.moveTo(this.#input.place(event));
    if (this.#mode === "scroll") this.#scroll();
  }

  up(event) {
    if (!this.#fingers.delete(event.pointerId)) return;
    clearTimeout(this.#timer);
    if (this.#mode === "maybe" && event.type === "pointerup") this.#click(1, event);
    if (this.#mode === "drag") this.#input.button(false, 1);
    this.#mode = this.#fingers.size ? "done" : "";
  }

  cancel() {
    clearTimeout(this.#timer);
    if (this.#mode === "drag") this.#input.button(false, 1);
    this.#fingers.clear();
    this.#mode = "";
  }

  #rested() {
    this.#mode = "done";
    navigator.vibrate?.(15);
    this.#click(3, this.#start);
  }

  #click(code, event) {
    this.#input.moveTo(this.#input.place(event));
    this.#input.button(true, code);
    this.#input.button(false, code);
  }

  #centre() {
    const all = [...this.#fingers.values()];
    const mean = (of) => all.reduce((sum, event) => sum + of(event), 0) / all.length;
    return { clientX: mean((event) => event.clientX), clientY: mean((event) => event.clientY) };
  }

  // The content follows the fingers.
  #scroll() {
    const to = this.#centre();
    const [dx, dy] = [to.clientX - this.#middle.clientX, to.clientY - this.#middle.clientY];
    this.#middle = to;
    if (!this.pan(dx, dy)) this.#input.scroll(-dx / scrollStep, -dy / scrollStep, this.#input.place(to));
  }
}
