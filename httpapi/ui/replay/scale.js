// Times and pixels.

/** Scale maps the times between from and to, in milliseconds, to the pixels between 0 and width. */
export class Scale {
  constructor(from, to, width) {
    Object.assign(this, { from, to, width, perPixel: (to - from) / Math.max(1, width) });
  }

  x(time) { return (time - this.from) / this.perPixel; }
  time(x) { return this.from + x * this.perPixel; }
  shows(from, to = from) { return to >= this.from && from <= this.to; }
}

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400].map((seconds) => seconds * 1000);

/** ticksOf returns the round times of a scale that are at least apart pixels apart. */
export function ticksOf(scale, apart = 80) {
  const step = steps.find((one) => one / scale.perPixel >= apart) ?? steps.at(-1);
  const ticks = [];
  for (let at = Math.ceil(scale.from / step) * step; at <= scale.to; at += step) ticks.push(at);
  return ticks;
}

const keep = 2000; // milliseconds after a moment, so that its effect can be seen
const lead = 1000; // before the next one
const least = 2000;

/** idleStretches returns the parts { from, to } of a recording in which nothing happens. times are in order. */
export function idleStretches(times, length) {
  const idle = [];
  let from = 0;
  for (const time of [...times, length + lead]) {
    const to = Math.min(length, time - lead);
    if (to - from >= least) idle.push({ from, to });
    from = Math.max(from, time + keep);
  }
  return idle;
}

/** lastBefore returns the index of the last element of a sorted list whose time is at most at, or -1. */
export function lastBefore(list, at, timeOf = (one) => one.at) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timeOf(list[middle]) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
