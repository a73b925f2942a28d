// Command benchstream measures the live view, with Chromium as the viewer, and
// prints a table.
//
// # Usage
//
//	make bench-stream
//	go run ./internal/benchstream [-n 200] [-row scroll] [-quick] [-idle 1m] [-deskhand FILE]
//
// # What it measures
//
// The server is built from this tree and runs alone, with a desktop of 1920x1080
// pixels. The viewer is a headless Chromium on the same machine. Its page does what
// the published client does: it connects to the signalling, plays the video and
// sends input over the data channel.
//
// The processor time is that of the server's process and of its encoder's process,
// if there is one. It excludes the X server and the programs that draw. Bits and
// pictures are counted by the browser.
//
// Latencies are from glass to glass. On the desktop a program draws markers: black
// and white blocks that hold the time, a number and a checksum. The page looks at
// each picture that the browser presents, reads the marker and compares its time
// with the clock, which agrees with the drawing program's to some tenths of a
// millisecond. Markers have whole milliseconds, so a latency may be up to one too
// long. Unreadable and repeated markers are left out. A latency is from before the
// drawing to the browser's callback for the picture (requestVideoFrameCallback). It
// includes the drawing, the X server, this server, the network, the jitter buffer,
// the decoder and the compositor, and excludes the display.
//
// Each picture goes to the X server in one write. The terminal is drawn with the
// requests that xterm makes: a copy within the window, and text in a font of the
// server. The test video is ffmpeg's testsrc2, forward and backward. Its quality is
// the luma PSNR of what the browser has decoded against the picture whose number
// the marker gives.
//
// Browser, X server, server and drawing share the machine's cores: a small or busy
// machine makes the latencies longer.
//
// # Requirements
//
// The programs that the tests require.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// options are the command line.
type options struct {
	benchkit.Options
	samples  int           // latencies of a row, at least
	window   time.Duration // that processor time is measured over, at least
	idle     time.Duration // the window of the idle desktop
	connects int           // of each kind
	pictures int           // whose quality is measured
	turns    int           // of one viewer and of four
	settling time.Duration // how long a viewer has watched before a measurement
	linger   time.Duration // longer than the server keeps an encoder without a viewer
}

func main() { benchkit.Main("benchstream", run) }

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{window: 20 * time.Second, connects: 10, pictures: 40, turns: 3, settling: 4 * time.Second, linger: 11 * time.Second}
	f := flag.NewFlagSet("benchstream", flag.ContinueOnError)
	f.IntVar(&o.samples, "n", 200, "latencies of a row, at least")
	f.DurationVar(&o.idle, "idle", time.Minute, "how long to measure the idle desktop")
	if err := o.Parse(f, args, stderr); err != nil {
		return o, err
	}
	if o.samples < 1 || o.idle <= 0 {
		return o, errors.New("wrong arguments: see -help")
	}
	if o.Quick {
		o.samples, o.connects, o.pictures, o.turns = min(o.samples, 30), 2, 5, 1
		o.window, o.idle = 3*time.Second, min(o.idle, 20*time.Second)
		o.settling, o.linger = 200*time.Millisecond, 200*time.Millisecond
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, r := range rows {
		if !o.Rows.MatchString(r.key) {
			continue
		}
		b.Tell("%s", r.key)
		if err := b.measureRow(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", r.key, err)
		}
	}
	return b.report(ctx, stdout)
}

func (b *bench) measureRow(ctx context.Context, r row) error {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	return r.measure(b, ctx)
}
