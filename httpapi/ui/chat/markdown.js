// Markdown as elements. The texts are an agent's, so nothing is read as HTML.

import { make } from "../dom.js";

const piece = 4000; // characters of a plain text in one element, so that its layout stays short
const longest = 48_000; // characters of one block, above which it stays plain text

// Bounds of what the parser gets, because its time grows with their squares.
const mostMarks = 200; // of emphasis, in one paragraph
const mostWord = 2000; // characters without a space
const mostNested = 50; // lists and quotations in each other

let lexer = null;

/** loaded resolves to whether there is a parser: a build without third-party code has none. */
export const loaded = import("../lib/marked.js").then(
  (module) => { lexer = module.lexer ?? module.marked.lexer; return true; },
  () => false,
);

/**
 * MarkdownText shows a text that grows. Blocks that are complete stay as they are, so a
 * long text costs no more than a short one.
 */
export class MarkdownText {
  element = make("div", { className: "markdown" });
  #text = "";
  #done = 0; // characters that are shown for good
  #open = make("div", { className: "open" });

  constructor() {
    this.element.append(this.#open);
  }

  /** set shows a text. complete says that it will not grow. */
  set(text, complete) {
    if (!text.startsWith(this.#text)) this.#restart();
    this.#text = text;
    const rest = text.slice(this.#done);
    const tokens = lexer && rest.length <= longest && !isHeavy(rest) && parsed(rest);
    if (!tokens) return this.#plain(rest);
    // The last blocks may still change: a list gets items, a paragraph becomes a table.
    let keep = complete ? tokens.length : tokens.length - 2;
    while (keep > 0 && tokens[keep - 1].type === "space" && !complete) keep--;
    const ready = tokens.slice(0, Math.max(0, keep));
    this.#open.before(...ready.map(block).filter(Boolean));
    this.#done += ready.reduce((sum, { raw }) => sum + raw.length, 0);
    this.#open.replaceChildren(...tokens.slice(ready.length).map(block).filter(Boolean));
    this.#plainTo = 0;
  }

  #plainTo = 0; // of the open text, characters that are shown plain

  #plain(rest) {
    if (this.#plainTo === 0) this.#open.replaceChildren();
    for (let added = rest.slice(this.#plainTo); added;) {
      let last = this.#open.lastElementChild;
      if (!last || last.textContent.length > piece) this.#open.append(last = make("p", { className: "plain-text" }, ""));
      const end = added.indexOf("\n", piece - last.textContent.length);
      const part = end < 0 ? added : added.slice(0, end + 1);
      last.firstChild.appendData(part);
      this.#plainTo += part.length;
      added = added.slice(part.length);
      if (end >= 0) this.#open.append(make("p", { className: "plain-text" }, ""));
    }
  }

  #restart() {
    this.element.replaceChildren(this.#open);
    this.#open.replaceChildren();
    [this.#done, this.#plainTo] = [0, 0];
  }
}

function parsed(text) {
  try {
    return lexer(text);
  } catch {
    return null; // it is nested too deeply
  }
}

/** isHeavy reports whether the parser could take seconds for a text. */
function isHeavy(text) {
  let fence = ""; // of the code that a line is in
  let marks = 0; // of emphasis since the paragraph began
  let inner = 0; // the indentation of what is in the list item; 0: there is none
  let blank = true; // the line before is
  for (const line of text.split("\n")) {
    if (line.length > mostWord && line.split(/\s+/).some(({ length }) => length > mostWord)) return true;
    const [opens] = /^(?:`{3,}(?=[^`]*$)|~{3,})/.exec(line) ?? [""];
    if (fence) {
      if (opens.startsWith(fence) && opens === line.trimEnd()) fence = "";
      continue;
    }
    fence = opens;
    const [begin] = /^(?:\s*(?:>|(?:[-*+]|\d{1,9}[.)])(?=\s|$)))*/.exec(line);
    if (begin.match(/[>*+.)-]/g)?.length > mostNested) return true;
    const [, indent = "", sign = ""] = /^(\s*)([-*+]|\d{1,9}[.)])\s+\S/.exec(line) ?? [];
    // Other lines with such a sign continue the paragraph.
    const isItem = sign && indent.length <= inner + 3 && (inner || !/^\d/.test(sign) || parseInt(sign) === 1);
    if (isItem) inner = indent.length + sign.length + 1;
    else if (blank && line.search(/\S/) < inner && line.trim()) inner = 0;
    blank = !line.trim();
    if (blank || isItem) marks = 0;
    marks += line.match(/[*_~]/g)?.length ?? 0;
    if (marks > mostMarks) return true;
  }
  return false;
}

const inline = (tokens = []) => tokens.map(span).filter((node) => node !== null);
const blocks = (tokens = []) => tokens.map(block).filter(Boolean);

function block(token) {
  switch (token.type) {
    case "space":
    case "def": return null;
    case "heading": return make("h4", { className: `h${token.depth}` }, ...inline(token.tokens));
    case "paragraph": return make("p", {}, ...inline(token.tokens));
    case "text": return make("span", {}, ...(token.tokens ? inline(token.tokens) : [plain(token.text)]));
    case "code": return make("pre", { tabIndex: 0 }, make("code", {}, token.text));
    case "blockquote": return make("blockquote", {}, ...blocks(token.tokens));
    case "hr": return make("hr");
    case "list": return list(token);
    case "table": return table(token);
    default: return make("p", {}, token.raw);
  }
}

function list({ ordered, start, items }) {
  const element = make(ordered ? "ol" : "ul", {}, ...items.map(({ task, checked, tokens }) => {
    const item = make("li", {});
    if (task) item.append(make("input", { type: "checkbox", disabled: true, checked: Boolean(checked), "aria-label": checked ? "Done" : "Not done" }), " ");
    item.append(...tokens.filter(({ type }) => type !== "checkbox").map(block).filter(Boolean));
    item.classList.toggle("task", Boolean(task));
    return item;
  }));
  if (ordered && start > 1) element.start = start;
  return element;
}

function table({ header, rows, align }) {
  const row = (cells, tag) => make("tr", {}, ...cells.map(({ tokens }, i) => make(tag, { className: align[i] ?? "" }, ...inline(tokens))));
  const body = make("tbody", {}, ...rows.map((cells) => row(cells, "td")));
  return make("div", { className: "wide", tabIndex: 0 }, make("table", {}, make("thead", {}, row(header, "th")), body));
}

function span(token) {
  switch (token.type) {
    case "strong": return make("strong", {}, ...inline(token.tokens));
    case "em": return make("em", {}, ...inline(token.tokens));
    case "del": return make("del", {}, ...inline(token.tokens));
    case "codespan": return make("code", {}, token.text);
    case "br": return make("br");
    case "link": return link(token);
    case "image": return link({ ...token, tokens: null });
    case "text":
    case "escape": return token.tokens ? make("span", {}, ...inline(token.tokens)) : document.createTextNode(plain(token.text));
    case "checkbox": return null;
    default: return document.createTextNode(token.raw);
  }
}

// A link to another scheme is text. Pictures are links: the page loads nothing from other sites.
function link({ href, text, tokens }) {
  const content = tokens ? inline(tokens) : [plain(text || href)];
  if (!/^(https?:|mailto:)/i.test(href)) return make("span", {}, ...content);
  return make("a", { href, target: "_blank", rel: "noopener noreferrer" }, ...content);
}

const entities = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&nbsp;": "\u00a0" };
const plain = (text) => text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (entity) => entities[entity]);
