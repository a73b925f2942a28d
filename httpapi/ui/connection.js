// Links to the live view. A link shows the desktop's picture, sends the
// viewer's input, and reports events. There are three,
// and the page uses the first that works:
//
//   WebRTCLink       here
//   VideoLink        video.js: the same pictures over a WebSocket
//   ScreenshotLink   polling.js: pictures one by one
//
// All have open(), close(), stats(), the methods of input below, and dispatch the
// events size, host (the holder of control), people, cursor, pointer, clipboard,
// refused, asked, failed and restarted (of the desktop: { code, message }),
// trouble, slow, end (with the Cause, at most once).

import { request, socketURL, urlOf, viewOnly } from "./api.js";
import { Cause } from "./errors.js";

// How long the steps of a connection may take, in milliseconds.
const greetingTime = 8000;
const networkTime = 8000;
const slowTime = 4000;
const pictureTime = 5000;
const interruptedTime = 5000;
// The server sends something at least every ten seconds.
const silenceTime = 25000;

/** Link is the base class of the links. */
export class Link extends EventTarget {
  me = ""; // id of this viewer
  identity = {}; // headers that name this viewer in calls
  host = null; // the holder of control: see setHost
  people = new Map(); // id -> { id, name, viewOnly }
  mayControl = !viewOnly;
  ended = false;

  emit(type, detail) {
    if (!this.ended) this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  /** end reports, once, why the link ended, and closes it. */
  end(cause) {
    if (this.ended) return;
    this.emit("end", cause);
    this.close();
  }

  /** nameOf returns the name of a viewer for sentences. */
  nameOf(id) { return this.people.get(id)?.name || "Another viewer"; }

  /**
   * setHost records which actor has control; id "": none. The host has short, a name
   * for the bar, and name for sentences. taken: others are paused.
   */
  setHost(id, kind = "viewer", name = "", taken = false) {
    const me = id === this.me;
    const viewer = kind === "viewer" && this.nameOf(id);
    this.host = id ? { id, kind, me, taken, name: viewer || fullName(kind, name), short: viewer || name || fullName(kind, name) } : null;
    this.emit("host", this.host);
  }
}

/** keyOf returns the server's key of an actor in /presence, to compare with the holder of control. */
export const keyOf = ({ kind, id, name }) => id || (name ? `${kind} ${name}` : `the ${kind}`);

/** fullName returns the name of an agent or API client for sentences. */
export function fullName(kind, name) {
  if (kind === "agent") return name ? `Agent ${name}` : "An agent";
  return name ? `API client ${name}` : "An API client";
}

// Browsers do not report why a WebSocket did not open. The server gives the
// reason to a plain request. That this request is not a WebSocket is not reported.
async function probe(path) {
  try {
    await request("GET", urlOf(path));
  } catch (error) {
    if (error.status !== 400) throw error;
  }
}

/** SocketLink is a link that speaks the signalling protocol over a WebSocket. */
export class SocketLink extends Link {
  #socket;
  #silence;

  /** connect opens the WebSocket and waits for the server's greeting. */
  async connect(path) {
    try {
      await this.#dial(path);
    } catch (cause) {
      if (cause.kind === "socket") await probe(path);
      throw cause;
    }
  }

  #dial(path) {
    return new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Cause("socket")), greetingTime);
      this.greeted = () => { clearTimeout(timer); done(); };
      this.failed = (cause) => { clearTimeout(timer); fail(cause); };
      this.#socket = new WebSocket(socketURL(path));
      this.#socket.binaryType = "arraybuffer";
      this.#socket.onmessage = ({ data }) => this.#receive(data);
      this.#socket.onclose = () => this.fail(new Cause(this.opened ? "lost" : "socket"));
    });
  }

  /** fail rejects a pending open, or ends the link. */
  fail(cause) {
    this.failed?.(cause);
    this.end(cause);
  }

  #receive(data) {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.fail(new Cause("lost")), silenceTime);
    if (typeof data !== "string") return this.binary(data);
    const { event, payload = {} } = JSON.parse(data);
    this.handle(event, payload);
  }

  /** binary handles a binary message. */
  binary() {}

  /** handle handles a message of the protocol. */
  handle(event, payload) {
    switch (event) {
      case "system/init":
        this.opened = true;
        this.me = payload.session_id;
        if (payload.viewer_key) this.identity = { "Deskhand-Viewer": payload.viewer_key };
        for (const session of Object.values(payload.sessions)) this.#join(session);
        this.#hosted(payload.control_host);
        this.emit("size", payload.screen_size);
        return this.greeted();
      case "system/disconnect":
        return this.fail(/has ended/.test(payload.message) ? new Cause("stopped") : new Cause("refused", payload));
      case "session/created":
        this.#join(payload);
        return this.emit("people", this.people);
      case "session/deleted":
        this.people.delete(payload.id);
        return this.emit("people", this.people);
      case "control/host": return this.#hosted(payload);
      case "control/request": return this.emit("asked", { id: payload.id, name: this.nameOf(payload.id) });
      case "control/refused": return this.emit("refused", payload.message);
      case "screen/updated": return this.emit("size", payload);
      case "desktop/failed": return this.emit("failed", payload);
      case "desktop/restarted": return this.emit("restarted", payload);
      case "clipboard/updated": return this.emit("clipboard", payload.text);
    }
  }

  #hosted({ has_host: has, host_id: id, host_kind: kind, host_name: name, taken }) { this.setHost(has ? id : "", kind, name, taken); }

  #join({ id, profile }) {
    this.people.set(id, { id, name: profile.name ?? "", viewOnly: !profile.can_host });
    if (id === this.me) this.mayControl = profile.can_host && !viewOnly;
  }

  send(event, payload) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ event, payload }));
  }

  close() {
    this.ended = true;
    clearTimeout(this.#silence);
    if (this.#socket) this.#socket.onclose = null;
    this.#socket?.close();
  }

  // ---- control and input ----------------------------------------------

  /** request requests control if it is free; take is Control's take. */
  request() { this.send("control/request"); }
  take({ exclusive, force }) { this.send("control/take", { shared: !exclusive, force }); }
  release() { this.send("control/release"); }
  give(id) { this.send("control/give", { id }); }

  setClipboard(text) { this.send("clipboard/set", { text }); }
  type(text) { this.send("control/type", { text }); }

  move(x, y) { this.send("control/move", { x, y }); }
  button(down, code) { this.send(down ? "control/buttondown" : "control/buttonup", { code }); }
  wheel(x, y) { this.send("control/scroll", { delta_x: x, delta_y: y }); }
  key(down, keysym) { this.send(down ? "control/keydown" : "control/keyup", { keysym }); }

  /** keyAfter is like key, but in order with setClipboard. */
  keyAfter(down, keysym) { SocketLink.prototype.key.call(this, down, keysym); }
}

// Messages of the data channel; all numbers are big endian. See
// webrtc/input.go and webrtc/datachannel.go.
const op = { move: 1, wheel: 2, keyDown: 3, keyUp: 4, buttonDown: 5, buttonUp: 6 };
const opPosition = 1;
const opImage = 2;

function packet(code, length) {
  const view = new DataView(new ArrayBuffer(3 + length));
  view.setUint8(0, code);
  view.setUint16(1, length);
  return view;
}

/** showPointer dispatches a link's event for a message about the pointer. */
export function showPointer(link, buffer) {
  const view = new DataView(buffer);
  switch (view.getUint8(0)) {
    case opPosition:
      return link.emit("pointer", { x: view.getUint16(3), y: view.getUint16(5) });
    case opImage: {
      const [width, height, x, y] = [3, 5, 7, 9].map((at) => view.getUint16(at));
      return link.emit("cursor", { width, height, x, y, png: new Uint8Array(buffer, 11) });
    }
  }
}

/** WebRTCLink gets the picture as a WebRTC track. */
export class WebRTCLink extends SocketLink {
  kind = "webrtc";
  #peer;
  #channel;
  sound = false; // whether the desktop may have sound
  #early = []; // candidates that came before the offer
  #offered = false;
  #interrupted = 0;

  constructor({ video }) {
    super();
    this.surface = video;
  }

  /** open resolves when there is a picture. */
  async open() {
    if (!window.RTCPeerConnection) throw new Cause("webrtc");
    await this.connect("/stream/signaling");
    const slow = setTimeout(() => this.emit("slow"), slowTime);
    try {
      await this.#network();
      await this.#picture();
    } finally {
      clearTimeout(slow);
      this.failed = null;
    }
  }

  #network() {
    return new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Cause("ice")), networkTime);
      this.failed = (cause) => { clearTimeout(timer); fail(cause); };
      this.connected = () => { clearTimeout(timer); done(); };
      this.send("signal/request", { video: {}, audio: { disabled: true }, iceservers: "configured" });
    });
  }

  handle(event, payload) {
    switch (event) {
      case "signal/provide":
      case "signal/offer":
      case "signal/restart":
        this.#answer(payload).catch(() => this.fail(new Cause("ice")));
        return;
      case "signal/candidate":
        if (this.#offered) this.#peer.addIceCandidate(payload).catch(() => {}); // another candidate may work
        else this.#early.push(payload);
        return;
      case "signal/pointer": // to viewers without a data channel
        return showPointer(this, Uint8Array.from(atob(payload.data), (c) => c.charCodeAt(0)).buffer);
      case "signal/close":
        return this.fail(new Cause("lost"));
    }
    super.handle(event, payload);
  }

  async #answer({ sdp, iceservers = [] }) {
    this.#peer?.close();
    const peer = this.#peer = new RTCPeerConnection({ iceServers: iceservers, bundlePolicy: "max-bundle" });
    peer.ontrack = ({ receiver, streams, track }) => {
      // No jitter buffer: each picture is shown when it arrives.
      receiver.jitterBufferTarget = 0;
      receiver.playoutDelayHint = 0;
      const stream = streams[0] ?? new MediaStream([track]);
      if (this.surface.srcObject !== stream) this.surface.srcObject = stream; // both tracks belong to one stream
      if (track.kind !== "audio") return;
      this.sound = true;
      this.emit("sound");
    };
    peer.onicecandidate = ({ candidate }) => {
      if (candidate) this.send("signal/candidate", candidate.toJSON());
    };
    peer.ondatachannel = ({ channel }) => {
      this.#channel = channel;
      channel.binaryType = "arraybuffer";
      channel.onmessage = ({ data }) => showPointer(this, data);
    };
    peer.onconnectionstatechange = () => this.#changed(peer.connectionState);
    await peer.setRemoteDescription({ type: "offer", sdp });
    const answer = await peer.createAnswer();
    // Chromium decodes Opus as mono unless its own answer says stereo.
    answer.sdp = answer.sdp.replace(/^(a=fmtp:111 (?!.*\bstereo=1).*?)\r?$/m, "$1;stereo=1\r");
    await peer.setLocalDescription(answer);
    this.send("signal/answer", { sdp: peer.localDescription.sdp });
    this.#offered = true;
    for (const candidate of this.#early.splice(0)) peer.addIceCandidate(candidate).catch(() => {});
  }

  /** hear turns the server's sound on or off. */
  hear(on) { this.send("signal/audio", { disabled: !on }); }

  #changed(state) {
    clearTimeout(this.#interrupted);
    switch (state) {
      case "connected":
        this.connected?.();
        return this.emit("trouble", "");
      case "disconnected":
        this.#interrupted = setTimeout(() => this.fail(new Cause("lost")), interruptedTime);
        return this.emit("trouble", "Connection interrupted");
      case "failed": return this.fail(new Cause(this.failed ? "ice" : "lost"));
    }
  }

  // A hidden page is not painted, but its video is decoded.
  async #picture() {
    this.surface.play().catch(() => {}); // it plays as soon as there is a track
    const until = performance.now() + pictureTime;
    while (!this.ended && performance.now() < until) {
      const { decoded } = await this.stats();
      if (decoded > 0 && this.surface.videoWidth > 0) return;
      await new Promise((done) => setTimeout(done, 30));
    }
    throw new Cause(this.ended ? "lost" : "frames");
  }

  /** stats returns the link's statistics. Counters count from the link's start. */
  async stats() {
    const out = { transport: "WebRTC", decoded: 0 };
    const all = await this.#peer?.getStats();
    for (const s of all?.values() ?? []) {
      if (s.type === "inbound-rtp" && s.kind === "video") {
        out.decoded = s.framesDecoded ?? 0;
        out.bytes = s.bytesReceived;
        out.received = s.packetsReceived;
        out.lost = s.packetsLost;
        out.dropped = s.framesDropped;
        out.jitter = s.jitter * 1000;
        out.codec = all.get(s.codecId)?.mimeType?.split("/")[1];
      }
      if (s.type === "candidate-pair" && s.nominated && s.state === "succeeded") {
        out.roundTrip = s.currentRoundTripTime * 1000;
        const [near, far] = [all.get(s.localCandidateId), all.get(s.remoteCandidateId)];
        const host = far?.address?.includes(":") ? `[${far.address}]` : far?.address;
        out.path = [near?.protocol?.toUpperCase(), host && `${host}:${far.port}`].filter(Boolean).join(" to ");
        if (near?.candidateType === "relay") out.path += ", relayed";
      }
    }
    return out;
  }

  #put(view) {
    if (this.#channel?.readyState === "open") this.#channel.send(view.buffer);
    return this.#channel?.readyState === "open";
  }

  move(x, y) {
    const view = packet(op.move, 4);
    view.setUint16(3, x);
    view.setUint16(5, y);
    if (!this.#put(view)) super.move(x, y);
  }

  button(down, code) {
    const view = packet(down ? op.buttonDown : op.buttonUp, 4);
    view.setUint32(3, code);
    if (!this.#put(view)) super.button(down, code);
  }

  key(down, keysym) {
    const view = packet(down ? op.keyDown : op.keyUp, 4);
    view.setUint32(3, keysym);
    if (!this.#put(view)) super.key(down, keysym);
  }

  wheel(x, y) {
    const view = packet(op.wheel, 5);
    view.setInt16(3, x);
    view.setInt16(5, y);
    if (!this.#put(view)) super.wheel(x, y);
  }

  close() {
    super.close();
    clearTimeout(this.#interrupted);
    this.#channel?.close();
    this.#peer?.close();
    this.surface.srcObject = null;
  }
}
