// The agents: which are installed, and which find credentials.

import { server } from "../api.js";
import { install } from "../chat/sessions.js";
import { announce, make, setText, show } from "../dom.js";
import { action, row } from "./parts.js";

const stages = { wait: "Waiting for another install…", resolve: "Finding packages…", download: "Downloading…", check: "Checking…" };

/** agents fills box with the agents, each with what it lacks. */
export function agents(box, { fail }) {
  const list = make("ul", { className: "list" });
  box.append(make("p", { className: "dim" }, "Coding agents that this server can run. The first session of an agent installs it as well."), list);
  const busy = new Map(); // by agent: the row of an install in progress

  async function look() {
    try {
      const { agents: all } = await server("GET", "agents");
      list.replaceChildren(...all.map((one) => busy.get(one.id) ?? item(one)));
      fail(null);
    } catch (error) {
      fail(error);
    }
  }

  function item(one) {
    const { id, name, installed, version, credentialsAvailable, note } = one;
    const facts = [installed ? `Installed${version ? ` · ${version}` : ""}` : "Not installed", credentialsAvailable ? "" : "no credentials found", note].filter(Boolean).join(" · ");
    const made = row(name || id, facts);
    if (!credentialsAvailable) {
      made.querySelector(".name").append(make("small", {}, "Set its API key in the environment of the server, or sign in with its own command on the server. ",
        make("a", { href: "../docs/agents#sign-in-api-keys-and-logins", target: "_blank", rel: "noopener" }, "How to sign in")));
    }
    made.dataset.agent = id;
    if (!installed) made.append(action("Install", { fail, again: look, act: () => follow(one, made) }));
    return made;
  }

  async function follow({ id, name }, made) {
    const text = made.querySelector("small");
    const bar = make("progress", { "aria-label": `Installing ${name || id}` });
    made.append(bar);
    busy.set(id, made);
    try {
      await install(id, ({ stage, done, total, message }) => {
        setText(text, [stages[stage] ?? message, total ? `${done} of ${total} packages` : ""].filter(Boolean).join(" "));
        if (total) Object.assign(bar, { max: total, value: done });
      });
      announce(`${name || id} is installed`);
    } finally {
      busy.delete(id);
      show(bar, false);
    }
  }

  return { show: look };
}
