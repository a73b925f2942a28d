// The colors of the page: those of the system, light or dark.

const storage = "theme";
const system = matchMedia("(prefers-color-scheme: dark)");

class Theme extends EventTarget {
  constructor() {
    super();
    this.#apply(localStorage.getItem(storage));
    system.addEventListener("change", () => this.dispatchEvent(new Event("change")));
  }

  /** choice is system, light or dark. */
  get choice() { return document.documentElement.dataset.theme ?? "system"; }

  get dark() { return this.choice === "system" ? system.matches : this.choice === "dark"; }

  choose(choice) {
    localStorage.setItem(storage, choice);
    this.#apply(choice);
    this.dispatchEvent(new Event("change"));
  }

  #apply(choice) {
    if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
    else delete document.documentElement.dataset.theme;
  }
}

/** theme holds what the user chose. Event: change. */
export const theme = new Theme();
