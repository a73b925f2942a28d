package picture

import (
	"errors"
	"fmt"
	"image"
	"math"
)

// ErrInvalid is wrapped by the errors about images and options that cannot be
// encoded.
var ErrInvalid = errors.New("invalid picture")

// Format is a file format. The zero value is PNG.
type Format string

// The file formats.
const (
	PNG  Format = "png"
	JPEG Format = "jpeg"
	WebP Format = "webp" // lossless
)

// DefaultQuality is the quality of a JPEG when Options has none.
const DefaultQuality = 85

// Image is an immutable frame of a screen.
type Image struct {
	// Pix holds four bytes per pixel: blue, green, red and one that is
	// ignored. A row begins every Stride bytes.
	Pix                   []byte
	Stride, Width, Height int

	// Seq is the number of the frame. Bands[i] is the number of the frame in
	// which something last changed in the rows from i*BandHeight up to
	// (i+1)*BandHeight. Without Bands everything changed at Seq; with neither
	// nothing is known, and nothing of this image is kept.
	Seq        uint64
	Bands      []uint64
	BandHeight int
}

// Options say what picture to make of an Image. The zero value is all of it,
// as PNG.
type Options struct {
	Format  Format
	Quality int             // 1-100, of JPEG; zero: DefaultQuality
	Region  image.Rectangle // inside the image; zero: all of it
	Scale   float64         // above 0 and up to 1; zero: 1

	// Cross is where to draw a red crosshair, in the image's coordinates.
	Cross *image.Point
	// Cursor is a pointer image to lay over the picture.
	Cursor *Cursor
}

// Cursor is a pointer image.
type Cursor struct {
	// X and Y are where its top left pixel is on the screen: the position of
	// the pointer minus that of the hot spot. They may be outside.
	X, Y          int
	Width, Height int
	// Pix holds four bytes per pixel, without gaps: blue, green, red and
	// alpha, the colours already multiplied by alpha. XFixesGetCursorImage
	// (XFIXES protocol, section 7) gives that as 32 bit words.
	Pix []byte
}

// Limits of what is accepted. 65535 is what a JPEG can say; 16384 is what
// VP8L can (WebP lossless bitstream specification, section 3).
const (
	maxSide       = 65535
	maxWebPSide   = 16384
	maxCursorSide = 4096
)

// Size returns the size in pixels of a picture of that region at that scale:
// both sides rounded to whole pixels, and at least 1.
func Size(region image.Rectangle, scale float64) (w, h int) {
	return scaled(region.Dx(), scale), scaled(region.Dy(), scale)
}

func scaled(n int, scale float64) int {
	if scale == 0 || scale == 1 {
		return max(n, 1)
	}
	return max(int(math.Round(float64(n)*scale)), 1)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

func (img *Image) check() error {
	switch {
	case img == nil:
		return invalid("no image")
	case img.Width < 1 || img.Height < 1 || img.Width > maxSide || img.Height > maxSide:
		return invalid("image of %dx%d", img.Width, img.Height)
	case img.Stride < 4*img.Width || img.Stride > math.MaxInt32:
		return invalid("stride %d of an image %d wide", img.Stride, img.Width)
	case len(img.Pix) < img.Stride*(img.Height-1)+4*img.Width:
		return invalid("%d bytes for %d rows of stride %d", len(img.Pix), img.Height, img.Stride)
	case img.Bands == nil:
		return nil
	case img.BandHeight < 1 || len(img.Bands) < (img.Height-1)/img.BandHeight+1:
		return invalid("%d bands of %d rows for %d rows", len(img.Bands), img.BandHeight, img.Height)
	}
	return nil
}

func (c *Cursor) check() error {
	switch {
	case c.Width < 0 || c.Height < 0 || c.Width > maxCursorSide || c.Height > maxCursorSide:
		return invalid("cursor of %dx%d", c.Width, c.Height)
	case len(c.Pix) < 4*c.Width*c.Height:
		return invalid("%d bytes for a cursor of %dx%d", len(c.Pix), c.Width, c.Height)
	case !near(c.X) || !near(c.Y):
		return invalid("cursor at %d,%d", c.X, c.Y)
	}
	return nil
}

// near reports whether adding sizes to a coordinate is safe.
func near(v int) bool { return v > -1<<24 && v < 1<<24 }

// view is what the caches are kept for: pictures of one view differ only in
// what the screen showed and in what was drawn over it.
type view struct {
	format        Format
	quality       int
	region        image.Rectangle
	width, height int // of the picture
	imageWidth    int
	imageHeight   int
	bandHeight    int // zero without Bands
}

// job is one call of Encode.
type job struct {
	img *Image
	view
	overlay
}

func newJob(img *Image, o Options) (*job, error) {
	if err := img.check(); err != nil {
		return nil, err
	}
	j := &job{img: img, view: view{format: o.Format, imageWidth: img.Width, imageHeight: img.Height}}
	if img.Bands != nil {
		j.bandHeight = img.BandHeight
	}
	all := image.Rect(0, 0, img.Width, img.Height)
	j.region = o.Region
	if o.Region == (image.Rectangle{}) {
		j.region = all
	}
	if j.region.Empty() || !j.region.In(all) {
		return nil, invalid("region %v of an image of %dx%d", o.Region, img.Width, img.Height)
	}
	if !(o.Scale >= 0 && o.Scale <= 1) {
		return nil, invalid("scale %v", o.Scale)
	}
	j.width, j.height = Size(j.region, o.Scale)
	switch o.Format {
	case PNG, "":
		j.format = PNG
	case JPEG:
		if j.quality = o.Quality; o.Quality == 0 {
			j.quality = DefaultQuality
		}
		if j.quality < 1 || j.quality > 100 {
			return nil, invalid("quality %d", o.Quality)
		}
	case WebP:
		if j.width > maxWebPSide || j.height > maxWebPSide {
			return nil, invalid("%dx%d is too large for WebP", j.width, j.height)
		}
	default:
		return nil, invalid("format %q", o.Format)
	}
	var err error
	j.overlay, err = newOverlay(o, j.region)
	return j, err
}

// version says what the rows of the image from y0 up to y1 show: two images of
// the same screen with equal versions have equal pixels there. The slice is
// the image's own. A nil version is equal to none.
func (img *Image) version(y0, y1 int) []uint64 {
	if img.Bands != nil {
		return img.Bands[y0/img.BandHeight : (y1-1)/img.BandHeight+1]
	}
	if img.Seq == 0 {
		return nil
	}
	return []uint64{img.Seq}
}
