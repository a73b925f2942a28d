package recording

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

// timelineFile is a timeline's name in the recording's folder.
const timelineFile = "timeline.jsonl"

const (
	// timelineLimit bounds a timeline's file. Each kind of entry has a share of
	// it, see newShares.
	timelineLimit = 64 << 20

	// timelineBuffer is how much waits for a disk that does not take it. Half of
	// it is for entries of the share actions alone.
	timelineBuffer = 4 << 20

	// mostWindows bounds the windows of EntryStarted, so that it is shorter than
	// maxLine.
	mostWindows = 100

	// goOnRoom is how much room a timeline that had none must have to go on, so
	// that it does not tell of a gap after every entry.
	goOnRoom = 4 << 10

	// flushInterval is how long an entry waits before it is written, and
	// flushSize how many bytes wait at most while the disk keeps up.
	flushInterval = time.Second
	flushSize     = 64 << 10

	// drainTime is how long nothing must come from the desktop before the
	// timeline believes that nothing is on its way to the desktop any more.
	drainTime = 20 * time.Millisecond

	// lookLimit is how long the desktop may take to tell what is on it.
	lookLimit = 2 * time.Second
)

// ErrTimelineFull is returned if a recording's timeline has no room for more entries
// of a kind.
var ErrTimelineFull = errors.New("the recording's timeline has no room for more entries of this kind")

// share is the part of a timeline's file that entries of one kind may take.
type share struct{ limit, used int64 }

// shares divide a timeline's file, so that neither the programs of the desktop nor
// callers can use up the room for the desktop's actions.
type shares struct {
	programs share // windows, the clipboard and the size of the screen
	events   share // Event
	markers  share
	actions  share // the rest
}

func newShares(limit int64) shares {
	s := shares{programs: share{limit: limit / 8}, events: share{limit: limit / 4}, markers: share{limit: limit / 16}}
	s.actions.limit = limit - s.programs.limit - s.events.limit - s.markers.limit
	return s
}

// of returns the share of a type of entry.
func (s *shares) of(kind EntryType) *share {
	switch kind {
	case EntryMarker:
		return &s.markers
	case EntryType(desktop.EventWindowOpened), EntryType(desktop.EventWindowClosed), EntryType(desktop.EventWindowFocused),
		EntryType(desktop.EventWindowRenamed), EntryType(desktop.EventClipboardChanged), EntryType(desktop.EventResized):
		return &s.programs
	}
	if slices.Contains(ownTypes, kind) {
		return &s.actions
	}
	return &s.events
}

// watched is what a timeline needs of a desktop.
type watched interface {
	Subscribe(after uint64) *desktop.Subscription
	Windows(ctx context.Context, filter desktop.WindowFilter) ([]desktop.Window, error)
	Control() desktop.Control
	Status() desktop.Status
}

// timeline writes what happens while a recording runs. One goroutine follows the
// desktop, another writes to the disk; whoever adds an entry waits for neither.
type timeline struct {
	epoch time.Time      // the moment of the video's first picture
	drop  func(n uint64) // counts entries that are left out
	log   *slog.Logger
	wake  chan struct{} // holds one when there is something to write
	hurry chan struct{} // holds one when it is much

	stopped chan struct{} // closed by stop
	once    sync.Once
	done    sync.WaitGroup
	seen    uint64 // Seq of the desktop's latest event; the follower's, then stop's

	writing sync.Mutex // held while the file is written to; taken before mu
	file    *os.File
	good    int64 // bytes of the file that are whole lines

	mu      sync.Mutex // guards what follows
	buf     []byte     // lines that are to be written
	waiting int        // bytes in buf, and those that are being written
	seq     uint64
	shares  shares
	lost    uint64 // entries that there was no room for, and that no entry tells of yet
	ended   bool
}

// startTimeline begins a recording's timeline with what is on the desktop, and
// follows it. epoch is the moment of the video's first picture. The first event
// is the one after that number, or, for 0, the next one. drop counts the entries that
// are left out.
func startTimeline(d watched, path string, epoch time.Time, after uint64, drop func(n uint64), log *slog.Logger) (*timeline, error) {
	t, err := newTimeline(path, epoch, timelineLimit, drop, log)
	if err != nil {
		return nil, err
	}
	t.seen = after
	sub := d.Subscribe(after)
	t.done.Go(func() { t.follow(d, sub) })
	return t, nil
}

func newTimeline(path string, epoch time.Time, limit int64, drop func(n uint64), log *slog.Logger) (*timeline, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &timeline{
		epoch: epoch, shares: newShares(limit), drop: drop, log: log, file: f, stopped: make(chan struct{}),
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
	}
	t.done.Go(t.write)
	return t, nil
}

// follow writes what the desktop tells until the timeline is stopped, or the
// desktop closed.
func (t *timeline) follow(d watched, sub *desktop.Subscription) {
	defer sub.Close()
	t.look(d)
	for {
		select {
		case e, ok := <-sub.Events():
			if !ok {
				return
			}
			t.take(e)
		case <-t.stopped:
			t.drain(sub)
			return
		}
	}
}

// drain takes what was told before the timeline was stopped, and what followed at
// once.
func (t *timeline) drain(sub *desktop.Subscription) {
	quiet := time.NewTimer(drainTime)
	defer quiet.Stop()
	for {
		select {
		case e, ok := <-sub.Events():
			if !ok {
				return
			}
			t.take(e)
			quiet.Reset(drainTime)
		case <-quiet.C:
			sub.Finish() // on a busy machine, what was told may not have come yet
			for e := range sub.Events() {
				t.take(e)
			}
			return
		}
	}
}

// look tells what is on the desktop at the beginning. Windows that cannot be
// listed, as while the X server is being restarted, are left out.
func (t *timeline) look(d watched) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	go func() { // which cancel ends
		select {
		case <-t.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	size, control := d.Status().Size, d.Control()
	entry := Entry{Type: EntryStarted, Time: t.epoch, Size: &size, Control: &control}
	windows, _ := d.Windows(ctx, desktop.WindowFilter{All: true})
	entry.Windows = windows[:min(len(windows), mostWindows)]
	_, _ = t.put(entry)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lose(uint64(len(windows) - len(entry.Windows)))
}

func (t *timeline) take(e desktop.Event) {
	t.seen = max(t.seen, e.Seq)
	if e.Type == desktop.EventGap {
		t.drop(e.Missed)
	}
	_, _ = t.put(entryOf(e))
}

// at is the video's position at some moment. The monotonic clock counts, where
// both have it.
func (t *timeline) at(moment time.Time) Milliseconds {
	return max(0, millis(moment.Sub(t.epoch)))
}

// add writes what a caller tells.
func (t *timeline) add(e Entry) (Entry, error) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	return t.put(e)
}

// put numbers an entry and hands it to the writer.
func (t *timeline) put(e Entry) (Entry, error) {
	e.At, e.Time = t.at(e.Time), e.Time.UTC().Round(0)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return Entry{}, ErrNotActive
	}
	s := t.shares.of(e.Type)
	if t.lost > 0 {
		if s.used+goOnRoom > s.limit || t.waiting > timelineBuffer/2 {
			t.lose(1)
			return Entry{}, ErrTimelineFull
		}
		gap := Entry{At: e.At, Time: e.Time, Type: EntryType(desktop.EventGap), Missed: t.lost}
		if _, err := t.line(gap, s); err != nil {
			t.lose(1)
			return Entry{}, err
		}
		t.lost = 0
	}
	e, err := t.line(e, s)
	if errors.Is(err, ErrTimelineFull) {
		t.lose(1)
	}
	return e, err
}

// lose counts entries that are left out. The caller has mu.
func (t *timeline) lose(n uint64) {
	t.lost += n
	t.drop(n)
}

// line puts one line into the buffer. The caller has mu.
func (t *timeline) line(e Entry, s *share) (Entry, error) {
	e.Seq = t.seq + 1
	line, err := json.Marshal(e)
	if err != nil {
		return Entry{}, fmt.Errorf("timeline: %w", err)
	}
	line = append(line, '\n')
	room := timelineBuffer
	if s != &t.shares.actions {
		room /= 2
	}
	if s.used+int64(len(line)) > s.limit || t.waiting+len(line) > room {
		return Entry{}, ErrTimelineFull
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

// signal leaves word for a goroutine that may be busy.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write is the goroutine that writes to the disk. While nothing happens it
// sleeps.
func (t *timeline) write() {
	soon := time.NewTimer(flushInterval)
	defer soon.Stop()
	for {
		select {
		case <-t.wake:
		case <-t.stopped:
			return
		}
		soon.Reset(flushInterval)
		select {
		case <-t.hurry:
		case <-soon.C:
		case <-t.stopped:
			return
		}
		if err := t.flush(); err != nil {
			t.log.Debug("timeline not written", "error", err)
			signal(t.wake) // to try again
		}
	}
}

// flush writes what there is. After an error nothing is lost, until the buffer
// is full: the file ends with a whole line, and the rest waits.
func (t *timeline) flush() error {
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

// stop takes what the desktop has told so far, writes everything, and returns
// the number of the desktop's latest event that is in it, for the timeline that
// follows this one. It may be called more than once.
func (t *timeline) stop() uint64 {
	t.once.Do(func() {
		close(t.stopped)
		t.done.Wait()
		t.mu.Lock()
		t.ended = true
		t.mu.Unlock()
		if err := errors.Join(t.flush(), t.file.Sync(), t.file.Close()); err != nil {
			t.log.Debug("timeline not ended", "error", err)
		}
	})
	t.done.Wait()
	return t.seen
}
