// Numbers and times for people.

/** clock formats milliseconds as 0:42 or 1:02:03. */
export function clock(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** bytes formats a size as 3.1 MB. */
export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (n >= 999.5 && unit < units.length - 1) { n /= 1000; unit++; }
  return `${unit && n < 9.95 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

/** when formats a date and time to the minute. */
export const when = (time) => new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });

/** exactly formats a date and time to the second. */
export const exactly = (time) => new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
