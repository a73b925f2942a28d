// What can go wrong, for people: what happened, why, and what to do about it.

/** Cause is why there is no picture. */
export class Cause extends Error {
  /** kind is a key of the table below; more is what its texts are about. */
  constructor(kind, more = {}) {
    super(kind);
    this.kind = kind;
    this.more = more;
  }
}

const table = {
  unreachable: () => ({
    what: "The server does not answer",
    why: "It was stopped, or the network between is down.",
    fix: "This page tries again by itself.",
  }),
  origin: ({ detail }) => ({
    what: "The server does not accept this page",
    why: "It does not know the address by which you opened it.",
    fix: "Start the server with this flag, or open the page by the address that it printed.",
    command: `--cors-allow-origin ${location.origin}`,
    details: detail,
  }),
  install: ({ missing, command }) => ({
    what: "Programs are missing on the server",
    why: `A desktop needs ${list(missing)}.`,
    fix: "Run this where the server runs, then start the desktop.",
    command,
  }),
  start: ({ detail }) => ({
    what: "The desktop did not start",
    why: detail,
    fix: "Try again; the server's log tells more.",
  }),
  crashed: ({ detail }) => ({
    what: "The desktop has failed",
    why: detail,
    fix: "Restart it. Its programs are lost, its files are not.",
  }),
  socket: () => ({
    what: "The live connection did not open",
    why: "Something between this browser and the server does not let WebSockets through.",
    fix: "If there is a proxy, have it pass upgrades for /v1/ on.",
  }),
  webrtc: () => ({
    what: "This browser has no WebRTC",
    why: "It lacks it, or its settings turn it off.",
    fix: "Use another browser, or allow it for this site.",
  }),
  ice: ({ verdict, remedy }) => ({
    what: "WebRTC does not get through",
    why: verdict || "No network path was found between this browser and the server: UDP is probably blocked.",
    fix: remedy || "Let the server's UDP port through, 59050 unless it was set up otherwise, or announce its public address.",
  }),
  lost: () => ({
    what: "The connection was lost",
    why: "The network between this browser and the server has changed or is down.",
    fix: "This page tries again by itself.",
  }),
  frames: () => ({
    what: "No picture came",
    why: "There is a connection, but this browser did not get to see a picture within five seconds.",
    fix: "Try again, or try another browser.",
  }),
  decoder: ({ secure }) => ({
    what: "This browser cannot decode the video",
    why: secure ? "It has no WebCodecs, or not for this codec." : "It only does so on pages that came over https, or from this machine.",
    fix: secure ? "Update it, or use another one." : "Open the page over https.",
  }),
  refused: ({ message }) => ({
    what: "The server did not let you watch",
    why: message,
    fix: "Try again later.",
  }),
  stopped: () => ({
    what: "The live view was stopped",
    why: "Somebody, or a program, ended it for everybody. The desktop itself is running.",
    fix: "Watch again when you like.",
  }),
};

/** explain is what to tell people about a Cause, a Problem or any other error. */
export function explain(error) {
  const told = tell(error);
  return { ...told, why: told.why && sentence(told.why) };
}

function tell(error) {
  if (error instanceof Cause && table[error.kind]) return table[error.kind](error.more);
  if (error.status === 0) return table.unreachable();
  if (error.status === 403 && /pages of/.test(error.message)) return table.origin({ detail: error.message });
  if (error.status === undefined) {
    return { what: "Something went wrong in this page", why: error.message, fix: "Reload it.", details: error.stack };
  }
  // What is not known here the server has words for.
  return { what: error.title, why: error.message === error.title ? "" : error.message, fix: "" };
}

/** inOneLine is an explanation for where there is little room. */
export const inOneLine = (error) => {
  const { what, why } = explain(error);
  return why || sentence(what);
};

/** restarted returns the text about a desktop of which a part failed, by the failure's code. */
export function restarted(code = "") {
  if (code.startsWith("window_manager")) return "The window manager stopped and was restarted. Your programs are still open.";
  if (code.startsWith("dbus")) return "The desktop's message bus stopped and was restarted. Some programs may have to be opened again.";
  if (code.startsWith("xserver")) return "The desktop's X server stopped and was restarted. The programs that were open are gone; files are kept.";
  return "The desktop was restarted. The programs that were open may be gone; files are kept.";
}

/** kinds are those of Cause. */
export const kinds = Object.keys(table);

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const sentence = (text) => capital(/[.!?]$/.test(text) ? text : `${text}.`);
const list = (words) => new Intl.ListFormat("en", { type: "conjunction" }).format(words);
