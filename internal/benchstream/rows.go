package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// row is something that is measured.
type row struct {
	key     string
	measure func(*bench, context.Context) error
}

// rows are in the order in which they are measured.
var rows = []row{
	{"idle", (*bench).measureIdle},
	{"scroll", (*bench).measureScroll},
	{"small", (*bench).measureSmall},
	{"video", (*bench).measureVideo},
	{"cold", (*bench).measureCold},
	{"warm", (*bench).measureWarm},
	{"viewers", (*bench).measureViewers},
	{"pointer", (*bench).measurePointer},
}

func (b *bench) measureIdle(ctx context.Context) error {
	v, err := b.watch(ctx, 0)
	if err != nil {
		return err
	}
	f, err := v.over(ctx, b.idle)
	if err != nil {
		return err
	}
	b.note("%s", f.note)
	b.add("idle desktop, one viewer: processor", f.share*100, "% of a core", atMost(0.5))
	b.add("the same: received", f.kilobits, "kbit/s", atMost(2))
	return v.disconnect(ctx)
}

func (b *bench) measureScroll(ctx context.Context) error {
	f, err := b.latencies(ctx, &scrolling{}, 0, nil)
	if err != nil {
		return err
	}
	b.add("scrolling terminal at 30 fps: processor", f.share*100, "% of a core", atMost(25))
	b.add("the same: received", f.kilobits/1000, "Mbit/s", atMost(4))
	b.addLatency("the same: glass to glass", f.latencies, atMost(40), atMost(60))
	return nil
}

func (b *bench) measureSmall(ctx context.Context) error {
	f, err := b.latencies(ctx, nothing{}, 0, nil)
	if err != nil {
		return err
	}
	b.addLatency("small change (256x32), 30 a second: glass to glass", f.latencies, atMost(35), nil)
	b.add("the same: processor", f.share*100, "% of a core", nil)
	return nil
}

// videoLimit is the bit rate of the video's row, in kbit/s.
const videoLimit = 4000

func (b *bench) measureVideo(ctx context.Context) error {
	p := &playing{}
	f, err := b.latencies(ctx, p, videoLimit, func(v viewer) error { return v.compare(ctx, b.pictures, p) })
	if err != nil {
		return err
	}
	b.addLatency("1280x720 test video at 30 fps: glass to glass", f.latencies, atMost(55), nil)
	b.add("the same: received, of 4 that are allowed", f.kilobits/1000, "Mbit/s", atMost(4.2))
	b.add("the same: processor", f.share*100, "% of a core", nil)
	return nil
}

// compare measures the quality of some pictures.
func (v viewer) compare(ctx context.Context, count int, p *playing) error {
	const every = 230 * time.Millisecond // never in step with the video
	rect := map[string]int{"x": videoAt.Min.X, "y": videoAt.Min.Y, "width": videoWidth, "height": videoHeight}
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		return v.ask(inner, nil, "collect", "/picture", rect, count, every.Milliseconds())
	})
	total := 0.0
	group.Go(func() error {
		for range count {
			select {
			case pic := <-v.b.page.pictures:
				total += squaredError(pic.luma, p.luma[pictureOf(pic.number)])
			case <-inner.Done():
				return inner.Err()
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	v.b.add("1280x720 test video at 30 fps: luma PSNR", psnr(total/float64(count)), "dB", atLeast(36))
	return nil
}

// measureCold measures how a browser that was just started connects to a server
// whose stream has ended. A terminal full of text is on the screen.
func (b *bench) measureCold(ctx context.Context) error {
	return b.connections(ctx, "connect to first frame, cold", nil, func() (steps, error) {
		b.closeBrowser()
		v, err := b.viewer(ctx)
		if err != nil {
			return nil, err
		}
		if err := benchkit.Pause(ctx, b.linger); err != nil {
			return nil, err
		}
		s, err := v.connect(ctx, 0)
		if err != nil {
			return nil, err
		}
		return s, v.disconnect(ctx)
	})
}

// Times of a viewer that loads the page again.
const (
	watchTime  = time.Second            // between the first picture and the reload
	reloadTime = 300 * time.Millisecond // between the reload and the connection
)

// measureWarm measures a page that is loaded again while there is no other viewer.
func (b *bench) measureWarm(ctx context.Context) error {
	v, err := b.watch(ctx, 0)
	if err != nil {
		return err
	}
	err = b.connections(ctx, "connect to first frame, warm", atMost(300), func() (steps, error) {
		if v, err = b.viewer(ctx); err != nil {
			return nil, err
		}
		if err := benchkit.Pause(ctx, reloadTime); err != nil {
			return nil, err
		}
		s, err := v.connect(ctx, 0)
		if err != nil {
			return nil, err
		}
		return s, benchkit.Pause(ctx, watchTime)
	})
	if err != nil {
		return err
	}
	return v.disconnect(ctx)
}

// connections adds the median of several connections, and notes their steps.
// A terminal full of text is on the screen.
func (b *bench) connections(ctx context.Context, what string, g goal, connect func() (steps, error)) (err error) {
	text := new(scrolling)
	if err := text.open(ctx, b.x); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, text.close()) }()
	times := make(map[string][]float64) // by step
	for range b.connects {
		s, err := connect()
		if err != nil {
			return err
		}
		for step, at := range s {
			times[step] = append(times[step], at)
		}
	}
	for _, step := range slices.Sorted(maps.Keys(times)) {
		t := times[step]
		slices.Sort(t)
		b.note("%s: %.0f, at most %.0f", step, benchkit.Quantile(t, 0.5), t[len(t)-1])
	}
	b.add(what+", median", benchkit.Quantile(times["picture"], 0.5), "ms", g)
	b.add(fmt.Sprintf("the same: longest of %d", b.connects), benchkit.Quantile(times["picture"], 1), "ms", nil)
	return nil
}
