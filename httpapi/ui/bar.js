// The bar at the top: the state of the session, and the quality of the picture.

import { $, announce, make, setText, show } from "./dom.js";
import { explain } from "./errors.js";

// The label and the color of each state.
const states = {
  loading: ["Loading…", "busy"],
  locked: ["Locked", "off"],
  off: ["Off", "off"],
  install: ["Not installed", "bad"],
  starting: ["Starting…", "busy"],
  stopping: ["Stopping…", "busy"],
  connecting: ["Connecting…", "busy"],
  live: ["Live", "good"],
  degraded: ["Live", "warn"],
  reconnecting: ["Reconnecting…", "warn"],
  failed: ["Failed", "bad"],
  stopped: ["Stopped", "off"],
};

// Panels that are enabled without a picture.
const lasting = ["more-panel", "programs-panel", "recordings-panel"];

const slideshow = "Low frame rate: video is blocked on this network";
const slideshowTime = 8000;

/** Bar shows a session. */
export class Bar {
  #session;
  #control;
  #view;
  #waiting;
  #announced = "";

  constructor({ session, control, view, waiting }) {
    this.#session = session;
    this.#waiting = waiting;
    this.#control = control;
    this.#view = view;
    session.addEventListener("state", () => this.#state());
    session.quality.addEventListener("measured", () => this.#quality());
    view.addEventListener("change", () => this.#facts());
    control.addEventListener("change", () => this.#facts());
    $("quality-panel").addEventListener("toggle", () => this.#quality());
    waiting.addEventListener("change", () => this.#title());
    this.#state();
  }

  // ---- state ----------------------------------------------------------------

  #state() {
    const { name, warning } = this.#session.state;
    const screenshots = name === "live" && this.#session.link?.kind === "screenshots";
    const [text, look] = states[warning || screenshots ? "degraded" : name];
    $("state").dataset.state = name;
    $("state").dataset.look = look;
    document.body.dataset.state = name;
    setText($("state-text"), screenshots ? "Screenshots" : text);
    this.#facts();
    const reason = warning || (screenshots ? slideshow : "");
    this.#warn(reason);
    $("stage").classList.toggle("degraded", Boolean(warning));
    for (const tool of document.querySelectorAll("[data-live]")) tool.disabled = name !== "live";
    show($("stop"), ["live", "reconnecting", "failed", "stopped", "connecting"].includes(name));
    if (name !== "live") this.#notLive();
    const said = `${text}${reason ? `. ${reason}` : ""}`;
    if (said !== this.#announced) announce(`Desktop: ${said}`);
    this.#announced = said;
    this.#text = name === "live" || name === "loading" ? "deskhand" : `${text} · deskhand`;
    this.#title();
  }

  #text = "";

  #title() { document.title = `${this.#waiting.all.size ? "● Permission · " : ""}${this.#text}`; }

  // A state that lasts is shown over the picture only at first, and then in the bar.
  #warn(reason) {
    if (reason === this.#reason) return;
    this.#reason = reason;
    clearTimeout(this.#hiding);
    if (reason) setText($("warning-text"), reason);
    show($("warning"), Boolean(reason));
    if (reason === slideshow) this.#hiding = setTimeout(() => show($("warning"), false), slideshowTime);
  }

  #reason = "";
  #hiding = 0;

  #notLive() {
    show($("quality"), false);
    show($("prompt"), false);
    const open = document.querySelector("[popover]:popover-open");
    if (open && !lasting.includes(open.id)) open.hidePopover();
  }

  #facts() {
    const { width, height } = this.#view.size;
    const status = this.#session.status;
    const parts = [];
    if (this.#session.state.name === "live" && width) parts.push(`${width} × ${height}, shown at ${Math.round(this.#view.scale * 100)}%`);
    if (status?.display) parts.push(`Display ${status.display}`);
    setText($("facts"), parts.join("\n"));
    show($("facts"), parts.length > 0);
    const who = this.#control.mine ? "you're in control" : "you're watching";
    $("keyboard").setAttribute("aria-label", `Remote desktop${width ? `, ${width} by ${height}` : ""}, ${who}`);
  }

  // ---- quality ----------------------------------------------------------------

  #quality() {
    const { quality, link } = this.#session;
    show($("quality"), quality.now !== null);
    if (!quality.now) return;
    const { grade, transport } = quality.now;
    setText($("quality-text"), quality.brief());
    $("quality").dataset.grade = grade.name;
    $("quality").title = `${grade.word} connection`;
    $("quality").setAttribute("aria-label", `${grade.word} connection: ${quality.brief()}`);
    if (!$("quality-panel").matches(":popover-open")) return;
    setText($("quality-title"), `${grade.word} connection`);
    const rows = quality.rows(this.#view.size);
    $("quality-rows").replaceChildren(...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
    this.#why(transport, link);
  }

  // The reason why WebRTC is not used.
  #why(transport) {
    const box = $("quality-why");
    const cause = this.#session.fellBack;
    show(box, cause !== null);
    if (!cause || box.dataset.about === transport) return;
    box.dataset.about = transport;
    const { what, why, fix } = explain(cause);
    const again = make("button", { type: "button", className: "small" }, "Retry WebRTC");
    again.addEventListener("click", () => { $("quality-panel").hidePopover(); this.#session.retry(); });
    box.replaceChildren(make("p", {}, make("strong", {}, `${what}; using ${transport === "WebSocket" ? transport : "screenshots"} instead. `), `${why} ${fix}`), again);
  }
}
