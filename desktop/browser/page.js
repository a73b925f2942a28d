// Runs in a world of its own in each frame, out of the page's reach. Elements have numbers, which
// are valid while the element lives.
(() => {
  const byNumber = new Map();
  const numbers = new WeakMap();
  const nonce = crypto.getRandomValues(new Uint32Array(2)).join("-");
  let last = 0;

  // The controls of a form, and the names in a document, hide members of the same name. So members
  // are taken from the prototype.
  const read = (o, name) => Reflect.get(Object.getPrototypeOf(o), name, o);
  const call = (o, name, ...args) => Reflect.apply(read(o, name), o, args);
  // In XHTML, tagName is in lower case and may have a prefix.
  const tag = (e) => e instanceof HTMLElement ? read(e, "localName").toUpperCase() : read(e, "tagName");
  const attribute = (e, name) => call(e, "getAttribute", name);

  const numberOf = (e) => {
    let n = numbers.get(e);
    if (!n) {
      n = ++last;
      numbers.set(e, n);
      byNumber.set(n, new WeakRef(e));
    }
    return n;
  };

  const get = (n) => {
    const e = byNumber.get(n)?.deref();
    return e && read(e, "isConnected") && read(e, "ownerDocument") === document ? e : null;
  };

  const inputRoles = {
    button: "button", submit: "button", reset: "button", image: "button", file: "button", checkbox: "checkbox", radio: "radio",
    range: "slider", number: "spinbutton", search: "searchbox", hidden: "",
  };
  const tagRoles = {
    __proto__: null, // a tag may have any name
    BUTTON: "button", SUMMARY: "button", TEXTAREA: "textbox", OPTION: "option", H1: "heading", H2: "heading", H3: "heading",
    H4: "heading", H5: "heading", H6: "heading", NAV: "navigation", MAIN: "main", DIALOG: "dialog", FORM: "form", TABLE: "table",
    TR: "row", TD: "cell", TH: "columnheader", UL: "list", OL: "list", LI: "listitem", PROGRESS: "progressbar", METER: "meter",
    VIDEO: "video", AUDIO: "audio", CANVAS: "canvas", IFRAME: "iframe", FIELDSET: "group", ARTICLE: "article", ASIDE: "complementary",
  };
  const named = new Set(["button", "cell", "checkbox", "columnheader", "gridcell", "heading", "link", "menuitem", "menuitemcheckbox",
    "menuitemradio", "option", "radio", "rowheader", "switch", "tab", "tooltip", "treeitem"]);
  const controls = new Set(["button", "checkbox", "combobox", "link", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio", "option",
    "radio", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem", "video", "audio", "iframe", "gridcell"]);
  const containers = new Set(["navigation", "main", "dialog", "alertdialog", "form", "table", "list", "group", "article", "complementary",
    "menu", "menubar", "tablist", "toolbar", "tree", "grid", "radiogroup", "listbox", "region", "banner", "contentinfo", "search", "row", "listitem"]);

  const editable = (e) => e !== null && read(e, "isContentEditable") === true;

  const roleOf = (e) => {
    const given = (attribute(e, "role") ?? "").trim().split(/\s+/)[0].toLowerCase();
    if (given === "none" || given === "presentation") return "";
    // ARIA's names are shorter, and text is no role of ARIA: texts have no number.
    if (/^[a-z-]{1,40}$/.test(given) && given !== "text") return given;
    switch (tag(e)) {
      case "A": case "AREA": return e.hasAttribute("href") ? "link" : "";
      case "INPUT": return e.hasAttribute("list") ? "combobox" : inputRoles[e.type] ?? "textbox";
      case "SELECT": return e.multiple || e.size > 1 ? "listbox" : "combobox";
      case "IMG": return e.getAttribute("alt") === "" ? "" : "img";
      case "svg": return e.hasAttribute("aria-label") ? "img" : "";
    }
    if (editable(e) && !editable(read(e, "parentElement"))) return "textbox";
    return tagRoles[tag(e)] ?? "";
  };

  const squeeze = (s, most) => {
    s = s.slice(0, 4 * most).replace(/\s+/g, " ").trim();
    return s.length > most ? s.slice(0, most) + "…" : s;
  };

  // content is the beginning of an element's text, whatever the size of the element.
  const content = (e, most) => {
    let text = "";
    const stack = [e];
    for (let visited = 0; stack.length && text.length < 2 * most && visited < 500; visited++) {
      const n = stack.pop();
      const type = read(n, "nodeType");
      if (type === 3) text += n.data.slice(0, 2 * most);
      else if (type === 1 && !["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE"].includes(tag(n)) && attribute(n, "aria-hidden") !== "true") {
        if (n !== e) text += attribute(n, "aria-label") ?? (tag(n) === "IMG" ? n.alt : "") ?? "";
        if (n !== e && !["SPAN", "B", "I"].includes(tag(n))) text += " ";
        let c = read(read(n, "shadowRoot") ?? n, "lastChild");
        for (let i = 0; c && i < 500; c = read(c, "previousSibling"), i++) stack.push(c);
      }
    }
    return squeeze(text, most);
  };

  const nameOf = (e, role) => {
    const most = 100;
    const by = attribute(e, "aria-labelledby");
    if (by) {
      const root = call(e, "getRootNode");
      const text = by.split(/\s+/).map((id) => call(root, "getElementById", id)).filter(Boolean).map((x) => content(x, most)).join(" ");
      if (text) return squeeze(text, most);
    }
    const label = attribute(e, "aria-label");
    if (label?.trim()) return squeeze(label, most);
    if (tag(e) === "INPUT" && ["button", "submit", "reset"].includes(e.type)) return squeeze(e.value || { submit: "Submit", reset: "Reset" }[e.type] || "", most);
    const labels = read(e, "labels");
    if (labels?.length) {
      const text = [...labels].map((l) => content(l, most)).join(" ");
      if (text) return squeeze(text, most);
    }
    for (const a of ["alt", "placeholder"]) if (attribute(e, a)?.trim()) return squeeze(attribute(e, a), most);
    if (named.has(role)) {
      const text = content(e, most);
      if (text) return text;
    }
    if (tag(e) === "FIELDSET") {
      const legend = e.querySelector(":scope > legend");
      if (legend) return content(legend, most);
    }
    return squeeze(attribute(e, "title") ?? (tag(e) === "IFRAME" ? e.name || e.src : "") ?? "", most);
  };

  const secret = (e) => tag(e) === "INPUT" && (e.type === "password" || getComputedStyle(e).webkitTextSecurity !== "none");

  const valueOf = (e, role) => {
    if (secret(e)) return e.value ? "•••" : "";
    if (tag(e) === "SELECT") return squeeze([...e.selectedOptions].slice(0, 10).map((o) => o.label).join(", "), 100);
    if (tag(e) === "INPUT" && e.type === "file") return squeeze([...e.files].slice(0, 10).map((f) => f.name).join(", "), 100);
    if (["textbox", "searchbox", "spinbutton", "slider", "combobox"].includes(role)) {
      return squeeze(String(read(e, "value") ?? (editable(e) ? content(e, 100) : attribute(e, "aria-valuetext") ?? "")), 100);
    }
    return "";
  };

  const statesOf = (e) => {
    const s = [];
    const on = (name) => attribute(e, name) === "true";
    if (read(call(e, "getRootNode"), "activeElement") === e && call(document, "hasFocus")) s.push("focused");
    if (read(e, "disabled") || on("aria-disabled")) s.push("disabled");
    if (read(e, "checked") || on("aria-checked")) s.push("checked");
    if (tag(e) === "OPTION" && e.selected || on("aria-selected")) s.push("selected");
    if (on("aria-pressed")) s.push("pressed");
    const expanded = attribute(e, "aria-expanded");
    if (expanded) s.push(expanded === "true" ? "expanded" : "collapsed");
    if (read(e, "required") || on("aria-required")) s.push("required");
    if (read(e, "readOnly") || on("aria-readonly")) s.push("readonly");
    return s;
  };

  const boxOf = (e) => {
    const r = call(e, "getBoundingClientRect");
    return [r.x, r.y, r.width, r.height];
  };

  const shown = ([x, y, w, h]) => w > 0 && h > 0 && x < innerWidth && y < innerHeight && x + w > 0 && y + h > 0;

  const children = (e) => {
    if (tag(e) === "SLOT") {
      const assigned = e.assignedNodes();
      if (assigned.length) return assigned;
    }
    return read(read(e, "shadowRoot") ?? e, "childNodes");
  };

  const describe = (e, role, depth) => ({
    n: numberOf(e), role: role || "generic", name: nameOf(e, role), value: valueOf(e, role), states: statesOf(e), box: boxOf(e), depth,
  });

  const inline = new Set(["B", "I", "EM", "STRONG", "SPAN", "CODE", "SMALL", "MARK", "SUB", "SUP", "U", "ABBR", "TIME", "FONT", "BR", "S", "Q", "CITE", "KBD", "VAR"]);

  // outline lists what a person sees: controls with numbers, headings, pictures and texts. It does
  // not recurse, because pages may be as deep as they like.
  const outline = ({ all, limit, ms, find }) => {
    const end = performance.now() + ms;
    const nodes = [];
    let visited = 0;
    let truncated = false;
    let failed = false; // an element could not be read
    const full = () => {
      if (nodes.length >= limit || (visited & 63) === 0 && performance.now() > end) truncated = true;
      return truncated;
    };
    const add = (node) => {
      if (full()) return;
      if (!find || (!find.role || node.role === find.role) && (!find.name || node.name === find.name)) nodes.push(node);
    };
    // A level is the nodes in an element. Its text is not listed yet.
    const levelOf = (e, depth) => ({ nodes: children(e)[Symbol.iterator](), depth, text: "", first: null });
    const append = (level, node, text) => {
      if (!level.text) level.first = node;
      if (level.text.length < 1000) level.text += text.slice(0, 1000);
    };
    const flush = (level) => {
      const s = squeeze(level.text, 300);
      level.text = "";
      if (!s || find) return;
      const range = call(document, "createRange");
      range.selectNode(level.first);
      const box = boxOf(range);
      if (all || shown(box)) add({ n: 0, role: "text", name: s, value: "", states: [], box, depth: level.depth });
    };
    const levels = [levelOf(document, 0)];
    // visit lists a node, and appends the level in it if that is to be listed.
    const visit = (c, level) => {
      const { depth } = level;
      const type = read(c, "nodeType");
      if (type === 3) return append(level, c, c.data);
      if (type !== 1 || ["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD"].includes(tag(c))) return;
      const role = roleOf(c);
      const has = (name) => call(c, "hasAttribute", name);
      const leaf = !read(c, "firstElementChild");
      if (!role && inline.has(tag(c)) && leaf && !c.shadowRoot && !c.onclick && !has("tabindex")) {
        return append(level, c, tag(c) === "BR" ? " " : c.textContent);
      }
      flush(level);
      if (attribute(c, "aria-hidden") === "true" && !call(c, "contains", read(document, "activeElement"))) return;
      if (!call(c, "checkVisibility", { visibilityProperty: true, opacityProperty: false })) {
        // Its descendants may be visible.
        if (getComputedStyle(c).display !== "none") levels.push(levelOf(c, depth));
        return;
      }
      const acts = controls.has(role) || has("onclick") || has("tabindex") && read(c, "tabIndex") >= 0;
      const keep = acts || role === "heading" || role === "img" || role === "canvas" || role === "progressbar" || role === "meter" || role === "alert" || role === "status";
      const holds = containers.has(role) && (role !== "row" && role !== "listitem" && role !== "list" && role !== "table" && role !== "group" && role !== "form" || has("aria-label"));
      let inside = depth;
      if (keep || holds) {
        const node = describe(c, role, depth);
        if (keep && role !== "option" || role === "option" && !call(c, "matches", "select > *") || holds) {
          if (all || shown(node.box) || holds && !leaf) {
            if (keep || node.name || role === "dialog" || role === "main" || role === "navigation") {
              add(node);
              inside++;
            }
          }
        }
        if (["SELECT", "TEXTAREA", "INPUT", "IFRAME"].includes(tag(c)) || named.has(role) && leaf) return;
        if (named.has(role) && role !== "cell" && role !== "gridcell" && !read(c, "shadowRoot")
          && !call(c, "querySelector", "a,button,input,select,textarea,[role],[tabindex]")) return;
      }
      levels.push(levelOf(c, inside));
    };
    while (levels.length && !truncated) {
      const level = levels.at(-1);
      const { value: node, done } = level.nodes.next();
      if (done) levels.pop();
      else visited++;
      try {
        if (done) flush(level);
        else if (!full()) visit(node, level);
      } catch {
        failed = true;
      }
    }
    return { nonce, nodes, truncated: truncated || failed, visited, origin: origin() };
  };

  // origin is where the page is on the screen, as far as a page knows it.
  const origin = () => {
    const zoom = devicePixelRatio;
    return {
      x: screenX + (outerWidth - innerWidth * zoom) / 2, y: screenY + outerHeight - innerHeight * zoom, zoom,
      key: [screenX, screenY, outerWidth, outerHeight, innerWidth, innerHeight, zoom].join(),
      visible: read(document, "visibilityState") === "visible",
    };
  };

  const query = (selector) => {
    let e;
    try {
      e = call(document, "querySelector", selector);
    } catch {
      return { error: "selector" };
    }
    return e ? { nonce, node: describe(e, roleOf(e), 0) } : { error: "none" };
  };

  const frame = () => new Promise((resolve) => {
    const timer = setTimeout(resolve, 100); // a hidden page has no frames
    requestAnimationFrame(() => { clearTimeout(timer); resolve(); });
  });

  // label names an element in errors, which events have as well: without the text of an editor.
  const label = (e) => {
    const role = roleOf(e);
    const name = editable(e) ? "" : nameOf(e, role) || content(e, 40);
    return (role || squeeze(tag(e).toLowerCase(), 40)) + (name && " " + JSON.stringify(name));
  };

  // clicks reports whether a click on the element top is one on e.
  const clicks = (e, top) => {
    for (let up = top; up; up = read(up, "assignedSlot") ?? read(up, "parentNode") ?? read(up, "host")) if (up === e) return true;
    if (call(e, "contains", top) || call(top, "contains", e) && getComputedStyle(e).pointerEvents === "none") return true;
    // A label passes clicks on, unless they are on a control in it.
    const control = call(top, "closest", "a[href],button,input,select,textarea,[tabindex]");
    for (const l of read(e, "labels") ?? []) if (l.contains(top) && (!control || control === l || !l.contains(control))) return true;
    return false;
  };

  const covering = (e, x, y) => {
    let top = null;
    let inner = call(document, "elementFromPoint", x, y);
    while (inner && inner !== top) {
      top = inner;
      inner = read(top, "shadowRoot")?.elementFromPoint(x, y);
    }
    if (!top) return "nothing";
    return clicks(e, top) ? "" : label(top);
  };

  // aim scrolls an element into view, waits until it rests, is enabled and uncovered, and returns
  // its middle and the size of the viewport.
  const aim = async (n, ms) => {
    const end = performance.now() + ms;
    let why = "stale";
    // The frame itself may be outside of the window.
    const inFrame = parent !== window && get(n);
    if (inFrame) call(inFrame, "scrollIntoView", { block: "nearest", inline: "nearest", behavior: "instant" });
    for (let before = ""; ;) {
      const e = get(n);
      if (!e) return { error: "stale" };
      const box = boxOf(e);
      const [x, y, w, h] = box;
      const cx = x + w / 2, cy = y + h / 2;
      if (w <= 0 || h <= 0 || !call(e, "checkVisibility", { visibilityProperty: true })) why = "hidden";
      else if (cx < 0 || cy < 0 || cx >= innerWidth || cy >= innerHeight) {
        call(e, "scrollIntoView", { block: "center", inline: "center", behavior: "instant" });
        why = "outside";
      } else if (box.join() !== before) why = "moving";
      else if (read(e, "disabled") || attribute(e, "aria-disabled") === "true") why = "disabled";
      else {
        why = covering(e, cx, cy);
        if (!why) return { x: cx, y: cy, width: innerWidth, height: innerHeight };
        why = "covered by " + why;
      }
      if (performance.now() > end) return { error: why };
      before = box.join();
      await frame();
    }
  };

  // still says whether an element is where aim found it: what a page shows under the pointer may
  // cover it, or move it.
  const still = (n, x, y) => {
    const e = get(n);
    if (!e) return { error: "stale" };
    const [left, top, w, h] = boxOf(e);
    if (Math.abs(left + w / 2 - x) > 1 || Math.abs(top + h / 2 - y) > 1) return { error: "moving" };
    const why = covering(e, x, y);
    return why ? { error: "covered by " + why } : {};
  };

  // next resolves with what take returns for an event of a person, unless that is undefined. There are
  // several names, as a page may keep some events from others. The next call ends the wait.
  let waiting = new AbortController();
  const next = (names, take) => {
    waiting.abort();
    const wait = waiting = new AbortController();
    return new Promise((resolve) => {
      const listener = (event) => {
        const taken = event.isTrusted ? take(call(event, "composedPath"), event.type) : undefined;
        if (taken === undefined) return;
        wait.abort();
        resolve(taken);
      };
      for (const name of names) addEventListener(name, listener, { capture: true, signal: wait.signal });
    });
  };

  // hover resolves hovering with where the pointer next moves, and pressing with "" after as many
  // presses of a button, or with what gets one of them in place of the element.
  let hovering = null, pressing = null, presses = 0, wanted = 0;
  const hover = (n, count) => {
    const e = get(n);
    if (!e) return { error: "stale" };
    hovering = new Promise((resolve) => {
      addEventListener("mousemove", (m) => resolve(m.isTrusted ? { x: m.clientX, y: m.clientY } : null), { capture: true, once: true });
      setTimeout(() => resolve(null), 1000);
    });
    presses = 0;
    wanted = count;
    const was = label(e);
    const seen = { pointerdown: 0, mousedown: 0, mouseup: 0 };
    pressing = next(Object.keys(seen), ([top], type) => {
      presses = Math.max(presses, ++seen[type]);
      // The first click may have the page draw the same element anew.
      const again = presses > 1 && !read(e, "isConnected") && label(top) === was;
      if (!again && !clicks(e, top)) return label(top);
      return presses < count ? undefined : "";
    });
    return {};
  };
  const hovered = () => hovering;
  const pressed = async () => {
    const top = await pressing;
    return top ? { error: `covered by ${top}, which got ${presses > 1 ? `click ${presses}` : "the click"}` } : {};
  };
  const lost = () => {
    if (presses >= wanted) return {};
    return { error: presses ? `out of reach: the page got ${presses} of ${wanted} clicks` : "out of reach: the page got no click" };
  };

  const hasFocus = () => call(document, "hasFocus");
  // shows says how likely a person is to look at the page: 3 if it has the focus, 0 if it is hidden.
  const shows = () => (read(document, "visibilityState") === "visible" ? 1 : 0) + (hasFocus() ? 2 : 0);

  const active = (e) => {
    const a = read(call(e, "getRootNode"), "activeElement");
    return a === e || a !== null && call(e, "contains", a);
  };

  // A call has a time, in milliseconds of Date, after which it must change nothing: a page that
  // hangs gets it late, when another person may have control.
  const late = { error: "late" };
  const isLate = (by) => Date.now() > by;

  // focus gives an element the focus. It resolves typing when the element gets a key.
  let typing = null;
  const focus = (n, by) => {
    const e = get(n);
    if (!e) return { error: "stale" };
    if (isLate(by)) return late;
    call(e, "scrollIntoView", { block: "nearest", behavior: "instant" });
    call(e, "focus");
    typing = next(["keydown", "keypress", "keyup"], (path) => path.includes(e) || undefined);
    return {};
  };
  const focused = (n) => {
    const e = get(n);
    if (!e) return { error: "stale" };
    return hasFocus() && active(e) ? {} : { error: "without the focus, which another element has or takes" };
  };
  // typed resolves with whether the element got the key.
  const typed = async () => {
    const late = new Promise((resolve) => setTimeout(() => resolve(false), 1000));
    return { heard: await Promise.race([typing, late]) };
  };

  const changed = (e) => {
    e.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    e.dispatchEvent(new Event("change", { bubbles: true }));
  };

  // guard keeps a text out that is inserted late, or elsewhere than in an element. The result of
  // inserted says so, also if this page did not get the text.
  let guarding = new AbortController(), kept = {};
  const guard = (e, text, by) => {
    guarding.abort();
    guarding = new AbortController();
    kept = { error: "without the text, which another frame may have got" };
    addEventListener("beforeinput", (event) => {
      if (!event.isTrusted || event.inputType !== "insertText" || event.data !== text) return;
      guarding.abort();
      if (isLate(by)) {
        event.preventDefault();
        kept = late;
      } else if (!call(event, "composedPath").includes(e)) {
        event.preventDefault();
        kept = { error: "without the focus, which another element takes" };
      } else kept = {};
    }, { capture: true, signal: guarding.signal });
  };
  const inserted = () => kept;

  // fill replaces the text of a field. It returns insert if the text is still to be inserted, where
  // the focus is: editors of pages handle that as a person's input.
  const fill = (n, text, secret, by) => {
    const e = get(n);
    if (!e) return { error: "stale" };
    if (isLate(by)) return late;
    if (read(e, "disabled")) return { error: "disabled" };
    if (read(e, "readOnly")) return { error: "read-only" };
    call(e, "scrollIntoView", { block: "nearest", behavior: "instant" });
    call(e, "focus");
    if (isLate(by)) return late; // the page may have taken its time for the focus
    if (tag(e) === "INPUT" && ["color", "date", "time", "datetime-local", "month", "range", "week"].includes(e.type)) {
      const before = e.value;
      e.value = text;
      // The browser writes some values in another way.
      if (![text.toLowerCase(), text.replace(/:00$/, "")].includes(e.value) && Number(e.value) !== Number(text)) {
        e.value = before;
        return { error: `not a field for that value: its type is ${e.type}` };
      }
      changed(e);
      return {};
    }
    if (tag(e) === "INPUT" && ["checkbox", "radio", "file", "button", "submit", "reset", "image", "hidden"].includes(e.type)) return { error: "not a text field" };
    if (!active(e)) return { error: "without the focus, which another element takes" };
    const field = tag(e) === "INPUT" || tag(e) === "TEXTAREA";
    if (field) {
      const most = read(e, "maxLength");
      if (most >= 0 && e.type !== "number" && text.length > most) return { error: `a field for at most ${most} characters` };
      e.select();
    } else if (editable(e)) getSelection().selectAllChildren(e);
    else return { error: "not a text field" };
    if (!field && !secret && text !== "") {
      guard(e, text, by);
      return { insert: true };
    }
    // The same task gives the focus and the text, so no other page can take the focus between.
    const done = call(document, "execCommand", text === "" ? "delete" : "insertText", false, text);
    if (field && text !== "" && read(e, "value") === "") return { error: "without the text: it takes no such value, or the page removes it" };
    return done || text === "" ? {} : { error: "not ready for text" };
  };

  const select = (n, values, by) => {
    const e = get(n);
    if (!e) return { error: "stale" };
    if (isLate(by)) return late;
    if (tag(e) !== "SELECT") return { error: "not a list to select from" };
    if (e.disabled) return { error: "disabled" };
    const wanted = [];
    for (const v of values) {
      const o = [...e.options].find((o) => o.value === v || o.label === v || squeeze(o.text, 1000) === v);
      if (!o) return { error: `no option for values[${values.indexOf(v)}]` };
      if (call(o, "matches", ":disabled")) return { error: `an option that is disabled for values[${values.indexOf(v)}]` };
      wanted.push(o);
    }
    if (!e.multiple && wanted.length > 1) return { error: "one option can be selected" };
    e.focus();
    if (isLate(by)) return late; // as in fill
    for (const o of e.options) o.selected = wanted.includes(o);
    changed(e);
    return { values: wanted.map((o) => o.value) };
  };

  const innerText = () => read(document, "body")?.innerText ?? "";

  const text = (most) => {
    const all = innerText();
    return { text: all.slice(0, most), truncated: all.length > most };
  };

  const has = (selector, words) => {
    if (selector) {
      let e;
      try {
        e = call(document, "querySelector", selector);
      } catch {
        return { error: "selector" };
      }
      if (!e || !call(e, "checkVisibility", { visibilityProperty: true })) return { found: false };
    }
    return { found: !words || innerText().includes(words) };
  };

  return { nonce, outline, query, aim, still, hover, hovered, pressed, lost, focus, focused, typed, hasFocus, shows, fill, inserted, select, text, has, get, label, origin, find: outline };
})()
