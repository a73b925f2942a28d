// Servers that answer as the vendors of sandboxes do, and record what the
// vendors' SDKs ask of them.
import { createServer } from "node:http";

/**
 * recorder starts a server. answer gets a call, { method, path, body, ... }, and
 * returns what to send: a value for JSON, a number for a status, or a function
 * that writes the response.
 */
export async function recorder(answer) {
  const calls = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const raw = Buffer.concat(chunks);
    const url = new URL(request.url, "http://127.0.0.1");
    const json = request.headers["content-type"]?.startsWith("application/json") && raw.length > 0;
    const call = { method: request.method, path: url.pathname, query: Object.fromEntries(url.searchParams), headers: request.headers, raw };
    if (json) call.body = JSON.parse(raw);
    calls.push(call);
    const result = answer(call);
    if (typeof result === "function") return result(response);
    if (typeof result === "number") return response.writeHead(result, { "content-type": "application/json" }).end(result === 204 ? undefined : `{"code":${result},"message":"recorded answer"}`);
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(result));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return { url: `http://127.0.0.1:${server.address().port}`, calls };
}

/** lines are the calls as "METHOD /path", in order. */
export function lines(calls) {
  return calls.map(({ method, path }) => `${method} ${path}`);
}

/** frame is a message of a stream of the Connect protocol. */
export function frame(message, flags = 0) {
  const text = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(text.length, 1);
  return Buffer.concat([head, text]);
}

/** sandboxFetch is a fetch for the SDK that records the requests to the sandbox. */
export function sandboxFetch() {
  const requests = [];
  const fetch = async (input, init) => {
    const request = new Request(input, init);
    requests.push({ url: request.url, authorization: request.headers.get("authorization") });
    return Response.json({ status: "ok" });
  };
  return { requests, fetch };
}
