// The player of a recording, with captions of the actions and buttons
// for its chapters.

import { mediaURL } from "./api.js";
import { $, make, setText, show } from "./dom.js";
import { clock } from "./format.js";

const step = 5; // seconds, for the arrow keys
const frame = 1 / 30;
const rates = { ">": 1.5, "<": 1 / 1.5 };

/** Player is the dialog. */
export class Player {
  #dialog = $("player");
  #video = $("player-video");
  #id = "";

  /** closed is called when the player closes. */
  constructor({ closed }) {
    $("player-close").addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("close", () => { this.#end(); closed(); });
    this.#dialog.addEventListener("click", ({ target }) => { if (target === this.#dialog) this.#dialog.close(); }); // a click on the backdrop
    this.#dialog.addEventListener("keydown", (event) => this.#key(event));
    this.#video.addEventListener("error", () => this.#tell("Your browser can't play this recording. Download it to play it in another app."));
  }

  /** play shows a recording. */
  play({ id, title, startedAt, fileName }) {
    this.#id = id;
    const url = (path) => mediaURL(`/recordings/${id}/${path}`);
    setText($("player-title"), title || new Date(startedAt).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }));
    Object.assign($("player-download"), { href: url("download"), download: fileName });
    this.#tell("");
    this.#video.poster = url("poster.jpg");
    this.#video.src = url("download");
    this.#video.replaceChildren(make("track", { kind: "captions", label: "Actions", srclang: "en", src: url("captions.vtt"), default: true }));
    this.#chapters();
    $("recordings-panel").hidePopover();
    this.#dialog.showModal();
    this.#video.focus();
    this.#video.play().catch(() => {}); // the viewer can use the controls
  }

  // The chapters become buttons, once the browser has read them.
  #chapters() {
    $("player-chapters").replaceChildren();
    show($("player-chapters"), false);
    const track = make("track", { kind: "chapters", label: "Chapters", srclang: "en", src: mediaURL(`/recordings/${this.#id}/chapters.vtt`) });
    track.addEventListener("load", () => {
      const cues = [...(track.track.cues ?? [])];
      show($("player-chapters"), cues.length > 0);
      $("player-chapters").replaceChildren(...cues.map(({ startTime, text }) => {
        const button = make("button", { type: "button", className: "small" }, make("span", { className: "elapsed" }, clock(startTime * 1000)), text);
        button.addEventListener("click", () => { this.#video.currentTime = startTime; });
        return make("li", {}, button);
      }));
    });
    this.#video.append(track);
    track.track.mode = "hidden"; // hidden tracks are loaded, disabled ones are not
  }

  // The keys of video players, wherever in the dialog the focus is.
  #key(event) {
    const video = this.#video;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const go = (seconds) => { video.currentTime = Math.max(0, video.currentTime + seconds); };
    switch (event.key) {
      case "ArrowLeft": case "j": go(-step); break;
      case "ArrowRight": case "l": go(step); break;
      case ",": video.pause(); go(-frame); break;
      case ".": video.pause(); go(frame); break;
      case "k": if (video.paused) video.play().catch(() => {}); else video.pause(); break;
      case "<": case ">": video.playbackRate = Math.min(8, Math.max(0.25, video.playbackRate * rates[event.key])); break;
      default: return;
    }
    event.preventDefault();
  }

  #tell(text) {
    setText($("player-problem"), text);
    show($("player-problem"), text !== "");
  }

  // The browser closes the connection.
  #end() {
    this.#id = "";
    this.#video.pause();
    this.#video.removeAttribute("src");
    this.#video.replaceChildren();
    this.#video.load();
    this.#tell("");
  }
}
