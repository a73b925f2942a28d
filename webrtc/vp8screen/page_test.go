package vp8screen

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// page returns a long web page, drawn by Chromium if it is installed.
var page = sync.OnceValue(func() *canvas {
	if c := chromiumPage(); c != nil {
		return c
	}
	return drawnPage()
})

const pageWidth, pageHeight = 1184, 6000

// drawnPage draws headings, text, a table and photographs.
func drawnPage() *canvas {
	rnd := rand.New(rand.NewPCG(12, 0))
	c := newCanvas(pageWidth, pageHeight)
	c.fill(c.bounds(), 0xffffff)
	for y := 20; y < pageHeight-400; {
		c.text(title(), 40, y, sentence(rnd, 20+rnd.IntN(20)), 0x202124, c.bounds())
		y += 44
		for range 4 + rnd.IntN(9) {
			c.text(sans(), 40, y, sentence(rnd, 90+rnd.IntN(20)), 0x3c4043, c.bounds())
			y += 21
		}
		if rnd.IntN(2) == 0 {
			c.blit(image.Rect(40, y+10, 640, y+260), photo(uint64(y), 600, 250), image.Point{})
			y += 270
		}
		y += 25
	}
	return c
}

// chromiumPage draws the page with Chromium, and keeps the picture for the next run. It returns
// nil if there is no Chromium that can draw it.
func chromiumPage() *canvas {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil
	}
	version, err := exec.Command(program, "--version").Output()
	if err != nil {
		return nil
	}
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return -1
	}, string(version))
	kept := filepath.Join(os.TempDir(), fmt.Sprintf("deskhand-test-page-%s-%d.png", name, os.Getuid()))
	if data, err := os.ReadFile(kept); err == nil {
		if m, err := png.Decode(bytes.NewReader(data)); err == nil {
			return fromImage(m)
		}
	}
	data := renderPage(program)
	m, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	// Other tests may write the same file, so the complete file is renamed.
	if f, err := os.CreateTemp(filepath.Dir(kept), "deskhand-test-page-*"); err == nil {
		_, err = f.Write(data)
		if f.Close() != nil || err != nil || os.Rename(f.Name(), kept) != nil {
			_ = os.Remove(f.Name())
		}
	}
	return fromImage(m)
}

func renderPage(program string) []byte {
	dir, err := os.MkdirTemp("", "deskhand-test-page-")
	if err != nil {
		return nil
	}
	defer os.RemoveAll(dir)
	rnd := rand.New(rand.NewPCG(13, 0))
	var b strings.Builder
	b.WriteString(`<!doctype html><meta charset=utf-8><style>body{margin:20px 60px;font:16px/1.5 sans-serif;color:#222}
		pre{background:#f4f4f4;padding:12px;font:13px/1.4 monospace}td{border:1px solid #ccc;padding:4px 12px}
		.g{height:180px;border-radius:12px;background:linear-gradient(30deg,#26c,#e84 60%,#fff)}a{color:#06c}</style>`)
	for range 14 {
		fmt.Fprintf(&b, "<h2>%s</h2><p>%s <a href=#>%s</a> %s</p>", sentence(rnd, 25), sentence(rnd, 500), sentence(rnd, 20), sentence(rnd, 300))
		switch rnd.IntN(3) {
		case 0:
			b.WriteString("<pre>" + strings.Repeat(sentence(rnd, 60)+"\n", 2) + sentence(rnd, 70) + "\n\n" + sentence(rnd, 40) + "</pre>")
		case 1:
			b.WriteString("<table>" + strings.Repeat("<tr><td>"+sentence(rnd, 20)+"<td>"+sentence(rnd, 30)+"<td>42", 3) + "</table>")
		default:
			b.WriteString("<div class=g></div>")
		}
	}
	file, out := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.png")
	if os.WriteFile(file, []byte(b.String()), 0o600) != nil {
		return nil
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+filepath.Join(dir, "profile"),
		fmt.Sprintf("--window-size=%d,%d", pageWidth, pageHeight), "--screenshot="+out, "file://"+file)
	if cmd.Run() != nil {
		return nil
	}
	data, _ := os.ReadFile(out)
	return data
}

// scrollPage returns a function that scrolls the page in r: by single pixels and by larger
// steps, down and sometimes up, with pauses.
func scrollPage(c *canvas, r image.Rectangle) func() []image.Rectangle {
	inside := window(c, r, "Chromium", 0xffffff)
	at := 0
	c.blit(inside, page(), image.Point{})
	steps := [...]int{1, 1, 2, 5, 13, 27, 40, 53, 40, 27, 13, 5, 2, 1, 0, 0, 100, 100, -37, -7, -1, 0}
	n := 0
	return func() []image.Rectangle {
		step := steps[n%len(steps)]
		n++
		at = max(0, min(page().height-inside.Dy(), at+step))
		c.blit(inside, page(), image.Pt(0, at))
		return []image.Rectangle{inside}
	}
}

func startBrowser(_ testing.TB, c *canvas) func() []image.Rectangle {
	return scrollPage(c, inset(c.bounds(), .1, .06, .74, .94))
}
