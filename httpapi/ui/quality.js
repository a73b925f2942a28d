// The quality of the live view.

const period = 1000;
const span = 4; // periods over which rates are averaged
const trips = 9; // of which the median is shown
// The server sends a picture at least every two seconds, even if nothing changes.
const staleTime = 5000;
// The fewest packets for which a loss rate is shown.
const few = 20;
// Fewer pictures a second than this mean a still screen.
const moving = 1.5;

const grades = [
  { name: "good", word: "Good", roundTrip: 80, loss: 0.01 },
  { name: "fair", word: "Fair", roundTrip: 200, loss: 0.05 },
  { name: "poor", word: "Poor", roundTrip: Infinity, loss: Infinity },
];

const gradeOf = ({ roundTrip = 0, loss = 0 }) => grades.find((g) => roundTrip <= g.roundTrip && loss <= g.loss);

/** Quality measures a link once a second while the page is visible. Event: measured. */
export class Quality extends EventTarget {
  #link = null;
  #timer = 0;
  #samples = []; // { at, stats }, the oldest first
  #trips = []; // round trips, the oldest first
  #changed = 0; // the time of the last picture
  now = null;

  follow(link) {
    clearInterval(this.#timer);
    this.#link = link;
    this.#forget();
    this.now = null;
    if (link) this.#timer = setInterval(() => this.#measure(), period);
  }

  #forget() {
    this.#samples = [];
    this.#trips = [];
  }

  async #measure() {
    if (document.hidden) return this.#forget();
    const link = this.#link;
    const stats = await link.stats().catch(() => null);
    if (!stats || link !== this.#link) return;
    const at = performance.now();
    const last = this.#samples.at(-1);
    if (stats.decoded !== last?.stats.decoded) this.#changed = at;
    this.#samples.push({ at, stats });
    if (this.#samples.length > span + 1) this.#samples.shift();
    const first = this.#samples[0];
    if (at === first.at) return;
    this.#report(stats, first.stats, (at - first.at) / 1000, link.quiet ? 0 : at - this.#changed);
  }

  #report(stats, before, seconds, still) {
    const since = (key) => (stats[key] ?? 0) - (before[key] ?? 0);
    if (stats.roundTrip !== undefined) this.#trips.push(stats.roundTrip);
    if (this.#trips.length > trips) this.#trips.shift();
    const packets = since("received") + since("lost");
    this.now = {
      ...stats,
      roundTrip: [...this.#trips].sort((a, b) => a - b)[this.#trips.length >> 1],
      rate: since("decoded") / seconds,
      bits: (since("bytes") * 8) / seconds,
      loss: stats.lost === undefined ? undefined : packets < few ? 0 : Math.max(0, since("lost") / packets),
      sure: this.#trips.length > trips / 2,
      stale: still > staleTime ? still : 0,
    };
    this.now.grade = gradeOf(this.now);
    this.dispatchEvent(new Event("measured"));
  }

  /** brief returns the text of the small label. */
  brief() {
    const { roundTrip, rate } = this.now;
    const parts = [];
    if (roundTrip !== undefined) parts.push(`${Math.max(1, Math.round(roundTrip))} ms`);
    if (rate > moving) parts.push(`${Math.round(rate)} fps`);
    return parts.join(" · ") || this.now.transport;
  }

  /** rows returns the details as pairs of name and value. */
  rows(size) {
    const q = this.now;
    const rows = [
      ["Transport", [q.transport, q.path].filter(Boolean).join(", ")],
      ["Video", [q.codec, size.width ? `${size.width} × ${size.height}` : ""].filter(Boolean).join(", ")],
      ["Round trip", q.roundTrip === undefined ? "" : `${Math.max(1, Math.round(q.roundTrip))} ms`],
      ["Frame rate", `${q.rate.toFixed(q.rate < 10 ? 1 : 0)} fps`],
      ["Bitrate", bits(q.bits)],
      ["Packet loss", q.loss === undefined ? "" : `${(q.loss * 100).toFixed(1)}%`],
      ["Jitter", q.jitter === undefined ? "" : `${q.jitter.toFixed(1)} ms`],
      ["Dropped frames", q.dropped ? String(q.dropped) : ""],
    ];
    return rows.filter(([, value]) => value);
  }
}

function bits(rate) {
  if (rate >= 1e6) return `${(rate / 1e6).toFixed(1)} Mbit/s`;
  return `${(rate / 1e3).toFixed(rate < 1e4 ? 1 : 0)} kbit/s`;
}
