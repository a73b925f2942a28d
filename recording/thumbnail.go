package recording

import (
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Names of pictures in a recording's folder.
const (
	posterFile = "poster.jpg"
	thumbsDir  = "thumbs" // has 000010.jpg, the picture at ten seconds
)

const (
	defaultThumbnailInterval = 10 * time.Second

	thumbWidth    = 320
	thumbQuality  = 75
	posterWidth   = 1280
	posterQuality = 80

	// maxThumbs bounds the thumbnails. When a recording has that many, every second one
	// is removed, and the interval doubles.
	maxThumbs = 720

	// posterInterval is the time between two attempts to find a picture that is not
	// blank. After posterPatience only thumbnails are tried.
	posterInterval = 500 * time.Millisecond
	posterPatience = time.Minute
)

// never is later than any position.
const never = time.Duration(math.MaxInt64)

// thumbnailer makes the pictures of a recording from the pictures that are encoded. A
// goroutine scales and compresses them.
type thumbnailer struct {
	dir  string
	log  *slog.Logger
	due  atomic.Int64       // the first position at which a picture is wanted
	jobs chan time.Duration // positions of pictures in frame
	once sync.Once
	done sync.WaitGroup

	// The goroutine owns the fields below while due is never. At other times they belong
	// to the caller of offer.
	frame    image.YCbCr // the latest picture that was wanted
	interval time.Duration
	limit    int           // of thumbnails
	next     time.Duration // when the next thumbnail is due
	made     []time.Duration
	last     *image.YCbCr // the latest thumbnail
	posted   bool         // there is a poster
	final    bool         // the poster is not replaced any more
}

// newThumbnailer makes pictures in a recording's folder. A negative interval means no
// thumbnails. The thumbnailer must be stopped.
func newThumbnailer(dir string, interval time.Duration, log *slog.Logger) *thumbnailer {
	interval = cmp.Or(interval, defaultThumbnailInterval)
	t := &thumbnailer{dir: dir, log: log, interval: interval, limit: maxThumbs, jobs: make(chan time.Duration, 1)}
	if interval < 0 {
		t.next = never
	}
	t.done.Go(func() {
		for at := range t.jobs {
			if err := t.makeDue(at); err != nil {
				t.log.Debug("no picture of a recording", "at", at, "error", err)
			}
			t.due.Store(int64(t.wanted(at)))
		}
	})
	return t
}

// offer offers the picture at a position. The thumbnailer copies the picture if it needs one.
// offer and stop are for one goroutine.
func (t *thumbnailer) offer(at time.Duration, p *image.YCbCr) {
	if at < time.Duration(t.due.Load()) {
		return
	}
	if equal(&t.frame, p) {
		if at >= t.next {
			t.next = t.after(at)
		}
		t.due.Store(int64(t.wanted(at)))
		return
	}
	t.due.Store(int64(never)) // until this picture is done
	copyTo(&t.frame, p)
	t.jobs <- at
}

// stop waits for the last picture. It may be called more than once.
func (t *thumbnailer) stop() {
	t.once.Do(func() { close(t.jobs) })
	t.done.Wait()
}

// wanted returns when the next picture is wanted, after the picture at a position.
func (t *thumbnailer) wanted(at time.Duration) time.Duration {
	if !t.final && at < posterPatience {
		return min(t.next, at+posterInterval)
	}
	return t.next
}

// after returns when the next thumbnail is due, after the thumbnail at a position.
func (t *thumbnailer) after(at time.Duration) time.Duration {
	return at - at%t.interval + t.interval
}

// makeDue makes the poster and the thumbnail that are due.
func (t *thumbnailer) makeDue(at time.Duration) error {
	small := shrink(&t.frame, thumbWidth)
	var err error
	if !t.final {
		blank := isBlank(small)
		if !t.posted || !blank {
			err = writeJPEG(filepath.Join(t.dir, posterFile), shrink(&t.frame, posterWidth), posterQuality)
			t.posted = t.posted || err == nil
		}
		t.final = err == nil && !blank
	}
	if at < t.next {
		return err
	}
	return errors.Join(err, t.thumbnail(at, small))
}

// thumbnail writes a thumbnail, unless it would equal the one before.
func (t *thumbnailer) thumbnail(at time.Duration, small *image.YCbCr) error {
	defer func() { t.next = t.after(at) }() // thin changes it
	if t.last != nil && equal(t.last, small) {
		return nil
	}
	if len(t.made) == t.limit {
		t.thin()
	}
	if err := os.Mkdir(filepath.Join(t.dir, thumbsDir), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := writeJPEG(thumbPath(t.dir, at), small, thumbQuality); err != nil {
		return err
	}
	t.made, t.last = append(t.made, at), small
	return nil
}

// thin removes every second thumbnail.
func (t *thumbnailer) thin() {
	t.interval *= 2
	kept := t.made[:0]
	for i, at := range t.made {
		if i%2 == 0 {
			kept = append(kept, at)
		} else {
			_ = os.Remove(thumbPath(t.dir, at))
		}
	}
	t.made = kept
}

func thumbPath(dir string, at time.Duration) string {
	return filepath.Join(dir, thumbsDir, fmt.Sprintf("%06d.jpg", at/time.Second))
}

// writeJPEG writes a file atomically.
func writeJPEG(path string, img image.Image, quality int) error {
	part := path + partSuffix
	err := writePart(part, false, func(w io.Writer) error { return jpeg.Encode(w, img, &jpeg.Options{Quality: quality}) })
	if err != nil {
		return err
	}
	return os.Rename(part, path)
}
