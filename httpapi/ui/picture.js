// The choices about the picture in the menu View: its quality, and picture in picture.

import { $, make, once, setText, toast } from "./dom.js";
import { inOneLine } from "./errors.js";

const storage = "picture";

/**
 * The presets. video is what the server is asked for: see webrtc/limit.go. shots has the
 * parameters of single screenshots, and pause the least time between two of them.
 */
const presets = {
  auto: { label: "Auto", about: "What the connection allows" },
  sharp: { label: "Sharp text", about: "Fewer pictures, each sharper on a slow connection; for all viewers", video: { frame_rate: 10 } },
  smooth: { label: "Smooth", about: "Coarse while things move, and sharp after that; for all viewers", video: { bitrate: 2_000_000 }, shots: { format: "jpeg", quality: 70 }, pause: 100 },
  low: { label: "Low data", about: "Up to 5 pictures a second, for all viewers", video: { frame_rate: 5, bitrate: 1_000_000 }, shots: { format: "jpeg", quality: 40 }, pause: 2000 },
};

/** Picture adds the choices to the menu. It applies the kept preset to each link. */
export class Picture {
  #session;
  #preset = presets[localStorage.getItem(storage)] ?? presets.auto;

  constructor({ session }) {
    this.#session = session;
    const select = make("select", { id: "quality-choice" }, ...Object.entries(presets).map(([value, { label }]) => make("option", { value }, label)));
    const about = make("p", { id: "quality-about", className: "dim" });
    select.value = Object.keys(presets).find((value) => presets[value] === this.#preset);
    select.setAttribute("aria-describedby", about.id);
    const tell = () => setText(about, this.#preset.about);
    select.addEventListener("change", () => { this.#choose(select.value); tell(); });
    tell();
    $("view-panel").append(make("div", { className: "row" }, make("label", { htmlFor: select.id }, "Picture quality"), select), about);
    if (document.pictureInPictureEnabled) $("view-panel").append(make("div", { className: "row" }, this.#float()));
    session.addEventListener("state", () => this.#apply());
    this.#apply();
  }

  #choose(value) {
    localStorage.setItem(storage, value);
    this.#preset = presets[value];
    this.#apply();
  }

  #apply() {
    const { link, state } = this.#session;
    if (state.name !== "live") return;
    const { video = {}, shots = {}, pause } = this.#preset;
    if (link.kind === "screenshots") Object.assign(link, { shots, pause });
    else link.send("signal/video", video);
  }

  // ---- picture in picture -----------------------------------------------------------

  // The button that shows the picture in a window above all others.
  #float() {
    const button = make("button", { type: "button", id: "float" }, "Picture in picture");
    const update = () => setText(button, document.pictureInPictureElement ? "Close picture in picture" : "Picture in picture");
    const copy = make("video", { muted: true, playsInline: true }); // of the canvas
    for (const element of [$("video"), copy]) {
      element.addEventListener("enterpictureinpicture", update);
      element.addEventListener("leavepictureinpicture", update);
    }
    once(button, async () => {
      if (document.pictureInPictureElement) return document.exitPictureInPicture();
      try {
        await (await this.#source(copy)).requestPictureInPicture();
        $("view-panel").hidePopover();
      } catch (error) {
        toast(`Can't open picture in picture. ${inOneLine(error)}`);
      }
    });
    // Another kind of link draws elsewhere.
    this.#session.addEventListener("state", () => {
      const { state, link } = this.#session;
      const floating = document.pictureInPictureElement;
      if (floating && state.name === "live" && (floating === copy) === (link.kind === "webrtc")) document.exitPictureInPicture();
    });
    return button;
  }

  async #source(copy) {
    const { link } = this.#session;
    if (link.kind === "webrtc") {
      $("video").disablePictureInPicture = false; // the attribute hides the browser's own button
      return $("video");
    }
    copy.srcObject ??= $("canvas").captureStream();
    $("canvas").getContext("2d").drawImage($("canvas"), 0, 0); // a stream begins with a change
    await copy.play();
    return copy;
  }
}
