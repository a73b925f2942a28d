//go:build !race

// These tests are about pictures of other programs. The race detector could find nothing in
// them.

package vp8screen

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestScrollXterm finds the motion of a real terminal that prints lines.
func TestScrollXterm(t *testing.T) {
	t.Parallel()
	requireFFmpeg(t)
	testx11.Require(t, "xterm", "Xvfb")
	rnd := rand.New(rand.NewPCG(50, 0))
	var lines strings.Builder
	for n := range 2000 {
		fmt.Fprintf(&lines, "%d %s\n", n, sentence(rnd, rnd.IntN(80)))
	}
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `while read -r line; do echo "$line"; sleep 0.02; done < "$0"`
	watchScrolling(t, "xterm", "-fa", "Monospace", "-fs", "10", "-geometry", "110x40+40+30", "-e", "sh", "-c", script, file)
}

// TestScrollChromium finds the motion of a real browser that scrolls a page by three pixels a
// frame.
func TestScrollChromium(t *testing.T) {
	t.Parallel()
	requireFFmpeg(t)
	testx11.Require(t, "chromium", "Xvfb")
	rnd := rand.New(rand.NewPCG(51, 0))
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString(`<!doctype html><meta charset=utf-8><style>body{font:15px sans-serif}div{height:90px;background:linear-gradient(90deg,#26c,#e84)}</style>
		<script>onload=()=>{let down=3;setInterval(()=>{if(scrollY+innerHeight>=document.body.scrollHeight)down=-3;if(scrollY<=0)down=3;scrollBy(0,down)},33)}</script>`)
	for range 60 {
		fmt.Fprintf(&b, "<h3>%s</h3><p>%s</p><div></div>", sentence(rnd, 30), sentence(rnd, 600))
	}
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	watchScrolling(t, "chromium", "--no-sandbox", "--disable-gpu", "--no-first-run", "--kiosk", "--window-size=960,640", "--window-position=0,0",
		"--user-data-dir="+filepath.Join(dir, "profile"), "file://"+file)
}

// watchScrolling runs a program that scrolls, and captures its screen until enough changed
// macroblocks have moved. A capture may show a picture that is only partly drawn, so not every
// change must be found.
func watchScrolling(t *testing.T, program string, args ...string) {
	t.Helper()
	const width, height, frames = 960, 640, 150
	server := testx11.Start(t, width, height)
	run(t, server, nil, program, args...)
	film, pictures := io.Pipe()
	run(t, server, pictures, "ffmpeg", "-v", "error", "-f", "x11grab", "-draw_mouse", "0", "-framerate", "15", "-i", server.Display,
		"-pix_fmt", "bgr0", "-f", "rawvideo", "-")
	c := newCanvas(width, height)
	p := pair{prev: NewFrame(width, height), cur: NewFrame(width, height), dirty: NewDirty(width, height)}
	var s ScrollFinder
	scrolled, moved, changed := 0, 0, 0
	for range frames * 4 {
		if _, err := io.ReadFull(film, c.pix); err != nil {
			t.Fatalf("ffmpeg: %v", err)
		}
		p.dirty.Clear()
		p.cur.SetBGRX(c.pix, c.stride, c.bounds(), p.dirty)
		motions := s.Find(p.prev, p.cur, p.dirty)
		if len(motions) > 0 {
			scrolled++
			m, n := p.explainedBy(motions)
			moved, changed = moved+m, changed+n
		}
		p.prev.CopyDirty(p.cur, p.dirty)
		if scrolled == 20 {
			break
		}
	}
	_ = film.Close()
	t.Logf("in %d pictures %d of %d changed macroblocks were found to have moved", scrolled, moved, changed)
	if scrolled < 20 || moved*10 < changed*6 {
		t.Errorf("in %d pictures only %d of %d changed macroblocks were found to have moved", scrolled, moved, changed)
	}
}

// run starts a program. At the end of the test, the program and its children are killed.
func run(t *testing.T, server *testx11.Server, out io.Writer, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = server.Env()
	cmd.Stdout = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		group := -cmd.Process.Pid
		_ = syscall.Kill(group, syscall.SIGKILL)
		_ = cmd.Wait()
		// Children may still write into the folder that is removed next.
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(time.Minute); syscall.Kill(group, 0) == nil && time.Now().Before(deadline); {
			<-tick.C
		}
	})
}
