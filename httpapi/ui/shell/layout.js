// The layout of the page: the picture, and the panes around it.

import { hasFiles, scope } from "../api.js";
import { $, icon, make, show, toast } from "../dom.js";
import { inOneLine } from "../errors.js";
import { followDrops } from "./drops.js";
import { panes, paneOf } from "./panes.js";
import { Splitter } from "./splitter.js";
import { styled } from "./styled.js";
import { followWaits } from "./waits.js";

const storage = "layout";
const narrow = matchMedia("(max-width: 699px)");
const roomy = matchMedia("(min-width: 1440px)"); // the first visit begins with the sessions beside the picture

const places = ["side", "dock", "strip", "page"];

/**
 * Layout opens and closes panes: at most one in each place. It remembers what is open.
 * It emits change.
 */
export class Layout extends EventTarget {
  #context;
  #router;
  #panes = panes; // that this viewer may open
  #open = {}; // by place: the name of the pane
  #loaded = new Map(); // by name: a promise of { root, pane }
  #buttons = new Map();
  #more = null; // the tab of the panes without one

  constructor(context) {
    super();
    this.#context = { ...context, layout: this };
    this.#router = context.router;
    if (scope !== "admin") this.#panes = panes.filter((pane) => pane.links || (pane.supervise && scope === "supervise" && (hasFiles || !pane.files)));
    new Splitter({ handle: $("side-splitter"), box: $("side"), name: "side", least: 320, most: () => Math.min(560, innerWidth - 360) });
    new Splitter({ handle: $("dock-splitter"), box: $("dock"), name: "dock", least: 120, most: () => $("work").clientHeight / 2 });
    this.#rail();
    this.#router.addEventListener("change", () => this.#route());
    addEventListener("keydown", (event) => this.#key(event));
    narrow.addEventListener("change", () => this.#narrowed());
    const kept = read() ?? (roomy.matches ? { side: "chat" } : {});
    for (const place of ["side", "dock"]) if (!narrow.matches && this.#panes.some((p) => p.name === kept[place])) this.open(kept[place], { focus: false });
    for (const pane of this.#panes) if (pane.place === "strip") this.open(pane.name, { focus: false });
    this.#route();
    if (this.#buttons.has("files")) followDrops(this);
    const button = this.#buttons.get("chat");
    const trouble = (error) => toast(inOneLine(error));
    if (button) {
      followWaits({ waiting: context.waiting, layout: this, router: this.#router, button });
      import("./notify.js").then(({ Notifier }) => new Notifier(context)).catch(trouble);
    }
    import("./shortcuts.js").then(({ followKeys }) => followKeys(this.#context)).catch(trouble);
    if (["admin", "supervise"].includes(scope)) import("../empty.js").then(({ Empty }) => new Empty(context)).catch(trouble);
  }

  /** The panes that this viewer can open by a button. */
  get panes() { return this.#panes.filter((pane) => pane.icon); }

  /** isOpen reports whether a pane can be seen. */
  isOpen(name) { return Object.values(this.#open).includes(name); }

  /** toggle opens or closes a pane. */
  toggle(name) {
    if (this.isOpen(name)) this.close(this.#panes.find((p) => p.name === name).place);
    else this.show(name);
  }

  /** show opens a pane, and its address if it has one. */
  show(name) {
    const { place } = this.#panes.find((p) => p.name === name);
    if (place === "page") this.#router.go(name);
    else this.open(name);
  }

  /** showDesktop closes the panes around the picture. */
  showDesktop() { for (const place of ["side", "dock", "page"]) this.close(place); }

  /** open opens a pane in its place. parts is the rest of the address. */
  async open(name, { focus = true, parts = null } = {}) {
    const pane = this.#panes.find((p) => p.name === name);
    const { place } = pane;
    if (this.#open[place] !== name) {
      this.#left(place);
      this.#open[place] = name;
    }
    if (narrow.matches && place !== "strip") for (const other of ["side", "dock", "page"]) if (other !== place) this.close(other);
    this.#changed();
    const waiting = this.#wait(place);
    try {
      const { root, pane: made } = await this.#load(pane);
      if (this.#open[place] !== name) return; // closed meanwhile
      for (const child of $(`${place}-panes`).children) show(child, child === root);
      made.show?.();
      if (parts) made.route?.(parts);
      if (focus && !root.contains(document.activeElement)) root.focus({ preventScroll: true });
    } catch (error) {
      this.#loaded.delete(name);
      this.close(place);
      toast(`Can't open ${pane.label}. ${inOneLine(error)}`);
    } finally {
      waiting.remove();
    }
  }

  // What a place shows until its pane is there, if that takes a while.
  #wait(place) {
    const text = make("p", { className: "busy loading" }, "Loading…");
    if (place !== "strip") $(place).append(text);
    return text;
  }

  /** close closes the pane in a place. The focus goes back to its button. */
  close(place) {
    const name = this.#open[place];
    if (!name) return;
    const had = $(place).contains(document.activeElement);
    this.#left(place);
    delete this.#open[place];
    this.#changed();
    if (had) (this.#buttons.get(name) ?? $("more")).focus();
    if (paneOf(this.#panes, this.#router.parts[0])?.name === name) this.#router.go();
  }

  #left(place) {
    const name = this.#open[place];
    if (name) this.#loaded.get(name)?.then(({ pane }) => pane.hide?.()).catch(() => {});
  }

  #load(pane) {
    if (!this.#loaded.has(pane.name)) this.#loaded.set(pane.name, this.#mount(pane));
    return this.#loaded.get(pane.name);
  }

  async #mount({ name, place, label, module }) {
    const root = make("section", { className: `pane ${name}`, tabIndex: -1, "aria-label": label, hidden: true });
    const [{ mount }] = await Promise.all([import(module), styled(module)]);
    $(`${place}-panes`).append(root);
    const pane = (await mount(root, this.#context)) ?? {};
    return { root, pane };
  }

  #route() {
    const [first, ...parts] = this.#router.parts;
    const pane = paneOf(this.#panes, first);
    if (pane?.place !== "page") this.close("page");
    if (pane) this.open(pane.name, { parts });
  }

  // On a narrow screen one pane covers the picture.
  #narrowed() {
    if (!narrow.matches) return this.#changed();
    const [first] = ["page", "side", "dock"].filter((place) => this.#open[place]);
    for (const place of ["side", "dock"]) if (place !== first) this.close(place);
    this.#changed();
  }

  // ---- rail and places -----------------------------------------------------------

  #rail() {
    const desktop = button("Desktop", "screen", () => this.showDesktop());
    desktop.classList.add("narrow", "tab");
    const shown = this.panes;
    for (const pane of shown) {
      const element = button(pane.label, pane.icon, () => this.toggle(pane.name));
      element.classList.toggle("tab", Boolean(pane.tab));
      this.#buttons.set(pane.name, element);
    }
    this.#buttons.set("", desktop);
    $("rail").replaceChildren(desktop, ...shown.map((pane) => this.#buttons.get(pane.name)), this.#moreTab(shown.filter((pane) => !pane.tab)));
    for (const place of ["side", "dock", "page"]) $(`${place}-close`).addEventListener("click", () => this.close(place));
    show($("rail"), shown.length > 0);
  }

  // On a phone, the panes without a tab are in a menu.
  #moreTab(those) {
    const items = those.map(({ name, label, icon: symbol }) => make("button", { type: "button", onclick: () => { $("rail-panel").hidePopover(); this.show(name); } }, icon(symbol), label));
    $("rail-panel").replaceChildren(...items);
    this.#more = make("button", { type: "button", className: "tool narrow tab", title: "More panes", "aria-label": "More panes", "aria-expanded": "false" }, icon("more"), make("span", {}, "More"));
    this.#more.setAttribute("popovertarget", "rail-panel");
    show(this.#more, items.length > 0);
    return this.#more;
  }

  #changed() {
    for (const place of places) show($(place), Boolean(this.#open[place]));
    for (const place of ["side", "dock"]) show($(`${place}-splitter`), Boolean(this.#open[place]));
    for (const [name, element] of this.#buttons) {
      const pressed = name ? this.isOpen(name) : !["side", "dock", "page"].some((place) => this.#open[place]);
      element.setAttribute("aria-pressed", String(pressed));
    }
    this.#more?.classList.toggle("on", this.panes.some(({ name, tab }) => !tab && this.isOpen(name)));
    document.body.dataset.covered = String(Boolean(this.#open.page) || (narrow.matches && Boolean(this.#open.side || this.#open.dock)));
    const { side, dock } = this.#open;
    localStorage.setItem(storage, JSON.stringify({ side, dock }));
    this.dispatchEvent(new Event("change"));
  }

  // Esc closes a page, and a drawer on a screen without room for it.
  #key(event) {
    if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open], [popover]:popover-open")) return;
    for (const place of ["page", "side"]) {
      if (!$(place).contains(event.target) || (place === "side" && innerWidth > 1099)) continue;
      event.preventDefault();
      return this.close(place);
    }
  }
}

function button(label, name, act) {
  return make("button", { type: "button", className: "tool", title: label, "aria-label": label, "aria-pressed": "false", onclick: act }, icon(name), make("span", {}, label));
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(storage));
  } catch {
    return null; // not written by this page
  }
}
