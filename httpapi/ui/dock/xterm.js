// A terminal's screen, drawn by xterm.js.

import { theme } from "../theme.js";
import { adaptStyles } from "./policy.js";

const scrollback = 5000; // lines
const answer = /^\x1b(?:\[[?>=]?[\d;]*(?:[Rcnt]|\$y)|[\]P])/; // of a terminal: its cursor, attributes, status, size, modes, colors

const controls = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g; // of C0, without tab, CR and LF; DEL; of C1

const light = {
  background: "#ffffff", foreground: "#14181d", cursor: "#0b63a5", cursorAccent: "#ffffff", selectionBackground: "#0b63a540",
  black: "#14181d", red: "#b42318", green: "#17744a", yellow: "#8a5a00", blue: "#0b63a5", magenta: "#6d3fc0", cyan: "#0f6e7a", white: "#55606c",
  brightBlack: "#55606c", brightRed: "#d01f2e", brightGreen: "#1c8a58", brightYellow: "#9c6a00", brightBlue: "#0b6fb8", brightMagenta: "#8a4fe0", brightCyan: "#12808d", brightWhite: "#77838f",
};
const dark = {
  background: "#151a21", foreground: "#e8edf2", cursor: "#5cc8ff", cursorAccent: "#151a21", selectionBackground: "#5cc8ff40",
  black: "#303a46", red: "#ff7a7a", green: "#4cc38a", yellow: "#f5b83d", blue: "#5cc8ff", magenta: "#c9a2ff", cyan: "#56d4dd", white: "#c5ccd4",
  brightBlack: "#708091", brightRed: "#ff9c9c", brightGreen: "#7ad9a9", brightYellow: "#ffd479", brightBlue: "#8fd9ff", brightMagenta: "#dcc4ff", brightCyan: "#8be6ec", brightWhite: "#ffffff",
};
const colors = () => (theme.dark ? dark : light);

/** load returns the class XtermScreen. It fails if the server was built without xterm.js. */
export async function load() {
  const link = document.createElement("link");
  const styled = new Promise((done, failed) => Object.assign(link, { onload: done, onerror: failed }));
  Object.assign(link, { rel: "stylesheet", href: new URL("../lib/xterm.css", import.meta.url).href });
  const [{ Terminal }, { FitAddon }] = await Promise.all([import("../lib/xterm.js"), import("../lib/addon-fit.js")]);
  adaptStyles();
  document.head.append(link);
  await styled;

  /**
   * XtermScreen shows output in root. send gets what the user types, resized the new size,
   * leave is called for the keys that leave the terminal, and paste for a text with line breaks that
   * the program would take as typed.
   */
  return class XtermScreen {
    #term;
    #fit = new FitAddon();
    #recolor = () => { this.#term.options.theme = colors(); };
    #restoring = 0; // writes of earlier output

    constructor({ root, send, resized, leave, paste }) {
      const term = this.#term = new Terminal({
        scrollback, theme: colors(), minimumContrastRatio: 4.5, cursorBlink: false,
        fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace", fontSize: 13, lineHeight: 1.2,
      });
      term.loadAddon(this.#fit);
      term.open(root);
      term.textarea.setAttribute("aria-description", "Press Ctrl+Alt+Shift to leave the terminal.");
      // Earlier output may contain questions to the terminal. They were answered then. What the user types meanwhile is sent.
      term.onData((data) => { if (!this.#restoring || !answer.test(data)) send(data); });
      term.onResize(resized);
      term.attachCustomKeyEventHandler((event) => this.#key(event, leave));
      root.addEventListener("paste", (event) => {
        event.preventDefault();
        event.stopPropagation();
        // xterm.js would send controls, and ESC [ 201 ~ ends a bracketed paste.
        const text = (event.clipboardData?.getData("text/plain") ?? "").replace(controls, "");
        if (!term.modes.bracketedPasteMode && /[\r\n]/.test(text)) paste(text);
        else term.paste(text);
      }, true);
      theme.addEventListener("change", this.#recolor);
    }

    get size() { return { cols: this.#term.cols, rows: this.#term.rows }; }

    /** write shows output. Earlier output is not answered. */
    write(data, earlier) {
      if (!earlier) return this.#term.write(data);
      this.#restoring++;
      this.#term.write(data, () => { this.#restoring--; });
    }

    paste(text) { this.#term.paste(text); }
    reset() { this.#term.reset(); }
    focus() { this.#term.focus(); }
    fit() { this.#fit.fit(); }

    #found = { text: "", row: 0, column: 0 };

    /** find selects the next place of a text above the last one, or below it. It returns whether there is one. */
    find(text, down) {
      const buffer = this.#term.buffer.active;
      const wanted = text.toLowerCase();
      const again = this.#found.text === wanted;
      let row = again ? this.#found.row : down ? 0 : buffer.length - 1;
      for (let n = 0; wanted && n <= buffer.length; n++, row = (row + (down ? 1 : buffer.length - 1)) % buffer.length) {
        const line = buffer.getLine(row)?.translateToString(true).toLowerCase() ?? "";
        const from = n === 0 && again ? this.#found.column + (down ? 1 : -1) : down ? 0 : line.length;
        const column = from < 0 ? -1 : down ? line.indexOf(wanted, from) : line.lastIndexOf(wanted, from);
        if (column < 0) continue;
        this.#found = { text: wanted, row, column };
        this.#term.select(column, row, wanted.length);
        this.#term.scrollToLine(Math.max(0, row - (this.#term.rows >> 1)));
        return true;
      }
      this.#term.clearSelection();
      return false;
    }

    // false: xterm.js ignores the key, and the browser does what it does.
    #key(event, leave) {
      const { ctrlKey, altKey, shiftKey, metaKey, key, type } = event;
      if (ctrlKey && altKey && shiftKey) {
        if (type === "keydown") leave();
        return false;
      }
      if (!ctrlKey || altKey || metaKey || type !== "keydown") return true;
      if (key.toLowerCase() === "v") return false;
      return !(key.toLowerCase() === "c" && this.#term.hasSelection());
    }

    destroy() {
      theme.removeEventListener("change", this.#recolor);
      this.#term.dispose();
    }
  };
}
