// The pane of sessions: the list, a new session, or one session.

import { icon, make, show, toast } from "../dom.js";
import { Conversation } from "./conversation.js";
import { NewSession } from "./create.js";
import { List } from "./list.js";
import { loaded } from "./markdown.js";
import { Sessions } from "./sessions.js";

/** mount fills root with the sessions of the server. Addresses are s, s/new, s/ID and s/ID/SEQUENCE. */
export async function mount(root, { events, router }) {
  const sessions = new Sessions({ events });
  const lightbox = new Lightbox();
  const address = "s";
  let open = null; // { id, conversation }

  const list = new List({ sessions, open: (id) => router.go(address, id), begin: () => router.go(address, "new") });
  const form = new NewSession({ sessions, made: (id) => router.replace(address, id), back: () => router.go(address) });
  root.append(list.root, form.root, lightbox.element);

  function leave() {
    const id = open?.id;
    open?.conversation.destroy();
    open = null;
    return id;
  }

  function route([id, seq]) {
    if (id && id === open?.id) return open.conversation.reveal(Number(seq));
    const before = leave();
    show(list.root, !id);
    show(form.root, id === "new");
    if (!id) {
      list.draw();
      if (before) list.focus(before);
      return;
    }
    if (id === "new") return form.open();
    const conversation = new Conversation({ id, sessions, stream: events, back: () => router.go(address), show: (picture) => lightbox.show(picture) });
    open = { id, conversation };
    root.append(conversation.root);
    conversation.focus();
    conversation.reveal(Number(seq));
  }

  // The timeline shows an event of a session here, and follows a click on a row.
  root.addEventListener("click", ({ target }) => {
    const row = target.closest("[data-time]");
    if (!row || !open || target.closest("button, a, summary, input, textarea, select") || String(getSelection())) return;
    document.dispatchEvent(new CustomEvent("deskhand:seek", { detail: { session: open.id, time: Number(row.dataset.time), source: "chat" } }));
  });
  document.addEventListener("deskhand:seek", ({ detail: { session, seq, source } }) => {
    if (source === "timeline" && session === open?.id) open.conversation.reveal(seq);
  });

  document.addEventListener("deskhand:answer", ({ detail: { session } }) => { if (session === open?.id) open.conversation.focus(); });

  loaded.then((found) => { if (!found) toast("This build of the server has no Markdown parser. The page shows what agents write as plain text."); });
  await sessions.start();
  list.draw();
  return { route };
}

/** Lightbox shows a picture in full. */
class Lightbox {
  element;
  #picture = make("img", { alt: "Picture in full size" });

  constructor() {
    const close = make("button", { type: "button", "aria-label": "Close", className: "plain", onclick: () => this.element.close() }, icon("close"));
    this.element = make("dialog", { className: "lightbox", "aria-label": "Picture" }, close, this.#picture);
    this.element.addEventListener("click", ({ target }) => { if (target === this.element) this.element.close(); });
  }

  show(path) {
    this.#picture.src = path;
    this.element.showModal();
  }
}
