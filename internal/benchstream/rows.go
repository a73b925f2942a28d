package main

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// row is something that is measured.
type row struct {
	key     string
	measure func(context.Context, *bed, options, *result) error
}

// rows are in the order in which they are measured.
var rows = []row{
	{"idle", idle},
	{"scroll", scroll},
	{"small", small},
	{"typing", typing},
	{"video", video},
	{"cold", cold},
	{"warm", warm},
	{"viewers", manyViewers},
	{"pointer", pointer},
}

func keys() string {
	var names []string
	for _, r := range rows {
		names = append(names, r.key)
	}
	return strings.Join(names, ", ")
}

// pictureRate is how often a second what moves without end is drawn.
const pictureRate = 30

func idle(ctx context.Context, b *bed, o options, r *result) error {
	v, err := b.watch(ctx, o, 0)
	if err != nil {
		return err
	}
	f, err := v.over(ctx, o.idle)
	if err != nil {
		return err
	}
	r.add("idle desktop, one viewer: processor", f.share*100, "% of a core", atMost(0.5))
	r.add("the same: received", f.kilobits, "kbit/s", atMost(2))
	r.note("%s", f.note)
	r.add("the same: key frames in "+f.took.Round(time.Second).String(), f.keys, "", atMost(0))
	return v.disconnect(ctx)
}

func scroll(ctx context.Context, b *bed, o options, r *result) error {
	f, err := b.latencies(ctx, o, r, &scrolling{}, steady(pictureRate))
	if err != nil {
		return err
	}
	r.add("scrolling terminal at 30 fps: processor", f.share*100, "% of a core", atMost(25))
	r.add("the same: received", f.kilobits/1000, "Mbit/s", atMost(4))
	r.add("the same: pictures", f.fps, "fps", noGoal)
	r.latency("the same: glass to glass", f.latencies, 40, 60)
	return nil
}

func small(ctx context.Context, b *bed, o options, r *result) error {
	f, err := b.latencies(ctx, o, r, nothing{}, steady(pictureRate))
	if err != nil {
		return err
	}
	r.latency("small change (256x32), 30 a second: glass to glass", f.latencies, 35, 0)
	r.add("the same: processor", f.share*100, "% of a core", noGoal)
	return nil
}

func typing(ctx context.Context, b *bed, o options, r *result) error {
	f, err := b.latencies(ctx, o, r, nothing{}, uneven())
	if err != nil {
		return err
	}
	r.latency("small change (256x32), every 60 to 180 ms: glass to glass", f.latencies, 35, 0)
	r.add("the same: processor", f.share*100, "% of a core", noGoal)
	return nil
}

// videoLimit is the bit rate of the video's row, in kbit/s.
const videoLimit = 4000

func video(ctx context.Context, b *bed, o options, r *result) error {
	p := &playing{}
	f, err := b.latenciesAnd(ctx, o, r, p, steady(videoRate), videoLimit, func(v *viewer) error { return v.compare(ctx, o.pictures, p, r) })
	if err != nil {
		return err
	}
	r.latency("1280x720 test video at 30 fps: glass to glass", f.latencies, 55, 0)
	r.add("the same: received, of 4 that are allowed", f.kilobits/1000, "Mbit/s", atMost(4.2))
	r.add("the same: pictures", f.fps, "fps", noGoal)
	r.add("the same: processor", f.share*100, "% of a core", noGoal)
	return nil
}

// compare measures the quality of some pictures.
func (v *viewer) compare(ctx context.Context, count int, p *playing, r *result) error {
	const every = 230 * time.Millisecond // never in step with the video
	rect := map[string]int{"x": videoAt.Min.X, "y": videoAt.Min.Y, "width": videoWidth, "height": videoHeight}
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		return v.ask(inner, 2*patience, nil, "collect", "/picture", rect, count, every.Milliseconds())
	})
	total := 0.0
	group.Go(func() error {
		for range count {
			select {
			case pic := <-v.b.page.pictures:
				total += squaredError(pic.luma, p.luma[there(pic.number)])
			case <-inner.Done():
				return inner.Err()
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	r.add("1280x720 test video at 30 fps: luma PSNR", psnr(total/float64(count)), "dB", atLeast(36))
	return nil
}
