// Notifications of the browser about agents that wait for a person while the page is hidden.

import { describe } from "../chat/sessions.js";

const storage = "notify";

const available = () => "Notification" in window;

/** notifies reports whether this browser shows notifications of the page, and the user wants them. */
export const notifies = () => available() && Notification.permission === "granted" && localStorage.getItem(storage) === "on";

/** setNotifies turns notifications on or off. The browser may ask the user. */
export async function setNotifies(on) {
  localStorage.setItem(storage, on ? "on" : "off");
  if (on && available() && Notification.permission === "default") await Notification.requestPermission();
}

/** obstacle returns why there can be no notifications, or "". */
export function obstacle() {
  if (!isSecureContext) return "Browsers show notifications of pages with HTTPS only.";
  if (!available()) return "This browser has no notifications.";
  return Notification.permission === "denied" ? "The browser blocks notifications of this page. Allow them in its settings of this site." : "";
}

/** Notifier shows a notification for each request of waiting that comes while the page is hidden. */
export class Notifier {
  #waiting;
  #router;
  #seen = new Set(); // ids of requests that waited while the page was visible
  #shown = new Map(); // by id: a Notification, or null before it is there

  constructor({ waiting, router }) {
    [this.#waiting, this.#router] = [waiting, router];
    waiting.addEventListener("change", () => this.#update());
    document.addEventListener("visibilitychange", () => this.#update());
    this.#update();
  }

  #update() {
    const { all } = this.#waiting;
    for (const [id, note] of this.#shown) {
      if (document.hidden && all.has(id)) continue;
      note?.close();
      this.#shown.delete(id);
    }
    for (const request of all.values()) {
      if (!document.hidden) this.#seen.add(request.id);
      else if (notifies() && !this.#seen.has(request.id) && !this.#shown.has(request.id)) this.#tell(request);
    }
  }

  // A notification may be on a locked screen, so it has nothing that people or agents wrote.
  async #tell({ id, sessionId, questions }) {
    this.#shown.set(id, null);
    const { agent } = await describe(sessionId).catch(() => ({}));
    if (this.#shown.get(id) !== null) return; // answered meanwhile
    try {
      const note = new Notification(`${agent || "An agent"} ${questions ? "asks a question" : "needs permission"}`, { body: "Open the page to answer.", tag: `deskhand ${id}` });
      note.addEventListener("click", () => this.#open(sessionId));
      this.#shown.set(id, note);
    } catch { /* phones have notifications of service workers only */ }
  }

  #open(session) {
    focus();
    this.#router.go("s", session);
    document.dispatchEvent(new CustomEvent("deskhand:answer", { detail: { session } }));
  }
}
