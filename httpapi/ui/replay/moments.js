// Moments: what happens on a desktop and in agents' sessions, for timelines.

import { byOf, sentenceOf, short } from "../actions.js";

/** The lanes of a timeline, from top to bottom. */
export const lanes = [
  { name: "agent", label: "Agent" },
  { name: "people", label: "People" },
  { name: "permissions", label: "Permissions" },
  { name: "errors", label: "Errors" },
];

export const labelOfLane = (name) => lanes.find((lane) => lane.name === name)?.label ?? "Marker";

/**
 * momentOf returns the moment of an event of the desktop, or of an entry of a recording's
 * timeline, or null if it has none. at is its time in milliseconds. A moment is
 * { key, at, lane, by, text, action, session, seq }: by names an actor, action is for
 * drawing, session and seq name an event of a session. Markers have the lane "marker".
 */
export function momentOf(event, at) {
  const { type, action, control, marker, failure, missed, title } = event;
  const made = (lane, by, text, more = {}) => ({ key: `${type} ${event.seq} ${at}`, at, lane, by, text, ...more });
  switch (type) {
    case "action": {
      const text = sentenceOf(action);
      if (!text) return null;
      if (action.error) return made("errors", byOf(action.actor), `${text} failed: ${short(action.error, 200)}`, { action });
      return made(laneOf(action.actor), byOf(action.actor), text, { action });
    }
    case "control":
      if (control?.holder) return made(laneOf(control.holder), byOf(control.holder), control.taken ? "In control, others are paused" : "In control");
      return made("people", "", "No one is in control");
    case "marker":
      return made("marker", "", marker.title, { about: marker.text });
    case "failed":
      return made("errors", "", `Failure: ${short(failure?.message ?? "unknown", 200)}`);
    case "restarted":
      return made("errors", "", "A part of the desktop restarted");
    case "gap":
      return made("errors", "", `${missed} ${missed === 1 ? "event is" : "events are"} missing`);
  }
  if (!title) return null; // windows, or an event of a client without a caption
  return made(/error|fail/.test(type) ? "errors" : /permission/.test(type) ? "permissions" : "agent", "", title);
}

const laneOf = ({ kind }) => (kind === "viewer" ? "people" : "agent");

const answers = { accept: "Allowed", accept_for_session: "Allowed for the session", reject: "Rejected", answered: "Answered", rejected: "Rejected" };

/** momentOfSession returns the moment of an event of a session, or null. */
export function momentOfSession({ type, data, time, session_id: session, sequence: seq }, agent) {
  const made = (lane, by, text) => ({ key: `${session} ${seq}`, at: Date.parse(time), lane, by, text: short(text, 200), session, seq });
  switch (type) {
    case "item.completed":
      return ofItem(data.item, agent, made);
    case "permission.requested":
      return made("permissions", agent, `Asks for permission: ${data.action}`);
    case "question.requested":
      return made("permissions", agent, `Asks: ${data.prompt}`);
    case "permission.resolved":
      return made("permissions", "", `${answers[data.status] ?? data.status}: ${data.action}`);
    case "question.resolved":
      return made("permissions", "", `${answers[data.status] ?? data.status}: ${data.prompt}`);
    case "error":
      return made("errors", agent, data.message);
    case "session.ended":
      return data.reason === "error" ? made("errors", agent, data.message || "The session failed") : null;
  }
  return null;
}

function ofItem({ kind, role, content, status }, agent, made) {
  const textOf = (kindOfPart) => content.find(({ type, text }) => type === kindOfPart && text?.trim())?.text.trim();
  if (kind === "tool_call") {
    const name = content.find(({ type }) => type === "tool_call")?.name || "Tool";
    return status === "failed" ? made("errors", agent, `${name} failed`) : made("agent", agent, name);
  }
  const text = kind === "message" && textOf("text");
  if (!text) return null;
  return role === "user" ? made("people", "", `Message: ${text}`) : made("agent", agent, `Says: ${text}`);
}

/** inOrder sorts moments by time. */
export const inOrder = (moments) => moments.sort((a, b) => a.at - b.at);

/** groupsOf joins the moments of each lane that are less than gap pixels apart: { lane, from, to, moments }, in order. */
export function groupsOf(moments, scale, gap) {
  const groups = [];
  const last = {};
  for (const moment of moments) {
    const open = last[moment.lane];
    if (open && (moment.at - open.to) / scale.perPixel < gap) {
      open.moments.push(moment);
      open.to = moment.at;
      continue;
    }
    groups.push(last[moment.lane] = { lane: moment.lane, from: moment.at, to: moment.at, moments: [moment] });
  }
  return groups;
}

/** textOf returns a moment as a line of text. */
export const textOf = ({ by, text }) => (by ? `${by}: ${text}` : text);

const mostNamed = 3;

/** textOfGroup returns what happened in a group. */
export function textOfGroup({ moments }) {
  if (moments.length <= mostNamed) return moments.map(textOf).join("; ");
  return `${moments.length} events, the last: ${textOf(moments.at(-1))}`;
}
