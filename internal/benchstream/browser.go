package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// viewer is the page in the browser.
type viewer struct{ b *bench }

// viewer opens the page in the browser's tab. It starts the browser if there is
// none.
func (b *bench) viewer(ctx context.Context) (v viewer, err error) {
	if b.browser == nil {
		b.browsers++
		profile := filepath.Join(b.Dir, fmt.Sprintf("browser-%d", b.browsers))
		if b.browser, err = benchkit.OpenBrowser(profile, screenWidth, screenHeight); err != nil {
			return viewer{}, err
		}
	}
	return viewer{b}, b.browser.Navigate(ctx, b.page.URL)
}

// closeBrowser ends the browser, if there is one.
func (b *bench) closeBrowser() {
	if b.browser != nil {
		b.browser.Close()
		b.browser = nil
	}
}

// ask runs a function of the page and decodes what it resolves with into out,
// unless that is nil.
func (v viewer) ask(ctx context.Context, out any, function string, args ...any) error {
	return v.b.browser.Ask(ctx, out, function, args...)
}

// setClock sets the page's clock by this program's. The page reads its clock
// between the question and the answer, so each answer bounds the difference. A few
// answers bound it to some tenths of a millisecond.
func (v viewer) setClock(ctx context.Context) error {
	if err := v.ask(ctx, nil, "setClock", 0); err != nil {
		return err
	}
	least, most := math.Inf(-1), math.Inf(1)
	for range 30 {
		var page float64
		before := time.Now()
		if err := v.ask(ctx, &page, "now"); err != nil {
			return err
		}
		after := time.Now()
		least, most = max(least, milliseconds(before)-page), min(most, milliseconds(after)-page)
	}
	return v.ask(ctx, nil, "setClock", (least+most)/2)
}

// milliseconds since 1970.
func milliseconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }

// steps are the milliseconds after which parts of a connection were done.
type steps map[string]float64

// connect begins to watch and returns when the first picture is presented. It asks
// the server for at most limit kbit/s, unless that is 0.
func (v viewer) connect(ctx context.Context, limit int) (steps, error) {
	var s steps
	err := v.ask(ctx, &s, "connect", v.b.signaling(), limit)
	return s, err
}

// disconnect leaves, and waits until the server has noticed.
func (v viewer) disconnect(ctx context.Context) error {
	if err := v.ask(ctx, nil, "disconnect"); err != nil {
		return err
	}
	return v.b.awaitNoViewers(ctx)
}

// counts are the browser's statistics of the received video.
type counts struct {
	Bytes, Decoded, Keys, Dropped, Freezes, PLIs, NACKs, Lost, Emitted float64
	Waited, Decoding                                                   float64 // seconds
}

func (v viewer) counts(ctx context.Context) (counts, error) {
	var c counts
	err := v.ask(ctx, &c, "counts")
	return c, err
}
