// Small pictures of the desktop, kept in memory for a while: the timeline shows them where
// nothing is recorded.

import { $ } from "../dom.js";

const most = 240;
const every = 5000; // milliseconds between two pictures
const height = 120;

/** Pictures keeps pictures of what the page shows. */
export class Pictures {
  #all = []; // { at, url }, in order
  #session;

  constructor({ session }) { this.#session = session; }

  /** take keeps a picture with its time, unless the last one is new. */
  take(at) {
    if (this.#session.state.name !== "live" || this.#all.at(-1)?.at > at - every) return;
    const shown = $($("frame").dataset.surface === "video" ? "video" : "canvas");
    const width = shown.videoWidth ?? shown.width; // of a video, or of a canvas
    if (!width || shown.readyState < 2) return;
    const copy = document.createElement("canvas");
    copy.height = height;
    copy.width = Math.max(1, Math.round((height * width) / (shown.videoHeight ?? shown.height)));
    copy.getContext("2d", { alpha: false }).drawImage(shown, 0, 0, copy.width, copy.height);
    this.#all.push({ at, url: copy.toDataURL("image/jpeg", 0.6) });
    if (this.#all.length > most) this.#all = this.#all.filter((_, n) => n % 2 || n > most / 2); // the older ones become fewer
  }

  /** near returns the URL of the last picture until a time, or "". It is at most older milliseconds old then, or more where pictures are few. */
  near(time, older, now) {
    const last = this.#all.findLast(({ at }) => at <= time);
    return last && time - last.at <= Math.max(older, 2 * every, (now - time) / 4) ? last.url : "";
  }
}
