// Control of the desktop: one actor at a time has it.

// How long input waits for requested control, in milliseconds.
const grantTime = 3000;
const mostWaiting = 200;

/**
 * Control passes this viewer's input on to the link while the viewer has
 * control. Events: change, and wanted if another actor has it.
 */
export class Control extends EventTarget {
  #link = null;
  #waiting = null; // input that came before control was granted
  #timer = 0;
  get link() { return this.#link; }
  get host() { return this.#link?.host ?? null; }
  get mine() { return this.host?.me === true; }
  /** Whether this viewer has paused agents and others. */
  get exclusive() { return this.mine && this.host.taken; }
  get allowed() { return this.#link !== null && this.#link.mayControl; }

  /** Whether input is sent, or requests control. */
  get open() { return this.allowed && (this.mine || !this.host); }

  /** follow sets the link, or null. */
  follow(link) {
    this.#link = link;
    this.#drop();
    for (const type of ["host", "people"]) link?.addEventListener(type, () => this.#changed(link));
    link?.addEventListener("refused", () => this.#drop());
    this.#emit("change");
  }

  #changed(link) {
    if (link !== this.#link) return;
    if (this.mine && this.#waiting) {
      const waiting = this.#waiting;
      this.#drop();
      for (const act of waiting) act(link);
    }
    if (this.host && !this.mine) this.#drop();
    this.#emit("change");
  }

  #drop() {
    clearTimeout(this.#timer);
    this.#waiting = null;
  }

  #emit(type) { this.dispatchEvent(new Event(type)); }

  /**
   * act runs an action of the viewer: now, or, if control is free, after it
   * was granted. It returns whether the action will run.
   */
  act(act) {
    if (!this.allowed || (this.host && !this.mine)) {
      this.#emit("wanted");
      return false;
    }
    if (this.mine) act(this.#link);
    else this.#ask(act);
    return true;
  }

  #ask(act) {
    if (!this.#waiting) {
      this.#waiting = [];
      this.#timer = setTimeout(() => this.#drop(), grantTime);
      this.#link.request();
    }
    if (this.#waiting.length < mostWaiting) this.#waiting.push(act);
  }

  /** hover runs an action if the viewer has control, and otherwise drops it. */
  hover(act) {
    if (this.mine) act(this.#link);
    else if (this.#waiting) this.#ask(act);
  }

  /** letGo runs an action that ends what act began, such as a key release. */
  letGo(act) { this.hover(act); }

  /**
   * take takes control from its holder. exclusive pauses agents and others. force
   * also takes it from a holder that has paused others.
   */
  take({ exclusive = false, force = false } = {}) {
    if (this.allowed) this.#link.take({ exclusive, force });
  }

  release() { this.#link?.release(); }
  give(id) { this.#link?.give(id); }
}
