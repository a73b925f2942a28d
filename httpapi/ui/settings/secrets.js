// Secrets: values that agents type by name and never see.

import { server } from "../api.js";
import { make, show } from "../dom.js";
import { when } from "../format.js";
import { field, risky, row } from "./parts.js";

/** secrets fills box with the names of the secrets, and sets new ones. */
export function secrets(box, { fail }) {
  const list = make("ul", { className: "list" });
  const none = make("p", { className: "dim" }, "No secrets.");
  const name = make("input", { autocomplete: "off", spellcheck: false, required: true, placeholder: "MAIL_PASSWORD" });
  const value = make("input", { type: "password", autocomplete: "new-password", required: true });
  const form = make("form", { className: "stack" }, make("h4", {}, "Set a secret"), field("Name", name), field("Value", value), make("button", { className: "primary" }, "Set secret"));
  box.append(make("p", { className: "dim" }, "Agents type a secret by its name. No answer, event, recording or log has the value."), none, list, form);

  async function look() {
    try {
      const { secrets: all } = await server("GET", "secrets");
      list.replaceChildren(...all.map((one) => row(one.name, one.setAt ? `Set ${when(one.setAt)}` : "",
        risky("Delete", "Delete?", { fail, again: look, act: () => server("DELETE", `secrets/${encodeURIComponent(one.name)}`) }))));
      show(none, all.length === 0);
      fail(null);
    } catch (error) {
      fail(error);
    }
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await server("PUT", `secrets/${encodeURIComponent(name.value.trim())}`, { value: value.value });
      name.value = value.value = "";
    } catch (error) {
      return fail(error);
    }
    await look();
  });
  return { show: look, hide: () => { value.value = ""; } };
}
