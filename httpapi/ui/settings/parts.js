// Parts that the sections share.

import { make, once, sure } from "../dom.js";

/** field returns a label with an input, or with another element of a form. */
export const field = (label, input, note = "") => make("label", { className: "field" }, make("span", {}, label), input, note ? make("small", {}, note) : "");

/** choice returns a select with options of [value, text]. */
export const choice = (options) => make("select", {}, ...options.map(([value, text]) => make("option", { value }, text)));

/** row returns an item of a list: a name, facts in small letters, and buttons. */
export const row = (name, facts, ...buttons) => make("li", {}, make("span", { className: "name" }, name, ...(facts ? [make("small", {}, facts)] : [])), ...buttons);

// attempt returns a function that calls act, and then again; fail takes an error of act.
const attempt = ({ act, again, fail }) => async (button) => {
  try {
    await act(button);
    fail(null);
  } catch (error) {
    return fail(error);
  }
  await again();
};

/** action returns a button that calls act, and then again; fail takes an error of act. */
export function action(label, { className = "small", ...options }) {
  const button = make("button", { type: "button", className }, label);
  once(button, () => attempt(options)(button));
  return button;
}

/** risky returns an action that asks before it acts: a second press confirms. */
export function risky(label, question, options) {
  const button = make("button", { type: "button", className: "small danger" }, label);
  sure(button, question, attempt(options));
  return button;
}

/** write puts a text on the clipboard, and returns whether the browser allows it. */
export const write = (text) => navigator.clipboard?.writeText(text).then(() => true, () => false) ?? false;
