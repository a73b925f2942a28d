// Rows of tools: what a tool did, as differences, output, pictures and points on the screen.

import { serverNow } from "../api.js";
import { icon, make, setText } from "../dom.js";
import { change } from "./diff.js";
import { computerAction } from "./transcript.js";
import { argument, joined } from "./verbatim.js";
import { duration } from "./words.js";

const lastLines = 20;
const mostLines = 400; // of a difference
const cropSize = { width: 208, height: 116 };

const icons = {
  read: "file", edit: "edit", delete: "close", move: "file", search: "search", execute: "terminal", think: "thought", fetch: "globe", switch_mode: "plan",
};

const status = {
  in_progress: ["busy", "Running"], permission: ["shield", "Needs permission"], question: ["shield", "Needs an answer"], completed: ["check", "Done"], failed: ["warning", "Failed"],
};

/**
 * toolElement returns the element of a tool row. act.show(picture) shows a picture in full,
 * and act.seek(row) shows the row on the timeline.
 */
export function toolElement(row, act) {
  const body = make("div", { className: "body" });
  const details = make("details", {}, make("summary", {}, icon("code"), make("span", { className: "what" }, make("b"), " ", make("span", { className: "target" })),
    make("span", { className: "time" }), make("span", { className: "status" })), body);
  details.addEventListener("toggle", () => {
    if (details.open === row.open) return;
    row.open = details.open;
    fill(row, body, act);
  });
  const element = make("article", { className: "entry call" }, details);
  refreshTool(row, element, act);
  return element;
}

/** refreshTool shows a change of a tool row. */
export function refreshTool(row, element, act) {
  const details = element.firstElementChild;
  const [summary, body] = details.children;
  const action = computerAction(row);
  const [sign, , time, word] = summary.children;
  sign.firstElementChild.setAttribute("href", `#i-${action ? "pointer" : icons[row.what] ?? "code"}`);
  const [title, , target] = summary.children[1].childNodes;
  setText(title, titleOf(row));
  setText(target, targetOf(row, action));
  const state = row.asked || row.status;
  if (element.dataset.status !== state) {
    element.dataset.status = state;
    word.replaceChildren(icon(status[state][0]), status[state][1]);
  }
  if (row.ended || state !== "in_progress") setText(time, row.ended ? duration(row.ended - (row.began ?? row.time)) : "");
  row.open ??= opensItself(row, action) || undefined;
  details.open = Boolean(row.open);
  if (row.open) fill(row, body, act);
}

/** tick shows the time that a running tool's row has taken until now. */
export const tick = (element) => setText(element.querySelector(".time"), duration(serverNow() - Number(element.dataset.time)));

const opensItself = (row, action) => row.status === "failed" || (row.status === "in_progress" && row.output !== "") || row.diffs.length > 0 || row.pictures.length > 0 || Boolean(action && row.screen);

// Agents write commands in backquotes.
const titleOf = ({ title }) => title.replace(/^`(.*)`$/s, "$1").replace(/^mcp__/, "").replaceAll("__", " · ");

function targetOf(row, action) {
  if (action) return action.points.map(([x, y]) => `${x}, ${y}`).slice(0, 2).join(" → ");
  const { input, places, diffs } = row;
  const known = [...new Set([...places, ...diffs.map(({ path }) => path)])];
  const target = known.length > 1 ? `${known.length} files` : known[0] ?? input.path ?? input.file_path ?? input.command ?? input.pattern ?? input.query ?? input.url ?? input.text ?? "";
  const text = joined(target);
  return titleOf(row).includes(text) ? "" : text;
}

function fill(row, body, { show, seek }) {
  const action = computerAction(row);
  const parts = [];
  if (action && row.screen) parts.push(crop(row.screen, action, show));
  for (const one of row.diffs) parts.push(difference(one));
  for (const picture of row.pictures) parts.push(thumbnail(picture, show));
  const command = row.what === "execute" && commandOf(row.input);
  if (command && !titleOf(row).includes(command)) parts.push(make("pre", { className: "command-line", tabIndex: 0 }, `$ ${command}`));
  // A picture or a difference says it better.
  const shown = row.diffs.length > 0 || (action && row.pictures.length > 0);
  if (row.output && !(shown && row.status === "completed")) parts.push(...output(row));
  if (!parts.length && !command && Object.keys(row.input).length) parts.push(make("pre", { tabIndex: 0 }, argument(row.input)));
  if (!parts.length) parts.push(make("p", { className: "dim" }, row.ended ? "No output" : "No output yet"));
  if (action) parts.push(make("button", { type: "button", className: "small plain link seek", onclick: () => seek(row) }, "Show on timeline"));
  body.replaceChildren(...parts);
}

export const commandOf = ({ command, cmd }) => joined(command ?? cmd ?? "");

// output shows the end of a text, and the rest on request.
function output(row) {
  const lines = row.output.replace(/\n$/, "").replaceAll(escapes, "").split("\n");
  const text = make("pre", { tabIndex: 0 }, (row.all ? lines : lines.slice(-lastLines)).join("\n"));
  if (row.all || lines.length <= lastLines) return [text];
  const all = make("button", { type: "button", className: "small plain link" }, `Show all ${lines.length} lines`);
  all.addEventListener("click", () => {
    row.all = true;
    text.textContent = lines.join("\n");
    all.remove();
    text.focus();
  });
  return [all, text];
}

const escapes = /\u001b(\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(\u0007|\u001b\\))/g;

/** difference shows a change of a file. shown returns what a line or a path looks like. */
export function difference(file, shown = (text) => text) {
  const { all, added, removed } = change(file);
  const rows = (all ?? []).slice(0, mostLines).map(({ sign, text, count, after, before }) => (sign === "…"
    ? make("tr", { className: "skip" }, make("td", {}, ""), make("td", { colSpan: 2 }, count ? `${count} unchanged ${count === 1 ? "line" : "lines"}` : "…"))
    : make("tr", { className: { "+": "added", "-": "removed" }[sign] ?? "" }, make("td", { className: "number" }, String((sign === "-" ? before : after) ?? "")),
      make("td", { className: "sign", "aria-label": { "+": "added", "-": "removed" }[sign] ?? "" }, sign), make("td", {}, shown(text) || " "))));
  if (!all) rows.push(make("tr", { className: "skip" }, make("td", { colSpan: 3 }, "Too many lines to show")));
  else if (all.length > mostLines) rows.push(make("tr", { className: "skip" }, make("td", {}, ""), make("td", { colSpan: 2 }, `${all.length - mostLines} more lines`)));
  return make("figure", { className: "diff" },
    make("figcaption", {}, make("span", { className: "place" }, shown(file.path ?? "")), make("ins", {}, `+${added}`), " ", make("del", {}, `−${removed}`)),
    make("div", { className: "wide", tabIndex: 0 }, make("table", {}, make("tbody", {}, ...rows))));
}

/** thumbnail shows a picture small. A picture that the page does not have is its path. */
export function thumbnail(path, show, label = "Picture") {
  if (!/^data:image\//.test(path)) return make("p", { className: "dim place" }, path);
  const picture = make("img", { src: path, alt: label, decoding: "async" });
  return make("button", { type: "button", className: "thumbnail", title: "Enlarge", onclick: () => show(path) }, picture);
}

// crop shows the screen around the points of an action, with a cross at each.
function crop(path, { points, name }, show) {
  if (!/^data:image\//.test(path)) return "";
  const { width, height } = cropSize;
  const [[x, y]] = points;
  const picture = make("img", { src: path, alt: "" });
  const box = make("button", { type: "button", className: "crop", title: "Enlarge", "aria-label": `Screen around ${x}, ${y} (${name})`, onclick: () => show(path) }, picture);
  picture.addEventListener("load", () => {
    const left = Math.max(0, Math.min(x - width / 2, picture.naturalWidth - width));
    const top = Math.max(0, Math.min(y - height / 2, picture.naturalHeight - height));
    Object.assign(picture.style, { left: `${-left}px`, top: `${-top}px` });
    for (const [px, py] of points) {
      const cross = make("span", { className: "cross" });
      Object.assign(cross.style, { left: `${px - left}px`, top: `${py - top}px` });
      box.append(cross);
    }
  }, { once: true });
  return box;
}
