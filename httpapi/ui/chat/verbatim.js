// Values of agents, as texts that hide nothing.

const most = 20_000; // characters

/** verbatim shows characters that are invisible, or change the order of others, as their codes. */
export const verbatim = (text) => text.replace(/[\p{Cf}\p{Zl}\p{Zp}]|(?![\n\t])\p{Cc}/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

/** argument returns a value of any shape as a text of bounded length. */
export function argument(value) {
  const text = typeof value === "object" ? json(value) : String(value);
  return verbatim(text.slice(0, most)) + (text.length > most ? `… (${text.length - most} more characters)` : "");
}

/** joined returns a text, or the texts of a list, with other values as arguments. */
export const joined = (value) => [value].flat().map((part) => (typeof part === "string" ? part : argument(part))).join(" ");

function json(value) {
  try {
    return JSON.stringify(value, null, 1);
  } catch {
    return "Nested too deeply to show";
  }
}
