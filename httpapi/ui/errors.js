// Errors for people: what happened, why, and the remedy.

/** Cause is the reason why a picture is missing. */
export class Cause extends Error {
  /** kind is a key of the table below; more has the values for its texts. */
  constructor(kind, more = {}) {
    super(kind);
    this.kind = kind;
    this.more = more;
  }
}

const table = {
  unreachable: () => ({
    what: "Can't reach the server",
    why: "The server has stopped, or the network is down.",
    fix: "This page retries automatically.",
  }),
  origin: ({ detail }) => ({
    what: "The server rejected this page",
    why: "The server doesn't recognize the address you used to open this page.",
    fix: "Start the server with this option, or open the page at the address the server printed.",
    command: `--cors-allow-origin ${location.origin}`,
    details: detail,
  }),
  install: ({ missing, command }) => ({
    what: "Required programs are missing on the server",
    why: `A desktop needs ${list(missing)}.`,
    fix: "Run this command on the server, then start the desktop.",
    command,
  }),
  start: ({ detail }) => ({
    what: "The desktop couldn't start",
    why: detail,
    fix: "Try again. The server's log has details.",
  }),
  crashed: ({ detail }) => ({
    what: "The desktop stopped working",
    why: detail,
    fix: "Restart it. Open apps will be lost; files are kept.",
  }),
  socket: () => ({
    what: "Couldn't open the live connection",
    why: "Something between your browser and the server blocks WebSockets.",
    fix: "If you use a proxy, make it pass WebSocket upgrades for /v1/.",
  }),
  webrtc: () => ({
    what: "Your browser blocks WebRTC",
    why: "It doesn't support WebRTC, or its settings turn it off.",
    fix: "Allow WebRTC for this site, or use another browser.",
  }),
  ice: ({ verdict, remedy }) => ({
    what: "WebRTC is blocked on this network",
    why: verdict || "There is no network path between your browser and the server. UDP is probably blocked.",
    fix: remedy || "Open the server's UDP port (59050 by default), or announce its public address.",
  }),
  lost: () => ({
    what: "Connection lost",
    why: "The network between your browser and the server changed or is down.",
    fix: "This page reconnects automatically.",
  }),
  frames: () => ({
    what: "No video received",
    why: "The connection is open, but no video arrived within five seconds.",
    fix: "Try again, or use another browser.",
  }),
  decoder: ({ secure }) => ({
    what: "Your browser can't decode the video",
    why: secure ? "It doesn't support WebCodecs or this codec." : "Browsers decode video only on pages opened over HTTPS or from the same computer.",
    fix: secure ? "Update your browser, or use another one." : "Open this page over HTTPS.",
  }),
  refused: ({ message }) => ({
    what: "The server refused the connection",
    why: message,
    fix: "Try again later.",
  }),
  stopped: () => ({
    what: "The live view was stopped",
    why: "A person or a program stopped it for everyone. The desktop is still running.",
    fix: "You can watch again at any time.",
  }),
};

/** explain returns the texts for a Cause, a Problem or any other error. */
export function explain(error) {
  const texts = describe(error);
  return { ...texts, why: texts.why && sentence(texts.why) };
}

function describe(error) {
  if (error instanceof Cause && table[error.kind]) return table[error.kind](error.more);
  if (error.status === 0) return table.unreachable();
  if (error.status === 403 && /pages of/.test(error.message)) return table.origin({ detail: error.message });
  if (error.status === undefined) {
    return { what: "Something went wrong on this page", why: error.message, fix: "Reload this page.", details: error.stack };
  }
  // For an unknown problem, the server's text.
  return { what: error.title, why: error.message === error.title ? "" : error.message, fix: "" };
}

/** inOneLine returns an explanation as one line. */
export const inOneLine = (error) => {
  const { what, why } = explain(error);
  return why || sentence(what);
};

/** restarted returns the text about a desktop of which a part failed, by the failure's code. */
export function restarted(code = "") {
  if (code.startsWith("window_manager")) return "The window manager stopped and was restarted. Your apps are still open.";
  if (code.startsWith("dbus")) return "The desktop's message bus stopped and was restarted. You may need to reopen some apps.";
  if (code.startsWith("xserver")) return "The desktop's X server stopped and was restarted. Open apps were closed; files are kept.";
  return "The desktop was restarted. Open apps may have closed; files are kept.";
}

/** kinds are the kinds of Cause. */
export const kinds = Object.keys(table);

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const sentence = (text) => capital(/[.!?]$/.test(text) ? text : `${text}.`);
const list = (words) => new Intl.ListFormat("en", { type: "conjunction" }).format(words);
