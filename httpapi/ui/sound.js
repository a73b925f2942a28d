// The desktop's sound. It is off until the viewer turns it on. After a reload it starts
// again as soon as the browser allows it, which is at the first click or
// key.

import { $, show } from "./dom.js";

const storage = "sound";
const gestures = ["pointerdown", "keydown"];

/** Sound is the button that turns the sound on and off. */
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

  // Browsers allow sound only after the viewer has used the page.
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

  // The server does not send sound while it is off.
  #set(on) {
    if (on !== this.#on) {
      this.#on = on;
      this.#video.muted = !on;
      this.#link?.hear(on);
      if (on) this.#play();
    }
    this.#look();
  }

  // If the browser does not allow sound, it also stops the video.
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
