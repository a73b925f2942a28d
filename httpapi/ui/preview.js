// The picture while the live view connects: a screenshot each second, so that the
// page is not blank on a network that carries no video.

import { request, urlOf } from "./api.js";

const pause = 1000;

/** Preview draws on a canvas until end is called. shown is called with the size of each picture. */
export class Preview {
  #stop = new AbortController();
  #canvas;
  #shown;

  constructor({ canvas, shown }) {
    this.#canvas = canvas;
    this.#shown = shown;
    this.#run();
  }

  async #run() {
    while (!this.#stop.signal.aborted) {
      await this.#draw().catch(() => {}); // the live view reports the error
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  async #draw() {
    const url = urlOf("/screenshot");
    url.searchParams.set("cursorStyle", "pointer");
    const response = await request("GET", url, { signal: this.#stop.signal });
    const picture = await createImageBitmap(await response.blob());
    if (!this.#stop.signal.aborted) {
      const { width, height } = picture;
      Object.assign(this.#canvas, { width, height });
      this.#canvas.getContext("2d", { alpha: false }).drawImage(picture, 0, 0);
      this.#shown({ width, height });
    }
    picture.close();
  }

  end() { this.#stop.abort(); }
}
