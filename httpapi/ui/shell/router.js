// The address of the page: what follows "#/".

/** Router reads and sets the address. It emits change when the address changes. */
export class Router extends EventTarget {
  constructor() {
    super();
    addEventListener("hashchange", () => this.dispatchEvent(new Event("change")));
  }

  /** The parts of the address: ["s", "ID"] for #/s/ID, [] without one. */
  get parts() {
    if (!location.hash.startsWith("#/")) return [];
    return location.hash.slice(2).split("/").filter(Boolean).map(decode);
  }

  /** go opens an address, such as go("s", id). go() opens the picture. */
  go(...parts) {
    const address = parts.map(encodeURIComponent).join("/");
    if (this.parts.map(encodeURIComponent).join("/") === address) return;
    location.hash = `/${address}`;
  }

  /** replace is go without an entry in the history. */
  replace(...parts) {
    history.replaceState(null, "", `#/${parts.map(encodeURIComponent).join("/")}`);
    this.dispatchEvent(new Event("change"));
  }
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // not encoded by go
  }
}
