// Runs in a world of its own in each frame, out of the page's reach. Elements have numbers, which
// are valid while the element lives.
(() => {
  const byNumber = new Map();
  const numbers = new WeakMap();
  const nonce = crypto.getRandomValues(new Uint32Array(2)).join("-");
  let last = 0;

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
    return e?.isConnected ? e : null;
  };

  const inputRoles = {
    button: "button", submit: "button", reset: "button", image: "button", file: "button", checkbox: "checkbox", radio: "radio",
    range: "slider", number: "spinbutton", search: "searchbox", hidden: "",
  };
  const tagRoles = {
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

  const roleOf = (e) => {
    const given = (e.getAttribute("role") ?? "").trim().split(/\s+/)[0];
    if (given) return given === "none" || given === "presentation" ? "" : given.slice(0, 40).toLowerCase(); // ARIA's names are shorter
    switch (e.tagName) {
      case "A": case "AREA": return e.hasAttribute("href") ? "link" : "";
      case "INPUT": return e.hasAttribute("list") ? "combobox" : inputRoles[e.type] ?? "textbox";
      case "SELECT": return e.multiple || e.size > 1 ? "listbox" : "combobox";
      case "IMG": return e.getAttribute("alt") === "" ? "" : "img";
      case "svg": return e.hasAttribute("aria-label") ? "img" : "";
    }
    if (e.isContentEditable && !e.parentElement?.isContentEditable) return "textbox";
    return tagRoles[e.tagName] ?? "";
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
      if (n.nodeType === 3) text += n.data.slice(0, 2 * most);
      else if (n.nodeType === 1 && !["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE"].includes(n.tagName) && n.getAttribute("aria-hidden") !== "true") {
        if (n !== e) text += n.getAttribute("aria-label") ?? (n.tagName === "IMG" ? n.alt : "") ?? "";
        if (n !== e && n.tagName !== "SPAN" && n.tagName !== "B" && n.tagName !== "I") text += " ";
        for (let c = (n.shadowRoot ?? n).lastChild, i = 0; c && i < 500; c = c.previousSibling, i++) stack.push(c);
      }
    }
    return squeeze(text, most);
  };

  const nameOf = (e, role) => {
    const most = 100;
    const by = e.getAttribute("aria-labelledby");
    if (by) {
      const text = by.split(/\s+/).map((id) => e.getRootNode().getElementById?.(id)).filter(Boolean).map((x) => content(x, most)).join(" ");
      if (text) return squeeze(text, most);
    }
    const label = e.getAttribute("aria-label");
    if (label?.trim()) return squeeze(label, most);
    if (e.tagName === "INPUT" && ["button", "submit", "reset"].includes(e.type)) return squeeze(e.value || { submit: "Submit", reset: "Reset" }[e.type] || "", most);
    if (e.labels?.length) {
      const text = [...e.labels].map((l) => content(l, most)).join(" ");
      if (text) return squeeze(text, most);
    }
    for (const a of ["alt", "placeholder"]) if (e.getAttribute(a)?.trim()) return squeeze(e.getAttribute(a), most);
    if (named.has(role)) {
      const text = content(e, most);
      if (text) return text;
    }
    if (e.tagName === "FIELDSET") {
      const legend = e.querySelector(":scope > legend");
      if (legend) return content(legend, most);
    }
    return squeeze(e.getAttribute("title") ?? (e.tagName === "IFRAME" ? e.name || e.src : "") ?? "", most);
  };

  const secret = (e) => e.tagName === "INPUT" && e.type === "password";

  const valueOf = (e, role) => {
    if (secret(e)) return e.value ? "•••" : "";
    if (e.tagName === "SELECT") return squeeze([...e.selectedOptions].slice(0, 10).map((o) => o.label).join(", "), 100);
    if (e.tagName === "INPUT" && e.type === "file") return squeeze([...e.files].slice(0, 10).map((f) => f.name).join(", "), 100);
    if (["textbox", "searchbox", "spinbutton", "slider", "combobox"].includes(role)) {
      return squeeze(String(e.value ?? (e.isContentEditable ? content(e, 100) : e.getAttribute("aria-valuetext") ?? "")), 100);
    }
    return "";
  };

  const statesOf = (e) => {
    const s = [];
    const on = (name) => e.getAttribute(name) === "true";
    if (e.getRootNode().activeElement === e && document.hasFocus()) s.push("focused");
    if (e.disabled || on("aria-disabled")) s.push("disabled");
    if (e.checked || on("aria-checked")) s.push("checked");
    if (e.selected && e.tagName === "OPTION" || on("aria-selected")) s.push("selected");
    if (on("aria-pressed")) s.push("pressed");
    const expanded = e.getAttribute("aria-expanded");
    if (expanded) s.push(expanded === "true" ? "expanded" : "collapsed");
    if (e.required || on("aria-required")) s.push("required");
    if (e.readOnly || on("aria-readonly")) s.push("readonly");
    return s;
  };

  const boxOf = (e) => {
    const r = e.getBoundingClientRect();
    return [r.x, r.y, r.width, r.height];
  };

  const shown = ([x, y, w, h]) => w > 0 && h > 0 && x < innerWidth && y < innerHeight && x + w > 0 && y + h > 0;

  const children = (e) => {
    if (e.tagName === "SLOT") {
      const assigned = e.assignedNodes();
      if (assigned.length) return assigned;
    }
    return (e.shadowRoot ?? e).childNodes;
  };

  const describe = (e, role, depth) => ({
    n: numberOf(e), role: role || "generic", name: nameOf(e, role), value: valueOf(e, role), states: statesOf(e), box: boxOf(e), depth,
  });

  const inline = new Set(["B", "I", "EM", "STRONG", "SPAN", "CODE", "SMALL", "MARK", "SUB", "SUP", "U", "ABBR", "TIME", "FONT", "BR", "S", "Q", "CITE", "KBD", "VAR"]);

  // outline lists what a person sees: controls with numbers, headings, pictures and texts.
  const outline = ({ all, limit, ms, find }) => {
    const end = performance.now() + ms;
    const nodes = [];
    let visited = 0;
    let truncated = false;
    const full = () => {
      if (nodes.length >= limit || (visited & 63) === 0 && performance.now() > end) truncated = true;
      return truncated;
    };
    const add = (node) => {
      if (full()) return;
      if (!find || (!find.role || node.role === find.role) && (!find.name || node.name === find.name)) nodes.push(node);
    };
    const walk = (parent, depth) => {
      let text = "";
      let first = null;
      const flush = () => {
        const s = squeeze(text, 300);
        text = "";
        if (!s || find) return;
        const range = document.createRange();
        range.selectNode(first);
        const r = range.getBoundingClientRect();
        const box = [r.x, r.y, r.width, r.height];
        if (all || shown(box)) add({ n: 0, role: "text", name: s, value: "", states: [], box, depth });
      };
      for (const c of children(parent)) {
        visited++;
        if (full()) return;
        if (c.nodeType === 3) {
          if (!text) first = c;
          if (text.length < 1000) text += c.data.slice(0, 1000);
          continue;
        }
        if (c.nodeType !== 1 || ["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD"].includes(c.tagName)) continue;
        const role = roleOf(c);
        if (!role && inline.has(c.tagName) && !c.firstElementChild && !c.shadowRoot && !c.onclick && !c.hasAttribute("tabindex")) {
          if (!text) first = c;
          if (text.length < 1000) text += c.tagName === "BR" ? " " : c.textContent.slice(0, 1000);
          continue;
        }
        flush();
        if (c.getAttribute("aria-hidden") === "true" && !c.contains(document.activeElement)) continue;
        if (!c.checkVisibility({ visibilityProperty: true, opacityProperty: false })) {
          // Its descendants may be visible.
          if (getComputedStyle(c).display !== "none") walk(c, depth);
          continue;
        }
        const acts = controls.has(role) || c.hasAttribute("onclick") || c.tabIndex >= 0 && c.hasAttribute("tabindex");
        const keep = acts || role === "heading" || role === "img" || role === "canvas" || role === "progressbar" || role === "meter" || role === "alert" || role === "status";
        const holds = containers.has(role) && (role !== "row" && role !== "listitem" && role !== "list" && role !== "table" && role !== "group" && role !== "form" || c.hasAttribute("aria-label"));
        let inside = depth;
        if (keep || holds) {
          const node = describe(c, role, depth);
          if (keep && role !== "option" || role === "option" && c.parentElement?.tagName !== "SELECT" || holds) {
            if (all || shown(node.box) || holds && c.childElementCount) {
              if (keep || node.name || role === "dialog" || role === "main" || role === "navigation") {
                add(node);
                inside++;
              }
            }
          }
          if (c.tagName === "SELECT" || c.tagName === "TEXTAREA" || c.tagName === "INPUT" || c.tagName === "IFRAME" || named.has(role) && !c.firstElementChild) continue;
          if (named.has(role) && role !== "cell" && role !== "gridcell" && !c.querySelector("a,button,input,select,textarea,[role],[tabindex]") && !c.shadowRoot) continue;
        }
        walk(c, inside);
      }
      flush();
    };
    if (document.documentElement) walk(document, 0);
    return { nonce, nodes, truncated, visited, origin: origin() };
  };

  // origin is where the page is on the screen, as far as a page knows it.
  const origin = () => {
    const zoom = devicePixelRatio;
    return {
      x: screenX + (outerWidth - innerWidth * zoom) / 2, y: screenY + outerHeight - innerHeight * zoom, zoom,
      key: [screenX, screenY, outerWidth, outerHeight, innerWidth, innerHeight, zoom].join(),
      visible: document.visibilityState === "visible",
    };
  };

  const query = (selector) => {
    let e;
    try {
      e = document.querySelector(selector);
    } catch {
      return { error: "selector" };
    }
    return e ? { nonce, node: describe(e, roleOf(e), 0) } : { error: "none" };
  };

  const frame = () => new Promise((resolve) => {
    const timer = setTimeout(resolve, 100); // a hidden page has no frames
    requestAnimationFrame(() => { clearTimeout(timer); resolve(); });
  });

  const covering = (e, x, y) => {
    let top = document.elementFromPoint(x, y);
    while (top?.shadowRoot) {
      const inner = top.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === top) break;
      top = inner;
    }
    if (!top) return "nothing";
    for (let up = top; up; up = up.assignedSlot ?? up.parentNode ?? up.host) if (up === e) return "";
    if (e.contains(top) || top.contains(e) && getComputedStyle(e).pointerEvents === "none") return "";
    for (const l of e.labels ?? []) if (l.contains(top)) return "";
    const role = roleOf(top);
    return `${role || squeeze(top.tagName.toLowerCase(), 40)} ${JSON.stringify(nameOf(top, role) || content(top, 40))}`;
  };

  // aim scrolls an element into view, waits until it rests, is enabled and uncovered, and returns
  // its middle.
  const aim = async (n, ms, position) => {
    const end = performance.now() + ms;
    let why = "stale";
    for (let before = ""; ;) {
      const e = get(n);
      if (!e) return { error: "stale" };
      const box = boxOf(e);
      const [x, y, w, h] = box;
      const cx = x + w / 2, cy = y + h / 2;
      if (w <= 0 || h <= 0 || !e.checkVisibility({ visibilityProperty: true })) why = "hidden";
      else if (cx < 0 || cy < 0 || cx >= innerWidth || cy >= innerHeight) {
        e.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
        why = "outside";
      } else if (box.join() !== before) why = "moving";
      else if (e.disabled || e.getAttribute("aria-disabled") === "true") why = "disabled";
      else {
        why = covering(e, cx, cy);
        if (!why) return { x: cx, y: cy, origin: origin() };
        why = "covered by " + why;
      }
      if (performance.now() > end) return { error: why };
      before = box.join();
      await frame();
    }
  };

  // hover resolves with where the pointer next moves.
  let hovering = null;
  const hover = () => {
    hovering = new Promise((resolve) => {
      addEventListener("mousemove", (e) => resolve(e.isTrusted ? { x: e.clientX, y: e.clientY } : null), { capture: true, once: true });
      setTimeout(() => resolve(null), 1000);
    });
    return true;
  };
  const hovered = () => hovering;

  const focus = (n) => {
    const e = get(n);
    if (!e) return { error: "stale" };
    e.scrollIntoView({ block: "nearest", behavior: "instant" });
    e.focus();
    return {};
  };

  const changed = (e) => {
    e.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    e.dispatchEvent(new Event("change", { bubbles: true }));
  };

  // fill prepares a field for text. It returns done if the field has the text already.
  const fill = (n, text) => {
    const e = get(n);
    if (!e) return { error: "stale" };
    if (e.disabled) return { error: "disabled" };
    if (e.readOnly) return { error: "read-only" };
    e.scrollIntoView({ block: "nearest", behavior: "instant" });
    e.focus();
    if (e.tagName === "INPUT" && ["color", "date", "time", "datetime-local", "month", "range", "week"].includes(e.type)) {
      e.value = text;
      if (e.value !== text) return { error: `not a value for type ${e.type}` };
      changed(e);
      return { done: true };
    }
    if (e.tagName === "INPUT" && ["checkbox", "radio", "file", "button", "submit", "reset", "image", "hidden"].includes(e.type)) return { error: "not a text field" };
    if (e.tagName === "INPUT" || e.tagName === "TEXTAREA") e.select();
    else if (e.isContentEditable) getSelection().selectAllChildren(e);
    else return { error: "not a text field" };
    if (text === "") {
      document.execCommand("delete");
      return { done: true };
    }
    return {};
  };

  const select = (n, values) => {
    const e = get(n);
    if (!e) return { error: "stale" };
    if (e.tagName !== "SELECT") return { error: "not a list to select from" };
    if (e.disabled) return { error: "disabled" };
    const wanted = [];
    for (const v of values) {
      const o = [...e.options].find((o) => o.value === v || o.label === v || squeeze(o.text, 1000) === v);
      if (!o) return { error: `no option for values[${values.indexOf(v)}]` };
      wanted.push(o);
    }
    if (!e.multiple && wanted.length > 1) return { error: "one option can be selected" };
    e.focus();
    for (const o of e.options) o.selected = wanted.includes(o);
    changed(e);
    return { values: wanted.map((o) => o.value) };
  };

  const text = (most) => {
    const all = document.body?.innerText ?? "";
    return { text: all.slice(0, most), truncated: all.length > most };
  };

  const has = (selector, words) => {
    if (selector) {
      let e;
      try {
        e = document.querySelector(selector);
      } catch {
        return { error: "selector" };
      }
      if (!e?.checkVisibility({ visibilityProperty: true })) return { found: false };
    }
    return { found: !words || (document.body?.innerText ?? "").includes(words) };
  };

  return { nonce, outline, query, aim, hover, hovered, focus, fill, select, text, has, get, origin, find: outline };
})()
