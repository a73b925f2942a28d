// The calls of this page, for people who want to do the same by program.

const most = 500;

// These bodies may have passwords, which must not get into the history of a shell.
const secret = /\/(secrets|tokens|credentials|keyboard|clipboard|messages|questions)\b/;

class Requests extends EventTarget {
  /** The latest calls, oldest first: { at, method, url, body, status, ms }. */
  list = [];

  /** begin records a call. The returned function records its status; 0 means no answer. */
  begin(method, url, body) {
    const call = { at: Date.now(), method, url: withoutToken(url), body: secret.test(String(url)) ? undefined : body, status: null, ms: 0 };
    const from = performance.now();
    return (status) => {
      Object.assign(call, { status, ms: Math.round(performance.now() - from) });
      this.list.push(call);
      if (this.list.length > most) this.list.shift();
      this.dispatchEvent(new CustomEvent("call", { detail: call }));
    };
  }
}

/** requests are the calls of this page. */
export const requests = new Requests();

/** curl returns the command of a call. The token is not in it. */
export function curl({ method = "GET", url, body, stream = false }, withToken) {
  const words = ["curl", ...(stream ? ["-N"] : []), ...(withToken ? ['-H "Authorization: Bearer $TOKEN"'] : [])];
  if (method !== "GET" && !(method === "POST" && body !== undefined)) words.push(`-X ${method}`);
  if (body !== undefined) words.push(`--json ${quote(JSON.stringify(body))}`);
  return [...words, quote(withoutToken(url))].join(" ");
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function withoutToken(url) {
  const copy = new URL(url);
  copy.searchParams.delete("access_token");
  return copy.href;
}
