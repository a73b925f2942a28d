// Paths of files on the server.

/** pathQuery returns the query that names an entry. A name may be no text, but bytes. */
export function pathQuery({ path, pathBase64 }) {
  if (!pathBase64) return `path=${encodeURIComponent(path)}`;
  return `path=${[...atob(pathBase64)].map((c) => `%${c.charCodeAt(0).toString(16).padStart(2, "0")}`).join("")}`;
}

/** join returns the path of a name in a folder. */
export const join = (folder, name) => (folder.endsWith("/") ? folder + name : `${folder}/${name}`);

/** parent returns the folder of a path. */
export const parent = (path) => path.replace(/\/+[^/]*\/*$/, "") || "/";

/** base returns the name of a path. */
export const base = (path) => path.replace(/\/+$/, "").split("/").pop() || "/";

/** numbered returns a name with a number before its extension: a (2).txt. */
export function numbered(name, n) {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? `${name.slice(0, dot)} (${n})${name.slice(dot)}` : `${name} (${n})`;
}
