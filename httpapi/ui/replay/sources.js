// Where timelines get their moments from: recordings and sessions.

import { allSessions, get, server } from "../api.js";
import { inOrder, momentOf, momentOfSession } from "./moments.js";

const page = 1000; // events of a session in one request
const mostPages = 10;
const mostEntries = 20; // pages of a recording's timeline

/** timelineOf returns the entries of a recording's timeline after one with a seq. */
export async function timelineOf(id, after = 0) {
  const all = [];
  for (let n = 0; n < mostEntries; n++) {
    const { entries, next } = await get(`/recordings/${id}/timeline?limit=10000&after=${after}`);
    all.push(...entries);
    if (!next) break;
    after = next;
  }
  return all;
}

/** momentsOf returns the moments of a timeline's entries. */
export const momentsOf = (entries) => inOrder(entries.map((entry) => momentOf(entry, entry.at)).filter(Boolean));

/** sessionMoments returns the moments of all sessions from one time to another, in milliseconds of the clock. */
export async function sessionMoments(from, to) {
  const those = (await allSessions()).filter(({ createdAt, updatedAt }) => createdAt <= to && updatedAt >= from);
  const lists = await Promise.all(those.map((session) => between(session, from, to)));
  return inOrder(lists.flat());
}

const eventsOf = (id, offset, limit) => server("GET", `sessions/${encodeURIComponent(id)}/events?offset=${offset}&limit=${limit}`);

/** sessionEvent returns the event of a session with a sequence number, or null. */
export const sessionEvent = async (id, seq) => (await eventsOf(id, Math.max(0, seq - 1), 1)).events[0] ?? null;

async function between({ sessionId: id, agent, eventCount }, from, to) {
  let [low, high] = [0, eventCount]; // the number of events before from
  while (high - low > page) {
    const middle = (low + high) >> 1;
    const { events: [event] } = await eventsOf(id, middle, 1);
    if (event && Date.parse(event.time) < from) low = middle;
    else high = middle;
  }
  const moments = [];
  for (let n = 0; n < mostPages; n++) {
    const { events, hasMore } = await eventsOf(id, low, page);
    moments.push(...events.map((event) => momentOfSession(event, agent)).filter(Boolean));
    if (!hasMore || Date.parse(events.at(-1).time) > to) break;
    low = events.at(-1).sequence;
  }
  return moments.filter(({ at }) => at >= from && at <= to);
}
