// Tokens and shared links.

import { desktop, server, token } from "../api.js";
import { copyButton, make, show } from "../dom.js";
import { when } from "../format.js";
import { choice, field, risky, row, write } from "./parts.js";

const scopes = [
  ["view", "View: see the desktop"],
  ["control", "Control: use the desktop"],
  ["agent", "Agent: call the API of the desktop"],
  ["supervise", "Supervise: work with all agents and desktops"],
  ["admin", "Admin: everything"],
];
const times = [["3600", "1 hour"], ["86400", "1 day"], ["604800", "7 days"], ["2592000", "30 days"]];

/** tokens fills box with the tokens. Their values are shown once, when they are created. */
export function tokens(box, { fail }) {
  if (!token()) {
    box.append(make("p", { className: "dim" }, "This server doesn't require a token. Anyone who can reach it has full access. Start it with a token to create links and tokens."));
    return {};
  }
  const list = make("ul", { className: "list" });
  const none = make("p", { className: "dim" }, "No tokens.");
  const name = make("input", { autocomplete: "off", spellcheck: false, placeholder: "such as the program's name", maxLength: 64 });
  const scope = choice(scopes);
  const roots = make("input", { autocomplete: "off", spellcheck: false, placeholder: "none" });
  const rootsField = field("Folders whose files it reaches", roots, "Absolute paths, separated by commas. The token reads and writes them with the rights of the server.");
  const supervises = () => show(rootsField, scope.value === "supervise");
  scope.addEventListener("change", supervises);
  supervises();
  const time = choice(times);
  time.value = "86400";
  const result = make("div", { className: "row", hidden: true });
  const form = make("form", { className: "stack" }, make("h4", {}, "New token"), field("Name", name), field("Allows", scope), rootsField, field("Expires in", time),
    make("button", { className: "primary" }, "Create token"), result);
  box.append(none, list, form);

  async function look() {
    try {
      const { tokens: all } = await server("GET", "tokens");
      list.replaceChildren(...all.map((one) => row(one.name || one.id, facts(one),
        risky("Revoke", "Revoke?", { fail, again: look, act: () => server("DELETE", `tokens/${encodeURIComponent(one.id)}`) }))));
      show(none, all.length === 0);
      fail(null);
    } catch (error) {
      fail(error);
    }
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = { scope: scope.value, name: name.value.trim(), ttl: Number(time.value), ...(!["supervise", "admin"].includes(scope.value) && { desktop }) };
    const paths = roots.value.split(",").map((path) => path.trim()).filter(Boolean);
    if (scope.value === "supervise" && paths.length) body.roots = paths;
    try {
      const made = await server("POST", "tokens", body);
      const value = make("input", { readOnly: true, value: made.token, "aria-label": "New token", onfocus: () => value.select() });
      result.replaceChildren(value, copyButton(() => made.token, write), make("p", { className: "dim" }, "Copy it now: it is not shown again."));
      show(result, true);
      name.value = "";
      fail(null);
    } catch (error) {
      return fail(error);
    }
    await look();
  });
  return { show: look, hide: () => { result.replaceChildren(); show(result, false); } };
}

const facts = ({ scope, desktop: of, roots, expiresAt }) => [scope, of ? `desktop ${of}` : "", roots?.join(", "), expiresAt ? `expires ${when(expiresAt)}` : "does not expire"].filter(Boolean).join(" · ");
