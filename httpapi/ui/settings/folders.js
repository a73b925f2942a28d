// The configuration of a folder: its MCP servers and skills.

import { server } from "../api.js";
import { make } from "../dom.js";
import { action, choice, field, risky, row } from "./parts.js";

const storage = "folder";

/** folders fills box with the entries of a folder that the user names. */
export function folders(box, { fail }) {
  const folder = make("input", { autocomplete: "off", spellcheck: false, placeholder: "/home/user/project", required: true, value: localStorage.getItem(storage) ?? "" });
  const open = make("button", {}, "Open");
  const find = make("form", { className: "row" }, field("Folder on the server", folder), open);
  const list = make("ul", { className: "list" });
  const none = make("p", { className: "dim" });

  const name = make("input", { autocomplete: "off", spellcheck: false, required: true });
  const kind = choice([["local", "MCP server: command"], ["remote", "MCP server: URL"], ["github", "Skills: GitHub repository"], ["local-skills", "Skills: folder"]]);
  const value = make("input", { autocomplete: "off", spellcheck: false, required: true });
  const hints = { local: "npx -y @modelcontextprotocol/server-everything", remote: "https://mcp.example.com", github: "owner/repository", "local-skills": "/home/user/skills" };
  const hint = () => { value.placeholder = hints[kind.value]; };
  kind.addEventListener("change", hint);
  hint();
  const add = make("form", { className: "stack" }, make("h4", {}, "Add"), field("Kind", kind), field("Name", name), field("Value", value), make("button", { className: "primary" }, "Add"));
  add.hidden = true;
  box.append(make("p", { className: "dim" }, "Agents get the entries of the folder that their session works in. Entries that were found in the folder don't count until you approve them."), find, none, list, add);

  const path = (of, entry, more = "") => `config/${of}${more}?directory=${encodeURIComponent(folder.value.trim())}&${of === "mcp" ? "mcpName" : "skillName"}=${encodeURIComponent(entry)}`;

  async function look() {
    if (!folder.value.trim()) return;
    try {
      const { entries } = await server("GET", `config?directory=${encodeURIComponent(folder.value.trim())}`);
      list.replaceChildren(...entries.map(item));
      none.textContent = entries.length ? "" : "This folder has no MCP servers and no skills.";
      add.hidden = false;
      fail(null);
    } catch (error) {
      list.replaceChildren();
      add.hidden = true;
      none.textContent = "";
      fail(error);
    }
  }

  function item({ kind: of, name: entry, approved, hash, content }) {
    const buttons = [];
    if (!approved) {
      buttons.push(action("Approve", { fail, again: look, act: () => server("POST", path(of, entry, "/approve") + `&hash=${encodeURIComponent(hash)}`) }));
    }
    buttons.push(risky("Remove", "Remove?", { fail, again: look, act: () => server("DELETE", path(of, entry)) }));
    const made = row(entry, `${of === "mcp" ? "MCP server" : "Skills"} · ${approved ? "in use" : "not approved"}`, ...buttons);
    made.append(make("pre", { tabIndex: 0 }, JSON.stringify(content, null, 2)));
    return made;
  }

  find.addEventListener("submit", (event) => {
    event.preventDefault();
    localStorage.setItem(storage, folder.value.trim());
    look();
  });
  add.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const [of, content] = entryOf(kind.value, value.value.trim());
      await server("PUT", path(of, name.value.trim()), content);
      name.value = value.value = "";
    } catch (error) {
      return fail(error);
    }
    await look();
  });
  return { show: look };
}

function entryOf(kind, value) {
  switch (kind) {
    case "local": {
      const [command, ...args] = words(value);
      return ["mcp", { type: "local", command, args }];
    }
    case "remote": return ["mcp", { type: "remote", url: value }];
    case "github": return ["skills", { sources: [{ type: "github", source: value }] }];
    default: return ["skills", { sources: [{ type: "local", source: value }] }];
  }
}

// words splits a command line at its spaces; quoted ones are kept.
function words(line) {
  return [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, double, single, plain]) => double ?? single ?? plain);
}
