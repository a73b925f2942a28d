// The card in place of the picture.

import { setToken, viewOnly } from "./api.js";
import { $, announce, command, copyButton, icon, make, once, show } from "./dom.js";
import { explain } from "./errors.js";

const sizes = [[1280, 800], [1440, 900], [1920, 1080], [412, 915]];
const usual = "1440x900";
const storage = "size";

const titles = {
  off: "The desktop is off",
  starting: "The desktop is starting",
  stopping: "The desktop is stopping",
};

/** Cover shows the states of a session that are not a picture. */
export class Cover {
  #session;
  #write;
  #room;
  #element = $("cover");
  #timer = 0;
  #problem = null;

  /** room returns the page's size; write puts a text on the clipboard. */
  constructor({ session, room, write }) {
    this.#session = session;
    this.#room = room;
    this.#write = write;
    session.addEventListener("state", () => this.#render());
    session.addEventListener("problem", ({ detail }) => { this.#problem = explain(detail); });
    this.#render();
  }

  #render() {
    clearInterval(this.#timer);
    const { state } = this.#session;
    const build = this[state.name];
    // A form that the viewer is filling in stays.
    const same = this.#element.dataset.state === state.name && ["locked", "off"].includes(state.name) && !this.#problem;
    this.#element.dataset.state = state.name;
    show(this.#element, Boolean(build));
    if (!build) {
      this.#problem = null;
      return this.#element.replaceChildren();
    }
    if (same && !state.wrong) return;
    const focused = this.#element.contains(document.activeElement) && document.activeElement.id;
    this.#element.classList.toggle("over", Boolean(state.preview));
    this.#element.replaceChildren(make("div", { className: "card" }, ...build.call(this, state)));
    if (focused) $(focused)?.focus();
  }

  // ---- states; each returns the card's content --------------------------------

  loading() { return [make("p", { className: "busy" }, "Loading…")]; }

  locked({ wrong, ended }) {
    const field = make("input", { id: "token", type: "password", autocomplete: "off", required: true });
    const form = make("form", { id: "login", className: "row" }, field, make("button", { className: "primary" }, "Continue"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      setToken(field.value.trim());
      this.#session.unlock();
    });
    queueMicrotask(() => field.focus());
    const title = ended ? "This link no longer works" : "Enter your access token";
    announce(title);
    return [
      icon("lock"),
      make("h2", {}, title),
      make("p", {}, ended
        ? "It has expired or was revoked. Ask the person who shared it for a new one, or enter an access token."
        : "The server prints the token when it starts."),
      ...(wrong ? [make("p", { className: "problem", role: "alert" }, "That token isn't valid. It may have expired.")] : []),
      make("label", { htmlFor: "token", className: "hidden" }, "Access token"),
      form,
    ];
  }

  off({ note }) {
    const parts = [icon("screen"), make("h2", {}, titles.off), make("p", {}, [note, "Start it to see its screen here."].filter(Boolean).join(" "))];
    if (viewOnly) return [icon("screen"), make("h2", {}, titles.off), make("p", {}, "You'll see it here when someone starts it.")];
    if (this.#problem) parts.push(...this.#parts(this.#problem, "problem"));
    this.#problem = null;
    const select = this.#sizes();
    const button = make("button", { type: "button", id: "start", className: "primary large" }, "Start desktop");
    button.addEventListener("click", () => {
      localStorage.setItem(storage, select.value);
      this.#session.start(this.#chosen(select.value));
    });
    const row = make("p", { className: "size" }, make("label", { htmlFor: "size" }, "Screen size"), select);
    return [...parts, button, row];
  }

  #sizes() {
    const option = (value, text) => make("option", { value }, text);
    const select = make("select", { id: "size" });
    for (const [width, height] of sizes) select.append(option(`${width}x${height}`, `${width} × ${height}${width < height ? " (phone)" : ""}`));
    const room = this.#room();
    select.append(option("room", `Fit this page (${room.width} × ${room.height})`));
    select.value = localStorage.getItem(storage) ?? usual;
    if (!select.value) select.value = usual;
    return select;
  }

  #chosen(value) {
    if (value === "room") return this.#room();
    const [width, height] = value.split("x").map(Number);
    return { width, height };
  }

  starting({ since }) { return this.#waiting(titles.starting, "This takes about a second.", since); }
  stopping({ since }) { return this.#waiting(titles.stopping, "Closing all apps.", since); }

  #waiting(title, text, since) {
    const elapsed = make("span", { className: "elapsed" });
    const tick = () => {
      const seconds = (performance.now() - since) / 1000;
      elapsed.textContent = seconds < 2 ? "" : `${Math.floor(seconds)} s`;
    };
    tick();
    this.#timer = setInterval(tick, 500);
    return [make("h2", { className: "busy" }, title), make("p", {}, `${text} `, elapsed)];
  }

  connecting({ transport, slow, preview }) {
    const text = [
      slow ? "This is taking longer than usual." : preview ? "" : `Using ${transport}`,
      preview ? "Showing screenshots in the meantime." : slow ? "If this fails, deskhand tries another way to connect." : "",
    ].filter(Boolean).join(" ");
    return [make("h2", { className: "busy" }, "Connecting…"), make("p", {}, text)];
  }

  reconnecting({ attempt, at, transport, explanation }) {
    const about = make("p", {});
    const tick = () => {
      const seconds = at ? Math.max(0, Math.ceil((at - performance.now()) / 1000)) : 0;
      about.textContent = `Attempt ${attempt}${at ? `. Trying again in ${seconds} s` : transport ? `, using ${transport}` : ""}`;
    };
    tick();
    if (at) this.#timer = setInterval(tick, 250);
    return [
      make("h2", { className: "busy" }, "Reconnecting…"),
      ...(explanation ? [make("p", {}, `${explanation.what}.`)] : []),
      about,
      this.#button("Retry now", () => this.#session.retry()),
    ];
  }

  failed({ explanation, restart }) {
    const parts = [icon("warning"), ...this.#parts(explanation)];
    parts.push(make("div", { className: "row" },
      restart ? this.#button(restart, () => this.#session.restart(), "primary") : this.#button("Try again", () => this.#session.retry(), "primary"),
      copyButton(() => details(explanation), this.#write, "Copy details")));
    return parts;
  }

  stopped({ explanation }) {
    return [icon("screen"), ...this.#parts(explanation), this.#button("Watch again", () => this.#session.retry(), "primary")];
  }

  install({ explanation }) {
    return [icon("warning"), ...this.#parts(explanation)];
  }

  // ---- parts ----------------------------------------------------------------------

  #parts({ what, why, fix, command: line }, className) {
    const parts = [make(className ? "p" : "h2", className ? { className, role: "alert" } : {}, className ? `${what}. ${why ?? ""}` : what)];
    if (!className && why) parts.push(make("p", {}, why));
    if (fix) parts.push(make("p", {}, fix));
    if (line) parts.push(command(line, this.#write));
    return parts;
  }

  #button(text, act, className = "") {
    const button = make("button", { type: "button", className }, text);
    once(button, act);
    return button;
  }
}

function details({ what, why, fix, details: more }) {
  return [what, why, fix, more, location.origin, navigator.userAgent, new Date().toISOString()].filter(Boolean).join("\n");
}
