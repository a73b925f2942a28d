// The form for a new session.

import { desktop } from "../api.js";
import { icon, make, setText, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { bytes } from "../format.js";
import { create, install, send } from "./sessions.js";
import { failure, signIn } from "./words.js";

const storage = "new-session";
const stages = { wait: "Waiting for another install…", resolve: "Finding the packages…", download: "Downloading…", check: "Checking…", done: "Installed", failed: "The install failed" };

/** NewSession is the form. made(id) is called when the session is there, back() when the user leaves. */
export class NewSession {
  root;
  #sessions;
  #made;
  #agents = make("div", { className: "agents", role: "radiogroup", "aria-label": "Agent" });
  #text = make("textarea", { rows: 3, id: "new-text", placeholder: "What should the agent do?" });
  #folder = make("input", { id: "new-folder", placeholder: "The server's own folder", autocomplete: "off", spellcheck: false });
  #model = make("select", { id: "new-model" });
  #mode = make("select", { id: "new-mode" });
  #desktop = make("input", { type: "checkbox", id: "new-desktop", checked: true });
  #start = make("button", { className: "primary large" }, "Start session");
  #tries = make("p", { className: "tries", hidden: true });
  #remedy = make("div", { className: "remedy", hidden: true });
  #problem = make("div", { className: "problem", role: "alert", hidden: true });
  #chosen = "";
  #busy = false;
  #kept = read();

  constructor({ sessions, made, back }) {
    [this.#sessions, this.#made] = [sessions, made];
    const field = (label, control) => make("div", { className: "field" }, make("label", { htmlFor: control.id }, label), control);
    const form = make("form", {},
      field("Task", this.#text),
      make("fieldset", { className: "field" }, make("legend", {}, "Agent"), this.#agents), this.#tries, this.#remedy,
      field("Folder", this.#folder),
      make("div", { className: "pair" }, field("Model", this.#model), field("Mode", this.#mode)),
      make("label", { className: "choice" }, this.#desktop, make("span", {}, desktop === "main" ? "Use this desktop" : `Use this desktop (${desktop})`, make("small", {}, "The agent sees the screen and can click and type"))),
      this.#problem, make("div", { className: "row" }, this.#start));
    this.root = make("div", { className: "view new-session", hidden: true },
      make("header", {}, make("button", { type: "button", className: "plain", "aria-label": "Back to the sessions", onclick: back }, icon("back")), make("h2", {}, "New session")), form);
    this.#folder.value = this.#kept.folder ?? "";
    this.#fillTries();
    form.addEventListener("submit", (event) => { event.preventDefault(); this.#submit(); });
    this.#text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    sessions.addEventListener("change", () => this.#drawAgents());
  }

  /** open shows the form as it was left. */
  open() {
    show(this.#problem, false);
    this.#sessions.loadAgents().catch((error) => this.#fail(error));
    this.#drawAgents();
    this.#text.focus();
  }

  // The agents, first those that can start.
  #drawAgents() {
    const rank = ({ installed, credentialsAvailable }) => (installed ? 0 : 2) + (credentialsAvailable ? 0 : 1);
    const all = [...this.#sessions.agents.values()].sort((a, b) => rank(a) - rank(b));
    const key = JSON.stringify(all.map(({ id, installed, credentialsAvailable }) => [id, installed, credentialsAvailable]));
    if (this.#agents.dataset.key === key || !all.length) return;
    this.#agents.dataset.key = key;
    this.#agents.replaceChildren(...all.map((agent) => {
      const { id, name, installed, credentialsAvailable } = agent;
      const choice = make("input", { type: "radio", name: "new-agent", value: id, onchange: () => this.#choose(id) });
      const state = !installed ? "Not installed" : credentialsAvailable ? "Ready" : "Not signed in";
      return make("label", {}, choice, make("span", { className: "name" }, name), make("small", { className: installed && credentialsAvailable ? "good" : "" }, state));
    }));
    const wanted = [this.#chosen, this.#kept.agent].find((id) => this.#sessions.agents.has(id)) ?? all[0].id;
    this.#agents.querySelector(`[value="${CSS.escape(wanted)}"]`).checked = true;
    this.#choose(wanted);
  }

  #choose(id) {
    this.#chosen = id;
    const agent = this.#sessions.agent(id);
    const choices = (select, category) => {
      const option = agent.configOptions?.find((o) => o.category === category);
      select.replaceChildren(make("option", { value: "" }, "Agent's default"), ...(option?.options ?? []).map(({ value, name }) => make("option", { value }, name)));
      select.disabled = !option?.options?.length;
    };
    choices(this.#model, "model");
    choices(this.#mode, "mode");
    this.#drawRemedy(agent);
    show(this.#tries, id === "mock");
  }

  // Mock is for trying the page: it needs no key, and does what these words say.
  #fillTries() {
    const button = (text) => make("button", { type: "button", className: "small", onclick: () => { this.#text.value = text; this.#text.focus(); } }, text);
    this.#tries.append("Mock is an agent to try this page with. Tasks it knows:", ...["demo", "desktop 300 200", "permission", "question"].map(button));
  }

  // An agent that cannot start has its remedy here, and the form waits for it.
  #drawRemedy(agent) {
    this.#start.disabled = this.#busy || agent.installed === false;
    if (agent.installed === false) {
      const progress = make("progress", { hidden: true, max: 1 });
      const text = make("p", { className: "dim", role: "status" }, agent.note ?? "");
      const problem = make("p", { className: "problem", role: "alert", hidden: true });
      const button = make("button", { type: "button" }, `Install ${agent.name}`);
      button.addEventListener("click", () => this.#install(agent, { button, progress, text, problem }));
      this.#remedy.replaceChildren(make("p", {}, `${agent.name} is not installed on the server.`), text, progress, problem, button);
    } else if (agent.credentialsAvailable === false) {
      const { why, fix, command } = signIn(agent);
      this.#remedy.replaceChildren(make("p", {}, why), make("p", {}, fix), ...(command ? [make("pre", { tabIndex: 0 }, command)] : []));
    }
    show(this.#remedy, agent.installed === false || agent.credentialsAvailable === false);
  }

  async #install(agent, { button, progress, text, problem }) {
    button.disabled = true;
    show(progress, true);
    show(problem, false);
    setText(text, stages.resolve);
    try {
      await install(agent.id, ({ stage, done, total, bytes: size }) => {
        setText(text, `${stages[stage] ?? ""}${total ? ` ${done} of ${total} packages` : ""}${size ? `, ${bytes(size)}` : ""}`);
        if (total) progress.value = done / total;
      });
      await this.#sessions.loadAgents();
    } catch (error) {
      setText(problem, `Can't install ${agent.name}. ${inOneLine(error)}`);
      show(problem, true);
      button.disabled = false;
      setText(button, "Try again");
      setText(text, "");
    }
    show(progress, false);
  }

  async #submit() {
    const text = this.#text.value.trim();
    if (this.#start.disabled) return;
    if (!text) return this.#text.focus();
    const value = (element) => element.value.trim() || undefined;
    const id = `${this.#chosen}-${crypto.getRandomValues(new Uint32Array(2)).reduce((all, n) => all + n.toString(36).padStart(7, "0"), "")}`;
    this.#setBusy(true);
    show(this.#problem, false);
    localStorage.setItem(storage, JSON.stringify({ agent: this.#chosen, folder: this.#folder.value.trim() }));
    try {
      await create(id, {
        agent: this.#chosen, directory: value(this.#folder), model: value(this.#model), agentMode: value(this.#mode),
        desktop: this.#desktop.checked ? desktop : undefined, title: firstLine(text),
      });
      await send(id, text, []);
      this.#text.value = "";
      await this.#sessions.refresh();
      this.#made(id);
    } catch (error) {
      this.#fail(error, "The session couldn't start");
    } finally {
      this.#setBusy(false);
    }
  }

  #setBusy(busy) {
    this.#busy = busy;
    this.#start.disabled = busy;
    setText(this.#start, busy ? "Starting…" : "Start session");
  }

  #fail(error, title = "") {
    const agent = this.#sessions.agent(this.#chosen);
    const { what, why, fix, command } = /authentication required/i.test(error.message) ? failure({ message: error.message }, agent) : {};
    const stderr = error.details?.stderr ?? error.body?.details?.stderr;
    this.#problem.replaceChildren(...[
      make("strong", {}, what ?? title), make("p", {}, why ?? inOneLine(error)), fix && make("p", {}, fix), (command ?? stderr) && make("pre", { tabIndex: 0 }, command ?? stderr),
    ].filter(Boolean));
    show(this.#problem, true);
  }
}

function firstLine(text) {
  const [line] = text.split("\n");
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(storage)) ?? {};
  } catch {
    return {}; // not written by this page
  }
}
