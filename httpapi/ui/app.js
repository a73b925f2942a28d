// The page shows one desktop, main, and acts on it with the public API alone.

const api = "/v1/desktop";
const $ = (id) => document.getElementById(id);

// ---- token -------------------------------------------------------------

// The URL that the server printed has the token. It is kept for this tab and
// taken out of the address bar, the history and what a reload would send.
function takeToken() {
  const url = new URL(location.href);
  const fragment = new URLSearchParams(url.hash.slice(1));
  const given = url.searchParams.get("token") || fragment.get("token");
  if (!given) return;
  sessionStorage.setItem("token", given);
  url.searchParams.delete("token");
  fragment.delete("token");
  url.hash = fragment.toString();
  history.replaceState(null, "", url);
}

takeToken();
const token = () => sessionStorage.getItem("token") ?? "";

// ---- calls -------------------------------------------------------------

class Problem extends Error {
  constructor(status, title, detail) {
    super(detail || title);
    this.status = status;
    this.title = title;
  }
}

async function request(method, path, { body, headers = {}, signal } = {}) {
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method, headers, signal, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer.", "It may have been stopped; this page tries again by itself.");
  }
  if (response.ok || response.status === 304) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Problem(response.status, problem.title ?? response.statusText, problem.detail);
}

const get = async (path) => (await request("GET", api + path)).json();
const post = async (path, body) => (await request("POST", api + path, { body })).json();

// ---- problems ----------------------------------------------------------

function show(problem) {
  if (problem.name === "AbortError") return;
  if (problem.status === 401) return askForToken();
  $("problem-title").textContent = problem.title ?? "Something went wrong.";
  $("problem-detail").textContent = problem.message === problem.title ? "" : problem.message;
  $("problem").hidden = false;
}

const clear = () => { $("problem").hidden = true; };
$("problem-close").onclick = clear;

function askForToken() {
  $("login").hidden = false;
  document.querySelector("main").hidden = true;
  setState("locked", "token needed");
  $("stop").hidden = true;
}

$("login").onsubmit = (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value.trim());
  $("token").value = "";
  $("login").hidden = true;
  refresh();
};

// ---- status ------------------------------------------------------------

let state = "";

function setState(value, text = value.replace("_", " ")) {
  if (value !== state) {
    state = value;
    $("state").dataset.state = value;
    $("state").textContent = text;
    if (value === "active") follow();
  }
}

function facts(status) {
  if (!status.display) return "";
  const { width, height } = status.resolution;
  return `${width} × ${height} on display ${status.display}`;
}

const offTexts = {
  inactive: ["The desktop is off", "Start it to see its screen here."],
  starting: ["The desktop is starting", "This takes a second or so."],
  stopping: ["The desktop is stopping", "All its programs are being ended."],
  install_required: ["Programs are missing", ""],
  failed: ["The desktop has failed", ""],
};

function render(status) {
  document.querySelector("main").hidden = false;
  $("login").hidden = true;
  setState(status.state);
  $("facts").textContent = facts(status);
  const off = status.state !== "active";
  const startable = ["inactive", "failed"].includes(status.state) && !status.display;
  $("off-start").hidden = !startable;
  $("stop").hidden = status.state !== "active" && !(status.state === "failed" && status.display);
  $("off").hidden = !off || !$("screen").hidden && status.state === "failed";
  if (off && !status.display) $("screen").hidden = true;
  $("screen").classList.toggle("stale", off);
  $("typing").hidden = $("windows-section").hidden = off;
  const [title, text] = offTexts[status.state] ?? [status.state, ""];
  $("off-title").textContent = title;
  $("off-text").textContent = status.lastError?.message
    ?? (status.missingDependencies.length ? `Not installed: ${status.missingDependencies.join(", ")}. Run this where the server runs:` : text);
  $("off-command").hidden = !status.installCommand;
  $("off-command").textContent = status.installCommand ?? "";
  renderWindows(status.windows ?? []);
}

function renderWindows(windows) {
  const key = JSON.stringify(windows.map((w) => [w.id, w.title, w.isActive]));
  if ($("windows").dataset.key === key) return; // do not take the focus away
  $("windows").dataset.key = key;
  $("windows").replaceChildren(...windows.map((w) => {
    const item = document.createElement("li");
    const name = Object.assign(document.createElement("button"), { className: "name", textContent: w.title || w.class || w.id, title: w.title });
    name.setAttribute("aria-current", w.isActive);
    name.onclick = () => act(`/windows/${w.id}/focus`);
    const close = Object.assign(document.createElement("button"), { className: "close", textContent: "✕" });
    close.setAttribute("aria-label", `Close ${w.title}`);
    close.onclick = () => act(`/windows/${w.id}/close`);
    item.append(name, close);
    return item;
  }));
  if (windows.length === 0) {
    const empty = Object.assign(document.createElement("li"), { className: "empty", textContent: "None yet. Launch a program:" });
    $("windows").append(empty);
  }
}

let statusTimer;

async function refresh() {
  clearTimeout(statusTimer);
  if (document.hidden) return;
  try {
    render(await get("/status"));
    if ($("problem").dataset.lost) clear();
    delete $("problem").dataset.lost;
  } catch (problem) {
    if (problem.status === 0) {
      setState("unreachable");
      $("screen").classList.add("stale");
      $("problem").dataset.lost = "1";
    }
    show(problem);
    if (problem.status === 401) return;
  }
  clearTimeout(statusTimer);
  statusTimer = setTimeout(refresh, 2000);
}

async function change(path) {
  for (const id of ["stop", "off-start"]) $(id).disabled = true;
  setState(path === "/start" ? "starting" : "stopping");
  try {
    clear();
    const outcome = post(path, {});
    refresh();
    render(await outcome);
  } catch (problem) {
    show(problem);
  }
  for (const id of ["stop", "off-start"]) $(id).disabled = false;
  refresh();
}

$("off-start").onclick = () => change("/start");
$("stop").onclick = () => change("/stop");

// ---- picture -----------------------------------------------------------

let observation = "";
let pictureURL = "";
let following = false;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// follow shows the newest picture until the desktop is off or the page is out
// of sight. A picture that is the same as the last is not sent again.
async function follow() {
  if (following) return;
  following = true;
  while (state === "active" && !document.hidden) {
    try {
      const headers = observation ? { "If-None-Match": `"${observation}"` } : {};
      const response = await request("GET", `${api}/screenshot`, { headers });
      if (response.status === 200) await display(response);
      await pause(response.status === 200 ? 60 : 200);
    } catch (problem) {
      if (problem.status !== 409 && problem.status !== 503) show(problem);
      await pause(1000);
    }
  }
  following = false;
}

async function display(response) {
  const next = URL.createObjectURL(await response.blob());
  const image = $("screen");
  image.src = next;
  await image.decode().catch(() => {});
  URL.revokeObjectURL(pictureURL);
  pictureURL = next;
  observation = response.headers.get("Deskhand-Observation");
  image.hidden = false;
  $("off").hidden = true;
}

// ---- input -------------------------------------------------------------

let queue = Promise.resolve();

// act sends one input after the other, in order.
function act(path, body) {
  queue = queue.then(() => post(path, body)).then(clear, show);
  return queue;
}

// place is where on the picture a mouse event was, with the picture that the
// user saw then: the server maps it to the screen.
function place(event) {
  const image = $("screen");
  const box = image.getBoundingClientRect();
  const within = (v, size, natural) => Math.min(natural - 1, Math.max(0, Math.floor((v / size) * natural)));
  return {
    x: within(event.clientX - box.left, box.width, image.naturalWidth),
    y: within(event.clientY - box.top, box.height, image.naturalHeight),
  };
}

const modifiersOf = (event) =>
  [["ctrlKey", "ctrl"], ["shiftKey", "shift"], ["altKey", "alt"], ["metaKey", "super"]].filter(([k]) => event[k]).map(([, name]) => name);

let pressed = null;

$("screen").onpointerdown = (event) => {
  event.preventDefault();
  $("screen").focus();
  $("screen").setPointerCapture(event.pointerId);
  pressed = { at: place(event), observation, button: ["left", "middle", "right"][event.button] ?? "left" };
};

$("screen").onpointerup = (event) => {
  if (!pressed) return;
  const { at, observation: seen, button } = pressed;
  const to = place(event);
  const common = { button, observation: seen, modifiers: modifiersOf(event) };
  pressed = null;
  if (Math.hypot(to.x - at.x, to.y - at.y) < 5) act("/mouse/click", { ...at, ...common });
  else act("/mouse/drag", { startX: at.x, startY: at.y, endX: to.x, endY: to.y, ...common });
};

$("screen").onpointercancel = () => { pressed = null; };
$("screen").oncontextmenu = (event) => event.preventDefault();

// A wheel's pixels are added up: the API counts clicks.
const wheel = { x: 0, y: 0 };
const clickPixels = 100;

$("screen").addEventListener("wheel", (event) => {
  event.preventDefault();
  const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : clickPixels / 3;
  wheel.x += event.deltaX * unit;
  wheel.y += event.deltaY * unit;
  const deltaX = Math.trunc(wheel.x / clickPixels);
  const deltaY = Math.trunc(wheel.y / clickPixels);
  if (!deltaX && !deltaY) return;
  wheel.x -= deltaX * clickPixels;
  wheel.y -= deltaY * clickPixels;
  act("/mouse/scroll", { ...place(event), deltaX, deltaY, observation });
}, { passive: false });

// Keys go to the desktop while the picture has the focus. Tab stays with the
// page, so that the keyboard gets out again; it has a button.
$("screen").onkeydown = (event) => {
  if (event.isComposing || event.key === "Tab" || ["Shift", "Control", "Alt", "Meta", "Dead"].includes(event.key)) return;
  event.preventDefault();
  const plain = [...event.key].length === 1 && !event.ctrlKey && !event.altKey && !event.metaKey;
  if (plain) return type(event.key);
  const modifiers = { ctrl: event.ctrlKey, shift: event.shiftKey, alt: event.altKey, cmd: event.metaKey };
  act("/keyboard/press", { key: event.key, modifiers });
};

// What is typed while a call is under way goes with the next one.
let pending = "";

function type(text) {
  pending += text;
  queue = queue.then(() => {
    const all = pending;
    pending = "";
    return all && post("/keyboard/type", { text: all, delayMs: 0 });
  }).then(clear, show);
}

$("text").onkeydown = (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if ($("text").value) type($("text").value);
  else act("/keyboard/press", { key: "Return" });
  $("text").value = "";
};

for (const button of document.querySelectorAll("[data-key]")) {
  button.onclick = () => act("/keyboard/press", { key: button.dataset.key });
}

$("launch").onsubmit = async (event) => {
  event.preventDefault();
  const app = $("app").value.trim() || $("app").placeholder;
  await act("/launch", { app, wait: true });
  refresh();
};

// ---- examples ----------------------------------------------------------

function examples(secret) {
  const header = secret ? ' -H "$H"' : "";
  return [
    `B=${location.origin}${api}`,
    ...(secret ? [`H="Authorization: Bearer ${secret}"`] : []),
    `curl${header} $B/screenshot >a.png`,
    `curl${header} $B/mouse/click \\\n  --json '{"x":200,"y":100}'`,
    `curl${header} $B/keyboard/type \\\n  --json '{"text":"hello"}'`,
  ].join("\n");
}

$("curl").textContent = examples(token() && "THE-TOKEN");
$("copy").onclick = async () => {
  try {
    await navigator.clipboard.writeText(examples(token()));
    $("copy").textContent = "Copied";
  } catch {
    $("copy").textContent = "Not allowed";
  }
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
};

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  refresh();
  if (state === "active") follow();
});

refresh();
