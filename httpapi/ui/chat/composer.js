// The composer: it writes messages to an agent, with files.

import { icon, make, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { Complete } from "./complete.js";
import { files, remove as discard, upload } from "./sessions.js";

const tallest = 220; // pixels

/**
 * Composer is the form below a transcript. send(text, files) sends a message, stop() ends the
 * turn. The text is kept for each session until it is sent. commands() returns a promise of the
 * agent's commands.
 */
export class Composer {
  element;
  #storage;
  #send;
  #folder;
  #text;
  #files = []; // { name, path, mime, element }
  #chips = make("ul", { className: "files", "aria-label": "Attached files", hidden: true });
  #problem = make("p", { className: "problem", role: "alert", hidden: true });
  #sendButton;
  #stopButton;
  #complete;
  #queued = null;
  #note = make("p", { className: "queued", hidden: true });
  #state = "";
  #name = "";

  constructor({ session, send, stop, folder, settings, commands }) {
    this.#storage = `draft-${session}`;
    this.#send = send;
    this.#folder = folder;
    this.#text = make("textarea", { rows: 1, "aria-label": "Message", placeholder: "Message the agent", title: "/ for commands, @ for files", value: localStorage.getItem(this.#storage) ?? "" });
    this.#sendButton = make("button", { type: "submit", className: "primary send", "aria-label": "Send", title: "Send (Enter)" }, icon("send"));
    this.#stopButton = make("button", { type: "button", className: "stop", title: "Stop the turn (Ctrl+.)", onclick: stop }, icon("stop"), "Stop");
    const picker = make("input", { type: "file", multiple: true, hidden: true, onchange: () => { this.attach(picker.files); picker.value = ""; } });
    const attach = make("button", { type: "button", className: "plain", "aria-label": "Attach files", title: "Attach files", onclick: () => picker.click() }, icon("attach"));
    this.#complete = new Complete({ text: this.#text, commands, files: (below) => files(`${folder()}/${below}`), changed: () => this.#changed() });
    this.element = make("form", { className: "composer" }, this.#complete.element, this.#note, this.#chips, this.#text,
      make("div", { className: "bar" }, attach, picker, settings, make("span", { className: "space" }), this.#stopButton, this.#sendButton), this.#problem);
    this.element.addEventListener("submit", (event) => { event.preventDefault(); this.#submit(); });
    this.#text.addEventListener("keydown", (event) => this.#key(event));
    this.#text.addEventListener("input", () => this.#changed());
    this.#text.addEventListener("paste", (event) => {
      if (!event.clipboardData.files.length) return;
      event.preventDefault();
      this.attach(event.clipboardData.files);
    });
    this.#changed();
    requestAnimationFrame(() => this.#grow()); // it has no size before it is in the page
  }

  focus() { this.#text.focus(); }

  /** update follows the state of the session. */
  update(state, name) {
    if (state === this.#state && name === this.#name) return; // this is called for each frame
    [this.#state, this.#name] = [state, name];
    const busy = ["running", "waiting"].includes(state);
    show(this.#stopButton, busy);
    this.#text.disabled = ["ended", "failed", "starting"].includes(state);
    this.#text.placeholder = this.#text.disabled ? { starting: `${name} is starting…` }[state] ?? "This session has ended" : `Message ${name}`;
    this.#changed();
    if (!busy && this.#queued) this.#deliver(...this.#queued);
  }

  /** attach uploads files and attaches them to the message. */
  async attach(files) {
    for (const file of files) {
      const name = `${Date.now().toString(36)}-${(file.name || "picture.png").replace(/[^\w.-]+/g, "_")}`;
      const remove = make("button", { type: "button", className: "plain", "aria-label": `Remove ${file.name}` }, icon("close"));
      const chip = make("li", { "aria-busy": "true" }, icon("file"), make("span", {}, file.name || "picture.png"), remove);
      const entry = { chip, filename: file.name, mime: file.type || undefined, path: "" };
      remove.addEventListener("click", () => this.#discard(entry));
      if (file.type.startsWith("image/")) {
        const url = URL.createObjectURL(file);
        chip.firstElementChild.replaceWith(make("img", { src: url, alt: "", onload: () => URL.revokeObjectURL(url) }));
      }
      this.#files.push(entry);
      this.#chips.append(chip);
      this.#changed();
      try {
        entry.path = await upload(`${this.#folder()}/.attachments`, name, file);
        if (!this.#files.includes(entry)) this.#discard(entry); // it was removed meanwhile
        chip.removeAttribute("aria-busy");
      } catch (error) {
        this.#remove(entry);
        this.#fail(`Can't attach ${file.name}. ${inOneLine(error)}`);
      }
      this.#changed();
    }
  }

  #discard(entry) {
    this.#remove(entry);
    if (entry.path) discard(entry.path).catch(() => {}); // it is only not needed
  }

  #remove(entry) {
    entry.chip.remove();
    this.#files = this.#files.filter((other) => other !== entry);
    this.#changed();
    this.#text.focus();
  }

  #key(event) {
    if (this.#complete.key(event)) {
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#submit();
    }
  }

  #changed() {
    const text = this.#text.value;
    if (text) localStorage.setItem(this.#storage, text);
    else localStorage.removeItem(this.#storage);
    show(this.#chips, this.#files.length > 0);
    this.#sendButton.disabled = this.#text.disabled || Boolean(this.#queued) || !text.trim() || this.#files.some(({ path }) => !path);
    this.#grow();
  }

  #grow() {
    this.#text.style.height = "auto";
    this.#text.style.height = `${Math.min(tallest, this.#text.scrollHeight + 2)}px`;
  }

  // While the agent works, a message waits for the end of the turn.
  #submit() {
    const text = this.#text.value.trim();
    if (this.#sendButton.disabled) return;
    show(this.#problem, false);
    const files = this.#files;
    [this.#text.value, this.#files] = ["", []];
    this.#chips.replaceChildren();
    if (["running", "waiting"].includes(this.#state)) this.#queue(text, files);
    else this.#deliver(text, files);
    this.#changed();
  }

  #queue(text, files) {
    this.#queued = [text, files];
    localStorage.setItem(this.#storage, text);
    const edit = make("button", { type: "button", className: "small", onclick: () => this.#restore() }, "Edit");
    this.#note.replaceChildren(make("span", {}, "Sends when the agent is done: ", make("q", {}, text)), edit);
    show(this.#note, true);
  }

  #restore(text = this.#queued[0], files = this.#queued[1]) {
    this.#queued = null;
    show(this.#note, false);
    this.#text.value = [text, this.#text.value].filter(Boolean).join("\n");
    this.#files.push(...files);
    this.#chips.append(...files.map(({ chip }) => chip));
    this.#changed();
    this.#text.focus();
  }

  async #deliver(text, files) {
    this.#queued = null;
    show(this.#note, false);
    try {
      await this.#send(text, files.map(({ path, mime, filename }) => ({ path, mime, filename })));
    } catch (error) {
      this.#restore(text, files);
      this.#fail(inOneLine(error));
    }
  }

  #fail(text) {
    this.#problem.textContent = text;
    show(this.#problem, true);
  }
}
