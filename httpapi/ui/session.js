// The state of the page: whether the desktop runs, which link shows it, and
// how to recover.

import { Problem, actAs, byLink, get, post } from "./api.js";
import { WebRTCLink } from "./connection.js";
import { Cause, explain } from "./errors.js";
import { ScreenshotLink } from "./polling.js";
import { Preview } from "./preview.js";
import { Quality } from "./quality.js";
import { VideoLink } from "./video.js";

const ladder = [WebRTCLink, VideoLink, ScreenshotLink];
const transports = ["WebRTC", "WebSocket", "screenshots"];

const watchTime = 2000; // between requests for the status of a desktop that is off
const changeTime = 300; // between requests while it starts or stops
const firstPause = 500; // before the second attempt; each next one is twice as long
const longestPause = 10000;
const brokenTime = 12000; // without a picture before a new connection is made

// On a network that blocks video, a reload begins with the link that worked.
const rungStorage = "transport";
const ofNetwork = ["ice", "socket"];

// The server knows why a connection failed.
async function diagnose(cause) {
  const { verdict, remedy } = await get("/stream/diagnose").catch(() => ({}));
  Object.assign(cause.more, { verdict, remedy });
}

/**
 * Session has a state, { name, ... }, that says what to show:
 *
 *   loading
 *   locked        a token is needed; wrong: the entered token is invalid;
 *                 ended: the page's link has expired or was revoked
 *   off           note
 *   install       explanation
 *   starting, stopping  since
 *   connecting    attempt, transport, slow, preview (a screenshot is shown)
 *   live          warning
 *   reconnecting  attempt, at (time of the next attempt), transport, explanation
 *   failed        explanation, at, restart (label of the restart button)
 *   stopped       explanation
 *
 * Events: state, link, preview (its size), problem (of a request
 * of the viewer), restarted (the code of the failed part).
 */
export class Session extends EventTarget {
  state = { name: "loading" };
  link = null;
  status = null; // the desktop's latest status
  quality = new Quality();
  #surfaces;
  #rung = 0; // index of the current link in the ladder
  #wake = () => {};
  #started = ""; // start time of the desktop that was shown last
  #byMe = false; // this page stopped the desktop
  #held = null; // the cause after which the page waits for the viewer
  #whyNot = null; // the reason why WebRTC is not used
  #tried = false; // a token was entered
  #trouble = ""; // the link's current trouble
  #preview = null;
  #missed = false; // the page was not connected during a restart
  /** Whether a start or stop of this page is running. */
  changing = false;

  /** surfaces are the elements for the picture: video and canvas. */
  constructor(surfaces) {
    super();
    this.#surfaces = surfaces;
    this.#recall();
    addEventListener("focus", () => this.#wake());
    addEventListener("online", () => {
      this.#forget(); // another network may allow a better link
      this.#wake();
    });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.#wake(); });
    // A page that is left releases control immediately. The browser may restore it.
    addEventListener("pagehide", () => this.link?.end(new Cause("again")));
    this.quality.addEventListener("measured", () => this.#measured());
  }

  /** fellBack is the reason why WebRTC is not used, or null. */
  get fellBack() { return this.#rung > 0 ? this.#whyNot : null; }

  #recall() {
    const { rung, kind, more } = JSON.parse(sessionStorage.getItem(rungStorage) ?? "{}");
    if (!rung) return;
    this.#rung = rung;
    this.#whyNot = new Cause(kind, more);
  }

  #forget() {
    this.#rung = 0;
    sessionStorage.removeItem(rungStorage);
  }

  #remember() {
    if (this.#rung === 0 || !ofNetwork.includes(this.#whyNot?.kind)) return sessionStorage.removeItem(rungStorage);
    const { kind, more } = this.#whyNot;
    sessionStorage.setItem(rungStorage, JSON.stringify({ rung: this.#rung, kind, more }));
  }

  #set(name, more = {}) {
    const next = { name, ...more };
    if (JSON.stringify(next) === JSON.stringify(this.state)) return;
    this.state = next;
    this.dispatchEvent(new Event("state"));
  }

  // ---- commands --------------------------------------------------

  /** start starts the desktop with a size. */
  start(size) {
    this.#byMe = false;
    return this.#change("starting", "/start", size);
  }

  /** stop stops the desktop. */
  stop() {
    this.#byMe = true;
    return this.#change("stopping", "/stop");
  }

  /** restart stops the desktop and starts it again. */
  async restart() {
    const { width, height } = this.status?.resolution ?? {};
    if (await this.#change("stopping", "/stop")) await this.start(width ? { width, height } : {});
  }

  async #change(name, path, body = {}) {
    this.changing = true;
    this.#set(name, { since: performance.now() });
    let problem = null;
    try {
      await post(path, body);
    } catch (error) {
      problem = error;
    }
    this.changing = false;
    this.#held = null;
    if (problem) {
      const startProblem = problem.status && path === "/start" ? new Cause("start", { detail: problem.message }) : problem;
      this.dispatchEvent(new CustomEvent("problem", { detail: startProblem }));
    }
    this.#wake();
    return problem === null;
  }

  /** retry tries again now, beginning with the best link. */
  retry() {
    this.#held = null;
    this.#forget();
    if (this.link) this.link.end(new Cause("again"));
    this.#wake();
  }

  // ---- loop -------------------------------------------------------------------

  /** run loops until the page is closed. */
  async run() {
    for (let attempt = 1; ;) {
      try {
        const shown = await this.#look(attempt);
        if (shown) attempt = 1;
      } catch (error) {
        attempt = error.status === 401 ? await this.#locked() : await this.#failed(error, attempt);
      }
    }
  }

  // Shows the desktop once. It returns whether there was a picture.
  async #look(attempt) {
    const status = await get("/status");
    this.status = status;
    if (this.changing) return this.#pause(changeTime);
    if (status.state !== "active") return this.#off(status);
    if (this.#held && status.startedAt === this.#started) {
      this.#set("stopped", { explanation: explain(this.#held) });
      return this.#pause(watchTime);
    }
    this.#held = null;
    await this.#watch(attempt);
    return true;
  }

  // Shows that the desktop does not run, and waits.
  #off({ state, lastError, missingDependencies, installCommand, display }) {
    const detail = lastError?.message ?? "";
    switch (state) {
      case "starting":
      case "stopping":
        if (this.state.name !== state) this.#set(state, { since: performance.now() });
        return this.#pause(changeTime);
      case "install_required":
        this.#set("install", { explanation: explain(new Cause("install", { missing: missingDependencies, command: installCommand })) });
        break;
      case "failed":
        this.#set("failed", {
          explanation: explain(new Cause(display ? "crashed" : "start", { detail })),
          restart: display ? "Restart desktop" : "Start desktop",
        });
        break;
      default:
        this.#set("off", { note: this.#whoStopped() });
    }
    return this.#pause(watchTime);
  }

  #whoStopped() {
    if (this.#started === "") return "";
    return this.#byMe ? "You stopped it." : "Another person or a program stopped it.";
  }

  // Shows the desktop until the picture ends.
  async #watch(attempt) {
    const again = this.#started === this.status.startedAt;
    this.#missed ||= !again && this.#started !== "" && ["reconnecting", "failed"].includes(this.state.name);
    if (!again) this.#beginPreview();
    try {
      return await this.#descend(attempt, again);
    } finally {
      this.#preview?.end();
    }
  }

  #beginPreview() {
    this.#preview = new Preview({
      canvas: this.#surfaces.canvas,
      shown: (size) => {
        this.dispatchEvent(new CustomEvent("preview", { detail: size }));
        if (this.state.name === "connecting") this.#set("connecting", { ...this.state, preview: true });
      },
    });
  }

  // Tries the links, beginning with the current one.
  async #descend(attempt, again) {
    for (;;) {
      const transport = transports[this.#rung];
      const { name, preview = false } = this.state;
      this.#set(again ? "reconnecting" : "connecting", { attempt, transport, ...(name === "connecting" && { preview }) });
      const link = new ladder[this.#rung](this.#surfaces);
      const ended = new Promise((done) => link.addEventListener("end", ({ detail }) => done(detail), { once: true }));
      link.addEventListener("slow", () => this.#set(this.state.name, { ...this.state, slow: true }));
      this.#use(link);
      try {
        await link.open();
        return await this.#show(link, ended);
      } catch (cause) {
        link.close();
        if (cause.kind === "ice") await diagnose(cause);
        this.#stepDown(cause);
      } finally {
        this.quality.follow(null);
        this.#use(null);
      }
    }
  }

  // Continues with the next link, if that may help.
  #stepDown(cause) {
    const network = cause instanceof Cause && ["webrtc", "socket", "ice", "frames", "decoder"].includes(cause.kind);
    if (!network || this.#rung === ladder.length - 1) throw cause;
    if (this.#rung === 0) this.#whyNot = cause;
    // If one WebSocket does not open, another will not either.
    this.#rung = cause.kind === "socket" ? ladder.length - 1 : this.#rung + 1;
  }

  async #show(link, ended) {
    this.#preview?.end();
    this.#remember();
    this.#started = this.status.startedAt;
    this.#byMe = false;
    this.#trouble = "";
    link.addEventListener("trouble", ({ detail }) => {
      this.#trouble = detail;
      this.#warn("");
    });
    link.addEventListener("end", () => this.#keepPicture(link));
    link.addEventListener("size", () => this.#lookAgain(link));
    link.addEventListener("failed", () => {
      this.#trouble = "Part of the desktop failed and is restarting";
      this.#warn("");
    });
    link.addEventListener("restarted", ({ detail }) => {
      this.#trouble = "";
      this.#warn("");
      this.#restarted(detail.code);
    });
    actAs(link.identity);
    this.#set("live", { warning: "" });
    this.quality.follow(link);
    if (this.#missed) this.#restarted(this.status.lastError?.code);
    this.#missed = false;
    const cause = await ended;
    if (cause.kind === "stopped") this.#held = cause;
    if (!this.changing) this.#set("reconnecting", { attempt: 1, explanation: explain(cause) });
  }

  #restarted(code) { this.dispatchEvent(new CustomEvent("restarted", { detail: code })); }

  // The screen may be another after the desktop has recovered.
  async #lookAgain(link) {
    const status = await get("/status").catch(() => null);
    if (!status || link !== this.link) return;
    this.status = status;
    if (status.startedAt) this.#started = status.startedAt;
  }

  // The last picture stays visible.
  #keepPicture({ surface }) {
    const { canvas } = this.#surfaces;
    if (surface === canvas || !surface.videoWidth) return;
    Object.assign(canvas, { width: surface.videoWidth, height: surface.videoHeight });
    canvas.getContext("2d", { alpha: false }).drawImage(surface, 0, 0);
  }

  #use(link) {
    this.link = link;
    actAs({}); // until the server's greeting
    this.dispatchEvent(new Event("link"));
  }

  #warn(warning) {
    if (this.state.name === "live") this.#set("live", { warning: this.#trouble || warning });
  }

  // A link without pictures for too long is replaced.
  async #measured() {
    const { stale, grade, roundTrip, loss, sure } = this.quality.now;
    const link = this.link;
    if (stale > brokenTime) return link.end(new Cause("frames"));
    if (stale) {
      this.#warn("The video is frozen");
      const status = await get("/status").catch(() => null);
      if (status && status.state !== "active") link.end(new Cause("lost"));
      return;
    }
    if (grade.name !== "poor") return this.#warn("");
    if (!sure) return;
    this.#warn(loss > 0.05 ? `Poor connection: ${Math.round(loss * 100)}% packet loss` : `Poor connection: ${Math.round(roundTrip)} ms round trip`);
  }

  async #locked() {
    this.#set("locked", { wrong: this.#tried, ended: byLink() && !this.#tried });
    this.#tried = false;
    await this.#pause();
    return 1;
  }

  /** unlock continues with the entered token. */
  unlock() {
    this.#tried = true;
    this.#wake();
  }

  // Waits after a failure, longer each time, and counts it.
  async #failed(error, attempt) {
    const explanation = explain(error);
    const pause = Math.min(longestPause, firstPause * 2 ** (attempt - 1));
    const at = performance.now() + pause;
    // These causes end without help. Others are shown to the viewer.
    const passing = error instanceof Problem ? [0, 409, 502, 503, 504].includes(error.status) : error.kind === "lost" || error.kind === "stopped";
    if (passing && (this.#started !== "" || attempt < 3)) this.#set("reconnecting", { attempt, at, explanation });
    else this.#set("failed", { explanation, at });
    await this.#pause(pause);
    return attempt + 1;
  }

  // Waits for a time or for the next event; without a time, for the next event. A
  // hidden page waits until it is visible.
  #pause(ms) {
    return new Promise((done) => {
      const timer = ms === undefined ? 0 : setTimeout(() => { if (!document.hidden) this.#wake(); }, ms);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = () => {};
        done(false);
      };
    });
  }
}
