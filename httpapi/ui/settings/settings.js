// Settings: agents, the configuration of folders, tokens, secrets, notifications, and facts about the server.

import { make, setText, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { agents } from "./agents.js";
import { diagnostics } from "./diagnostics.js";
import { folders } from "./folders.js";
import { notifications } from "./notifications.js";
import { secrets } from "./secrets.js";
import { tokens } from "./tokens.js";

// Each section fills its element, and returns its functions show and hide.
const sections = [
  ["agents", "Agents", agents],
  ["folders", "MCP servers and skills", folders],
  ["tokens", "Tokens and links", tokens],
  ["secrets", "Secrets", secrets],
  ["notifications", "Notifications", notifications],
  ["diagnostics", "Diagnostics", diagnostics],
];

/** mount fills root with the sections. #/settings/NAME shows one of them. */
export function mount(root, context) {
  const nav = make("nav", { "aria-label": "Settings" });
  const body = make("div", { className: "section" });
  root.append(make("h2", {}, "Settings"), nav, body);
  const made = new Map();
  let current = null;

  for (const [name, label] of sections) {
    nav.append(make("a", { href: `#/settings/${name}`, "data-name": name }, label));
  }

  function open(name) {
    const [, label, fill] = sections.find(([one]) => one === name) ?? sections[0];
    if (!made.has(label)) {
      const box = make("section", { "aria-label": label });
      const problem = make("p", { className: "problem", role: "alert", hidden: true });
      const content = make("div");
      box.append(make("h3", {}, label), problem, content);
      body.append(box);
      const fail = (error) => { setText(problem, error ? inOneLine(error) : ""); show(problem, Boolean(error)); };
      made.set(label, { box, ...fill(content, { ...context, fail }) });
    }
    current?.hide?.();
    current = made.get(label);
    for (const { box } of made.values()) show(box, box === current.box);
    for (const link of nav.children) {
      if (link.textContent === label) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    current.show?.();
  }

  return { route: ([name]) => open(name), hide: () => current?.hide?.(), destroy: () => current?.hide?.() };
}
