// Keysyms for the keys that browsers report (X Window System Protocol,
// appendix A, and keysymdef.h).

const shiftLeft = 0xffe1;
export const controlLeft = 0xffe3;
export const altLeft = 0xffe9;
const superLeft = 0xffeb;

// Keys by KeyboardEvent.key; with two keysyms, the left and the right key.
const named = {
  Shift: [shiftLeft, 0xffe2], Control: [controlLeft, 0xffe4], Alt: [altLeft, 0xffea], Meta: [superLeft, 0xffec], OS: [superLeft, 0xffec],

  Backspace: 0xff08, Tab: 0xff09, Clear: 0xff0b, Enter: 0xff0d, Pause: 0xff13, Escape: 0xff1b, Delete: 0xffff,
  Home: 0xff50, ArrowLeft: 0xff51, ArrowUp: 0xff52, ArrowRight: 0xff53, ArrowDown: 0xff54, PageUp: 0xff55, PageDown: 0xff56, End: 0xff57,
  Select: 0xff60, PrintScreen: 0xff61, Execute: 0xff62, Insert: 0xff63, Undo: 0xff65, Redo: 0xff66, ContextMenu: 0xff67,
  Find: 0xff68, Cancel: 0xff69, Help: 0xff6a,

  NonConvert: 0xff22, Convert: 0xff23, Hiragana: 0xff25, Katakana: 0xff26, HiraganaKatakana: 0xff27, Zenkaku: 0xff28, Hankaku: 0xff29,
  ZenkakuHankaku: 0xff2a, KanaMode: 0xff2d, HangulMode: 0xff31, HanjaMode: 0xff34,

  AudioVolumeDown: 0x1008ff11, AudioVolumeMute: 0x1008ff12, AudioVolumeUp: 0x1008ff13, MediaPlayPause: 0x1008ff14, MediaStop: 0x1008ff15,
  MediaTrackPrevious: 0x1008ff16, MediaTrackNext: 0x1008ff17, BrowserHome: 0x1008ff18, LaunchMail: 0x1008ff19, BrowserSearch: 0x1008ff1b,
  BrowserBack: 0x1008ff26, BrowserForward: 0x1008ff27, BrowserStop: 0x1008ff28, BrowserRefresh: 0x1008ff29, BrowserFavorites: 0x1008ff30,
};
for (let n = 1; n <= 24; n++) named[`F${n}`] = 0xffbd + n;

const keypadEnter = 0xff8d;

// The characters of a US keyboard's keys, for shortcuts on other keyboards:
// Ctrl and the key of Cyrillic С is Ctrl+C.
const plain = {
  Minus: "-", Equal: "=", BracketLeft: "[", BracketRight: "]", Backslash: "\\", Semicolon: ";", Quote: "'", Backquote: "`",
  Comma: ",", Period: ".", Slash: "/", Space: " ",
};
for (let n = 0; n < 10; n++) plain[`Digit${n}`] = String(n);
for (const letter of "ABCDEFGHIJKLMNOPQRSTUVWXYZ") plain[`Key${letter}`] = letter.toLowerCase();

/** ofCharacter returns the keysym of a character, and 0 for control characters. */
export function ofCharacter(character) {
  const code = character.codePointAt(0);
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return 0;
  return code < 0x100 ? code : 0x01000000 + code;
}

/** isCharacter returns whether a KeyboardEvent.key is the typed character. */
export const isCharacter = (key) => [...key].length === 1;

/** of returns the keysym of a pressed key, and 0 if X has none or the key stays on the viewer's computer. */
export function of({ key, code, location, ctrlKey, altKey, metaKey }) {
  if (isCharacter(key)) {
    const chord = ctrlKey || altKey || metaKey;
    return ofCharacter(chord && key > "~" && plain[code] ? plain[code] : key);
  }
  if (key === "Enter" && location === KeyboardEvent.DOM_KEY_LOCATION_NUMPAD) return keypadEnter;
  const sym = named[key];
  if (Array.isArray(sym)) return sym[location === KeyboardEvent.DOM_KEY_LOCATION_RIGHT ? 1 : 0];
  return sym ?? 0;
}

/** ofName returns the keysym of a key that has a button on the page. */
export const ofName = (name) => (isCharacter(name) ? ofCharacter(name) : [named[name]].flat()[0]);

export const isShift = (sym) => sym === shiftLeft || sym === shiftLeft + 1;
export const isAlt = (sym) => sym === altLeft || sym === altLeft + 1;

// The characters of a US keyboard without Shift.
const unshifted = "`1234567890-=[]\\;',./";

/**
 * clashesWithShift returns whether Shift must be released for a character that
 * was typed with it: on a German keyboard / is Shift and 7, but a desktop whose
 * keyboard is American would take Shift and / for a question mark.
 */
export const clashesWithShift = (key) => unshifted.includes(key) || (isCharacter(key) && key > "~");
