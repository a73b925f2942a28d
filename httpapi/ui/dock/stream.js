// Event streams with events of any name: EventSource needs to know the names.

import { request } from "../api.js";

const pause = 2000; // milliseconds before the stream is opened again

/**
 * follow calls found with { id, type, data } for each event of a stream until signal is
 * aborted. It opens the stream again after the last event. failed gets each error.
 */
export async function follow(url, { signal, found, failed }) {
  for (let last = ""; !signal.aborted;) {
    try {
      const response = await request("GET", url, { signal, headers: { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) } });
      failed(null);
      for await (const event of read(response.body)) {
        last = event.id || last;
        found(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      failed(error);
    }
    await new Promise((done) => setTimeout(done, pause));
  }
}

async function* read(body) {
  let rest = "";
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + text).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { id: "", type: "message", data: "" };
      for (const line of block.split("\n")) {
        const [, name, value] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
        if (name === "event") event.type = value;
        else if (name === "id") event.id = value;
        else if (name === "data") event.data += (event.data && "\n") + value;
      }
      if (event.data) yield event;
    }
  }
}
