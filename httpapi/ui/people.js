// The people panel: viewers, agents and API clients.

import { get } from "./api.js";
import { fullName, keyOf } from "./connection.js";
import { $, icon, make, setText, show } from "./dom.js";

const lookTime = 10000; // between requests for presence

const icons = { viewer: "eye", agent: "agent", api: "code" };
const kinds = { agent: "agent", api: "API client" };

/** People fills the panel and the count in the bar. gave is called before control is given away. */
export class People {
  #session;
  #control;
  #gave;
  #present = []; // the answer of /presence
  #timer = 0;

  constructor({ session, control, gave }) {
    this.#session = session;
    this.#control = control;
    this.#gave = gave;
    session.addEventListener("link", () => this.#linked());
    session.addEventListener("state", () => this.#look());
    control.addEventListener("change", () => this.#look());
    $("people-panel").addEventListener("toggle", ({ newState }) => { if (newState === "open") this.#look(); });
    document.addEventListener("visibilitychange", () => this.#look());
  }

  #linked() {
    const { link } = this.#session;
    this.#present = [];
    link?.addEventListener("people", () => this.#look());
    this.#draw();
  }

  // The link reports viewers and control; the page polls /presence for the rest.
  async #look() {
    clearTimeout(this.#timer);
    this.#draw();
    if (this.#session.state.name !== "live" || document.hidden) return;
    this.#timer = setTimeout(() => this.#look(), lookTime);
    const { link } = this.#session;
    const { present } = await get("/presence").catch(() => ({}));
    if (!present || link !== this.#session.link) return;
    this.#present = present;
    this.#draw();
  }

  /** all lists viewers, agents and clients: { key, kind, name, me, viewOnly, seenAt }. */
  get all() {
    const { link } = this.#session;
    if (!link) return [];
    const all = new Map([...link.people.values()].map(({ id, name, viewOnly }) => [id, { key: id, kind: "viewer", name, viewOnly }]));
    const add = (one) => { if (!all.has(one.key)) all.set(one.key, one); };
    if (!all.has(link.me)) add({ key: link.me, kind: "viewer", name: "" });
    if (link.host) add({ key: link.host.id, kind: link.host.kind, name: link.host.kind === "viewer" ? "" : link.host.short, host: link.host });
    const sockets = link.people.size > 0; // sockets report viewers immediately
    for (const { kind, id, name = "", seenAt } of this.#present) {
      const key = kind === "api" && name === link.me ? link.me : keyOf({ kind, id, name });
      if (all.has(key)) all.get(key).seenAt = seenAt;
      else if (kind !== "viewer" || !sockets) add({ key, kind, name, seenAt });
    }
    return [...all.values()].map((one) => ({ ...one, me: one.key === link.me }));
  }

  #draw() {
    const { link } = this.#session;
    const all = this.all;
    show($("people"), all.length > 1 && this.#session.state.name === "live");
    setText($("people-count"), String(all.length));
    $("people").title = `Participants: ${all.length}`;
    if (!$("people-panel").matches(":popover-open")) return;
    const focused = document.activeElement?.dataset?.give;
    $("people-list").replaceChildren(...all.map((one) => this.#item(one, link)));
    if (focused) $("people-list").querySelector(`[data-give="${CSS.escape(focused)}"]`)?.focus();
  }

  #item(one, link) {
    const host = link.host?.id === one.key ? link.host : null;
    const name = one.host ? one.host.short : one.kind === "viewer" ? one.name || (one.me ? "You" : "Another viewer") : one.name || fullName(one.kind, "").replace(/^An? /, "");
    const about = [
      one.me && one.name ? "you" : "",
      kinds[one.kind] && name !== kinds[one.kind] ? kinds[one.kind] : "",
      host ? `in control${host.taken ? ", others are paused" : ""}` : one.viewOnly ? "view only" : "",
      !host && one.seenAt ? `last input ${ago(one.seenAt)}` : "",
    ].filter(Boolean).join(" · ");
    const picture = icon(host && one.kind === "viewer" ? "pointer" : icons[one.kind]);
    if (one.kind === "agent") picture.classList.add("agent");
    const parts = [picture, make("span", { className: "name" }, name, about ? make("small", {}, about) : "")];
    if (this.#control.mine && one.kind === "viewer" && !one.me && !one.viewOnly && link.people.has(one.key)) {
      const give = make("button", { type: "button", className: "small", "data-give": one.key }, "Give control");
      give.addEventListener("click", () => {
        this.#gave();
        this.#control.give(one.key);
        $("people-panel").hidePopover();
      });
      parts.push(give);
    }
    return make("li", host ? { className: "host" } : {}, ...parts);
  }
}

function ago(time) {
  const minutes = Math.floor((Date.now() - new Date(time)) / 60000);
  return minutes < 1 ? "just now" : `${minutes} min ago`;
}
