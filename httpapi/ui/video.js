// The link for networks that block WebRTC: the same pictures over a
// WebSocket, and WebCodecs decodes them.

import { SocketLink, showPointer } from "./connection.js";
import { Cause } from "./errors.js";

// Flags of binary messages.
const keyFlag = 0x01;
const dataFlag = 0x80;
const header = 9; // flags and time, before a picture

const pictureTime = 5000;
// A decoder that is further behind skips to the next key picture.
const backlog = 8;

const codecs = { vp8: "vp8", vp9: "vp09.00.41.08", h264: "avc1.42e02a" };

export class VideoLink extends SocketLink {
  kind = "websocket";
  #decoder;
  #codec = "";
  #waits = true; // waits for a key picture
  #asked = 0;
  #decoded = 0;
  #bytes = 0;
  #dropped = 0;

  constructor({ canvas }) {
    super();
    this.surface = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
  }

  async open() {
    if (!window.VideoDecoder) throw new Cause("decoder", { secure: isSecureContext });
    await this.connect("/stream/video");
    await new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Cause("frames")), pictureTime);
      this.failed = (cause) => { clearTimeout(timer); fail(cause); };
      this.shown = () => { clearTimeout(timer); done(); };
    });
    this.failed = this.shown = null;
  }

  handle(event, payload) {
    if (event === "video/init") return this.#begin(payload);
    super.handle(event, payload);
  }

  #begin({ codec, width, height }) {
    this.#codec = codec;
    this.emit("size", { width, height });
    this.#reset();
  }

  // A decoder begins with a key picture.
  #reset() {
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
    this.#waits = true;
    this.#decoder = new VideoDecoder({
      output: (frame) => this.#show(frame),
      error: () => { if (!this.ended) this.#reset(); },
    });
    try {
      this.#decoder.configure({ codec: codecs[this.#codec] ?? this.#codec, optimizeForLatency: true });
    } catch {
      this.fail(new Cause("decoder", { secure: true }));
    }
    this.#askForKey();
  }

  #askForKey() {
    if (performance.now() - this.#asked < 1000) return;
    this.#asked = performance.now();
    this.send("video/key");
  }

  binary(data) {
    const view = new DataView(data);
    const flags = view.getUint8(0);
    if (flags & dataFlag) return showPointer(this, data.slice(1));
    this.#bytes += data.byteLength;
    const key = (flags & keyFlag) !== 0;
    if (this.#decoder?.decodeQueueSize > backlog && !key) this.#waits = true;
    if (this.#waits && !key) {
      this.#dropped++;
      return this.#askForKey();
    }
    this.#waits = false;
    const picture = { type: key ? "key" : "delta", timestamp: Number(view.getBigUint64(1)), data: new Uint8Array(data, header) };
    try {
      this.#decoder.decode(new EncodedVideoChunk(picture));
    } catch {
      this.#reset();
    }
  }

  #show(frame) {
    const { displayWidth: width, displayHeight: height } = frame;
    if (this.surface.width !== width || this.surface.height !== height) {
      Object.assign(this.surface, { width, height });
      this.emit("picture", { width, height });
    }
    this.context.drawImage(frame, 0, 0);
    frame.close();
    this.#decoded++;
    this.shown?.();
  }

  async stats() {
    return {
      transport: "WebSocket", codec: this.#codec.toUpperCase(), path: "TCP",
      decoded: this.#decoded, bytes: this.#bytes, dropped: this.#dropped,
    };
  }

  close() {
    super.close();
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
  }
}
