// The holder of control: the button in the bar, its panel, and the prompt for a
// viewer who acts without control.

import { viewOnly } from "./api.js";
import { $, announce, hideToast, once, setText, show, toast } from "./dom.js";

const icons = { viewer: "pointer", agent: "agent", api: "code" };

/** Holder shows the holder of control, and takes control. wanted is called when a button takes it. */
export class Holder {
  #control;
  #wanted;
  #before; // the host that was shown last; undefined: no link
  #gaveUp = false; // this viewer has released control, or given it away

  constructor({ session, control, wanted }) {
    this.#control = control;
    this.#wanted = wanted;
    control.addEventListener("change", () => this.#changed());
    control.addEventListener("wanted", () => this.#prompt());
    session.addEventListener("link", () => this.#linked(session.link));
    session.addEventListener("state", () => { if (session.state.name !== "live") show($("prompt"), false); });
    $("control").addEventListener("click", () => this.#press());
    for (const button of [$("control-take"), $("prompt-take")]) button.addEventListener("click", () => this.#take());
    $("control-force").addEventListener("click", () => this.#take(true));
    $("control-over").addEventListener("click", () => this.#over());
    $("prompt-close").addEventListener("click", () => show($("prompt"), false));
    once($("control-release"), () => {
      this.letGo();
      control.release();
      this.#close();
    });
    $("control-alone").addEventListener("change", ({ target }) => control.take({ exclusive: target.checked }));
    $("control-pause").addEventListener("click", () => control.take({ exclusive: !control.exclusive }));
    this.#changed();
  }

  /** letGo is called before this viewer gives control to another. */
  letGo() { this.#gaveUp = true; }

  #close() { if ($("control-panel").matches(":popover-open")) $("control-panel").hidePopover(); }

  // ---- button and panel -------------------------------------------------------

  #changed() {
    const control = this.#control;
    const { host, mine, allowed } = control;
    const live = control.link !== null;
    show($("control"), live);
    document.body.dataset.role = viewOnly || (live && !allowed) ? "view" : "control";
    this.#button(host, mine, allowed);
    this.#panel(host, mine, allowed);
    if (mine) { show($("prompt"), false); hideToast(); }
    else if (!$("prompt").hidden) this.#prompt(); // the holder may have changed
    if (live && this.#before !== undefined) this.#announce(this.#before, host);
    this.#before = live ? host : undefined;
  }

  #button(host, mine, allowed) {
    const inControl = mine || host !== null;
    const label = mine ? "You" : host ? host.short : allowed ? "Take control" : "View only";
    setText($("control-who"), label);
    show($("control-is"), inControl);
    setText($("control-is"), mine && host.taken ? " · in control, agents paused" : " · in control");
    show($("control-over"), allowed && host !== null && !mine);
    show($("control-pause"), mine);
    $("control-pause").setAttribute("aria-checked", String(this.#control.exclusive));
    setText($("control-more"), host?.taken && !mine ? ", others are paused" : "");
    $("control").dataset.mine = String(mine);
    $("control").dataset.kind = host?.kind ?? "";
    const name = host ? icons[host.kind] : allowed ? "pointer" : "eye";
    show($("control-lock"), Boolean(host?.taken));
    $("control-icon").setAttribute("href", `#i-${name}`);
    $("control").title = host?.taken ? `${mine ? "You are" : `${host.name} is`} in control. Others are paused.` : "";
    if (inControl || !allowed) $("control").setAttribute("aria-haspopup", "dialog");
    else $("control").removeAttribute("aria-haspopup");
  }

  #panel(host, mine, allowed) {
    setText($("control-title"), mine ? "You're in control" : host ? `${host.name} is in control` : "View only");
    setText($("control-about"), mine ? "Other viewers can't use the mouse and keyboard." : offer(host, allowed).about);
    show($("control-alone-row"), mine);
    $("control-alone").checked = this.#control.exclusive;
    show($("control-release"), mine);
    show($("control-take"), !mine && host !== null && allowed);
    setText($("control-take"), offer(host, allowed).label);
    show($("control-force"), !mine && allowed && host?.taken && host.kind === "viewer");
    show($("control-row"), allowed);
    if (!host && allowed) this.#close();
  }

  #press() {
    const { host, allowed } = this.#control;
    if (host || !allowed) return $("control-panel").showPopover({ source: $("control") });
    this.#wanted();
    this.#control.take();
  }

  // A program loses control at once; the panel asks before a person does.
  #over() {
    if (this.#control.host?.kind === "viewer") $("control-panel").showPopover({ source: $("control-over") });
    else this.#take();
  }

  // The viewer has read what taking control does to its holder.
  #take(force = false) {
    const { host } = this.#control;
    const program = host !== null && host.kind !== "viewer";
    this.#wanted();
    this.#control.take({ exclusive: program, force: program || force });
    show($("prompt"), false);
    this.#close();
  }

  // ---- prompts -------------------------------------------------------------

  #announce(before, host) {
    const same = before?.id === host?.id;
    if (same && before?.taken === host?.taken) return;
    const paused = host?.taken ? ". Others are paused" : "";
    announce(host ? `${host.me ? "You're" : `${host.name} is`} in control${paused}` : "No one is in control");
    const lost = before?.me && !host?.me && !this.#gaveUp;
    this.#gaveUp &&= same; // until the server has confirmed it
    if (lost && host) toast(`${host.name} is in control now`);
    if (lost && !host && before.taken) toast("You lost control after a minute without input. Agents and others can act again.");
  }

  // The viewer acts, but another actor is in control, or the link only allows watching.
  #prompt() {
    const { host, allowed, link } = this.#control;
    if (!link || (allowed && !host)) return show($("prompt"), false);
    const text = allowed ? `${host.name} is in control${host.taken && host.kind === "viewer" ? " and has paused others" : ""}.` : offer(host, false).about;
    setText($("prompt-text"), text);
    setText($("prompt-take"), offer(host, allowed).label);
    show($("prompt-take"), allowed);
    if ($("prompt").hidden) announce(text);
    show($("prompt"), true);
  }

  #linked(link) {
    link?.addEventListener("refused", ({ detail }) => this.#refused(detail));
    link?.addEventListener("asked", ({ detail }) => this.#asked(detail));
  }

  #refused(message) {
    const { host, allowed } = this.#control;
    this.#changed(); // the checkbox shows the state of the server
    if (!allowed || (host && host.kind !== "viewer")) return this.#prompt();
    const text = host ? `${host.name} is in control and was asked to give it to you.` : `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
    toast(text);
    announce(text);
  }

  // Another viewer asks for the control that this viewer has.
  #asked({ id, name }) {
    if (!this.#control.mine) return;
    const act = () => { this.letGo(); this.#control.give(id); };
    toast(`${name} asks for control`, { label: "Give control", act });
    announce(`${name} asks for control`);
  }
}

// What a viewer is offered while host has control; null: control is free.
function offer(host, allowed) {
  if (!allowed) return { label: "", about: "You're watching. This link doesn't allow control." };
  if (!host) return { label: "Take control", about: "" };
  if (host.kind !== "viewer") {
    return { label: "Take control anyway", about: `${host.name} is paused while you're in control. Its current task may be left unfinished.` };
  }
  if (host.taken) return { label: "Ask for control", about: `${host.name} has paused everyone else.` };
  return { label: "Take control", about: `${host.name} can't use the mouse and keyboard while you're in control.` };
}
