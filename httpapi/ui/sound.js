// The desktop's sound. It is off until somebody turns it on, and then comes back
// with the page: as soon as the browser lets it, which is at the first click or
// key.

import { $, show } from "./dom.js";

const storage = "sound";
const gestures = ["pointerdown", "keydown"];

/** Sound is the button that turns the sound on and off, and what it does. */
export class Sound {
  #video;
  #link = null;
  #on = false;
  #retry = () => this.#begin();

  constructor({ session, video }) {
    this.#video = video;
    session.addEventListener("link", () => this.#follow(session.link));
    $("sound").addEventListener("click", () => this.#toggle());
    this.#look();
  }

  #follow(link) {
    this.#link = link;
    this.#on = false;
    this.#video.muted = true;
    link?.addEventListener("sound", () => this.#begin());
    this.#begin();
  }

  get #wanted() { return localStorage.getItem(storage) === "on"; }

  // Pages may not play sound before they have been used.
  #begin() {
    const ready = Boolean(this.#link?.sound) && this.#wanted;
    const allowed = navigator.userActivation?.hasBeenActive ?? true;
    for (const type of gestures) {
      if (ready && !allowed) addEventListener(type, this.#retry, { once: true, capture: true });
      else removeEventListener(type, this.#retry, { capture: true });
    }
    this.#set(ready && allowed);
  }

  #toggle() {
    const on = !this.#on;
    localStorage.setItem(storage, on ? "on" : "off");
    this.#begin();
  }

  // What is not heard is not sent either.
  #set(on) {
    if (on !== this.#on) {
      this.#on = on;
      this.#video.muted = !on;
      this.#link?.hear(on);
      if (on) this.#play();
    }
    this.#look();
  }

  // A browser that does not allow it after all stops the picture as well.
  async #play() {
    try {
      await this.#video.play();
    } catch (error) {
      if (error.name !== "NotAllowedError" || !this.#on) return;
      this.#set(false);
      this.#video.play().catch(() => {});
    }
  }

  #look() {
    show($("sound"), Boolean(this.#link?.sound));
    $("sound").setAttribute("aria-pressed", String(this.#on));
    $("sound-icon").setAttribute("href", this.#on ? "#i-sound" : "#i-muted");
    const label = this.#on ? "Mute" : "Unmute";
    $("sound").title = label;
  }
}
