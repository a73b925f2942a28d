// Calls of the server's API, and the token that they carry.

import { requests } from "./requests.js";

const query = new URLSearchParams(location.search);

/** The desktop that the page shows: ?desktop=ID, or main. */
export const desktop = query.get("desktop") || "main";

/** Whether the page only watches: ?role=view. */
export const viewOnly = query.get("role") === "view";

/** The name that other viewers see: ?name=. */
export const name = (query.get("name") ?? "").slice(0, 64);

// The API's URL is relative to the page, so that a proxy may add a prefix. Scripts have
// another folder than the page, one for each version.
const root = new URL("../v1/", document.baseURI);
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
  const [, route, rest] = /^#?((?:\/[^?&]*)?)(.*)/.exec(url.hash);
  const fragment = new URLSearchParams(rest);
  let given = null;
  for (const params of [url.searchParams, fragment]) {
    for (const key of ["token", "t"]) {
      given ??= params.get(key);
      params.delete(key);
    }
  }
  if (given === null) return false;
  sessionStorage.setItem(storage, given);
  url.hash = [route, fragment].filter(String).join("&");
  history.replaceState(null, "", url);
  return true;
}

/** The page of the server that an inspector URL names, if that is not the page's own server. */
export let elsewhere = "";

// An inspector URL may name the server, and headers for each call, which some proxies need. The
// page calls its own server only, so the token and the headers for another one are left out.
function takeInspector() {
  const url = new URL(location.href);
  const params = url.searchParams;
  if (!params.has("url") && !params.has("headers")) return;
  const server = URL.canParse(params.get("url")) ? new URL(params.get("url")) : url;
  if (/^https?:$/.test(server.protocol) && server.origin !== url.origin) {
    elsewhere = `${server.origin}${server.pathname.replace(/\/+$/, "")}/ui/`;
    params.delete("token");
  } else if (params.has("headers")) {
    sessionStorage.setItem("headers", params.get("headers"));
  }
  params.delete("url");
  params.delete("headers");
  history.replaceState(null, "", url);
}

takeInspector();
takeToken();
// The browser does not reload the page for a link that differs in the fragment only.
addEventListener("hashchange", () => { if (takeToken()) location.reload(); });

/** Whether the token may be a shared link's. */
export const byLink = () => token().startsWith("dh_");

/** The scope of the page's token, once learnScope has returned. */
export let scope = "admin";

/** Whether the token reaches files of the server, once learnScope has returned. */
export let hasFiles = true;

/** learnScope asks the server for the scope of the token. */
export async function learnScope() {
  let roots = [];
  if (viewOnly) scope = "view";
  else if (byLink()) ({ scope, roots = [] } = await server("GET", "health"));
  hasFiles = scope === "admin" || roots.length > 0;
}

export const token = () => sessionStorage.getItem(storage) ?? "";
export const setToken = (value) => sessionStorage.setItem(storage, value);

// ---- calls -------------------------------------------------------------

let identity = {};

// The page sets these headers. A link must not choose the actor, or have events show what a person types.
const ours = /^(deskhand-|content-type$)/;

/** callHeaders returns the headers of each call: the inspector URL's, if they are valid, and the token. */
export function callHeaders() {
  let given = {};
  try {
    given = Object.fromEntries([...new Headers(JSON.parse(sessionStorage.getItem("headers") ?? "{}"))].filter(([name]) => !ours.test(name)));
  } catch { /* not a JSON object of headers */ }
  return token() ? { ...given, authorization: `Bearer ${token()}` } : given;
}

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

let ahead = 0; // the server's clock, compared with this one

/** serverNow returns the time by the server's clock. Clocks that differ by less than two seconds are taken as equal. */
export const serverNow = () => Date.now() + (Math.abs(ahead) < 2000 ? 0 : ahead || 0);

/** request calls the server; body is JSON, file is sent as it is. It throws a Problem, or an AbortError. */
export async function request(method, url, { body, file, headers = {}, signal, keepalive } = {}) {
  if (method !== "GET") headers = { ...identity, ...headers };
  headers = { ...callHeaders(), ...headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const init = { method, headers, signal, keepalive, cache: "no-store" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (file !== undefined) init.body = file;
  const done = requests.begin(method, url, body);
  let response;
  try {
    response = await fetch(url, init);
    done(response.status);
    ahead = Date.parse(response.headers.get("Date")) - Date.now();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    done(0);
    throw new Problem(0, silence);
  }
  if (response.ok || response.status === 304) return response;
  const problem = await response.json().catch(() => null);
  throw new Problem(response.status, problem ?? { title: response.statusText || `Status ${response.status}` });
}

/** get and post call the desktop's API and return the answer's JSON. */
export const get = async (path, options) => (await request("GET", urlOf(path), options)).json();
export const post = async (path, body = {}, options = {}) => (await request("POST", urlOf(path), { ...options, body })).json();

/** serverURL returns the URL of a path of the API of the server as a whole. */
export const serverURL = (path) => new URL(path, root);

/** server calls the API of the server as a whole, and returns the answer's JSON. */
export const server = async (method, path, body) => {
  const response = await request(method, serverURL(path), { body });
  return response.status === 204 ? null : response.json();
};

/** allSessions returns all sessions of the server. */
export async function allSessions() {
  const all = [];
  for (let path = "sessions"; path;) {
    const { sessions, next } = await server("GET", path);
    all.push(...sessions);
    path = next && `sessions?cursor=${encodeURIComponent(next)}`;
  }
  return all;
}

/** streamURL is serverURL for EventSource, with the token: it sends no headers. */
export function streamURL(path) {
  const url = serverURL(path);
  if (token()) url.searchParams.set("access_token", token());
  return url;
}

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
