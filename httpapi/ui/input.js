// The viewer's pointer and keys, translated for the desktop.

import { Keys } from "./keys.js";
import { Touch } from "./touch.js";

// X buttons by the bits of MouseEvent.buttons.
const buttons = [[1, 1], [2, 3], [4, 2], [8, 8], [16, 9]];

// One step of a wheel in the units of the data channel (webrtc/input.go).
const step = 100;
// What browsers report for one step: lines, or wheelDelta.
const linesOfStep = 3;
const wheelDelta = 120;

/**
 * Input takes the pointer events of a surface and the keys of a textarea.
 * place maps an event to a point of the desktop. Input emits used, with the event of the
 * pointer, and moved, with the point to which it moved the desktop's pointer.
 */
export class Input extends EventTarget {
  #surface;
  #place;
  #pressed = 0; // of MouseEvent.buttons
  #next = null; // the pointer's position for the next frame
  #frame = 0;
  #rest = { x: 0, y: 0 }; // of wheels, in steps

  constructor({ surface, textarea, control, place }) {
    super();
    this.#surface = surface;
    this.#place = place;
    this.control = control;
    this.keys = new Keys({ textarea, control });
    this.touch = new Touch({ input: this, surface });
    const on = (type, take) => surface.addEventListener(type, take, { passive: false });
    on("pointerdown", (event) => this.#down(event));
    on("pointermove", (event) => this.#move(event));
    on("pointerup", (event) => this.#up(event));
    on("pointercancel", (event) => this.#up(event));
    on("lostpointercapture", (event) => this.#up(event));
    on("wheel", (event) => this.#wheel(event));
    // The side buttons of a mouse go to the desktop, and do not navigate this page.
    for (const type of ["contextmenu", "auxclick", "mousedown", "mouseup", "dragstart"]) on(type, (event) => event.preventDefault());
    addEventListener("blur", () => this.release());
    addEventListener("pagehide", () => this.release());
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.release(); });
    control.addEventListener("change", () => { if (!control.mine) this.forget(); });
  }

  /** release releases all keys and buttons. */
  release() {
    this.keys.release();
    this.#buttons(0);
    this.touch.cancel();
  }

  /** forget clears the state after the server has released all. */
  forget() {
    this.keys.forget();
    this.#pressed = 0;
    this.touch.cancel();
  }

  // ---- pointer ------------------------------------------------------------

  #down(event) {
    this.dispatchEvent(new CustomEvent("used", { detail: event }));
    if (event.pointerType === "touch" && this.control.open) return this.touch.down(event);
    if (event.pointerType === "touch") return this.control.act(() => {});
    event.preventDefault();
    if (this.#pressed === 0 && !this.control.act(() => {})) return;
    this.keys.capture();
    this.#surface.setPointerCapture(event.pointerId);
    this.moveTo(this.#place(event));
    this.#buttons(event.buttons);
  }

  // While a button is down, browsers report other buttons in pointermove events.
  #move(event) {
    if (event.pointerType === "touch") return this.touch.move(event);
    this.#next = this.#place(event);
    if (this.#pressed !== 0 && event.buttons !== this.#pressed) {
      this.#flush();
      this.#buttons(event.buttons);
    }
    if (this.control.mine) this.#frame ||= requestAnimationFrame(() => this.#flush());
  }

  #up(event) {
    if (event.pointerType === "touch") return this.touch.up(event);
    if (this.#pressed === 0) return;
    if (event.type === "pointerup") this.moveTo(this.#place(event));
    this.#buttons(event.type === "pointerup" ? event.buttons : 0);
  }

  #flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const at = this.#next;
    this.#next = null;
    if (at) this.control.hover((link) => { link.move(at.x, at.y); this.dispatchEvent(new CustomEvent("moved", { detail: at })); });
  }

  /** moveTo moves the pointer now. */
  moveTo(at) {
    this.#next = at;
    this.#flush();
  }

  /** place returns the point of the desktop for an event. */
  place(event) { return this.#place(event); }

  // Presses and releases the buttons that differ.
  #buttons(now) {
    const before = this.#pressed;
    this.#pressed = now;
    for (const [bit, code] of buttons) {
      if ((before & bit) === (now & bit)) continue;
      const down = (now & bit) !== 0;
      this.button(down, code);
    }
  }

  /** button presses or releases one of X's buttons. */
  button(down, code) {
    if (down) this.control.act((link) => link.button(true, code));
    else this.control.letGo((link) => link.button(false, code));
  }

  // ---- wheel --------------------------------------------------------------

  #wheel(event) {
    event.preventDefault();
    let { deltaX: x, deltaY: y } = event;
    const unit = { [WheelEvent.DOM_DELTA_LINE]: 1 / linesOfStep, [WheelEvent.DOM_DELTA_PAGE]: 1 }[event.deltaMode] ?? 1 / step;
    x *= unit;
    y *= unit;
    if (event.deltaMode === WheelEvent.DOM_DELTA_PIXEL) {
      // The pixels of a step differ. For wheels with steps, the old
      // property wheelDelta counts them.
      const whole = (pixels, delta) => Math.abs(pixels) >= 1 && delta && delta % wheelDelta === 0;
      if (whole(event.deltaX, event.wheelDeltaX)) x = -event.wheelDeltaX / wheelDelta;
      if (whole(event.deltaY, event.wheelDeltaY)) y = -event.wheelDeltaY / wheelDelta;
    }
    // Browsers make a wheel with Shift horizontal. The desktop gets the Shift, too,
    // and does that itself.
    if (event.shiftKey && y === 0) [x, y] = [0, x];
    this.scroll(x, y, this.#place(event));
  }

  /** scroll turns the wheel by whole steps and keeps the fraction for the next call. */
  scroll(x, y, at) {
    const [right, down] = [["x", x], ["y", y]].map(([axis, by]) => {
      if (this.#rest[axis] * by < 0) this.#rest[axis] = 0;
      const sum = this.#rest[axis] + by;
      const whole = Math.trunc(sum);
      this.#rest[axis] = sum - whole;
      return Math.max(-20, Math.min(20, whole));
    });
    if (right === 0 && down === 0) return;
    this.control.act((link) => {
      link.move(at.x, at.y);
      link.wheel(right * step, down * step);
    });
  }
}
