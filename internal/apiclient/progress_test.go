package apiclient

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskhand/deskhand/internal/testlog"
)

func TestMeterLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		total, done int64
		rate        float64
		want        string
	}{
		{1 << 30, 123 << 20, 240 << 20, "receiving  123.0 MiB of 1.0 GiB  12 %  240.0 MiB/s  4 s left"},
		{-1, 5000, 1000, "receiving  4.9 KiB  1000 B/s"},
		{0, 0, 0, "receiving  0 B  0 B/s"},
		{100, 0, 0, "receiving  0 B of 100 B  0 %  0 B/s"},
		{100, 200, 10, "receiving  200 B of 100 B  200 %"}, // the file grew
		{10 << 40, 1 << 40, 1 << 30, "receiving  1.0 TiB of 10.0 TiB  10 %  1.0 GiB/s  2 h 33 min left"},
	} {
		m := &meter{verb: "receiving", total: c.total}
		m.done.Store(c.done)
		if got := m.line(c.rate); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 50: "5120.0 TiB"} {
		if got := ByteCount(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0 s", 59400 * time.Millisecond: "59 s", 61 * time.Second: "1 min 01 s", 2*time.Hour + 5*time.Minute: "2 h 05 min", 1000 * time.Hour: "days",
	} {
		if got := duration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for width, want := range map[int]string{0: "", 1: "", 3: "ab", 100: "abcdef"} {
		if got := fit("abcdef", width); got != want {
			t.Errorf("width %d: %q, want %q", width, got, want)
		}
	}
}

// TestMeter follows a transfer of 1 MiB a second, with the clock of the test.
func TestMeter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var screen testlog.Buffer
		m := startMeter(&screen, func() int { return 80 }, "sending", 10<<20, 0)
		for range 30 {
			<-time.After(100 * time.Millisecond)
			m.done.Add(100 << 10)
		}
		synctest.Wait()
		frames := strings.Split(screen.String(), "\r")
		if len(frames) < 10 || frames[0] != "" {
			t.Errorf("%q", frames)
		}
		last := frames[len(frames)-1]
		if !regexp.MustCompile(`^sending  [23]\.\d MiB of 10\.0 MiB  \d\d %  \d+\.\d .iB/s  [78] s left\x1b\[K$`).MatchString(last) {
			t.Errorf("%q", last)
		}
		m.close()
		m.close()
		if text := screen.String(); !strings.HasSuffix(text, "\r\x1b[K") {
			t.Errorf("the line stays: %q", text)
		}
		var report testlog.Buffer
		m.report(&report, "file")
		if got := report.String(); got != "file: 2.9 MiB in 3 s, 1000.0 KiB/s\n" {
			t.Errorf("report: %q", got)
		}

		var nothing testlog.Buffer
		short := startMeter(&nothing, func() int { return 60 }, "sending", 10, 0)
		<-time.After(meterDelay / 2)
		short.close()
		if short.report(&nothing, "file"); nothing.String() != "" {
			t.Errorf("a short transfer shows %q", nothing.String())
		}
	})
}

func TestNoMeter(t *testing.T) {
	t.Parallel()
	var m *meter
	in := io.NopCloser(strings.NewReader("x"))
	if m.reader(in) != in || m.body(in) != in {
		t.Error("nothing is counted, but it takes time")
	}
	m.close()
	m.report(nil, "")
}

// TestProgressOnTerminal sends and receives slowly in front of a terminal.
func TestProgressOnTerminal(t *testing.T) {
	t.Parallel()
	const size = 64 << 20 // more than the kernel takes off the sender's hands
	first, second := make(chan struct{}), make(chan struct{})
	goOn := func(c chan struct{}) func() { return sync.OnceFunc(func() { close(c) }) }
	receiveAll, sendAll := goOn(first), goOn(second)
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			_, _ = io.CopyN(io.Discard, r.Body, size/2)
			<-first
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.CopyN(w, endless(0), size/2)
		_ = http.NewResponseController(w).Flush()
		<-second
		_, _ = io.CopyN(w, endless(0), size/2)
	})
	t.Cleanup(func() { receiveAll(); sendAll() })
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	screen, _, tty := openTerminal(t)
	run := func(args ...string) error {
		c := Command{
			Name: "deskhand api", Document: apiText(), Stdout: io.Discard, Stderr: tty,
			Connect: func() (Server, error) { return Server{URL: at}, nil },
		}
		return c.Run(t.Context(), args)
	}
	wait := func(pattern string) {
		t.Helper()
		want := regexp.MustCompile(pattern)
		poll(t, pattern, func() string {
			if text := screen.String(); !want.MatchString(text) {
				return fmt.Sprintf("%q", text)
			}
			return ""
		})
	}
	done := make(chan error, 1)
	go func() { done <- run("PUT", "/x", "--data", "@"+file) }()
	wait(`\rsending  \d\d\.\d MiB of 64\.0 MiB  \d\d % `)
	receiveAll()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	go func() { done <- run("GET", "/x", "-o", file+"2") }()
	wait(`\rreceiving  32\.0 MiB of 64\.0 MiB  50 % `)
	sendAll()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wait(`\r\x1b\[K` + regexp.QuoteMeta(file) + `2: 64\.0 MiB in \d+ s, .*iB/s\r\n$`)

	before := screen.String()
	if err := run("GET", "/x", "-o", file+"3", "--no-progress"); err != nil || screen.String() != before {
		t.Errorf("%v: %q", err, screen.String()[len(before):])
	}
}
