// The desktops of the server: their pictures, and buttons that open, start and delete them.

import { desktop as shown, request, server, serverURL } from "../api.js";
import { icon, make, once, setText, show, sure } from "../dom.js";
import { inOneLine } from "../errors.js";
import { addressOf } from "./address.js";

const lookTime = 3000; // between pictures, in milliseconds
const scale = 0.25;

const words = {
  active: "Running", inactive: "Off", starting: "Starting…", stopping: "Stopping…",
  failed: "Failed", install_required: "Programs are missing",
};

/** mount fills root with the desktops. */
export function mount(root, { router }) {
  const grid = make("ul", { className: "grid-of-desktops" });
  const problem = make("p", { className: "problem", role: "alert", hidden: true });
  const name = make("input", { id: "desktop-name", placeholder: "Generated", autocomplete: "off", spellcheck: false, maxLength: 64 });
  const size = make("select", { id: "desktop-size" }, ...["1280x800", "1440x900", "1920x1080", "390x844"].map((value) => make("option", { value }, value.replace("x", " × "))));
  const create = make("button", { className: "primary" }, "Create desktop");
  const refused = make("p", { className: "problem", role: "alert", hidden: true });
  const form = make("form", { className: "row" },
    make("label", { htmlFor: name.id }, "Name"), name, make("label", { htmlFor: size.id }, "Size"), size, create, refused);
  root.append(make("h2", {}, "Desktops"), problem, grid, make("h3", {}, "New desktop"), form);

  const cards = new Map(); // by id
  let timer = 0;

  const fail = (error, where = problem) => { setText(where, error ? inOneLine(error) : ""); show(where, Boolean(error)); };

  async function look() {
    clearTimeout(timer);
    try {
      const { desktops } = await server("GET", "desktops");
      draw(desktops);
      fail(null);
      await Promise.all(desktops.map((one) => cards.get(one.id).look(one)));
    } catch (error) {
      fail(error);
    }
    if (!root.hidden && root.isConnected) timer = setTimeout(look, lookTime);
  }

  function draw(desktops) {
    for (const [id, card] of cards) if (!desktops.some((one) => one.id === id)) { card.end(); cards.delete(id); }
    for (const one of desktops) {
      if (!cards.has(one.id)) cards.set(one.id, new Card(one.id, { fail, look, leave: () => router.go() }));
      const card = cards.get(one.id);
      if (card.root.parentElement !== grid) grid.append(card.root);
      card.draw(one);
    }
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (create.disabled) return;
    create.disabled = true;
    setText(create, "Starting…");
    const [width, height] = size.value.split("x").map(Number);
    try {
      const made = await server("POST", "desktops", { ...(name.value.trim() && { id: name.value.trim() }), width, height });
      name.value = "";
      fail(null, refused);
      await look();
      cards.get(made.id)?.focus();
    } catch (error) {
      fail(error, refused);
    }
    create.disabled = false;
    setText(create, "Create desktop");
  });

  return { show: look, hide: () => clearTimeout(timer), destroy: () => clearTimeout(timer) };
}

// Card shows one desktop.
class Card {
  #id;
  #fail;
  #again;
  #image = make("img", { alt: "", draggable: false });
  #about = make("small");
  #open;
  #start;
  #remove;
  #tag = ""; // of the picture shown
  root;

  constructor(id, { fail, look, leave }) {
    this.#id = id;
    this.#fail = fail;
    this.#again = look;
    this.#open = make("a", { className: "picture", href: addressOf(id) }, this.#image, icon("screen"));
    if (id === shown) {
      this.#open.addEventListener("click", (event) => { event.preventDefault(); leave(); });
      this.#open.setAttribute("aria-current", "true");
    }
    this.#start = make("button", { type: "button", className: "small" }, "Start");
    const verb = id === "main" ? "Stop" : "Delete"; // the main desktop can only be stopped
    this.#remove = make("button", { type: "button", className: "small danger" }, `${verb}…`);
    once(this.#start, () => this.#call("POST", "/start", {}));
    sure(this.#remove, `${verb}? Programs end`, () => (id === "main" ? this.#call("POST", "/stop", {}) : this.#call("DELETE", "")));
    this.root = make("li", {}, this.#open,
      make("div", { className: "facts" }, make("span", { className: "name" }, id, this.#about), this.#start, this.#remove));
  }

  focus() { this.#open.focus(); }

  draw({ state, resolution, host, windows, lastError }) {
    const parts = [this.#id === shown ? "Shown" : "", words[state] ?? state, resolution && state === "active" ? `${resolution.width} × ${resolution.height}` : "",
      windows?.length ? `${windows.length} ${windows.length === 1 ? "window" : "windows"}` : "", state === "failed" ? lastError?.message : ""];
    setText(this.#about, parts.filter(Boolean).join(" · "));
    this.root.dataset.state = state;
    this.#open.setAttribute("aria-label", `Open ${this.#id}, ${words[state] ?? state}`);
    show(this.#start, state === "inactive" || state === "failed");
    show(this.#remove, !host && (this.#id !== "main" || state === "active"));
  }

  async #call(method, path, body) {
    try {
      await server(method, `desktops/${encodeURIComponent(this.#id)}${path}`, body);
      this.#fail(null);
    } catch (error) {
      return this.#fail(error);
    }
    this.#again();
  }

  async look({ state }) {
    if (state !== "active") return this.#drop();
    const url = serverURL(`desktops/${encodeURIComponent(this.#id)}/screenshot?format=webp&quality=60&scale=${scale}`);
    try {
      const response = await request("GET", url, this.#tag ? { headers: { "If-None-Match": this.#tag } } : {});
      if (response.status === 304) return;
      this.#tag = response.headers.get("ETag") ?? "";
      const next = URL.createObjectURL(await response.blob());
      URL.revokeObjectURL(this.#image.src);
      this.#image.src = next;
      this.root.classList.add("seen");
    } catch {
      this.#drop(); // the state says why
    }
  }

  #drop() {
    URL.revokeObjectURL(this.#image.src);
    this.#image.removeAttribute("src");
    this.#tag = "";
    this.root.classList.remove("seen");
  }

  end() {
    this.#drop();
    this.root.remove();
  }
}
