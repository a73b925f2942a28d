// Keys and text, translated for the desktop.
//
// A key is sent as its keysym when it is pressed, and as the same keysym when it is
// released, even if modifiers changed meanwhile. Text without a key, from
// input methods and on-screen keyboards, is sent as text.

import { altLeft, clashesWithShift, controlLeft, isAlt, isCharacter, isShift, of, ofCharacter, ofName } from "./keysyms.js";

const mac = /Mac|iPhone|iPad/.test(navigator.platform);
const windows = /Win/.test(navigator.platform);

// Lock keys stay on the viewer's computer: browsers report the resulting character.
const local = new Set(["CapsLock", "NumLock", "ScrollLock", "Fn", "FnLock", "Hyper", "AltGraph", "Dead", "Process", "Unidentified"]);

// The longest time between the Control and the Alt by which Windows reports AltGr.
const altGraphTime = 50;
// The longest time until a browser reports a paste.
const pasteTime = 150;
// How long keys are sent in order with pasted text after a paste.
const orderedTime = 1000;
// The textarea's content, so that on-screen keyboards have something to delete.
const filler = "\u00a0\u00a0";

export class Keys extends EventTarget {
  #textarea;
  #control;
  #down = new Map(); // KeyboardEvent.code -> sent keysym
  #sticky = new Set(); // keysyms of modifiers that are held by a button
  #altGraph = 0; // timer of a Control that may belong to AltGr
  #paste = 0; // timer of a paste that has not come
  #ordered = 0; // the time until which keys are sent in order with other messages
  /** Whether keys go to the desktop. */
  captured = false;
  /** paste is called with text that the viewer pastes, before the keys for it. */
  paste = () => {};

  constructor({ textarea, control }) {
    super();
    this.#textarea = textarea;
    this.#control = control;
    this.#fill();
    const on = (type, take) => textarea.addEventListener(type, take);
    on("keydown", (event) => this.#keyDown(event));
    on("keyup", (event) => this.#keyUp(event));
    on("compositionstart", () => textarea.classList.add("composing"));
    on("compositionend", () => {
      textarea.classList.remove("composing");
      this.#text();
    });
    on("input", (event) => { if (!event.isComposing) this.#text(); });
    on("paste", (event) => this.#pasted(event));
    on("blur", () => this.free());
  }

  /** capture sends keys to the desktop. */
  capture() {
    this.#textarea.focus({ preventScroll: true });
    this.#setCaptured(true);
  }

  /** free releases all keys and returns the keyboard to the page. */
  free() {
    this.release();
    this.#setCaptured(false);
  }

  #setCaptured(value) {
    if (this.captured === value) return;
    this.captured = value;
    this.dispatchEvent(new Event("captured"));
  }

  // ---- what is held ---------------------------------------------------------

  /** release releases all keys. */
  release() {
    for (const sym of [...this.#down.values(), ...this.#sticky]) this.#key(false, sym);
    this.forget();
  }

  /** forget clears the state after the server has released all keys. */
  forget() {
    this.#forgetControl();
    this.#down.clear();
    this.#setSticky(new Set());
  }

  /** holds returns whether a modifier is held by its button. */
  holds(name) { return this.#sticky.has(ofName(name)); }

  #setSticky(next) {
    const change = next.size !== this.#sticky.size;
    this.#sticky = next;
    if (change) this.dispatchEvent(new Event("sticky"));
  }

  /** stick holds a modifier until the next key, or releases it. */
  stick(name) {
    const sym = ofName(name);
    const next = new Set(this.#sticky);
    const down = !next.delete(sym);
    if (!this.#key(down, sym)) return;
    if (down) next.add(sym);
    this.#setSticky(next);
  }

  #unstick() {
    for (const sym of this.#sticky) this.#key(false, sym);
    this.#setSticky(new Set());
  }

  /** press presses and releases keys by name, as in Control+Alt+Delete. */
  press(...names) {
    const syms = names.map(ofName);
    for (const sym of syms) {
      if (!this.#key(true, sym)) return;
    }
    for (const sym of syms.reverse()) this.#key(false, sym);
    this.#unstick();
  }

  /** type types a text. */
  type(text) {
    if (text) this.#control.act((link) => link.type(text));
  }

  // Presses or releases a key and returns whether it was handled.
  #key(down, sym) {
    const act = (link) => (performance.now() < this.#ordered ? link.keyAfter(down, sym) : link.key(down, sym));
    if (down) return this.#control.act(act);
    this.#control.letGo(act);
    return true;
  }

  // ---- keys -----------------------------------------------------------------

  #keyDown(event) {
    if (event.isComposing || event.keyCode === 229) return; // an input method handles it
    if (!this.captured || !this.#control.open) return this.#uncaptured(event);
    if (event.ctrlKey && event.altKey && event.shiftKey && ["Control", "Alt", "Shift"].includes(event.key)) {
      event.preventDefault();
      this.free();
      this.dispatchEvent(new Event("left"));
      return;
    }
    if (event.key === "Dead") return; // the composed character comes as text
    if (isPaste(event)) return this.#pasting(event);
    event.preventDefault();
    if (event.key === "AltGraph") this.#forgetControl();
    if (local.has(event.key) || (event.repeat && this.#down.has(event.code))) return;
    if (this.#altGraphDown(event)) return;
    const sym = this.#keysym(event);
    if (sym) this.#send(event, sym);
  }

  // Tab and the page's own keys work while keys are not captured.
  #uncaptured(event) {
    if (event.key === "Enter" && this.#control.open) {
      event.preventDefault();
      this.capture();
    } else if (this.captured && isCharacter(event.key) && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      this.#control.act(() => {}); // shows the holder of control
    }
  }

  // On a Mac, Option is AltGr and Command is Control.
  #keysym(event) {
    if (mac && event.key === "Meta") return controlLeft;
    if (mac && event.key === "Alt") return 0;
    return of(event);
  }

  // Windows reports AltGr as Control and Alt. A Control followed by AltGr is
  // not sent.
  #altGraphDown(event) {
    if (!windows || event.code !== "ControlLeft") return false;
    clearTimeout(this.#altGraph);
    this.#altGraph = setTimeout(() => this.#flushControl(), altGraphTime);
    return true;
  }

  #forgetControl() {
    clearTimeout(this.#altGraph);
    this.#altGraph = 0;
  }

  #flushControl() {
    if (!this.#altGraph) return;
    this.#forgetControl();
    this.#hold("ControlLeft", controlLeft);
  }

  #hold(code, sym) {
    this.#down.set(code, sym);
    this.#key(true, sym);
  }

  #send(event, sym) {
    const character = isCharacter(event.key);
    const altGraph = event.getModifierState("AltGraph");
    if (altGraph) this.#forgetControl();
    else this.#flushControl();
    // These modifiers produced the character and are not part of a shortcut.
    const lifted = [];
    if (character && !event.ctrlKey && clashesWithShift(event.key)) lifted.push(...this.#held(isShift));
    if (character && altGraph) lifted.push(...this.#held(isAlt));
    const option = mac && event.altKey && !character;
    for (const held of lifted) this.#key(false, held);
    if (option) this.#key(true, altLeft);
    this.#hold(event.code || event.key, sym);
    if (option) this.#key(false, altLeft);
    for (const held of lifted) this.#key(true, held);
    if (!isModifier(event.key)) this.#unstick();
  }

  #held(is) { return [...this.#down.values(), ...this.#sticky].filter(is); }

  #keyUp(event) {
    const code = event.code || event.key;
    if (event.code === "ControlLeft") this.#flushControl();
    if (mac && event.key === "Meta") return this.release(); // Macs do not report keys that are released before Meta
    const sym = this.#down.get(code);
    if (sym === undefined) return;
    event.preventDefault();
    this.#down.delete(code);
    this.#key(false, sym);
  }

  // ---- text -----------------------------------------------------------------

  #fill() {
    this.#textarea.value = filler;
    this.#textarea.setSelectionRange(filler.length, filler.length);
  }

  // Sends the difference between the textarea and the filler.
  #text() {
    const { value } = this.#textarea;
    this.#fill();
    if (!value.startsWith(filler)) {
      for (let n = value.length; n < filler.length; n++) this.press("Backspace");
      return;
    }
    const text = value.slice(filler.length).replaceAll("\r\n", "\n");
    if (!text) return;
    this.capture();
    if (this.#sticky.size && isCharacter(text)) return this.press(text);
    this.type(text);
  }

  // ---- paste ------------------------------------------------------------------

  // Pasted text is put on the desktop's clipboard first, then the keys are
  // sent. The browser reports the text after this event, or not at all.
  #pasting(event) {
    if (event.repeat) return event.preventDefault();
    clearTimeout(this.#paste);
    const sym = of(event);
    this.#paste = setTimeout(() => this.#pressPaste(sym), pasteTime);
  }

  #pasted(event) {
    event.preventDefault();
    const text = event.clipboardData?.getData("text/plain");
    if (text) this.paste(text);
    // Without a key, the browser's menu was used.
    if (this.#paste || (text && this.captured)) this.#pressPaste(ofCharacter("v"));
  }

  // Later keys must not overtake the text on another channel.
  #pressPaste(v) {
    clearTimeout(this.#paste);
    this.#paste = 0;
    this.#ordered = performance.now() + orderedTime;
    const held = this.#held((sym) => sym === controlLeft || sym === controlLeft + 1);
    const control = held.length ? held : [controlLeft];
    for (const sym of control) this.#key(true, sym);
    this.#key(true, v);
    this.#key(false, v);
    if (!held.length) this.#key(false, controlLeft);
  }
}

const isModifier = (key) => ["Shift", "Control", "Alt", "Meta", "OS", "AltGraph"].includes(key);
const isPaste = ({ key, code, ctrlKey, metaKey, altKey }) =>
  !altKey && (mac ? metaKey : ctrlKey) && (key.toLowerCase() === "v" || (key > "~" && code === "KeyV"));
