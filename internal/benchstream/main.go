// Command benchstream measures the live view, with Chromium as the viewer, and
// prints a table.
//
// # Usage
//
//	make bench-stream
//	go run ./internal/benchstream [-n 200] [-row scroll] [-quick]
//
// # What it measures
//
// The server is built from this tree and runs by itself, with a desktop of
// 1920x1080 pixels. The viewer is a Chromium without a window, on the same
// machine, with a page that does what the published client does: it connects to
// the signalling, plays the video and sends input over the data channel.
//
// The processor time is that of the server's process, and of its encoder's where
// that is another one; not of the X server and of what draws. Bits and pictures
// are those that the browser counts.
//
// Latencies are from glass to glass. On the desktop a program draws markers:
// black and white blocks that hold the time, a number and a checksum. The page
// looks at each picture that the browser presents, reads the marker and compares
// its time with the clock, which is that of the drawing to some tenths of a
// millisecond; markers have whole ones, so that what is found may be up to one
// too long. A marker that is not read without fault is left out, and so is one
// that was seen before. The time is taken before the drawing begins and when the
// browser calls back for the picture (requestVideoFrameCallback), so that the
// drawing, the X server, this server, the network, the jitter buffer, the decoder
// and the compositor are in it, and a display that shows it is not.
//
// What is drawn goes to the X server in one write. The terminal is drawn by the
// same requests as xterm's: a copy within the window, and text in a font of the
// server. The test video is ffmpeg's testsrc2, there and back; its quality is the
// luma PSNR of what the browser has decoded against the picture whose number
// the marker gives.
//
// Browser, X server, server and drawing share the machine's cores: on a small or
// a busy one the latencies are longer for that.
//
// # Requirements
//
// Those of the tests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	samples  int           // latencies of a row, at least
	window   time.Duration // that processor time is measured over, at least
	idle     time.Duration // the same of the idle desktop
	connects int           // of each kind
	pictures int           // whose quality is measured
	turns    int           // of one viewer and of four
	settling time.Duration // how long a viewer has watched before anything is measured
	linger   time.Duration // how long nobody has watched before who comes is new to the server
	rows     *regexp.Regexp
	binary   string
	codec    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "benchstream:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{connects: 10, pictures: 40, turns: 3, settling: 4 * time.Second, linger: 11 * time.Second}
	f := flag.NewFlagSet("benchstream", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.samples, "n", 200, "latencies of a row, at least")
	f.DurationVar(&o.window, "window", 20*time.Second, "how long to measure processor time, at least")
	f.DurationVar(&o.idle, "idle", time.Minute, "the same of the idle desktop")
	filter := f.String("row", "", "only rows whose key matches this regular expression: "+keys())
	quick := f.Bool("quick", false, "short windows and few samples: to see that it works")
	f.StringVar(&o.binary, "deskhand", "", "the deskhand to measure, instead of one built from this tree")
	f.StringVar(&o.codec, "codec", "", "video codec that the desktop is started with: vp8, vp9 or h264")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.samples < 1 || o.window <= 0 || o.idle <= 0 {
		return o, errors.New("wrong arguments: see -help")
	}
	if *quick {
		o.samples, o.connects, o.pictures, o.turns = min(o.samples, 30), 2, 5, 1
		o.window, o.idle = min(o.window, 3*time.Second), min(o.idle, 20*time.Second)
		o.settling, o.linger = 200*time.Millisecond, 200*time.Millisecond
	}
	var err error
	o.rows, err = regexp.Compile(*filter)
	return o, err
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
		if !o.rows.MatchString(r.key) {
			continue
		}
		if err := b.measure(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", r.key, err)
		}
	}
	return b.report(ctx, stdout)
}
