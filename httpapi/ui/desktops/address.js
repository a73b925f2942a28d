// Addresses of the page.

/** addressOf returns the address of the page that shows a desktop. */
export function addressOf(id) {
  const url = new URL(location.href);
  url.hash = "";
  if (id === "main") url.searchParams.delete("desktop");
  else url.searchParams.set("desktop", id);
  return url.href;
}
