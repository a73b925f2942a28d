// The bar at the top: how things are, how well the picture comes, who is here
// and who has control.

import { viewOnly } from "./api.js";
import { $, announce, hideToast, icon, make, once, setText, show, toast } from "./dom.js";
import { explain } from "./errors.js";

// What the states of a session are called, and how they look.
const states = {
  loading: ["Loading", "busy"],
  locked: ["Locked", "off"],
  off: ["Off", "off"],
  install: ["Not installed", "bad"],
  starting: ["Starting", "busy"],
  stopping: ["Stopping", "busy"],
  connecting: ["Connecting", "busy"],
  live: ["Live", "good"],
  degraded: ["Live", "warn"],
  reconnecting: ["Reconnecting", "warn"],
  failed: ["Failed", "bad"],
  stopped: ["Stopped", "off"],
};

// Panels that have a use without a picture.
const lasting = ["more-panel", "programs-panel", "recordings-panel"];

const slideshow = "Pictures one by one, a few in a second: video does not get through";
const slideshowTime = 8000;

/** Bar shows a session, and who controls its desktop. */
export class Bar {
  #session;
  #control;
  #view;
  #told = "";

  constructor({ session, control, view }) {
    this.#session = session;
    this.#control = control;
    this.#view = view;
    session.addEventListener("state", () => this.#state());
    session.quality.addEventListener("measured", () => this.#quality());
    session.addEventListener("link", () => this.#linked());
    view.addEventListener("change", () => this.#facts());
    control.addEventListener("change", () => this.#controlChanged());
    control.addEventListener("wanted", () => this.#wanted());
    $("quality-panel").addEventListener("toggle", () => this.#quality());
    $("control").addEventListener("click", () => this.#press());
    once($("control-release"), () => { control.release(); $("control-panel").hidePopover(); });
    once($("control-alone"), () => { control.take(); $("control-panel").hidePopover(); });
    $("prompt-take").addEventListener("click", () => { control.take(); show($("prompt"), false); });
    $("prompt-close").addEventListener("click", () => show($("prompt"), false));
    this.#state();
    this.#controlChanged();
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
    if (said !== this.#told) announce(`Desktop: ${said}`);
    this.#told = said;
    document.title = name === "live" || name === "loading" ? "deskhand" : `${text} · deskhand`;
  }

  // What stays as it is is said in the bar; over the picture only at first.
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
    if (this.#session.state.name === "live" && width) parts.push(`${width} × ${height}, shown at ${Math.round(this.#view.scale * 100)} %`);
    if (status?.display) parts.push(`Display ${status.display}`);
    setText($("facts"), parts.join("\n"));
    show($("facts"), parts.length > 0);
    const who = this.#control.mine ? "you have control" : "you are watching";
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

  // Why something worse than WebRTC is used.
  #why(transport) {
    const box = $("quality-why");
    const cause = this.#session.fellBack;
    show(box, cause !== null);
    if (!cause || box.dataset.about === transport) return;
    box.dataset.about = transport;
    const { what, why, fix } = explain(cause);
    const again = make("button", { type: "button", className: "small" }, "Try WebRTC again");
    again.addEventListener("click", () => { $("quality-panel").hidePopover(); this.#session.retry(); });
    box.replaceChildren(make("p", {}, make("strong", {}, `${what}. `), `${why} ${fix}`), again);
  }

  // ---- people -------------------------------------------------------------------

  #linked() {
    const { link } = this.#session;
    for (const type of ["people", "host"]) link?.addEventListener(type, () => this.#people());
    link?.addEventListener("refused", ({ detail }) => this.#refused(detail));
    link?.addEventListener("asked", ({ detail }) => this.#asked(detail));
    this.#people();
  }

  #people() {
    const { link } = this.#session;
    const people = [...(link?.people.values() ?? [])];
    show($("people"), people.length > 1);
    setText($("people-count"), String(people.length));
    $("people-list").replaceChildren(...people.map((person) => this.#person(person, link)));
  }

  #person({ id, name, viewOnly }, link) {
    const me = id === link.me;
    const host = link.host?.id === id;
    const about = [me && name ? "you" : "", host ? "has control" : viewOnly ? "watches only" : ""].filter(Boolean).join(", ");
    const parts = [icon(host ? "pointer" : "eye"), make("span", { className: "name" }, name || (me ? "You" : "Another viewer"), about ? make("small", {}, about) : "")];
    if (this.#control.mine && !me && !viewOnly) {
      const give = make("button", { type: "button", className: "small" }, "Give control");
      give.addEventListener("click", () => { this.#control.give(id); $("people-panel").hidePopover(); });
      parts.push(give);
    }
    return make("li", {}, ...parts);
  }

  // ---- control --------------------------------------------------------------------

  #controlChanged() {
    const control = this.#control;
    const { host, mine, allowed } = control;
    const live = control.link !== null;
    show($("control"), live);
    document.body.dataset.role = viewOnly || (live && !allowed) ? "view" : "control";
    $("control").dataset.mine = String(mine);
    $("control").disabled = !allowed;
    const label = !allowed ? "View only" : mine ? "You control" : "Take control";
    if ($("control-text").textContent !== label) setText($("control-text"), label);
    $("control-icon").setAttribute("href", allowed ? "#i-pointer" : "#i-eye");
    $("control").title = host && !mine ? `${host.name} has control` : "";
    setText($("control-about"), control.alone
      ? "Nobody else can act on the desktop, programs included, until you release it or a minute passes without input."
      : "Other viewers cannot act on the desktop meanwhile. Programs that use the API still can.");
    show($("control-alone"), !control.alone);
    if (mine) { show($("prompt"), false); hideToast(); }
    else if ($("control-panel").matches(":popover-open")) $("control-panel").hidePopover();
    this.#facts();
    const now = mine ? "me" : (host?.id ?? "");
    if (live && this.#host !== undefined && now !== this.#host) {
      announce(mine ? "You have control" : host ? `${host.name} has control` : "Nobody has control");
    }
    this.#host = live ? now : undefined;
  }

  #host;

  #press() {
    if (!this.#control.mine) return this.#control.take();
    $("control-panel").showPopover({ source: $("control") });
  }

  // The viewer acts, but somebody else has control, or the link is for watching.
  #wanted() {
    const { host, allowed } = this.#control;
    if (!this.#control.link) return;
    setText($("prompt-text"), allowed ? `${host?.name ?? "Somebody else"} has control.` : "You are watching: this link does not give control.");
    show($("prompt-take"), allowed);
    if ($("prompt").hidden) announce($("prompt-text").textContent);
    show($("prompt"), true);
  }

  #refused(message) {
    const { host, allowed } = this.#control;
    if (!allowed) return this.#wanted();
    const text = host ? `${host.name} keeps control. Whoever it is may give it to you, or release it.` : `${message}.`;
    toast(text.charAt(0).toUpperCase() + text.slice(1));
    announce(text);
  }

  // Somebody else asks for the control that this viewer has.
  #asked({ id, name }) {
    if (!this.#control.mine) return;
    toast(`${name} asks for control.`, { label: "Give it", act: () => this.#control.give(id) });
    announce(`${name} asks for control`);
  }
}
