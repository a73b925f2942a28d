package webrtc

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// counting is a BinaryConn that counts pictures and discards them.
type counting struct{ pictures chan int }

func (c counting) Receive(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (c counting) Send(context.Context, []byte) error { return nil }
func (c counting) SendBinary(_ context.Context, m []byte) error {
	if m[0]&flagData == 0 {
		c.pictures <- len(m)
	}
	return nil
}

// BenchmarkScroll measures the CPU time of this program and the bits for each picture of a
// terminal that scrolls.
func BenchmarkScroll(b *testing.B) {
	testx11.Require(b, "Xvfb", "openbox", "dbus-daemon", "xterm")
	d, err := desktop.Start(b.Context(), desktop.Config{Size: desktop.Size{Width: 1920, Height: 1080}})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	const script = `i=0; while :; do i=$((i+1)); echo "$i the quick brown fox jumps over the lazy dog $((i*7919%1000003)) and $((i*104729%1000003)) more"; sleep 0.02; done`
	if _, err := d.Launch(b.Context(), desktop.Launch{
		App: "xterm", Args: []string{"-geometry", "170x60+50+50", "-e", "sh", "-c", script}, Wait: true,
	}); err != nil {
		b.Fatal(err)
	}
	s, err := Start(b.Context(), d, Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := counting{make(chan int, 100)}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.ServeVideo(ctx, c, ViewerOptions{}) }()
	for range 60 { // until the encoder has reached a steady state
		<-c.pictures
	}
	bytes, before, begun := 0, cpuTime(b), time.Now()
	b.ResetTimer()
	for range b.N {
		bytes += <-c.pictures
	}
	b.StopTimer()
	took := time.Since(begun)
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/picture")
	b.ReportMetric(float64(bytes)*8/took.Seconds()/1000, "kbit/s")
	b.ReportMetric(float64(b.N)/took.Seconds(), "pictures/s")
	cancel()
	<-done
}

// cpuTime is the processor time that this program has used.
func cpuTime(b testing.TB) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
