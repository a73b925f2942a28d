package picture

import (
	"context"
	"errors"
	"image"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

func TestInvalid(t *testing.T) {
	t.Parallel()
	good := func() *Image { return newScreen(40, 30, 8).frame() }
	images := map[string]func(*Image){
		"no width":       func(i *Image) { i.Width = 0 },
		"negative":       func(i *Image) { i.Height = -1 },
		"huge":           func(i *Image) { i.Height = 1 << 40 },
		"stride":         func(i *Image) { i.Stride = 159 },
		"huge stride":    func(i *Image) { i.Stride = math.MaxInt },
		"short":          func(i *Image) { i.Pix = i.Pix[:len(i.Pix)-20] },
		"few bands":      func(i *Image) { i.Bands = i.Bands[:3] },
		"no band height": func(i *Image) { i.BandHeight = 0 },
	}
	for name, spoil := range images {
		img := good()
		spoil(img)
		if _, err := new(Encoder).Encode(t.Context(), img, Options{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: Encode = %v, want ErrInvalid", name, err)
		}
	}
	options := map[string]Options{
		"format":          {Format: "gif"},
		"quality":         {Format: JPEG, Quality: 101},
		"negative":        {Format: JPEG, Quality: -1},
		"scale":           {Scale: 1.01},
		"negative scale":  {Scale: -0.5},
		"nan":             {Scale: math.NaN()},
		"inf":             {Scale: math.Inf(1)},
		"outside":         {Region: image.Rect(0, 0, 41, 30)},
		"empty region":    {Region: image.Rect(5, 5, 5, 9)},
		"upside down":     {Region: image.Rectangle{Min: image.Pt(9, 9), Max: image.Pt(5, 5)}},
		"far cross":       {Cross: &image.Point{X: math.MaxInt}},
		"cursor size":     {Cursor: &Cursor{Width: -1, Height: 1}},
		"huge cursor":     {Cursor: &Cursor{Width: 1 << 31, Height: 1 << 31}},
		"cursor pixels":   {Cursor: &Cursor{Width: 4, Height: 4, Pix: make([]byte, 63)}},
		"cursor far away": {Cursor: &Cursor{X: math.MinInt, Width: 4, Height: 4, Pix: make([]byte, 64)}},
	}
	for name, o := range options {
		if _, err := new(Encoder).Encode(t.Context(), good(), o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: Encode = %v, want ErrInvalid", name, err)
		}
	}
	if _, err := new(Encoder).Encode(t.Context(), nil, Options{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("Encode of nil = %v, want ErrInvalid", err)
	}
}

// countdown is a context that ends after it was asked n times.
type countdown struct {
	context.Context //nolint:containedctx // it is one
	mu              sync.Mutex
	n               int
}

func (c *countdown) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// An Encode that is cancelled at any moment keeps the strips that it made, and leaves the
// next one undisturbed.
func TestCancel(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 31))
	s := newScreen(600, 600, 32)
	for _, format := range []Format{PNG, JPEG, WebP} {
		var e Encoder
		s.noise(rnd, image.Rect(0, 0, 600, 600))
		img, o := s.frame(), Options{Format: format}
		cancelled := 0
		for n := range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			if n == 0 {
				cancel()
			}
			if _, err := e.Encode(&countdown{Context: ctx, n: n}, img, o); errors.Is(err, context.Canceled) {
				cancelled++
			}
			cancel()
		}
		if cancelled == 0 {
			t.Errorf("%s: no call was cancelled", format)
		}
		encode(t, &e, img, o)
		if n := len(e.idle); n == 0 || len(e.slots) != 0 {
			t.Errorf("%s: %d idle workers and %d slots taken", format, n, len(e.slots))
		}
	}
}

// Many callers, of several views and moments, all get their own picture.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(2, 32))
	s := newScreen(320, 240, 16)
	type want struct {
		img *Image
		o   Options
		ref *image.NRGBA
	}
	var wants []want
	changes(rnd, s, 12, func(img *Image, o Options) { wants = append(wants, want{img, o, reference(img, o)}) })
	var e Encoder
	var wg sync.WaitGroup
	errs := make(chan error, 50)
	pictures := make([][]byte, 50)
	for n := range pictures {
		wg.Go(func() {
			w := wants[n%len(wants)]
			var err error
			if pictures[n], err = e.Encode(context.Background(), w.img, w.o); err != nil {
				errs <- err
			}
			if n%17 == 0 {
				e.Trim()
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	for n, p := range pictures {
		compare(t, decodePNG(t, p), wants[n%len(wants)].ref, 0)
	}
}

// Callers of the same picture share one encoding.
func TestShared(t *testing.T) {
	t.Parallel()
	s := newScreen(640, 480, 16)
	s.terminals(1)
	img := s.frame()
	var e Encoder
	var wg sync.WaitGroup
	pictures := make([][]byte, 50)
	for n := range pictures {
		wg.Go(func() { pictures[n], _ = e.Encode(context.Background(), img, Options{Format: JPEG}) })
	}
	wg.Wait()
	for n, p := range pictures {
		if len(p) == 0 || &p[0] != &pictures[0][0] {
			t.Fatalf("caller %d got another file than caller 0", n)
		}
	}
}
