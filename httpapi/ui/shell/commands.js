// The commands of the page, for the list of commands and for keys.

import { allSessions, desktop, get, scope, server } from "../api.js";
import { $, toast } from "../dom.js";
import { states, titleOf } from "../chat/words.js";
import { addressOf } from "../desktops/address.js";
import { notifies, obstacle, setNotifies } from "./notify.js";

// The second key of "G, then …", by pane.
const letters = { chat: "C", terminal: "T", files: "F", processes: "P", logs: "L", events: "E", desktops: "A", settings: "S" };

/** pressable reports whether a button is shown and enabled. */
export const pressable = (button) => Boolean(button?.checkVisibility() && !button.disabled);

/**
 * commandsOf returns what this viewer can do now: { label, icon, keys, run }. keys is how the
 * keys are written, such as "T" or "G C".
 */
export function commandsOf({ layout, router, control, openHelp }) {
  const { mine, allowed, host } = control;
  const covered = document.body.dataset.covered === "true";
  const on = (button, label, icon, keys = "") => (pressable(button) ? [{ label, icon, keys, run: () => button.click() }] : []);
  const chat = layout.panes.some(({ name }) => name === "chat");
  return [
    ...(chat ? [{ label: "New session", icon: "plus", keys: "N", run: () => router.go("s", "new") }] : []),
    ...(allowed ? [{ label: mine ? "Release control" : host ? `Take control from ${host.short}` : "Take control", icon: "pointer", keys: "T", run: () => takeOrRelease(control) }] : []),
    ...on($("record"), $("record").getAttribute("aria-label"), "record", "R"),
    ...on(document.querySelector(".composer .stop"), "Stop the turn", "stop", "Ctrl+."),
    ...(covered ? [] : [{ label: "Show the desktop alone", icon: "screen", keys: "G D", run: () => layout.showDesktop() }]),
    ...(covered ? [{ label: "Back to the desktop", icon: "screen", keys: "G D", run: () => layout.showDesktop() }] : []),
    ...layout.panes.map(({ name, label, icon }) => ({ label: `Open ${label}`, icon, keys: letters[name] ? `G ${letters[name]}` : "", run: () => layout.show(name) })),
    ...["windows", "clipboard", "view", "share"].flatMap((name) => { const button = document.querySelector(`#tools [popovertarget="${name}-panel"]`); return on(button, `${button.title}…`, name); }),
    ...(chat ? [{ label: notifies() ? "Turn off notifications" : "Notify me when an agent waits", icon: "shield", keys: "", run: toggleNotifications }] : []),
    ...on($("full"), $("full").title, "full"),
    { label: "Recordings…", icon: "record", keys: "", run: () => $("recordings-open").click() },
    { label: "Use the API…", icon: "code", keys: "", run: () => $("programs").click() },
    { label: "Keyboard shortcuts", icon: "keyboard", keys: "?", run: openHelp },
  ];
}

async function toggleNotifications() {
  await setNotifies(!notifies());
  toast(obstacle() || (notifies() ? "Notifications are on in this browser" : "Notifications are off"));
}

/** takeOrRelease takes control, as the button in the bar does, or releases it. */
export function takeOrRelease({ mine, host, allowed }) {
  if (!allowed) return;
  if (mine) $("control-release").click();
  else if (host) $("control-over").click();
  else $("control").click();
}

/** placesOf returns the sessions, desktops and recordings as commands. */
export async function placesOf({ router }) {
  const none = (name) => () => ({ [name]: [] });
  const all = ["admin", "supervise"].includes(scope);
  const [sessions, { desktops }, { recordings }] = await Promise.all([
    all ? allSessions().catch(() => []) : [],
    all ? server("GET", "desktops").catch(none("desktops")) : none("desktops")(),
    get("/recordings").catch(none("recordings")),
  ]);
  return [
    ...sessions.filter(({ archived }) => !archived).sort((a, b) => b.updatedAt - a.updatedAt)
      .map((s) => ({ label: titleOf(s), about: `Session · ${(states[s.state] ?? states.idle).word}`, icon: "chat", keys: "", run: () => router.go("s", s.sessionId) })),
    ...desktops.filter(({ id }) => id !== desktop).map(({ id }) => ({ label: id, about: "Desktop", icon: "screen", keys: "", run: () => { location.href = addressOf(id); } })),
    ...[...recordings].reverse().filter(({ status }) => ["completed", "recovered", "recording"].includes(status))
      .map(({ id, title, startedAt }) => ({ label: title || new Date(startedAt).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }), about: "Recording", icon: "play", keys: "", run: () => router.go("replay", id) })),
  ];
}
