// Small helpers for the page's elements.

export const $ = (id) => document.getElementById(id);

/** make returns a new element with properties and children. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** icon returns an icon of the sprite in index.html. */
export function icon(name) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  const use = document.createElementNS(ns, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

/** setText changes a text only if it differs: a screen reader would repeat it. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** show shows an element, or hides it. */
export function show(element, visible) {
  element.hidden = !visible;
}

/** once disables a button until its action has ended. */
export function once(button, act) {
  button.addEventListener("click", async (event) => {
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    try {
      await act(event);
    } finally {
      button.removeAttribute("aria-busy");
    }
  });
}

/** sure calls act at the second press of a button. The first one shows question, until the button loses the focus. */
export function sure(button, question, act) {
  const label = button.textContent;
  const name = button.getAttribute("aria-label");
  let asked = false;
  const ask = (now) => {
    if (now === asked) return;
    asked = now;
    setText(button, now ? question : label);
    if (name) button.setAttribute("aria-label", now ? `${name}? Press again to confirm` : name);
    if (now) announce("Press again to confirm");
  };
  once(button, async () => {
    button.focus(); // some browsers do not focus a button that is clicked
    if (!asked) return ask(true);
    ask(false);
    await act(button);
  });
  button.addEventListener("blur", () => ask(false));
}

let announced = 0;

/** announce makes screen readers read a text. */
export function announce(text) {
  // Screen readers skip a text that is set together with another change.
  clearTimeout(announced);
  announced = setTimeout(() => setText($("announce"), text), 150);
}

let toastTimer = 0;

/** toast shows a text for some seconds, with an optional button: { label, act }. */
export function toast(text, action, time = 6000) {
  clearTimeout(toastTimer);
  const box = $("toast");
  const close = () => { box.hidden = true; };
  box.replaceChildren(make("p", {}, text));
  if (action) {
    const button = make("button", { type: "button" }, action.label);
    once(button, async () => { await action.act(); close(); });
    box.append(button);
  }
  const dismiss = make("button", { type: "button", className: "plain", onclick: close, "aria-label": "Dismiss" }, icon("close"));
  box.append(dismiss);
  box.hidden = false;
  toastTimer = setTimeout(close, action ? 2 * time : time);
}

/** notice shows a text until it is dismissed. */
export function notice(text) {
  const close = () => { $("notice").hidden = true; };
  $("notice").replaceChildren(icon("restart"), make("p", {}, text),
    make("button", { type: "button", className: "plain", onclick: close, "aria-label": "Dismiss" }, icon("close")));
  $("notice").hidden = false;
}

export const hideToast = () => { $("toast").hidden = true; };

/** copyButton returns a button that copies the result of text. write returns whether it succeeded. */
export function copyButton(text, write, label = "Copy") {
  const button = make("button", { type: "button", className: "small" }, label);
  once(button, async () => {
    button.textContent = (await write(text(), true)) ? "Copied" : "Can't copy";
    setTimeout(() => { button.textContent = label; }, 2000);
  });
  return button;
}

/** command returns a command line with a button that copies it. */
export const command = (text, write) => make("div", { className: "command" }, make("pre", { tabIndex: 0 }, text), copyButton(() => text, write));

// Panels are popovers; they open below their button, within the page, and get
// the focus. It goes back to the button when they close.
export function placePanels() {
  const sources = new Map();
  for (const panel of document.querySelectorAll("[popover]")) {
    panel.tabIndex = -1;
    panel.addEventListener("toggle", ({ newState, source }) => {
      const button = source ?? document.querySelector(`[popovertarget="${panel.id}"]`);
      button?.setAttribute("aria-expanded", newState === "open");
      sources.set(panel, button);
      if (newState !== "open") return;
      placePanel(panel, button);
      if (!panel.contains(document.activeElement)) panel.focus({ preventScroll: true });
    });
  }
  addEventListener("resize", () => {
    const panel = document.querySelector("[popover]:popover-open");
    if (panel) placePanel(panel, sources.get(panel));
  });
}

const gap = 8;

function placePanel(panel, button) {
  const at = (button?.offsetParent ? button : $("bar")).getBoundingClientRect();
  const side = (at.left + at.right) / 2 < innerWidth / 2 ? at.left : at.right - panel.offsetWidth;
  const left = Math.max(gap, Math.min(side, innerWidth - panel.offsetWidth - gap));
  const below = at.top < innerHeight / 2;
  panel.style.left = `${left}px`;
  panel.style.top = below ? `${at.bottom + gap}px` : "auto";
  panel.style.bottom = below ? "auto" : `${innerHeight - at.top + gap}px`;
  panel.style.maxHeight = `${(below ? innerHeight - at.bottom : at.top) - 2 * gap}px`;
}
