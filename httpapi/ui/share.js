// Links to share: the page's URL with a token for watching
// or control, until it expires or is revoked.

import { desktop, server, token } from "./api.js";
import { $, copyButton, make, once, setText, show, sure } from "./dom.js";
import { inOneLine } from "./errors.js";
import { when } from "./format.js";

const mark = "shared link";

/** Share fills the panel. write puts a text on the clipboard. */
export class Share {
  #write;

  constructor({ write }) {
    this.#write = write;
    $("share-panel").addEventListener("toggle", ({ newState }) => { if (newState === "open") this.#refresh(); });
    once($("share-make"), () => this.#make());
  }

  async #make() {
    const scope = $("share-scope").value;
    try {
      const made = token() ? await server("POST", "tokens", { scope, desktop, ttl: Number($("share-time").value), name: mark }) : null;
      this.#link(scope, made?.token);
      this.#refresh();
    } catch (error) {
      this.#showProblem(error);
    }
  }

  #link(scope, value) {
    const url = new URL(location.pathname, location.href);
    if (desktop !== "main") url.searchParams.set("desktop", desktop);
    if (scope === "view") url.searchParams.set("role", "view");
    if (value) url.hash = `token=${value}`;
    const field = make("input", { readOnly: true, value: url.href, "aria-label": "Link", onfocus: () => field.select() });
    const here = /^(localhost|127\.[\d.]+|\[::1\])$/.test(url.hostname);
    $("share-link").replaceChildren(field, copyButton(() => url.href, this.#write), ...(here ? [make("p", { className: "dim" }, "This link works only on this computer. Open the page at the server's own address to share it with others.")] : []));
    show($("share-link"), true);
    this.#showProblem("");
  }

  // Active links are listed, each with a button that revokes it.
  async #refresh() {
    show($("share-open"), !token());
    show($("share-time-row"), Boolean(token()));
    if (!token()) return;
    try {
      const { tokens } = await server("GET", "tokens");
      const links = tokens.filter(({ name, desktop: of }) => name === mark && of === desktop);
      $("share-list").replaceChildren(...links.map((link) => this.#item(link)));
      show($("share-given"), links.length > 0);
      this.#showProblem("");
    } catch (error) {
      this.#showProblem(error);
    }
  }

  #item({ id, scope, expiresAt }) {
    const revoke = make("button", { type: "button", className: "small" }, "Revoke");
    sure(revoke, "Revoke?", async () => {
      await server("DELETE", `tokens/${id}`).catch((error) => this.#showProblem(error));
      await this.#refresh();
    });
    return make("li", {}, make("span", {}, `${scope === "view" ? "View" : "Control"}, expires ${when(expiresAt)}`), revoke);
  }

  #showProblem(error) {
    const own = error?.status === 403 ? "Your link doesn't allow sharing. Ask the owner of the server for a link." : error && inOneLine(error);
    setText($("share-problem"), own || "");
    show($("share-problem"), Boolean(error));
  }
}
