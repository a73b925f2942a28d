// The page: it shows one desktop live and sends it the viewer's input.

import { desktop, elsewhere, learnScope, token, urlOf } from "./api.js";
import { Bar } from "./bar.js";
import { Clipboard } from "./clipboard.js";
import { Control } from "./control.js";
import { Cover } from "./cover.js";
import { Cursor } from "./cursor.js";
import { $, announce, copyButton, make, notice, once, placePanels, setText, show, toast } from "./dom.js";
import { inOneLine, restarted } from "./errors.js";
import { Events } from "./events.js";
import { Holder } from "./holder.js";
import { Input } from "./input.js";
import { People } from "./people.js";
import { Recordings } from "./recordings.js";
import { Session } from "./session.js";
import { Router } from "./shell/router.js";
import { Sound } from "./sound.js";
import { theme } from "./theme.js";
import { View } from "./view.js";
import { Waiting } from "./waiting.js";

const session = new Session({ video: $("video"), canvas: $("canvas") });
const control = new Control();
const view = new View({ stage: $("stage"), frame: $("frame") });
const cursor = new Cursor({ surface: $("frame"), image: $("pointer") });
const clipboard = new Clipboard({ control });
const input = new Input({ surface: $("frame"), textarea: $("keyboard"), control, place: (event) => view.place(event) });
const write = (text, clicked) => clipboard.write(text, clicked);

const touchScreen = matchMedia("(pointer: coarse)").matches;

let wantsKeys = false; // as soon as there is control

placePanels();
const events = new Events({ session });
const waiting = new Waiting({ events });
new Bar({ session, control, view, waiting });
const holder = new Holder({ session, control, wanted: () => { wantsKeys = true; } });
const people = new People({ session, control, gave: () => holder.letGo() });
new Cover({ session, room: () => view.room(), write });
new Sound({ session, video: $("video") });
const router = new Router();
new Recordings({ session, control, events, play: ({ id }) => router.go("replay", id) });

// The first picture does not wait for these modules.
const trouble = (error) => toast(typeof error === "string" ? error : inOneLine(error));
import("./overlay.js").then(({ Overlay }) => new Overlay({ events, control, view, layer: $("actions"), chips: $("chips") })).catch(trouble);
import("./windows.js").then(({ Windows }) => new Windows()).catch(trouble);
import("./picture.js").then(({ Picture }) => new Picture({ session })).catch(trouble);
import("./share.js").then(({ Share }) => new Share({ write })).catch(trouble);

// ---- picture ---------------------------------------------------------------

session.addEventListener("link", () => {
  const { link } = session;
  control.follow(null); // no input before the next link is up
  cursor.follow(link);
  clipboard.follow(link);
  link?.addEventListener("size", ({ detail }) => { if (link.kind !== "webrtc") view.setSize(detail); });
  link?.addEventListener("picture", ({ detail }) => view.setSize(detail));
});

session.addEventListener("state", () => {
  const { name, preview } = session.state;
  const live = name === "live";
  if (live) {
    $("frame").dataset.surface = session.link.kind === "webrtc" ? "video" : "canvas";
    sizeOfVideo();
    if (control.link !== session.link) control.follow(session.link);
  } else {
    $("frame").dataset.surface = "canvas"; // the last picture
    input.forget();
    control.follow(null);
  }
  const stale = name === "reconnecting" && view.size.width > 0;
  $("frame").classList.toggle("stale", stale);
  const shown = live || stale || Boolean(preview);
  show($("frame"), shown);
  show($("stage"), shown);
  if (!shown) view.clear();
  if (live) view.layout();
});

session.addEventListener("preview", ({ detail }) => view.setSize(detail));
session.addEventListener("restarted", ({ detail }) => notice(restarted(detail)));

const sizeOfVideo = () => {
  const { videoWidth: width, videoHeight: height } = $("video");
  if ($("frame").dataset.surface === "video") view.setSize({ width, height });
};
$("video").addEventListener("resize", sizeOfVideo);

// ---- view --------------------------------------------------------------------

view.mayResize = () => control.mine;
view.addEventListener("trouble", ({ detail }) => trouble(detail));
view.addEventListener("change", () => {
  cursor.scale = view.scale;
  $("full-icon").setAttribute("href", view.fillsScreen ? "#i-small" : "#i-full");
  const label = view.fillsScreen ? "Exit full screen" : "Full screen";
  $("full").title = label;
  $("full").setAttribute("aria-label", label);
});
for (const choice of document.querySelectorAll('[name="view"]')) {
  choice.checked = choice.value === view.mode;
  choice.addEventListener("change", () => {
    view.setMode(choice.value);
    if (choice.value === "match") control.act(() => {}); // it takes control
  });
}
for (const choice of document.querySelectorAll('[name="theme"]')) {
  choice.checked = choice.value === theme.choice;
  choice.addEventListener("change", () => theme.choose(choice.value));
}
show($("full"), view.canFillScreen);
once($("full"), () => view.toggleFullScreen().catch(trouble));
const { touch } = input;
touch.pan = (dx, dy) => view.pan(dx, dy);
touch.zoom = (factor, at) => view.zoomBy(factor, at);
touch.pointer = () => ({ ...(cursor.at ?? { x: view.size.width / 2, y: view.size.height / 2 }), scale: view.scale });
touch.reveal = (at) => {
  const within = view.reveal(at);
  cursor.moveTo(within);
  return within;
};
show($("touch-choice"), touchScreen);
for (const choice of document.querySelectorAll('[name="touch"]')) {
  choice.checked = (choice.value === "trackpad") === touch.trackpad;
  choice.addEventListener("change", () => touch.setTrackpad(choice.value === "trackpad"));
}

// In full screen the bar appears when the pointer is at the top, or by its handle.
$("peek").addEventListener("click", () => document.body.classList.toggle("peek"));
addEventListener("pointermove", ({ clientY, pointerType }) => {
  if (pointerType === "touch" || !view.fillsScreen) return;
  const open = document.querySelector("[popover]:popover-open");
  if (clientY < 3) document.body.classList.add("peek");
  else if (clientY > $("bar").offsetHeight + 24 && !open) document.body.classList.remove("peek");
});

// ---- control and input ---------------------------------------------------------

control.addEventListener("change", () => {
  cursor.mine = control.mine;
  $("frame").classList.toggle("mine", control.mine);
  if (control.mine) view.match();
});

input.addEventListener("moved", ({ detail }) => cursor.moveTo(detail));
input.addEventListener("used", ({ detail }) => {
  document.body.classList.remove("peek");
  if (detail.pointerType === "touch" && detail.isPrimary && control.mine && !touch.trackpad) cursor.moveTo(view.place(detail));
  // The position of an input method's candidate list.
  const box = $("frame").getBoundingClientRect();
  $("keyboard").style.left = `${Math.round(detail.clientX - box.left)}px`;
  $("keyboard").style.top = `${Math.round(detail.clientY - box.top)}px`;
});

const { keys } = input;
keys.addEventListener("captured", () => {
  $("main").classList.toggle("captured", keys.captured);
  show($("hint"), keys.captured);
});
keys.addEventListener("left", () => {
  $("control").focus();
  announce("Keyboard released");
});
// After control is taken by a button, keys go to the desktop.
control.addEventListener("change", () => {
  if (!wantsKeys || !control.mine) return;
  wantsKeys = false;
  if (!touchScreen) keys.capture();
});

// ---- keys ----------------------------------------------------------------------

const chords = [
  ["Esc", "Escape"], ["Tab", "Tab"], ["Enter", "Enter"], ["Del", "Delete"],
  ["Ctrl+C", "Control", "c"], ["Ctrl+V", "Control", "v"], ["Ctrl+W", "Control", "w"], ["Ctrl+T", "Control", "t"],
  ["Alt+Tab", "Alt", "Tab"], ["Alt+F4", "Alt", "F4"], ["Super", "Meta"], ["PrtSc", "PrintScreen"],
  ["Ctrl+Alt+Del", "Control", "Alt", "Delete"], ["F5", "F5"], ["F11", "F11"],
];
for (const [label, ...names] of chords) {
  $("keys").append(make("button", { type: "button", onclick: () => keys.press(...names) }, label));
}

for (const button of document.querySelectorAll("#keyrow button")) {
  button.addEventListener("pointerdown", (event) => event.preventDefault()); // the on-screen keyboard stays open
  button.addEventListener("click", () => {
    if (button.dataset.stick) keys.stick(button.dataset.stick);
    else if (button.dataset.key) keys.press(button.dataset.key);
    else $("keys-panel").showPopover({ source: button });
  });
}
const sticks = [...document.querySelectorAll("[data-stick]")];
keys.addEventListener("sticky", () => {
  for (const button of sticks) button.setAttribute("aria-pressed", String(keys.holds(button.dataset.stick)));
});

function toggleKeyRow() {
  const open = $("keyrow").hidden;
  show($("keyrow"), open);
  setText($("screen-keyboard"), open ? "Hide on-screen keyboard" : "On-screen keyboard");
  $("keys-tool").setAttribute("aria-pressed", String(open));
  if ($("keys-panel").matches(":popover-open")) $("keys-panel").hidePopover();
  if (open) keys.capture();
  else keys.free();
}

$("screen-keyboard").addEventListener("click", toggleKeyRow);
// On touch devices the button of the on-screen keyboard comes first.
if (touchScreen) {
  $("keys-tool").removeAttribute("popovertarget");
  $("keys-tool").addEventListener("pointerdown", (event) => event.preventDefault());
  $("keys-tool").addEventListener("click", toggleKeyRow);
}

// Some browsers do not shrink the page for the on-screen keyboard, so the page does.
visualViewport?.addEventListener("resize", () => {
  document.body.style.height = visualViewport.height < innerHeight - 80 ? `${visualViewport.height}px` : "";
});

// ---- clipboard -------------------------------------------------------------------

keys.paste = (text) => clipboard.send(text);
clipboard.addEventListener("copied", () => {
  const act = async () => { await clipboard.write(clipboard.remote, true); };
  toast("Text copied on the desktop", { label: "Copy to my computer", act });
});
clipboard.addEventListener("trouble", ({ detail }) => {
  if (!$("clipboard-panel").matches(":popover-open")) return trouble(detail);
  setText($("clipboard-problem"), detail);
  show($("clipboard-problem"), true);
});
let edited = false; // a text that the viewer is editing is not replaced
$("clipboard-text").addEventListener("input", () => { edited = true; });
clipboard.addEventListener("change", () => {
  $("clipboard-sync").checked = clipboard.sync;
  if (!edited) $("clipboard-text").value = clipboard.remote;
});

const notes = {
  full: "Press Ctrl+V to paste your text on the desktop.",
  write: "Press Ctrl+V to paste your text on the desktop. Your browser doesn't let this page read your clipboard.",
  none: "Your browser blocks clipboard access because this page isn't using HTTPS. Press Ctrl+V to paste your text on the desktop. To copy text from the desktop, use this box.",
};

$("clipboard-panel").addEventListener("beforetoggle", async ({ newState }) => {
  if (newState !== "open") return;
  show($("clipboard-problem"), false);
  setText($("clipboard-note"), clipboard.canRead ? notes.full : clipboard.canWrite ? notes.write : notes.none);
  $("clipboard-sync").disabled = !clipboard.canRead;
  $("clipboard-sync").checked = clipboard.sync;
  edited = false;
  $("clipboard-text").value = clipboard.remote;
  try {
    const text = await clipboard.look();
    if (!edited) $("clipboard-text").value = text;
  } catch (error) {
    if (error.status === 403) return; // this viewer may only watch
    setText($("clipboard-problem"), inOneLine(error));
    show($("clipboard-problem"), true);
  }
});
$("clipboard-here").checked = clipboard.here;
$("clipboard-here").addEventListener("change", ({ target }) => clipboard.setHere(target.checked));
$("clipboard-sync").addEventListener("change", ({ target }) => clipboard.setSync(target.checked));
$("clipboard-send").addEventListener("click", () => {
  if (clipboard.send($("clipboard-text").value)) toast("Sent to the desktop's clipboard");
  $("clipboard-panel").hidePopover();
});
$("clipboard-type").addEventListener("click", () => {
  $("clipboard-panel").hidePopover();
  keys.type($("clipboard-text").value);
});
once($("clipboard-copy"), async () => {
  const done = await clipboard.write($("clipboard-text").value, true);
  if (done) toast("Copied");
  else $("clipboard-text").select();
});

// ---- the rest ----------------------------------------------------------------------

$("programs").addEventListener("click", () => {
  $("more-panel").hidePopover();
  $("programs-panel").showPopover({ source: $("more") });
});
const stopDialog = import("./stop.js").then(({ StopDialog }) => new StopDialog({ people, stop: () => session.stop() }));
$("stop").addEventListener("click", () => {
  $("more-panel").hidePopover();
  stopDialog.then((dialog) => dialog.open()).catch(trouble);
});
session.addEventListener("problem", ({ detail }) => { if (session.state.name === "live") trouble(detail); });

const examples = (secret) => {
  const header = secret ? ' -H "$H"' : "";
  return [
    `B=${urlOf("")}`,
    ...(secret ? [`H="Authorization: Bearer ${secret}"`] : []),
    `curl${header} $B/screenshot >a.png`,
    `curl${header} $B/mouse/click --json '{"x":200,"y":100}'`,
    `curl${header} $B/keyboard/type --json '{"text":"hello"}'`,
  ].join("\n");
};
$("examples").append(make("pre", { tabIndex: 0 }, examples(token() && "THE-TOKEN")), copyButton(() => examples(token()), write));

if (desktop !== "main") document.querySelector("h1 span").textContent = desktop;

// The token decides which panes there are.
session.addEventListener("state", async function open() {
  if (["loading", "locked"].includes(session.state.name)) return;
  session.removeEventListener("state", open);
  try {
    const [{ Layout }] = await Promise.all([import("./shell/layout.js"), learnScope()]);
    new Layout({ session, control, view, events, router, waiting });
    events.start();
  } catch (error) {
    trouble(error);
  }
});

if (elsewhere) toast("This page shows its own server only", { label: "Open the other server", act: () => { location.href = elsewhere; } }, 60000);

session.run();
