// Calls of the server's API, and the token that they carry.

const query = new URLSearchParams(location.search);

/** The desktop that the page shows: ?desktop=ID, or main. */
export const desktop = query.get("desktop") || "main";

/** Whether the page only watches: ?role=view. */
export const viewOnly = query.get("role") === "view";

/** The name that other viewers see: ?name=. */
export const name = (query.get("name") ?? "").slice(0, 64);

// The API's URL is relative to the page, so that a proxy may add a prefix.
const root = new URL("../v1/", import.meta.url);
const base = desktop === "main" ? "desktop" : `desktops/${encodeURIComponent(desktop)}`;

/** at returns the URL of a path of the desktop's API. */
export const urlOf = (path) => new URL(base + path, root);

// ---- token -------------------------------------------------------------

const storage = "token";

// The URL that the server printed, or a shared link, contains the token.
// It is kept for this tab and taken out of the address, the history and what a
// reload would send.
function takeToken() {
  const url = new URL(location.href);
  const fragment = new URLSearchParams(url.hash.slice(1));
  let given = null;
  for (const params of [url.searchParams, fragment]) {
    for (const key of ["token", "t"]) {
      given ??= params.get(key);
      params.delete(key);
    }
  }
  if (given === null) return false;
  sessionStorage.setItem(storage, given);
  url.hash = fragment.toString();
  history.replaceState(null, "", url);
  return true;
}

takeToken();
// The browser does not reload the page for a link that differs in the fragment only.
addEventListener("hashchange", () => { if (takeToken()) location.reload(); });

/** Whether the token may be a shared link's. */
export const byLink = () => token().startsWith("dh_");

export const token = () => sessionStorage.getItem(storage) ?? "";
export const setToken = (value) => sessionStorage.setItem(storage, value);

// ---- calls -------------------------------------------------------------

let identity = {};

/** actAs sets the headers that name the actor of each call. */
export const actAs = (headers) => { identity = headers; };

/** Problem is the server's answer to a call that failed. Its status is 0 if there was no answer. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title);
    this.status = status;
    this.title = body.title;
    this.code = String(body.type ?? "").split(":").pop();
    this.body = body;
  }
}

const silence = {
  title: "Can't reach the server",
  detail: "The server has stopped, or the network is down.",
};

/** request calls the server; body is JSON. It throws a Problem, or an AbortError. */
export async function request(method, url, { body, headers = {}, signal, keepalive } = {}) {
  if (method !== "GET") headers = { ...identity, ...headers };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const init = { method, headers, signal, keepalive, cache: "no-store" };
  if (body !== undefined) init.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, silence);
  }
  if (response.ok || response.status === 304) return response;
  const told = await response.json().catch(() => null);
  throw new Problem(response.status, told ?? { title: response.statusText || `Status ${response.status}` });
}

/** get and post call the desktop's API and return the answer's JSON. */
export const get = async (path, options) => (await request("GET", urlOf(path), options)).json();
export const post = async (path, body = {}, options = {}) => (await request("POST", urlOf(path), { ...options, body })).json();

/** Calls of the server as a whole. */
export const server = async (method, path, body) => {
  const response = await request(method, new URL(path, root), { body });
  return response.status === 204 ? null : response.json();
};

/** socketURL returns the URL of a WebSocket, with the token: browsers cannot send headers with it. */
export function socketURL(path) {
  const url = urlOf(path);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  if (token()) url.searchParams.set("access_token", token());
  if (viewOnly) url.searchParams.set("role", "view");
  if (name) url.searchParams.set("name", name);
  return url;
}

/** mediaURL returns the URL of what an element loads, with the token: elements send no headers. */
export function mediaURL(path) {
  const url = urlOf(path);
  if (token()) url.searchParams.set("access_token", token());
  return url.href;
}

/**
 * eventsURL returns the URL of the desktop's event stream, for EventSource, with
 * events of these types only. When the stream ends, control of the actor holder ends.
 */
export function eventsURL(types = "", holder = "") {
  const url = new URL(mediaURL("/events"));
  if (types) url.searchParams.set("types", types);
  if (holder) url.searchParams.set("holder", holder);
  return url;
}
