// A relay between a client and the server, which cuts event streams.
import { Agent, createServer, request } from "node:http";
import { once } from "node:events";
import { baseUrl } from "./lib.mjs";

// relay passes everything on, until the first event stream has carried a number
// of events: then it ends that stream, in the middle of an event or, with
// politely, as a server does.
export async function relay(after, { politely = false } = {}) {
  const streams = []; // the Last-Event-ID of each event stream
  const keep = new Agent({ keepAlive: true });
  const server = createServer((req, res) => {
    const target = new URL(req.url, baseUrl);
    const onward = request(target, { method: req.method, headers: req.headers, agent: keep }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      const stream = /^text\/event-stream/.test(answer.headers["content-type"]);
      if (stream) streams.push(req.headers["last-event-id"] ?? null);
      if (!stream || streams.length > 1) return void answer.pipe(res);
      cutting(answer, res);
    });
    onward.on("error", () => res.destroy());
    res.on("close", () => onward.destroy());
    req.pipe(onward);
  });

  function cutting(answer, res) {
    let seen = 0;
    answer.on("data", (chunk) => {
      const events = chunk.toString("latin1").split("\nid: ").length - 1;
      seen += events;
      if (seen < after) return void res.write(chunk);
      answer.destroy();
      res.write(chunk.subarray(0, chunk.length - 7), () => (politely ? res.end() : res.destroy()));
    });
    answer.on("error", () => res.destroy());
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    streams,
    close() {
      server.close();
      server.closeAllConnections();
      keep.destroy();
    },
  };
}
