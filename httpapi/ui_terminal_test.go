package httpapi

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/deskhand/deskhand/internal/testbrowser"
)

// shots keeps pictures of the page for reviewers, in light and dark, wide and narrow:
// go test -artifacts.
func (v *viewer) shots(name string) {
	v.t.Helper()
	for _, scheme := range []string{"dark", "light"} {
		p := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(v.ctx, emulation.SetEmulatedMedia, p); err != nil {
			v.t.Fatal(err)
		}
		for _, width := range []int64{1280, 390} {
			testbrowser.Do(v.ctx, v.t, chromedp.EmulateViewport(width, 800))
			v.holds(`document.documentElement.scrollWidth <= innerWidth`)
			picture, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				v.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(v.t.ArtifactDir(), fmt.Sprintf("%s-%s-%d.png", name, scheme, width)), picture, 0o600); err != nil {
				v.t.Fatal(err)
			}
		}
	}
	testbrowser.Do(v.ctx, v.t, chromedp.EmulateViewport(1400, 900))
}

// paste pastes a text into the element that has the focus.
func (v *viewer) paste(text string) {
	v.t.Helper()
	v.holds(`(() => {
		const data = new DataTransfer();
		data.setData("text/plain", %q);
		return document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })) || true;
	})()`, text)
}

// TestPageTerminal: shells in tabs, with colours under the page's policy. They are there
// again after a reload, with what they printed.
func TestPageTerminal(t *testing.T) {
	t.Parallel()
	requireLibs(t)
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	const screen = `[role=tabpanel]:not([hidden]) .xterm-rows`
	line := func(text string) { t.Helper(); v.types(text); v.press(enter) }
	v.click(`#rail [aria-label="Terminal"]`)
	v.holds(`document.activeElement.matches(".xterm textarea") && document.querySelectorAll("[role=tab]").length === 1`)
	line(`PS1='$ '; clear`)
	line(`echo $((6*7)) $DISPLAY`)
	v.shows(screen, "\n42 :")
	line(`stty size`)
	rows := testbrowser.Evaluate[int](v.ctx, t, `document.querySelector("`+screen+`").children.length`)
	if rows < 8 {
		t.Errorf("the terminal has %d rows in a dock of 260 pixels", rows)
	}
	v.holds(`document.querySelector("%s").innerText.includes("\n%d ")`, screen, rows)
	// Colours of the palette come from a style sheet, others from styles of elements.
	line(`printf '\033[31mred\033[0m \033[1;38;2;200;30;100mpink\033[0m\n'`)
	color := `[...document.querySelectorAll("` + screen + ` span")].filter((e) => e.textContent.trim() === "%s").map((e) => getComputedStyle(e).color).at(-1)`
	v.holds(color+` === "rgb(180, 35, 24)"`, "red")
	v.holds(color+` === "rgb(200, 30, 100)"`, "pink")
	v.shots("terminal")
	v.click(screen)

	// A program that gets lines as they come is not given many of them unasked.
	line(`echo now; cat`)
	v.shows(screen, "\nnow\n")
	v.paste("one\ntwo\n")
	v.shows("dialog[open] h2", "Paste 2 lines?")
	v.holds(`document.activeElement.textContent === "Cancel"`)
	v.shots("paste")
	v.click(`dialog[open] button:nth-child(2)`)
	v.shows(screen, "\none two")
	v.holds(`document.activeElement.matches(".xterm textarea")`)
	v.press(enter)
	v.shows(screen, "one two\none two\n")
	// A large text arrives whole, however many messages it takes.
	testbrowser.Evaluate[bool](v.ctx, t, `(window.large = "😀".repeat(25_000), true)`)
	v.press(key{name: "c", code: "KeyC", virtual: 'C', modifiers: chromedp.ModifierCtrl})
	line(`stty -icanon -echo; echo rea""dy; head -c 100000 | md5sum; stty sane`)
	v.shows(screen, "ready")
	v.holds(`(() => {
		const data = new DataTransfer();
		data.setData("text/plain", window.large);
		return document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })) || true;
	})()`)
	sum := md5.Sum([]byte(strings.Repeat("😀", 25_000)))
	v.shows(screen, hex.EncodeToString(sum[:]))
	line(`echo now again; cat`)
	v.shows(screen, "\nnow again\n")
	v.paste("single")
	v.shows(screen, "single")
	v.press(enter)
	v.down(control)
	v.press(key{name: "d", code: "KeyD", virtual: 'D', modifiers: chromedp.ModifierCtrl})
	v.up(control)

	// The keyboard: out of the terminal, to another one, and back.
	for _, k := range []key{control, alt, shift} {
		k.modifiers = chromedp.ModifierCtrl | chromedp.ModifierAlt | chromedp.ModifierShift
		v.down(k)
	}
	v.holds(`document.activeElement.matches("[role=tab]")`)
	for _, k := range []key{shift, alt, control} {
		k.modifiers = 0
		v.up(k)
	}
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	v.holds(`document.querySelectorAll("[role=tab]").length === 2 && document.activeElement.matches(".xterm textarea")`)
	v.holds(`[...document.querySelectorAll("[role=tab]")].map((e) => e.textContent).join() === "bash,bash 2"`)
	line("echo second $((1+1))")
	v.shows(screen, "second 2")

	// A name, and a search.
	v.click(`[aria-label="Rename terminal"]`)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("build"+kb.Enter))
	v.holds(`[...document.querySelectorAll("[role=tab]")].map((e) => e.textContent).join() === "bash,build"`)
	v.click(`[aria-label="Find in terminal"]`)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("SECOND"+kb.Enter))
	v.holds(`document.querySelector(".find").ariaInvalid === "false" && document.querySelectorAll(".xterm-selection div").length > 0`)
	v.shots("find")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("x"+kb.Enter))
	v.holds(`document.querySelector(".find").ariaInvalid === "true"`)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.Escape))
	v.holds(`document.activeElement.matches(".xterm textarea") && document.querySelector(".find").hidden`)

	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.is("live")
	v.shows(screen, "second 2")
	v.holds(`[...document.querySelectorAll("[role=tab]")].map((e) => e.textContent).join() === "bash,build"`)
	v.click(`[role=tab]:first-child`)
	v.shows(screen, "single")
	v.holds(`document.querySelector("[role=tab]").ariaSelected === "true"`)

	// A question to the terminal is answered once, and not again when it is shown again.
	line(`clear; printf '\033[6n'; read -r -s -d R where; echo "at ${#where}"`)
	answered := fmt.Sprintf(`/(^|\n)at \d/.test(document.querySelector(%q).innerText)`, screen)
	v.holds("%s", answered)
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.is("live")
	v.holds("%s", answered)
	v.click(screen)
	line("echo then")
	v.holds(`/\$ echo then\s+then/.test(document.querySelector("%s").innerText)`, screen)

	line("exit 3")
	v.shows(`[role=tabpanel]:not([hidden]) .end`, "Exited with code 3")
	v.click(`[role=tabpanel]:not([hidden]) .end button`)
	v.holds(`document.querySelector("[role=tabpanel]:not([hidden]) .end").hidden && document.activeElement.matches(".xterm textarea")`)
	line("echo again $((2+1))")
	v.shows(screen, "again 3")

	// A running terminal is closed after a question, by key.
	v.click(`[role=tab]:last-child`)
	testbrowser.Do(v.ctx, t, chromedp.Focus(`[role=tab]:last-child`), chromedp.KeyEvent(kb.Delete))
	v.shows("dialog[open] h2", "End build?")
	v.click("dialog[open] .danger")
	v.holds(`document.querySelectorAll("[role=tab]").length === 1 && document.activeElement.matches("[role=tab]")`)
	eventually(t, "only the process of the first tab runs", func() bool {
		n := 0
		for _, p := range s.get(t, "/v1/processes?owner=user").want(t, 200).json(t)["processes"].([]any) {
			if p.(map[string]any)["status"] == "running" {
				n++
			}
		}
		return n == 1
	})
}

// TestPageTerminalPaste: a text cannot end the bracketed paste, or send other controls. Outside of
// a bracketed paste, no line break is sent unasked, not even the last one.
func TestPageTerminalPaste(t *testing.T) {
	t.Parallel()
	requireLibs(t)
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	const screen = `[role=tabpanel]:not([hidden]) .xterm-rows`
	v.click(`#rail [aria-label="Terminal"]`)
	v.holds(`document.activeElement.matches(".xterm textarea")`)
	v.types(`PS1='$ '; stty -echo; printf '\033[?2004h'; echo re''ady; cat -vT; stty sane`)
	v.press(enter)
	v.shows(screen, "ready")
	v.paste("a\x1b[201~\rb\u009b201~\x03\x7f\tc\nd")
	v.press(enter)
	v.shows(screen, "\n^[[200~a[201~\nb201~^Ic\nd^[[201~\n")

	v.press(key{name: "c", code: "KeyC", virtual: 'C', modifiers: chromedp.ModifierCtrl})
	v.types(`stty sane; clear; echo n''ow; cat`)
	v.press(enter)
	v.shows(screen, "now\n")
	v.paste("whole\x1b\n")
	v.shows("dialog[open] h2", "Paste with the line break?")
	v.click(`dialog[open] .primary`)
	v.shows(screen, "\nwhole\nwhole\n")
	v.paste("last\r\n")
	v.click(`dialog[open] button:nth-child(2)`) // without the line break
	v.shows(screen, "\nlast")
	v.types("word")
	v.press(enter)
	v.shows(screen, "\nlastword\nlastword\n")
}

// TestPageTerminalPlain: without third-party code terminals are plain text, and say so.
func TestPageTerminalPlain(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	v.ctx = testbrowser.Open(t, "about:blank")
	blocked := network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: "*://*:*/*/lib/*", Block: true}}}
	if _, err := chromedp.Call(v.ctx, network.SetBlockedURLs, blocked); err != nil {
		t.Fatal(err)
	}
	testbrowser.Do(v.ctx, t, chromedp.Navigate(s.url+"/ui/"+s.withToken()))
	v.is("live")
	v.click(`#rail [aria-label="Terminal"]`)
	v.shows(".plain-terminal", "output is plain text")
	v.holds(`document.activeElement.matches(".plain-terminal input")`)
	v.types(`printf '\033[31mred\033[0m %s\n' $((6*7))`)
	v.press(enter)
	v.shows(".plain-terminal pre", "\nred 42\n")
}

// TestPageTerminalTypesEarly: what a user types while earlier output is drawn reaches the program.
func TestPageTerminalTypesEarly(t *testing.T) {
	t.Parallel()
	requireLibs(t)
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken(), `
		window.WebSocket = class extends WebSocket {
			constructor(...a) {
				super(...a);
				if (!String(a[0]).includes("/terminal/ws") || !sessionStorage.again) return;
				// xterm.js draws output in a task, which comes after this one.
				const paste = ({ data }) => {
					if (typeof data === "string") return;
					this.removeEventListener("message", paste);
					setTimeout(() => {
						const data = new DataTransfer();
						data.setData("text/plain", "typed early");
						document.querySelector(".xterm textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
					});
				};
				this.addEventListener("message", paste);
			}
		};`)
	v.is("live")
	const screen = `[role=tabpanel]:not([hidden]) .xterm-rows`
	v.click(`#rail [aria-label="Terminal"]`)
	v.holds(`document.activeElement.matches(".xterm textarea")`)
	v.types(`PS1='$ '; clear; echo re''ady`)
	v.press(enter)
	v.shows(screen, "ready")
	testbrowser.Do(v.ctx, t, chromedp.Evaluate[chromedp.Void](`sessionStorage.again = true; undefined`), chromedp.Reload())
	v.is("live")
	v.shows(screen, "ready")
	v.shows(screen, "$ typed early")
}
