// Differences between two texts, by lines.

const context = 3; // lines around a change
const most = 4_000_000; // comparisons, above which the middle counts as replaced

// diff returns the lines of both texts: { sign, text, before, after }. The sign is "+", "-"
// or " "; before and after are the numbers of the line. Far from changes, a line with the
// sign "…" has the count of the lines that it stands for.
function diff(before, after) {
  const [a, b] = [lines(before), lines(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const all = [];
  const add = (sign, text) => all.push({ sign, text });
  for (const line of a.slice(0, head)) add(" ", line);
  middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail), add);
  for (const line of a.slice(a.length - tail)) add(" ", line);
  return folded(numbered(all));
}

// middle finds a longest common subsequence.
function middle(a, b, add) {
  const width = b.length + 1;
  if (a.length * b.length > most) {
    for (const line of a) add("-", line);
    for (const line of b) add("+", line);
    return;
  }
  const common = new Uint32Array((a.length + 1) * width); // of the rest of a and of b
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      add(" ", a[i++]);
      j++;
    } else if (i < a.length && (j === b.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) add("-", a[i++]);
    else add("+", b[j++]);
  }
}

// unified returns the lines of a unified diff, as diff does.
function unified(text) {
  return lines(text).filter((line) => !/^(---|\+\+\+) /.test(line))
    .map((line) => (line.startsWith("@@") ? { sign: "…", text: "" } : { sign: line[0] || " ", text: line.slice(1) }));
}

const mostLines = 20_000;

/**
 * change returns the lines of a change of a file, and how many were added and removed. A change
 * of very many lines has all null, and without a unified diff all its lines count as replaced.
 */
export function change({ before, after, unified: text }) {
  if (text !== undefined && count(text) > mostLines) return { all: null, added: count(text, "+") - count(text, "+++ "), removed: count(text, "-") - count(text, "--- ") };
  if (text === undefined && count(before) + count(after) > mostLines) return { all: null, added: count(after), removed: count(before) };
  const all = text === undefined ? diff(before, after) : unified(text);
  const [added, removed] = counts(all);
  return { all, added, removed };
}

// count returns how many lines of a text begin with start. It makes no list of them.
function count(text, start = "") {
  let n = 0;
  for (let at = 0; at < text.length;) {
    if (text.startsWith(start, at)) n++;
    const end = text.indexOf("\n", at);
    if (end < 0) break;
    at = end + 1;
  }
  return n;
}

const counts = (all) => [all.filter(({ sign }) => sign === "+").length, all.filter(({ sign }) => sign === "-").length];

function numbered(all) {
  let [before, after] = [0, 0];
  for (const line of all) {
    if (line.sign !== "+") line.before = ++before;
    if (line.sign !== "-") line.after = ++after;
  }
  return all;
}

function folded(all) {
  const near = new Uint8Array(all.length);
  all.forEach(({ sign }, i) => {
    if (sign !== " ") near.fill(1, Math.max(0, i - context), i + context + 1);
  });
  const shown = [];
  all.forEach((line, i) => {
    if (near[i]) shown.push(line);
    else if (shown.at(-1)?.sign === "…") shown.at(-1).count++;
    else shown.push({ sign: "…", text: "", count: 1 });
  });
  return shown;
}

const lines = (text) => (text === "" ? [] : text.replace(/\r?\n$/, "").split(/\r?\n/));
