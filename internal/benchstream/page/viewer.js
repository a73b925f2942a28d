// The viewer that is measured. It does what the published client of
// sandbox-agent 0.4.2 does, and looks at the pictures that arrive.
"use strict";

const video = document.querySelector("video");

// Milliseconds since 1970. (Date.now is blurred by up to a millisecond.)
let clockOffset = 0;
const now = () => performance.timeOrigin + performance.now() + clockOffset;
const setClock = (offset) => { clockOffset = offset; };

let socket, connection, channel;

// connect resolves, with when each step was done, when the first picture is
// presented. It asks for at most limit kbit/s, unless that is 0.
function connect(url, limit) {
  const steps = {};
  const begun = performance.now();
  const done = (step) => { steps[step] ??= performance.now() - begun; };
  return new Promise((resolve, reject) => {
    const held = [];
    const send = (event, payload) => socket.send(JSON.stringify({ event, payload }));
    const offered = async ({ sdp, iceservers }) => {
      connection = new RTCPeerConnection({ iceServers: iceservers });
      connection.ontrack = ({ track, streams }) => {
        if (track.kind !== "video") return; // the audio track is in the same stream
        done("track");
        video.srcObject = streams[0] ?? new MediaStream([track]);
        video.requestVideoFrameCallback(async () => {
          done("picture");
          const { bytes, nacks } = await counts();
          Object.assign(steps, { kilobytes: bytes / 1000, nacks });
          resolve(steps);
        });
        video.play().catch(reject);
      };
      connection.onicecandidate = ({ candidate }) => candidate && send("signal/candidate", candidate.toJSON());
      connection.onconnectionstatechange = () => {
        done(connection.connectionState);
        if (connection.connectionState === "failed") reject(new Error("the connection failed"));
      };
      connection.ondatachannel = (e) => { channel = e.channel; channel.binaryType = "arraybuffer"; };
      await connection.setRemoteDescription({ type: "offer", sdp });
      for (const c of held) await connection.addIceCandidate(c);
      const answer = await connection.createAnswer();
      await connection.setLocalDescription(answer);
      send("signal/answer", { sdp: limit ? limited(answer.sdp, limit) : answer.sdp });
    };
    socket = new WebSocket(url);
    socket.onopen = () => done("socket");
    socket.onclose = () => reject(new Error("the signalling has ended"));
    socket.onerror = () => reject(new Error("the signalling failed"));
    socket.onmessage = ({ data }) => {
      const { event, payload } = JSON.parse(data);
      switch (event) {
        case "system/init":
          done("init");
          send("control/request", {});
          send("signal/request", { video: {}, audio: {} });
          break;
        case "signal/provide":
          done("offer");
          offered(payload).catch(reject);
          break;
        case "signal/candidate":
          if (connection?.remoteDescription) connection.addIceCandidate(payload).catch(reject);
          else held.push(payload);
          break;
        case "system/disconnect":
          reject(new Error(payload.message));
      }
    };
  });
}

// limited returns an answer that asks for at most limit kbit/s (RFC 8866, section
// 5.8: after the connection data of the video's section).
const limited = (sdp, limit) => sdp.replace(/(m=video(?:.|\r\n)*?c=[^\r]*\r\n)/, `$1b=AS:${limit}\r\n`);

function disconnect() {
  connection?.close();
  socket?.close();
}

// Markers: see marker.go.
const block = 8, columns = 32, rows = 4, inside = columns - 2;
const markerSize = { width: columns * block, height: rows * block };

// readMarker reads a marker from luma, which has so many bytes to a row, or
// returns null.
function readMarker(luma, stride) {
  const white = (column, row) => {
    let sum = 0;
    for (let y = 2; y < 6; y++) for (let x = 2; x < 6; x++) sum += luma[(row * block + y) * stride + column * block + x];
    sum /= 16;
    return sum > 175 ? 1 : sum < 75 ? 0 : -1;
  };
  const bits = [];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const bit = white(column, row);
      const edge = row === 0 || row === rows - 1 || column === 0 || column === columns - 1;
      if (bit < 0 || edge && bit !== ((column + row) % 2 === 0 ? 1 : 0)) return null;
      if (!edge) bits.push(bit);
    }
  }
  const number = (from, length) => bits.slice(from, from + length).reduce((n, bit) => n * 2 + bit, 0);
  let sum = 0;
  for (const bit of bits.slice(0, 48)) {
    const over = (sum >> 11 ^ bit) & 1;
    sum = sum << 1 & 0xfff ^ (over ? 0x80f : 0);
  }
  return sum === number(48, 12) ? { time: number(0, 32), number: number(32, 16) } : null;
}

// since is how long ago the time of a marker was, in milliseconds.
function since(time, at) {
  const wrap = 2 ** 32;
  const age = ((at % wrap) - time + wrap) % wrap;
  return age > wrap / 2 ? age - wrap : age;
}

// luma copies the luma of a part of a picture.
async function luma(picture, rect) {
  const buffer = new Uint8Array(picture.allocationSize({ rect }));
  const [plane] = await picture.copyTo(buffer, { rect });
  return { bytes: buffer.subarray(plane.offset), stride: plane.stride };
}

let watch;

// begin looks for a marker at x, y in each picture, until end.
function begin(x, y) {
  const mine = watch = { latencies: [], misread: 0, presented: 0, last: -1, wanted: null };
  const rect = { x, y, ...markerSize };
  const look = async () => {
    const at = now();
    if (watch !== mine) return;
    video.requestVideoFrameCallback(look);
    mine.presented++;
    const picture = new VideoFrame(video);
    try {
      const { bytes, stride } = await luma(picture, rect);
      const found = readMarker(bytes, stride);
      if (!found) mine.misread++;
      else if (found.number !== mine.last) {
        mine.last = found.number;
        mine.latencies.push(since(found.time, at));
        await mine.wanted?.(picture, found);
      }
    } finally {
      picture.close();
    }
  };
  video.requestVideoFrameCallback(look);
}

// end returns what was seen since begin.
function end() {
  const { latencies, misread, presented } = watch;
  watch = null;
  return { latencies, misread, presented };
}

const seen = () => watch.latencies.length;

// collect sends the luma of a part of count pictures to url, with the number of
// each one's marker, one every so many milliseconds. It is for between begin and
// end.
function collect(url, rect, count, every) {
  let next = 0;
  return new Promise((resolve, reject) => {
    watch.wanted = async (picture, { number }) => {
      if (count === 0 || performance.now() < next) return;
      next = performance.now() + every;
      count--;
      const { bytes, stride } = await luma(picture, rect);
      const whole = new Uint8Array(rect.width * rect.height);
      for (let y = 0; y < rect.height; y++) whole.set(bytes.subarray(y * stride, y * stride + rect.width), y * rect.width);
      const answer = await fetch(`${url}?number=${number}`, { method: "POST", body: whole });
      if (!answer.ok) reject(new Error(await answer.text()));
      if (count === 0) resolve();
    };
  });
}

// counts returns the statistics of the received video.
async function counts() {
  for (const s of (await connection.getStats()).values()) {
    if (s.type === "inbound-rtp" && s.kind === "video") {
      return {
        bytes: s.bytesReceived + s.headerBytesReceived, decoded: s.framesDecoded, keys: s.keyFramesDecoded ?? 0,
        dropped: s.framesDropped, freezes: s.freezeCount, plis: s.pliCount, nacks: s.nackCount, lost: s.packetsLost,
        waited: s.jitterBufferDelay, emitted: s.jitterBufferEmittedCount, decoding: s.totalDecodeTime,
      };
    }
  }
  throw new Error("no video is received");
}

// move sends the pointer to each of the places, so many milliseconds apart, and
// resolves with when each was sent.
async function move(places, every) {
  const sent = [];
  const message = new DataView(new ArrayBuffer(7));
  message.setUint8(0, 1);
  message.setUint16(1, 4);
  for (const [x, y] of places) {
    await new Promise((resolve) => setTimeout(resolve, every));
    message.setUint16(3, x);
    message.setUint16(5, y);
    sent.push(now());
    channel.send(message.buffer);
  }
  return sent;
}

const ready = () => channel?.readyState === "open";
