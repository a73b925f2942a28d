// Files that are dragged to the page. Panes take them. Elsewhere the browser would leave the page.

/** followDrops opens the pane of files for dragged files, and refuses them where no pane takes them. */
export function followDrops(layout) {
  addEventListener("dragenter", (event) => {
    if (event.relatedTarget || !event.dataTransfer?.types.includes("Files")) return; // only from outside the page
    if (!layout.isOpen("files") && !layout.isOpen("chat")) layout.open("files", { focus: false });
  });
  addEventListener("dragover", (event) => {
    if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
  });
  addEventListener("drop", (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
}
