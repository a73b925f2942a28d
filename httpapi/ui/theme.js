// The theme of the page: light, dark, or what the system says.

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

  /** dark reports whether the page is dark now. */
  get dark() { return this.choice === "system" ? system.matches : this.choice === "dark"; }

  /** choose sets the theme, here and on later visits. */
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
