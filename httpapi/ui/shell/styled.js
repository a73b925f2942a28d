// Style sheets of modules that are loaded when they are needed.

import { make } from "../dom.js";

const sheets = new Map(); // promises, by address

/** styled adds the style sheet beside a module, once, and waits until it applies. */
export function styled(module) {
  const href = new URL(module.replace(/\.js$/, ".css"), import.meta.url).href;
  if (!sheets.has(href)) {
    sheets.set(href, new Promise((done, failed) => {
      document.head.append(make("link", { rel: "stylesheet", href, onload: done, onerror: () => {
        sheets.delete(href);
        failed(new Error(`The page can't load ${href}.`));
      } }));
    }));
  }
  return sheets.get(href);
}
