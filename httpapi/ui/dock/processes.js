// The pane of processes: what clients started, and what desktops and the server run.

import { server } from "../api.js";
import { icon, make, once, setText, show } from "../dom.js";
import { inOneLine } from "../errors.js";
import { bytes } from "../format.js";
import { ask } from "../ask.js";
import { endOf } from "./tab.js";

const lookTime = 2000; // milliseconds between two looks

const groups = [
  { owner: "user", title: "Started by clients" },
  { owner: "desktop", title: "Desktops", locked: true },
  { owner: "system", title: "Server", locked: true },
];

/** mount fills root with the processes. */
export function mount(root, { layout }) {
  const problem = make("p", { className: "problem", role: "alert", hidden: true });
  const head = make("thead", {}, make("tr", {}, ...["Command", "Status", "Age", "CPU", "Memory", "Actions"].map((name) => make("th", { scope: "col", className: name === "Command" ? "what" : name.toLowerCase() }, name))));
  const bodies = new Map(groups.map(({ owner, title, locked }) => [owner, make("tbody", {},
    make("tr", { className: "group" }, make("th", { colSpan: 6, scope: "rowgroup" }, title, ...(locked ? [icon("lock"), make("span", { className: "hidden" }, "locked")] : []))))]));
  const none = make("tr", { hidden: true }, make("td", { colSpan: 6, className: "dim" }, "None. Open a terminal, or start one with POST /v1/processes."));
  bodies.get("user").append(none);
  root.append(make("header", {}, make("h2", {}, "Processes")), problem, make("div", { className: "scroller" }, make("table", {}, head, ...bodies.values())));

  const rows = new Map(); // by id
  let timer = 0;

  async function look() {
    clearTimeout(timer);
    try {
      const { processes } = await server("GET", "processes?usage=true");
      for (const [id, row] of rows) if (!processes.some((info) => info.id === id)) { row.root.remove(); rows.delete(id); }
      for (const info of processes) {
        if (!rows.has(info.id)) {
          rows.set(info.id, new Row(info, { layout, act }));
          const body = bodies.get(info.owner);
          body.insertBefore(rows.get(info.id).root, body.children[1] ?? null); // the latest first
        }
        rows.get(info.id).draw(info);
      }
      show(none, !processes.some(({ owner }) => owner === "user"));
      for (const [owner, body] of bodies) show(body, owner === "user" || body.children.length > 1);
      fail(null);
    } catch (error) {
      fail(error);
    }
    if (!root.hidden) timer = setTimeout(look, lookTime);
  }

  function fail(error) {
    setText(problem, error ? inOneLine(error) : "");
    show(problem, Boolean(error));
  }

  async function act(method, path) {
    try {
      await server(method, path, method === "POST" ? {} : undefined);
      await look();
    } catch (error) {
      fail(error);
    }
  }

  const stop = () => clearTimeout(timer);
  return { show: look, hide: stop, destroy: stop };
}

// Row shows one process.
class Row {
  #info;
  #act;
  #state = make("td", { className: "status" });
  #age = make("td", { className: "age" });
  #cpu = make("td", { className: "cpu" });
  #memory = make("td", { className: "memory" });
  #buttons = {};
  #before = null; // the processor time, and when
  root;

  constructor(info, { layout, act }) {
    this.#act = act;
    const command = [info.command, ...info.args].join(" ");
    const button = (name, label, run) => {
      this.#buttons[name] = make("button", { type: "button", className: name === "kill" || name === "delete" ? "small danger" : "small", "aria-label": `${label} ${info.command}` }, label);
      once(this.#buttons[name], run);
      return this.#buttons[name];
    };
    const actions = make("td", { className: "actions" },
      button("logs", "Logs", () => layout.open("logs", { parts: [info.id] })),
      button("terminal", "Terminal", () => layout.open("terminal", { parts: [info.id] })));
    if (info.owner === "user") {
      actions.append(
        button("stop", "Stop", () => act("POST", `processes/${info.id}/stop`)),
        button("kill", "Kill…", () => this.#confirm("Kill", "It ends at once, without a chance to save its work.", "POST", `processes/${info.id}/kill`)),
        button("delete", "Delete…", () => this.#confirm("Delete", "Its output is deleted with it.", "DELETE", `processes/${info.id}`)));
    }
    this.root = make("tr", { "data-id": info.id },
      make("td", { className: "what", title: command }, make("code", {}, command), make("small", {}, [info.id, info.part, info.pid && `pid ${info.pid}`].filter(Boolean).join(" · "))),
      this.#state, this.#age, this.#cpu, this.#memory, actions);
  }

  draw(info) {
    this.#info = info;
    const running = info.status === "running";
    setText(this.#state, running ? "Running" : endOf(info));
    this.root.dataset.state = running ? "running" : info.exitCode === 0 ? "ended" : "failed";
    setText(this.#age, ageOf((running ? Date.now() : info.exitedAtMs) - info.createdAtMs));
    const { usage } = info;
    setText(this.#memory, usage ? bytes(usage.rssBytes) : "");
    setText(this.#cpu, usage && this.#before ? `${Math.max(0, Math.round((100 * (usage.cpuMs - this.#before.cpu)) / (performance.now() - this.#before.at)))} %` : "");
    this.#before = usage ? { cpu: usage.cpuMs, at: performance.now() } : null;
    const shown = { logs: true, terminal: running && info.tty, stop: running, kill: running, delete: !running };
    for (const [name, button] of Object.entries(this.#buttons)) show(button, shown[name]);
  }

  async #confirm(verb, why, method, path) {
    const command = make("pre", { className: "preview", tabIndex: 0 }, [this.#info.command, ...this.#info.args].join(" "));
    if (await ask(`${verb} this process?`, [make("p", { className: "dim" }, why), command], [{ label: verb, value: "yes", kind: "danger primary" }])) await this.#act(method, path);
  }
}

function ageOf(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${seconds} s`;
}
