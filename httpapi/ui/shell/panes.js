// The panes of the page, in the order of the rail.

/**
 * A pane is a module of its own, which is loaded when the pane is first opened, with
 * the style sheet of the same name beside it:
 *
 *   name   the name in addresses and in localStorage, and of the module and its folder
 *   place  "side" (right of the picture), "dock" (below it), "strip" (below the dock) or
 *          "page" (in place of the picture, with the address #/NAME)
 *   label, icon, module
 *
 * The module exports mount(root, context), which fills root and returns the pane. Its
 * methods are optional: show() and hide() when it appears and disappears, and
 * route(parts) with the rest of the address, such as ["ID"] of #/s/ID. routes names the
 * first parts of the addresses that open the pane, if they are not its name. A pane
 * without an icon has no button in the rail. tab: on a phone its button is in the row at the
 * bottom; the others are behind More. links: people with a link may open it; supervise:
 * people with a token of the scope supervise may, and files: if it reaches any.
 *
 * context is { session, control, view, events, layout, router, waiting }.
 */
export const panes = [
  { name: "chat", place: "side", label: "Sessions", icon: "chat", module: "../chat/chat.js", routes: ["s"], tab: true, supervise: true },
  { name: "terminal", place: "dock", label: "Terminal", icon: "terminal", module: "../dock/terminal.js", tab: true, supervise: true },
  { name: "files", place: "dock", label: "Files", icon: "folder", module: "../dock/files.js", tab: true, supervise: true, files: true },
  { name: "processes", place: "dock", label: "Processes", icon: "processes", module: "../dock/processes.js", supervise: true },
  { name: "logs", place: "dock", label: "Logs", icon: "logs", module: "../dock/logs.js", supervise: true },
  { name: "events", place: "dock", label: "Events", icon: "events", module: "../dock/events.js", supervise: true },
  { name: "desktops", place: "page", label: "Desktops", icon: "screen", module: "../desktops/desktops.js", supervise: true },
  { name: "replay", place: "page", label: "Replay", module: "../replay/replay.js", links: true },
  { name: "settings", place: "page", label: "Settings", icon: "settings", module: "../settings/settings.js" },
  { name: "strip", place: "strip", label: "Timeline", module: "../replay/strip.js", supervise: true },
];

/** paneOf returns the pane of an address's first part, or undefined. */
export const paneOf = (those, part) => those.find((pane) => (pane.routes ?? [pane.name]).includes(part));
