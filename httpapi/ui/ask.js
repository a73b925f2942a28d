// Questions before something that can't be undone.

import { make } from "./dom.js";

/**
 * ask shows a dialog and returns the value of the chosen button, or "" if it was canceled.
 * The buttons are { label, value, kind }, where kind is a class such as "danger primary".
 * Cancel has the focus.
 */
export function ask(title, content, buttons) {
  const dialog = make("dialog", { className: "ask", "aria-label": title }, make("h2", {}, title), ...content);
  const row = make("div", { className: "row" });
  dialog.append(row);
  return new Promise((answer) => {
    for (const { label, value, kind = "" } of [{ label: "Cancel", value: "" }, ...buttons]) {
      row.append(make("button", { type: "button", className: kind, onclick: () => dialog.close(value) }, label));
    }
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(dialog.returnValue);
    });
    document.body.append(dialog);
    dialog.showModal();
    row.firstElementChild.focus();
  });
}

/** askText asks for a text. It returns "" if it was canceled. */
export async function askText(title, label, value, verb) {
  const input = make("input", { value, autocomplete: "off", spellcheck: false, className: "text" });
  // A form takes Enter when the key is typed. At keydown, the button that gets the focus next could get the rest of the key.
  const form = make("form", { onsubmit: (event) => { event.preventDefault(); form.closest("dialog").close("yes"); } }, make("label", { className: "dim" }, label, input));
  const answer = ask(title, [form], [{ label: verb, value: "yes", kind: "primary" }]);
  input.focus();
  const dot = value.lastIndexOf(".");
  input.setSelectionRange(0, dot > 0 ? dot : value.length);
  return (await answer) ? input.value.trim() : "";
}
