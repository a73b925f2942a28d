package recording

import (
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// What pictures of a recording are called in its folder.
const (
	posterFile = "poster.jpg"
	thumbsDir  = "thumbs" // holds 000010.jpg, the picture at ten seconds
)

const (
	// DefaultThumbnailInterval is what Config.ThumbnailInterval is when zero.
	DefaultThumbnailInterval = 10 * time.Second

	thumbWidth    = 320
	thumbQuality  = 75
	posterWidth   = 1280
	posterQuality = 80

	// mostThumbs bounds their number: of a recording that is longer, every
	// second one is removed, and half as many are made.
	mostThumbs = 720

	// posterLook is how often, and posterPatience for how long, something is
	// looked for that is not blank. Afterwards it may come with a thumbnail.
	posterLook     = 500 * time.Millisecond
	posterPatience = time.Minute
)

// never is when something is due that is not.
const never = time.Duration(math.MaxInt64)

// thumbnailer makes the pictures of a recording from what it records, while it
// does: that takes no decoder, and little of the recorder's time, since a
// goroutine scales and compresses.
type thumbnailer struct {
	dir  string
	log  *slog.Logger
	due  atomic.Int64       // the first position at which a picture is wanted
	jobs chan time.Duration // positions of pictures in frame
	once sync.Once
	done sync.WaitGroup

	// What follows is the goroutine's from when it gets a job until something
	// is due again, and else that of who offers.
	frame    yuvPicture    // the latest that was wanted
	interval time.Duration // zero: no thumbnails
	most     int           // thumbnails
	next     time.Duration // when the next thumbnail is due
	made     []time.Duration
	last     *image.RGBA // the latest thumbnail
	posted   bool        // there is a poster
	settled  bool        // there will be no other one
}

// checkThumbnailInterval refuses intervals that names of files do not tell apart.
func checkThumbnailInterval(d time.Duration) error {
	if d > 0 && d < time.Second {
		return invalid("thumbnailInterval", "must be at least a second; negative for no thumbnails")
	}
	return nil
}

// newThumbnailer makes pictures in a recording's folder, thumbnails at that
// interval, or none if it is negative. It must be stopped.
func newThumbnailer(dir string, interval time.Duration, log *slog.Logger) *thumbnailer {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if interval == 0 {
		interval = DefaultThumbnailInterval
	}
	t := &thumbnailer{dir: dir, log: log, interval: max(0, interval), most: mostThumbs, jobs: make(chan time.Duration, 1)}
	if interval < 0 {
		t.next = never
	}
	t.done.Go(func() {
		for at := range t.jobs {
			if err := t.take(at); err != nil {
				t.log.Debug("no picture of a recording", "at", at, "error", err)
			}
			t.due.Store(int64(t.wanted(at)))
		}
	})
	return t
}

// offer shows the picture that is recorded at a position. The thumbnailer copies
// it, if it wants one. offer and stop are for one goroutine.
func (t *thumbnailer) offer(at time.Duration, p yuvPicture) {
	if at < time.Duration(t.due.Load()) {
		return
	}
	if t.frame.equals(p) { // as on a desktop where nothing happens
		if at >= t.next {
			t.next = t.after(at)
		}
		t.due.Store(int64(t.wanted(at)))
		return
	}
	t.due.Store(int64(never)) // until this one is done
	t.frame.copyFrom(p)
	t.jobs <- at
}

// stop waits until the last picture is made. It may be called more than once.
func (t *thumbnailer) stop() {
	t.once.Do(func() { close(t.jobs) })
	t.done.Wait()
}

// wanted is when the next picture is wanted, after the one at a position.
func (t *thumbnailer) wanted(at time.Duration) time.Duration {
	if !t.settled && at < posterPatience {
		return min(t.next, at+posterLook)
	}
	return t.next
}

// after is when the thumbnail after the one at a position is due.
func (t *thumbnailer) after(at time.Duration) time.Duration {
	return at - at%t.interval + t.interval
}

// take makes what is due of the picture at a position.
func (t *thumbnailer) take(at time.Duration) error {
	small := t.frame.shrink(thumbWidth)
	var err error
	if !t.settled {
		blank := isBlank(small)
		if !t.posted || !blank {
			err = writeJPEG(filepath.Join(t.dir, posterFile), t.frame.shrink(posterWidth), posterQuality)
			t.posted = t.posted || err == nil
		}
		t.settled = err == nil && !blank
	}
	if at < t.next {
		return err
	}
	return errors.Join(err, t.thumbnail(at, small))
}

// thumbnail writes a thumbnail, unless the one before shows the same.
func (t *thumbnailer) thumbnail(at time.Duration, small *image.RGBA) error {
	defer func() { t.next = t.after(at) }() // thin changes it
	if t.last != nil && t.last.Rect == small.Rect && string(t.last.Pix) == string(small.Pix) {
		return nil
	}
	if len(t.made) == t.most {
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

// writeJPEG writes a file that is there whole or not at all.
func writeJPEG(path string, img image.Image, quality int) (err error) {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = jpeg.Encode(f, img, &jpeg.Options{Quality: quality})
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}
