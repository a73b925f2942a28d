// The permission requests that wait for a person, in all sessions.

/** Waiting follows the open requests. It emits change. */
export class Waiting extends EventTarget {
  /** The open requests by id, as GET /v1/permissions has them. */
  all = new Map();
  #timer = 0;

  constructor({ events }) {
    super();
    events.addEventListener("permissions", ({ detail: { type, permission, id } }) => {
      if (type === "requested") this.all.set(permission.id, permission);
      else if (type === "reset") this.all.clear(); // the open ones follow
      else this.all.delete(id);
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.dispatchEvent(new Event("change")), 50);
    });
  }
}
