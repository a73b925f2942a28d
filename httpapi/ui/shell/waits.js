// What the page shows while agents wait for a person: their number on the rail, and on a
// phone the request over the picture.

import { $, announce } from "../dom.js";
import { styled } from "./styled.js";

const narrow = matchMedia("(max-width: 699px)");

/** followWaits shows the requests of waiting. button opens the pane of sessions. */
export function followWaits({ waiting, layout, router, button }) {
  let before = 0;
  let sheet = null; // a promise

  async function draw() {
    const { size } = waiting.all;
    if (size) button.dataset.count = size;
    else delete button.dataset.count;
    const text = size === 1 ? "1 permission request" : `${size} permission requests`;
    button.title = size ? `Sessions: ${text}` : "Sessions";
    if (size > before && !layout.isOpen("chat")) announce(`${text}. Open Sessions to answer.`);
    before = size;
    const wanted = narrow.matches && size > 0 && !layout.isOpen("chat");
    if (!wanted && !sheet) return;
    sheet ??= load();
    (await sheet).show(narrow.matches && !layout.isOpen("chat") ? [...waiting.all.values()] : []);
  }

  async function load() {
    const [{ Sheet }] = await Promise.all([import("../chat/sheet.js"), styled("../chat/chat.js")]);
    const made = new Sheet({ open: (session) => router.go("s", session) });
    $("work").append(made.element);
    return made;
  }

  const update = () => { draw().catch(() => { sheet = null; }); }; // the next change tries again
  waiting.addEventListener("change", update);
  layout.addEventListener("change", update);
  narrow.addEventListener("change", update);
  update();
}
