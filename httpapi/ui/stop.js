// The dialog before the desktop is stopped. It lists what ends with the desktop.

import { get } from "./api.js";
import { $, icon, make } from "./dom.js";
import { clock } from "./format.js";

const count = (n, one, more) => `${n} ${n === 1 ? one : more}`;

/** StopDialog shows what a stop would end, and calls stop when that is confirmed. */
export class StopDialog {
  #people;
  #dialog = $("stop-dialog");

  constructor({ people, stop }) {
    this.#people = people;
    $("stop-cancel").addEventListener("click", () => this.#dialog.close());
    $("stop-confirm").addEventListener("click", () => {
      this.#dialog.close();
      stop();
    });
  }

  async open() {
    this.#fill(null);
    this.#dialog.showModal();
    $("stop-cancel").focus();
    const none = () => null;
    const [status, recordings] = await Promise.all([get("/status").catch(none), get("/recordings").catch(none)]);
    if (this.#dialog.open) this.#fill({ status, recordings });
  }

  #fill(known) {
    const others = this.#people.all.filter(({ me }) => !me);
    const of = (kind) => others.filter((one) => one.kind === kind).length;
    const rows = [];
    const row = (name, text) => rows.push(make("li", {}, icon(name), make("span", {}, text)));
    // Each row has its place from the start, so that the buttons do not move under the pointer.
    row("windows", known ? programs(known.status) : "Checking for open apps…");
    row("eye", of("viewer") ? `${count(of("viewer"), "other viewer", "other viewers")} will be disconnected` : "No one else is watching");
    if (of("agent")) row("agent", `${count(of("agent"), "agent", "agents")} will lose the desktop`);
    row("record", known ? recording(known.recordings) : "Checking for recordings…");
    $("stop-list").replaceChildren(...rows);
    $("stop-list").setAttribute("aria-busy", String(!known));
  }
}

function programs(status) {
  if (!status) return "Open apps will close";
  const n = status.programs ?? 0;
  return n ? `${count(n, "app", "apps")} will close; unsaved work will be lost` : "No apps are open";
}

function recording(answer) {
  if (!answer) return "Any recording in progress will be saved";
  const running = answer.recordings.filter(({ status }) => status === "recording");
  if (running.length > 1) return `${running.length} recordings will be saved`;
  return running.length ? `The recording (${clock(running[0].durationMs)}) will be saved` : "No recording in progress";
}
