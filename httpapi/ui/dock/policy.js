// The page's content security policy allows neither <style> elements nor attributes named
// style, which xterm.js writes. Here they become constructed style sheets, and styles set by
// the object model, which the policy allows. No other code of the page writes them.

/** adaptStyles changes what document.createElement and setAttribute do with styles. */
export function adaptStyles() {
  const { createElement } = Document.prototype;
  document.createElement = (tag, options) => (tag === "style" ? styleElement() : createElement.call(document, tag, options));
  const { setAttribute } = Element.prototype;
  HTMLElement.prototype.setAttribute = function set(name, value) {
    if (name === "style") this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
}

// styleElement returns an element with a style sheet. xterm.js sets its text and removes it.
function styleElement() {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  const element = document.createElement("template");
  Object.defineProperty(element, "textContent", { set: (text) => sheet.replaceSync(text) });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}
