// The desktop's pointer, which is not in the picture: the page's cursor while the
// viewer has control, otherwise an image at its position.

// The largest cursor that browsers show.
const largest = 128;
// The smallest scale of the pointer in a picture that is scaled down.
const smallest = 0.6;

export class Cursor {
  #surface;
  #image;
  #cursor = null; // { url, width, height, x, y }
  #at = null;
  #scale = 1;
  #mine = false;
  #touched = false;

  constructor({ surface, image }) {
    this.#surface = surface;
    this.#image = image;
    surface.addEventListener("pointerdown", ({ pointerType }) => this.#use(pointerType));
    surface.addEventListener("pointermove", ({ pointerType }) => this.#use(pointerType));
  }

  // Touch has no cursor.
  #use(pointerType) {
    if ((pointerType === "touch") === this.#touched) return;
    this.#touched = pointerType === "touch";
    this.#show();
  }

  /** follow shows the pointer of a link, or none for null. */
  follow(link) {
    this.#cursor = this.#at = null;
    link?.addEventListener("cursor", ({ detail }) => this.#changed(detail));
    link?.addEventListener("pointer", ({ detail }) => this.#moved(detail));
    this.#show();
  }

  /** mine sets whether the viewer has control. */
  set mine(value) {
    this.#mine = value;
    this.#show();
  }

  /** scale sets the size of a pixel of the desktop on the page. */
  set scale(value) {
    this.#scale = value;
    this.#show();
  }

  /** The position of the pointer, or null if it is not known. */
  get at() { return this.#at; }

  /** moveTo sets the position to which the viewer moved the pointer. */
  moveTo(at) {
    this.#at = at;
    if (!this.#mine || this.#touched) this.#show();
  }

  #changed({ png, ...cursor }) {
    let bytes = "";
    for (const byte of png) bytes += String.fromCharCode(byte);
    this.#cursor = { ...cursor, url: png.length ? `data:image/png;base64,${btoa(bytes)}` : "" };
    if (this.#cursor.url) this.#image.src = this.#cursor.url;
    this.#show();
  }

  #moved(at) {
    this.#at = at;
    this.#show();
  }

  #show() {
    const own = this.#mine && !this.#touched;
    this.#surface.style.cursor = own ? this.#css() : "";
    const seen = !own && this.#cursor?.url && this.#at !== null;
    this.#image.hidden = !seen;
    if (!seen) return;
    const { x, y, width, height } = this.#cursor;
    const size = Math.max(smallest, Math.min(1, this.#scale));
    Object.assign(this.#image, { width: width * size, height: height * size });
    const [left, top] = [this.#at.x * this.#scale - x * size, this.#at.y * this.#scale - y * size];
    this.#image.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  #css() {
    if (!this.#cursor) return "default";
    const { url, width, height, x, y } = this.#cursor;
    if (!url || !width || !height) return "none";
    return width > largest || height > largest ? "default" : `url("${url}") ${x} ${y}, default`;
  }
}
