// Rows of a transcript, as elements.

import { icon, make, setText } from "../dom.js";
import { MarkdownText } from "./markdown.js";
import { refreshTool, thumbnail, toolElement } from "./tools.js";
import { argument } from "./verbatim.js";
import { answers, duration, failure, notices } from "./words.js";

/**
 * Rows makes and changes the elements of rows. agent() is the session's agent, show(picture)
 * shows a picture in full, remedies(row) returns the buttons of an error, and seek(row)
 * shows it on the timeline.
 */
export class Rows {
  #agent;
  #show;
  #remedies;
  #seek;

  constructor({ agent, show, remedies, seek }) {
    [this.#agent, this.#show, this.#remedies, this.#seek] = [agent, show, remedies, seek];
  }

  /** render returns a row's element. */
  render(row) {
    let element;
    try {
      element = this.#make(row);
    } catch { // a value of the agent has a shape that the row does not expect
      const { screen, pictures, ...rest } = row;
      element = broken(argument(rest));
    }
    element.role = "listitem";
    element.dataset.key = row.key;
    element.dataset.time = row.time;
    return element;
  }

  get #tool() { return { show: this.#show, seek: this.#seek }; }

  #make(row) {
    switch (row.kind) {
      case "tool": return toolElement(row, this.#tool);
      case "user": return this.#user(row);
      case "error": return this.#error(row);
      case "notice": return line("notice", "info", notices[row.text] ?? row.text);
      case "broken": return broken(row.text);
      case "answer": return line("notice", "shield", `${answers[row.text] ?? (row.text || "Answered")}: ${row.title.replaceAll("`", "")}`);
      default: return this.#text(row);
    }
  }

  /** refresh shows a row's change. It returns the element that replaces the row's, if there is one. */
  refresh(row, element) {
    if (element.kind === "broken") return this.render(row);
    try {
      return this.#refresh(row, element);
    } catch {
      return this.render(row);
    }
  }

  #refresh(row, element) {
    if (row.kind === "tool") return refreshTool(row, element, this.#tool);
    if (row.kind === "user" || element.kind !== row.kind) return this.render(row);
    if (row.kind === "thought") setText(element.querySelector(".time"), row.ended ? duration(row.ended - row.time) : "");
    return this.#fill(row, element);
  }

  #user(row) {
    const parts = (row.parts ?? [{ type: "text", text: row.text }]).map((part) => {
      if (part.type === "text") return make("p", {}, part.text);
      if (part.type === "image") return thumbnail(part.path, this.#show, "Attached picture");
      if (part.type === "file_ref") return make("span", { className: "attached", title: part.path }, icon("file"), part.path.split("/").pop());
      return make("p", { className: "dim" }, "Attachment");
    });
    return make("article", { className: "entry user" }, make("h3", { className: "hidden" }, "You"), ...parts);
  }

  #text(row) {
    const thought = row.kind === "thought";
    const body = make("div", { className: "text" });
    const element = thought
      ? make("article", { className: "entry thought" }, make("details", { open: Boolean(row.unfolded) },
        make("summary", {}, icon("thought"), make("span", { className: "what" }, "Thought"), make("span", { className: "time" }, row.ended ? duration(row.ended - row.time) : "")), body))
      : make("article", { className: "entry text" }, make("h3", { className: "hidden" }, this.#agent().name), body);
    element.kind = row.kind;
    element.querySelector("details")?.addEventListener("toggle", ({ target }) => {
      row.unfolded = target.open;
      this.#fill(row, element);
    });
    element.body = body;
    element.texts = [];
    this.#fill(row, element);
    return element;
  }

  // The parts of a message: texts, and pictures between them.
  #fill(row, element) {
    if (row.kind === "thought" && !row.unfolded) return;
    const parts = row.parts?.some(({ type }) => type !== "text" && type !== "reasoning") ? row.parts : [{ type: "text", text: row.text }];
    parts.forEach((part, i) => {
      if (part.type === "text" || part.type === "reasoning") {
        if (!element.texts[i]) element.body.append((element.texts[i] = new MarkdownText()).element);
        element.texts[i].set(part.text ?? "", !row.open);
      } else if (!element.texts[i]) {
        element.texts[i] = part.type === "image" ? thumbnail(part.path, this.#show) : make("p", { className: "dim place" }, part.path ?? JSON.stringify(part.json) ?? "");
        element.body.append(element.texts[i]);
      }
    });
  }

  #error(row) {
    const { what, why, fix, command, details } = failure(row, this.#agent());
    const element = make("article", { className: `entry error${row.code === "configuration" ? " mild" : ""}` }, icon("warning"), make("h3", {}, what));
    if (why) element.append(make("p", {}, why));
    if (fix) element.append(make("p", {}, fix));
    if (command) element.append(make("pre", { tabIndex: 0 }, command));
    if (details) element.append(make("details", {}, make("summary", {}, "Details"), make("pre", { tabIndex: 0 }, details)));
    element.append(...this.#remedies(row));
    return element;
  }
}

const line = (name, symbol, text) => make("p", { className: `entry ${name}` }, icon(symbol), text);

function broken(text) {
  const element = make("article", { className: "entry error mild" }, icon("warning"), make("h3", {}, "This event can't be shown"),
    make("details", {}, make("summary", {}, "Details"), make("pre", { tabIndex: 0 }, text)));
  element.kind = "broken";
  return element;
}
