package picture

import (
	"errors"
	"fmt"
	"image"
	"math"
)

// ErrInvalid is wrapped by the errors about invalid images and options.
var ErrInvalid = errors.New("invalid picture")

// Format is a file format. The zero value is PNG.
type Format string

// The file formats.
const (
	PNG  Format = "png"
	JPEG Format = "jpeg"
	WebP Format = "webp" // lossless
)

// DefaultQuality is the quality of a JPEG if Options.Quality is zero.
const DefaultQuality = 85

// Image is an immutable frame of a screen.
type Image struct {
	// Pix holds four bytes per pixel: blue, green, red and one that is
	// ignored. A row begins every Stride bytes.
	Pix                   []byte
	Stride, Width, Height int

	// Seq is the number of the frame. Bands[i] is the number of the frame in which the rows
	// from i*BandHeight up to (i+1)*BandHeight last changed.
	Seq        uint64
	Bands      []uint64
	BandHeight int
}

// Options describe the picture to make of an Image. The zero value means all of it, as PNG.
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
	// X and Y are the position of its top left pixel on the screen: the pointer's position
	// minus the hot spot. They may be outside.
	X, Y          int
	Width, Height int
	// Pix holds four bytes per pixel, without gaps: blue, green, red and alpha. The colours
	// are multiplied by alpha, as in XFixesGetCursorImage (XFIXES protocol, section 7).
	Pix []byte
}

// Limits of sizes. A JPEG has at most 65535 pixels in each direction, VP8L 16384 (WebP
// lossless bitstream specification, section 3).
const (
	maxSide       = 65535
	maxWebPSide   = 16384
	maxCursorSide = 4096
)

// Size returns the size in pixels of a picture of a region at a scale. Both are rounded, and at
// least 1.
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

// view identifies a cache. Pictures of a view differ only in the screen's content and in the
// overlay.
type view struct {
	format        Format
	quality       int
	region        image.Rectangle
	width, height int // of the picture
	imageWidth    int
	imageHeight   int
	bandHeight    int
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
	j := &job{img: img, view: view{format: o.Format, imageWidth: img.Width, imageHeight: img.Height, bandHeight: img.BandHeight}}
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

// version returns the version of the rows from y0 up to y1, at least one number. Images of the
// same screen with equal versions have equal pixels there. The slice belongs to the image.
func (img *Image) version(y0, y1 int) []uint64 {
	return img.Bands[y0/img.BandHeight : (y1-1)/img.BandHeight+1]
}

// Strips are compressed independently. Large strips compress better. Small ones leave less to
// compress again after a small change.
const (
	stripRows   = 64
	stripPixels = 32 << 10 // the minimum, so that narrow pictures have few strips
)

// layout divides the pictures of a view into strips. All but the last have the same height.
type layout struct {
	view
	rows  int // of the picture in each strip
	count int // of strips
	scale scaler
}

func newLayout(v view) *layout {
	l := &layout{view: v, rows: stripRows}
	for l.rows*v.width < stripPixels && l.rows < v.height {
		l.rows *= 2
	}
	if v.format == JPEG {
		l.rows = jpegStripRows(l.rows, v.width)
	}
	l.count = (v.height + l.rows - 1) / l.rows
	l.scale = newScaler(v.region.Dx(), v.region.Dy(), v.width, v.height)
	return l
}

func (l *layout) strip(i int) (y0, y1 int) {
	return i * l.rows, min((i+1)*l.rows, l.height)
}

// needed returns the rows of the picture from which strip i is made. WebP predicts pixels from
// the row above as well.
func (l *layout) needed(i int) (y0, y1 int) {
	y0, y1 = l.strip(i)
	if l.format == WebP {
		y0 = max(y0-1, 0)
	}
	return y0, y1
}

// source returns the part of the image from which strip i is made.
func (l *layout) source(i int) image.Rectangle {
	y0, y1 := l.scale.source(l.needed(i))
	return image.Rect(l.region.Min.X, l.region.Min.Y+y0, l.region.Max.X, l.region.Min.Y+y1)
}
