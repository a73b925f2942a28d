// Just enough of three picture formats to tell what a screenshot shows.
import assert from "node:assert/strict";
import { inflateSync } from "node:zlib";

const bytes = (data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength);

// size returns {format, width, height} of a PNG, JPEG or WebP file.
export function size(data) {
  const b = bytes(data);
  if (b.readUInt32BE(0) === 0x89504e47) {
    return { format: "png", width: b.readUInt32BE(16), height: b.readUInt32BE(20) };
  }
  if (b.readUInt16BE(0) === 0xffd8) return jpegSize(b);
  assert.equal(b.toString("latin1", 0, 4) + b.toString("latin1", 8, 12), "RIFFWEBP");
  return webpSize(b);
}

// jpegSize walks the segments to the start of frame (ITU T.81, B.2.2).
function jpegSize(b) {
  for (let at = 2; at < b.length; ) {
    assert.equal(b[at], 0xff, "a JPEG segment begins with FF");
    const marker = b[at + 1];
    if (marker >= 0xc0 && marker <= 0xc2) {
      return { format: "jpeg", height: b.readUInt16BE(at + 5), width: b.readUInt16BE(at + 7) };
    }
    at += 2 + b.readUInt16BE(at + 2);
  }
  return assert.fail("JPEG without a frame");
}

// webpSize knows the three kinds of first chunk (RFC 9649, section 2).
function webpSize(b) {
  const at = 20;
  switch (b.toString("latin1", 12, 16)) {
    case "VP8 ":
      return { format: "webp", width: b.readUInt16LE(at + 6) & 0x3fff, height: b.readUInt16LE(at + 8) & 0x3fff };
    case "VP8L": {
      const bits = b.readUInt32LE(at + 1);
      return { format: "webp", width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case "VP8X":
      return { format: "webp", width: b.readUIntLE(at + 4, 3) + 1, height: b.readUIntLE(at + 7, 3) + 1 };
  }
  return assert.fail("unknown WebP chunk");
}

const samples = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

// decodePNG returns {width, height, at(x, y) -> "#rrggbb"}; no interlacing.
export function decodePNG(data) {
  const b = bytes(data);
  const { width, height } = size(b);
  const depth = b[24];
  const colour = b[25];
  assert.ok(depth <= 8 && b[28] === 0, "a depth or interlacing that screenshots do not have");
  const { packed, palette } = chunks(b);
  const bits = depth * samples[colour];
  const stride = Math.ceil((width * bits) / 8);
  const rows = unfilter(inflateSync(packed), stride, height, Math.max(1, bits >> 3));
  const at = (x, y) => {
    assert.ok(x >= 0 && y >= 0 && x < width && y < height, `(${x},${y}) is outside`);
    const row = rows.subarray(y * stride, (y + 1) * stride);
    return pixel(row, x, depth, colour, palette);
  };
  return { width, height, at };
}

function chunks(b) {
  const idat = [];
  let palette;
  for (let at = 8; at < b.length; ) {
    const length = b.readUInt32BE(at);
    const body = b.subarray(at + 8, at + 8 + length);
    const kind = b.toString("latin1", at + 4, at + 8);
    if (kind === "IDAT") idat.push(body);
    if (kind === "PLTE") palette = body;
    at += 12 + length;
  }
  return { packed: Buffer.concat(idat), palette };
}

// unfilter undoes the scan line filters (PNG specification, section 9).
function unfilter(raw, stride, height, step) {
  assert.equal(raw.length, (stride + 1) * height, "length of the pixel data");
  const out = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)];
    for (let i = 0; i < stride; i++) {
      const left = i >= step ? out[y * stride + i - step] : 0;
      const up = y > 0 ? out[(y - 1) * stride + i] : 0;
      const corner = y > 0 && i >= step ? out[(y - 1) * stride + i - step] : 0;
      const add = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      out[y * stride + i] = raw[y * (stride + 1) + 1 + i] + add;
    }
  }
  return out;
}

function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [l, u, c] = [left, up, corner].map((v) => Math.abs(guess - v));
  if (l <= u && l <= c) return left;
  return u <= c ? up : corner;
}

function pixel(row, x, depth, colour, palette) {
  const per = 8 / depth;
  const sample = (i) => (row[Math.floor(i / per)] >> (8 - depth * ((i % per) + 1))) & ((1 << depth) - 1);
  const first = x * samples[colour];
  let rgb;
  if (colour === 3) rgb = [...palette.subarray(sample(x) * 3, sample(x) * 3 + 3)];
  else if (colour === 2 || colour === 6) rgb = [0, 1, 2].map((i) => row[first + i]);
  else rgb = Array(3).fill(Math.round((sample(first) * 255) / ((1 << depth) - 1)));
  return "#" + rgb.map((v) => v.toString(16).padStart(2, "0")).join("");
}
