// Touch as a pointer. Direct: a tap clicks, a moving finger drags, a long press clicks with
// the right button. Trackpad: a finger moves the pointer, a tap clicks where the pointer is,
// a tap with two fingers clicks with the right button, and a tap before a move drags. In
// both, two fingers scroll, or move and zoom the picture.

const storage = "touch";

const slack = 10; // pixels that a finger may move and still tap
const longPress = 550; // milliseconds
const secondTap = 300; // milliseconds between a tap and the touch that drags
const scrollStep = 28; // pixels of two fingers to a step of the wheel
const pinchStart = 24; // pixels by which the distance of two fingers changes at least

export class Touch {
  #input;
  #surface;
  #fingers = new Map(); // by pointerId: the last event
  #mode = ""; // "", "maybe", "drag", "move", "two", "scroll", "pinch", "done"
  #timer = 0;
  #start = null; // the first event
  #last = null; // the event before
  #middle = null; // of two fingers
  #apart = 0; // the distance of two fingers
  #tapped = 0; // the time of the last tap
  /** pan moves the picture within the page and returns whether it moved. */
  pan = () => false;
  /** zoom makes the picture larger by a factor, around a point of the page. */
  zoom = () => {};
  /** pointer returns the position of the pointer, and the size of a pixel on the page. */
  pointer = () => ({ x: 0, y: 0, scale: 1 });
  /** reveal scrolls to a point of the desktop. */
  reveal = () => {};

  constructor({ input, surface }) {
    this.#input = input;
    this.#surface = surface;
    this.trackpad = localStorage.getItem(storage) === "trackpad";
  }

  /** setTrackpad sets whether a finger moves the pointer instead of being it. */
  setTrackpad(on) {
    this.trackpad = on;
    localStorage.setItem(storage, on ? "trackpad" : "direct");
  }

  down(event) {
    event.preventDefault();
    this.#fingers.set(event.pointerId, event);
    this.#surface.setPointerCapture(event.pointerId);
    if (this.#fingers.size === 1) {
      this.#start = this.#last = event;
      this.#input.control.act(() => {}); // requests control, if necessary
      if (this.trackpad && event.timeStamp - this.#tapped < secondTap) return this.#drag();
      this.#mode = "maybe";
      if (this.trackpad) return;
      this.#input.moveTo(this.#input.place(event));
      this.#timer = setTimeout(() => this.#rested(), longPress);
    } else if (this.#fingers.size === 2 && this.#mode === "maybe") {
      clearTimeout(this.#timer);
      this.#mode = "two";
      this.#middle = this.#centre();
      this.#apart = this.#distance();
    }
  }

  move(event) {
    if (!this.#fingers.has(event.pointerId)) return;
    this.#fingers.set(event.pointerId, event);
    if (this.#mode === "maybe" && far(event, this.#start)) this.#begin();
    if (this.#mode === "two") this.#decide();
    switch (this.#mode) {
      case "move": this.#nudge(event); break;
      case "drag": if (this.trackpad) this.#nudge(event); else this.#input.moveTo(this.#input.place(event)); break;
      case "scroll": this.#scroll(); break;
      case "pinch": this.#pinch(); break;
    }
    this.#last = event;
  }

  up(event) {
    if (!this.#fingers.delete(event.pointerId)) return;
    clearTimeout(this.#timer);
    const ended = event.type === "pointerup";
    if (this.#mode === "maybe" && ended) this.#tap(event);
    if (this.#mode === "two" && ended && this.trackpad) this.#click(3);
    if (this.#mode === "drag") this.#input.button(false, 1);
    this.#mode = this.#fingers.size ? "done" : "";
  }

  cancel() {
    clearTimeout(this.#timer);
    if (this.#mode === "drag") this.#input.button(false, 1);
    this.#fingers.clear();
    this.#mode = "";
  }

  // ---- one finger ---------------------------------------------------------------

  #begin() {
    clearTimeout(this.#timer);
    if (this.trackpad) {
      this.#mode = "move";
      this.#last = this.#start;
      return;
    }
    this.#input.moveTo(this.#input.place(this.#start));
    this.#drag();
  }

  #drag() {
    this.#mode = "drag";
    this.#input.button(true, 1);
  }

  // The pointer moves as far as the finger does.
  #nudge({ clientX, clientY }) {
    const { x, y, scale } = this.pointer();
    const at = { x: x + (clientX - this.#last.clientX) / scale, y: y + (clientY - this.#last.clientY) / scale };
    this.#input.moveTo(this.reveal(at));
  }

  #rested() {
    this.#mode = "done";
    navigator.vibrate?.(15);
    this.#click(3, this.#start);
  }

  #tap(event) {
    this.#tapped = event.timeStamp;
    this.#click(1, event);
  }

  #click(code, event) {
    if (!this.trackpad) this.#input.moveTo(this.#input.place(event));
    this.#input.button(true, code);
    this.#input.button(false, code);
  }

  // ---- two fingers --------------------------------------------------------------

  #centre() {
    const all = [...this.#fingers.values()];
    const mean = (of) => all.reduce((sum, event) => sum + of(event), 0) / all.length;
    return { clientX: mean((event) => event.clientX), clientY: mean((event) => event.clientY) };
  }

  #distance() {
    const [a, b] = [...this.#fingers.values()];
    return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  }

  #decide() {
    if (Math.abs(this.#distance() - this.#apart) > pinchStart) this.#mode = "pinch";
    else if (far(this.#centre(), this.#middle)) this.#mode = "scroll";
  }

  // The picture, or else the content of the window, follows the fingers.
  #scroll() {
    const to = this.#centre();
    const [dx, dy] = [to.clientX - this.#middle.clientX, to.clientY - this.#middle.clientY];
    this.#middle = to;
    if (this.pan(dx, dy)) return;
    const at = this.trackpad ? this.pointer() : this.#input.place(to);
    this.#input.scroll(-dx / scrollStep, -dy / scrollStep, at);
  }

  #pinch() {
    const [to, apart] = [this.#centre(), this.#distance()];
    this.pan(to.clientX - this.#middle.clientX, to.clientY - this.#middle.clientY);
    if (this.#apart > 0) this.zoom(apart / this.#apart, to);
    this.#middle = to;
    this.#apart = apart;
  }
}

const far = (to, from) => Math.hypot(to.clientX - from.clientX, to.clientY - from.clientY) > slack;
