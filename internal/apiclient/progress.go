package apiclient

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

const (
	// meterDelay is the time after which a transfer counts as long.
	meterDelay = 500 * time.Millisecond
	// meterBeat is the time between two updates of the line.
	meterBeat = 200 * time.Millisecond
)

// meter shows the progress of a transfer on a terminal. A nil meter shows nothing.
type meter struct {
	out   io.Writer
	width func() int
	verb  string
	total int64 // bytes, or -1 if unknown
	begun time.Time
	first int64 // bytes that were there before
	done  atomic.Int64

	stop  chan struct{}
	once  sync.Once
	wait  sync.WaitGroup
	shown bool // read after wait
}

// newMeter starts to show a transfer of total bytes, done of which are there
// already. It returns nil if standard error is not a terminal.
func (r *run) newMeter(verb string, total, done int64) *meter {
	f, ok := r.Stderr.(*os.File)
	if r.noProgress || !ok || !isTerminal(f) {
		return nil
	}
	return startMeter(f, func() int { return Width(f) }, verb, total, done)
}

// Width returns the number of columns of a terminal, and 80 if it does not report it.
func Width(terminal *os.File) int {
	if columns, _, err := term.GetSize(int(terminal.Fd())); err == nil && columns > 0 {
		return columns
	}
	return 80
}

func startMeter(out io.Writer, width func() int, verb string, total, done int64) *meter {
	m := &meter{out: out, width: width, verb: verb, total: total, first: done, begun: time.Now(), stop: make(chan struct{})}
	m.done.Store(done)
	m.wait.Go(m.show)
	return m
}

// show updates the line until the transfer ends, then removes it.
func (m *meter) show() {
	select {
	case <-m.stop:
		return
	case <-time.After(meterDelay):
	}
	tick := time.NewTicker(meterBeat)
	defer tick.Stop()
	m.shown = true
	for {
		fmt.Fprint(m.out, "\r"+fit(m.line(m.rate()), m.width())+"\x1b[K")
		select {
		case <-m.stop:
			fmt.Fprint(m.out, "\r\x1b[K")
			return
		case <-tick.C:
		}
	}
}

// rate returns the mean speed in bytes a second.
func (m *meter) rate() float64 {
	return float64(m.done.Load()-m.first) / time.Since(m.begun).Seconds()
}

// line returns the text to show at a speed in bytes a second.
func (m *meter) line(rate float64) string {
	done := m.done.Load()
	text := m.verb + "  " + ByteCount(done)
	if m.total > 0 {
		text += fmt.Sprintf(" of %s  %d %%", ByteCount(m.total), done*100/m.total)
	}
	if m.total > 0 && done >= m.total {
		return text // the server still works on it
	}
	text += "  " + ByteCount(int64(rate)) + "/s"
	if m.total > 0 && rate >= 1 {
		left := time.Duration(float64(m.total-done) / rate * float64(time.Second))
		text += "  " + duration(max(left, 0)) + " left"
	}
	return text
}

// fit cuts a line of ASCII to a width.
func fit(line string, width int) string { return line[:min(len(line), max(width-1, 0))] }

// duration returns a time with its unit.
func duration(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 100*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return "days"
}

// close removes the line. It may be called more than once.
func (m *meter) close() {
	if m == nil {
		return
	}
	m.once.Do(func() { close(m.stop) })
	m.wait.Wait()
}

// report prints the size and the speed of a long transfer that has ended.
func (m *meter) report(out io.Writer, name string) {
	if m == nil || !m.shown {
		return
	}
	fmt.Fprintf(out, "%s: %s in %s, %s/s\n", name, ByteCount(m.done.Load()), duration(time.Since(m.begun)), ByteCount(int64(m.rate())))
}

// reader returns r with its bytes counted.
func (m *meter) reader(r io.Reader) io.Reader {
	if m == nil {
		return r
	}
	return &counter{r, &m.done}
}

// body returns r with its bytes counted.
func (m *meter) body(r io.ReadCloser) io.ReadCloser {
	if m == nil {
		return r
	}
	return readCloser{m.reader(r), r}
}

type counter struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// ByteCount returns a size with its unit, such as "1.5 MiB".
func ByteCount(n int64) string {
	const step = 1024
	value, unit := float64(n), 0
	for ; value >= step && unit < 4; unit++ {
		value /= step
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGT"[unit-1])
}
