package timeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// maxFile bounds the size of a file. Each kind of entry has a share of it.
	maxFile = 64 << 20

	// maxWaiting bounds the bytes that wait for a slow disk. Half of them are for
	// entries of the share actions alone.
	maxWaiting = 4 << 20

	// maxWindows bounds the windows of the first entry, which must be shorter than
	// maxLine.
	maxWindows = 100

	// resumeRoom is the room that a full share must have before it takes entries
	// again, so that not every entry follows a gap.
	resumeRoom = 4 << 10

	// flushInterval and flushSize are the time for which an entry waits to be written,
	// and the number of bytes that end the wait.
	flushInterval = time.Second
	flushSize     = 64 << 10

	// drainTime is how long Close waits for another event of the desktop.
	drainTime = 20 * time.Millisecond
	// drainMost bounds that wait while events keep coming.
	drainMost = time.Second

	// startLimit bounds the calls of the desktop for the first entry.
	startLimit = 2 * time.Second
)

// share is the part of a file that entries of one kind can use.
type share struct{ limit, used int64 }

// shares divide a file, so that neither the programs of the desktop nor callers can use
// up the room for actions.
type shares struct {
	programs share // windows, the clipboard and the size of the screen
	events   share // Event
	markers  share
	actions  share // everything else
}

func newShares(limit int64) shares {
	s := shares{programs: share{limit: limit / 8}, events: share{limit: limit / 4}, markers: share{limit: limit / 16}}
	s.actions.limit = limit - s.programs.limit - s.events.limit - s.markers.limit
	return s
}

func (s *shares) of(kind desktop.EventType) *share {
	switch {
	case kind == TypeMarker:
		return &s.markers
	case slices.Contains(programTypes, kind):
		return &s.programs
	case slices.Contains(reservedTypes, kind):
		return &s.actions
	}
	return &s.events
}

// Desktop is the part of a desktop that a timeline follows. A *desktop.Desktop is one.
type Desktop interface {
	Subscribe(after uint64) *desktop.Subscription
	Windows(ctx context.Context, filter desktop.WindowFilter) ([]desktop.Window, error)
	Control() desktop.Control
	Status() desktop.Status
}

// Config configures a Timeline.
type Config struct {
	// Path is the file. It must not exist.
	Path string

	// Epoch is the moment of the video's first picture.
	Epoch time.Time

	// After is the Seq of the last event of the desktop that is left out, which Close
	// of the timeline before returned. Zero means that the timeline begins with the
	// next event.
	After uint64

	// Dropped is called with the number of entries that are left out. Several goroutines may
	// call it concurrently. It must not block or call the timeline. Nil means that they are
	// not counted.
	Dropped func(n uint64)

	// Logger receives debug messages. Nil means none.
	Logger *slog.Logger
}

// Timeline writes the timeline of a video while the video is being made. One goroutine
// follows the desktop, and another one writes to the disk. Only Flush and Close wait for the
// disk.
type Timeline struct {
	cfg    Config
	wake   chan struct{} // holds a value if there are entries to write
	hurry  chan struct{} // holds a value if at least flushSize bytes wait
	cancel context.CancelFunc
	once   sync.Once // of Close
	done   sync.WaitGroup
	seen   uint64 // Seq of the desktop's latest event; set by follow

	writing sync.Mutex // held during writes to the file; locked before mu
	file    *os.File
	good    int64 // bytes of whole lines in the file

	mu      sync.Mutex // guards the fields below
	buf     []byte     // lines to write
	waiting int        // bytes in buf and in a write that runs
	seq     uint64
	shares  shares
	lost    uint64 // entries that were left out since the last gap
	closed  bool
}

// Start makes the file and follows the desktop until Close, or until the desktop is closed.
// It does not wait for the desktop. An entry of the type TypeStarted with the desktop's state
// follows within two seconds, so entries of Mark and Add can come before it. The error is
// fs.ErrExist if the file exists, or another error of the file system.
func Start(d Desktop, cfg Config) (*Timeline, error) {
	t, ctx, err := open(cfg, maxFile)
	if err != nil {
		return nil, err
	}
	sub := d.Subscribe(cfg.After)
	t.done.Go(func() { t.follow(ctx, d, sub) })
	return t, nil
}

// open makes a timeline that follows no desktop. The context ends with Close.
func open(cfg Config, limit int64) (*Timeline, context.Context, error) {
	f, err := os.OpenFile(cfg.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("timeline: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Dropped == nil {
		cfg.Dropped = func(uint64) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &Timeline{
		cfg: cfg, shares: newShares(limit), file: f, cancel: cancel, seen: cfg.After,
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
	}
	t.done.Go(func() { t.write(ctx) })
	return t, ctx, nil
}

func (t *Timeline) follow(ctx context.Context, d Desktop, sub *desktop.Subscription) {
	defer sub.Close()
	t.writeStart(ctx, d)
	for {
		select {
		case e, ok := <-sub.Events():
			if !ok {
				return
			}
			t.addEvent(e)
		case <-ctx.Done():
			t.drain(sub)
			return
		}
	}
}

// drain adds the events from before Close, and the events that follow them within drainTime, for
// drainMost.
func (t *Timeline) drain(sub *desktop.Subscription) {
	quiet, most := time.NewTimer(drainTime), time.NewTimer(drainMost)
	defer quiet.Stop()
	defer most.Stop()
	for waiting := true; waiting; {
		select {
		case e, ok := <-sub.Events():
			if !ok {
				return
			}
			t.addEvent(e)
			quiet.Reset(drainTime)
		case <-quiet.C:
			waiting = false
		case <-most.C:
			waiting = false
		}
	}
	sub.Finish() // on a busy machine, earlier events may not have arrived yet
	for e := range sub.Events() {
		t.addEvent(e)
	}
}

// writeStart writes the first entry. The entry has no windows if they cannot be listed, such as
// during a restart of the X server.
func (t *Timeline) writeStart(ctx context.Context, d Desktop) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	size, control := d.Status().Size, d.Control()
	windows, _ := d.Windows(ctx, desktop.WindowFilter{All: true})
	shown := windows[:min(len(windows), maxWindows)]
	_, _ = t.put(Entry{Type: TypeStarted, Time: t.cfg.Epoch, Size: &size, Control: &control, Windows: shown})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.countDropped(uint64(len(windows) - len(shown)))
}

func (t *Timeline) addEvent(e desktop.Event) {
	t.seen = max(t.seen, e.Seq)
	if e.Type == desktop.EventGap {
		t.cfg.Dropped(e.Dropped)
	}
	_, _ = t.put(entryOf(e))
}

// at returns the position of a moment in the video, by the monotonic clock if both moments
// have it.
func (t *Timeline) at(moment time.Time) Milliseconds {
	return max(0, millis(moment.Sub(t.cfg.Epoch)))
}

// Mark sets a marker and returns its entry. It does not wait for the disk. The error is
// ErrClosed, ErrFull, or an *InvalidError, also for a position that the video does not have
// yet.
func (t *Timeline) Mark(m Marker) (Entry, error) {
	if err := m.check(); err != nil {
		return Entry{}, err
	}
	now := time.Now()
	if m.At != nil {
		if latest := t.at(now); *m.At > latest {
			return Entry{}, invalid("at", "must be at most %d: the recording is not longer yet", latest)
		}
		now = t.cfg.Epoch.Add(m.At.Duration())
		m.At = nil
	}
	return t.put(Entry{Type: TypeMarker, Marker: &m, Time: now})
}

// Add adds an event and returns its entry. It does not wait for the disk. The position of an
// event from before the video is zero. The error is ErrClosed, ErrFull or an *InvalidError.
func (t *Timeline) Add(e Event) (Entry, error) {
	if err := e.check(); err != nil {
		return Entry{}, err
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	return t.put(Entry{Type: e.Type, Title: e.Title, Data: e.Data, Time: e.Time})
}

// put numbers an entry and passes it to the writer.
func (t *Timeline) put(e Entry) (Entry, error) {
	e.At, e.Time = t.at(e.Time), e.Time.UTC().Round(0)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return Entry{}, ErrClosed
	}
	s := t.shares.of(e.Type)
	if t.lost > 0 {
		if s.used+resumeRoom > s.limit || t.waiting > maxWaiting/2 {
			t.countDropped(1)
			return Entry{}, ErrFull
		}
		gap := Entry{At: e.At, Time: e.Time, Type: desktop.EventGap, Dropped: t.lost}
		if _, err := t.line(gap, s); err != nil {
			t.countDropped(1)
			return Entry{}, err
		}
		t.lost = 0
	}
	e, err := t.line(e, s)
	if errors.Is(err, ErrFull) {
		t.countDropped(1)
	}
	return e, err
}

// countDropped counts entries that are left out. The caller holds mu.
func (t *Timeline) countDropped(n uint64) {
	t.lost += n
	t.cfg.Dropped(n)
}

// line puts an entry into the buffer. The caller holds mu.
func (t *Timeline) line(e Entry, s *share) (Entry, error) {
	e.Seq = t.seq + 1
	line, err := json.Marshal(e)
	if err != nil {
		return Entry{}, fmt.Errorf("timeline: %w", err)
	}
	line = append(line, '\n')
	room := maxWaiting
	if s != &t.shares.actions {
		room /= 2
	}
	if s.used+int64(len(line)) > s.limit || t.waiting+len(line) > room {
		return Entry{}, ErrFull
	}
	t.buf = append(t.buf, line...)
	t.waiting += len(line)
	t.seq = e.Seq
	s.used += int64(len(line))
	signal(t.wake)
	if len(t.buf) >= flushSize {
		signal(t.hurry)
	}
	return e, nil
}

// signal puts a value into a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write writes to the disk until the context ends.
func (t *Timeline) write(ctx context.Context) {
	for {
		select {
		case <-t.wake:
		case <-ctx.Done():
			return
		}
		select {
		case <-t.hurry:
		case <-time.After(flushInterval):
		case <-ctx.Done():
			return
		}
		if err := t.Flush(); err != nil {
			t.cfg.Logger.Debug("timeline not written", "error", err)
			signal(t.wake) // to try again
		}
	}
}

// Flush writes the entries that wait to the file, without syncing it. After an error it
// removes the part that was written, and the entries continue to wait.
func (t *Timeline) Flush() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	data := t.buf
	t.buf = nil
	t.mu.Unlock()
	if len(data) == 0 {
		return nil
	}
	_, err := t.file.Write(data)
	if err != nil {
		err = errors.Join(err, t.file.Truncate(t.good))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.buf = append(data, t.buf...)
		return err
	}
	t.good += int64(len(data))
	t.waiting -= len(data)
	return nil
}

// Close waits for the events that the desktop has emitted before, and for up to a second while
// more follow. It writes all entries, syncs the file, and returns the Seq of the desktop's latest
// event, for Config.After of the next timeline. If the disk fails, the entries that still wait
// are lost, and Config.Logger gets the error. Close may be called more than once.
func (t *Timeline) Close() (seen uint64) {
	t.once.Do(func() {
		t.cancel()
		t.done.Wait()
		t.mu.Lock()
		t.closed = true
		t.mu.Unlock()
		if err := errors.Join(t.Flush(), t.file.Sync(), t.file.Close()); err != nil {
			t.cfg.Logger.Debug("timeline not ended", "error", err)
		}
	})
	return t.seen
}
