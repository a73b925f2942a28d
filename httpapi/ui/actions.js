// Actions on the desktop: their words, and the marks that show them on a picture.

import { fullName } from "./connection.js";
import { make } from "./dom.js";

const mostText = 60; // characters

const clicks = ["", "click", "double-click", "triple-click"];

/** byOf returns the name of an actor. */
export const byOf = ({ kind, name }) => name || (kind === "viewer" ? "Viewer" : fullName(kind, ""));

/** drawing returns the elements that show an action on a picture of a size: marks are over the picture, chips beside it. */
export function drawing(action, size) {
  const { actor, error } = action;
  const by = byOf(actor);
  const failed = error ? " failed" : "";
  const none = { marks: [], chips: [] };
  const mark = (at, text) => (at ? { marks: [markAt(at, size, `${by}: ${text}`)], chips: [] } : none);
  const chip = (...parts) => ({ marks: [], chips: [make("p", { className: "chip" }, make("b", {}, by), " ", ...parts, error ? " (failed)" : "")] });
  const made = {
    click: () => mark(action.at, `${clickOf(action)}${failed}`),
    button_down: () => mark(action.at, "press"),
    drag: () => {
      const end = mark(action.to, `drag${failed}`);
      return { ...end, marks: [...(action.at && action.to ? [line(action, size)] : []), ...end.marks] };
    },
    scroll: () => mark(action.at, arrows(action.delta ?? {})),
    type: () => chip(...typed(action)),
    press: () => chip(...(action.keys ? keycaps(action.keys) : ["pressed a key"])),
    launch: () => chip(`started ${action.app}`),
    browser: () => chip(commandOf(action)),
    set_clipboard: () => chip("set the clipboard"),
  };
  made.key_down = made.press;
  made.element = made.browser;
  const all = Object.hasOwn(made, action.name) ? made[action.name]() : none;
  for (const element of [...all.marks, ...all.chips]) {
    element.dataset.kind = actor.kind;
    if (error) element.dataset.failed = "";
  }
  return all;
}

/** sentenceOf returns an action as a text for lists, without its actor: "Click at 200, 100". It is "" for an action that only ends another one or that a picture shows. */
export function sentenceOf(action) {
  const { name, at, to, app, size, keys } = action;
  const where = at ? ` at ${place(at)}` : "";
  switch (name) {
    case "click":
      return capital(clickOf(action)) + where;
    case "button_down":
      return `Hold a button${where}`;
    case "drag":
      return at && to ? `Drag from ${place(at)} to ${place(to)}` : "Drag";
    case "scroll":
      return `Scroll${directions(action.delta ?? {})}${where}`;
    case "type":
      return action.text ? `Type “${short(action.text)}”` : capital(typed(action)[0].replace("typed", "type"));
    case "press": case "key_down":
      return keys ? `Press ${keys}` : "Press a key";
    case "launch":
      return `Start ${app}`;
    case "browser": case "element":
      return capital(commandOf(action));
    case "resize":
      return size ? `Resize the desktop to ${size.width} × ${size.height}` : "Resize the desktop";
    case "set_clipboard": case "focus_window": case "move_window": case "resize_window": case "close_window": case "minimise_window": case "maximise_window": case "restore_window":
      return capital(words(name));
  }
  return "";
}

function markAt(at, { width, height }, text) {
  const mark = make("div", { className: "mark" }, make("i"), make("span", {}, text));
  Object.assign(mark.style, { left: `${((at.x + 0.5) / width) * 100}%`, top: `${((at.y + 0.5) / height) * 100}%` });
  mark.classList.toggle("left", at.x > width * 0.75);
  mark.classList.toggle("above", at.y > height * 0.9);
  return mark;
}

function line({ at, to }, { width, height }) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("class", "path");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const path = document.createElementNS(ns, "line");
  for (const [name, value] of Object.entries({ x1: at.x, y1: at.y, x2: to.x, y2: to.y })) path.setAttribute(name, value);
  svg.append(path);
  return svg;
}

const clickOf = ({ button, count }) => `${!button || button === "left" ? "" : `${button} `}${clicks[count] ?? clicks[1]}`;

const commandOf = ({ command = "", target = "" }) => short(`${words(command)} ${target}`.trim());

const words = (name) => name.replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll("_", " ").toLowerCase();

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const place = ({ x, y }) => `${x}, ${y}`;

/** short returns the beginning of a text, on one line. */
export const short = (text, most = mostText) => {
  const line = text.replace(/\s*\n\s*/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
};

function typed({ text, length, typed: some }) {
  if (text) return [make("q", {}, text.length > mostText ? `${text.slice(0, mostText - 1)}…` : text)];
  const count = some ?? length;
  return [count ? `typed ${count} ${count === 1 ? "character" : "characters"}` : "typed a secret"];
}

const keycaps = (keys) => keys.split(/(?<=.)\+/).map((key) => make("kbd", {}, key));

function arrows({ x, y }) {
  const parts = [];
  if (y) parts.push(`${y > 0 ? "↓" : "↑"} ${Math.abs(y)}`);
  if (x) parts.push(`${x > 0 ? "→" : "←"} ${Math.abs(x)}`);
  return `scroll ${parts.join(" ")}`;
}

function directions({ x, y }) {
  const parts = [];
  if (y) parts.push(`${y > 0 ? "down" : "up"} ${Math.abs(y)}`);
  if (x) parts.push(`${x > 0 ? "right" : "left"} ${Math.abs(x)}`);
  return parts.length ? ` ${parts.join(", ")}` : "";
}
