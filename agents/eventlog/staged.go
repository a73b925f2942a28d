package eventlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// stageTime is how long commits may be in the redo log alone: about as many
	// as are worth a transaction.
	stageTime = 100 * time.Millisecond

	// stageRetry is the pause after the database has not taken them.
	stageRetry = time.Second

	stageSeek = time.Second // between attempts to have the reserve

	stageStatements = 64       // of a commit; larger ones are a transaction
	stageBytes      = 64 << 10 // the same
)

// staged are the commits that are in the redo log and not in the database. Only
// the writer adds some; who has the connection of the writer takes them.
type staged struct {
	apply func() error // gives them to the database
	warn  func(error)

	dirty atomic.Bool // there are some, or they are being taken over

	mu     sync.Mutex // guards what follows
	redo   *redoLog
	id     string      // that the database is to have before anything is staged; empty: it has
	number int64       // of the newest commit
	known  int64       // that of the newest one that the database has
	held   []statement // that are in the half that is written
	stuck  []statement // that the database has not taken
	live   [2]bool     // the half has some that are not in the database
	timer  *time.Timer // nil: nobody comes for them by himself
	closed bool
	coming sync.WaitGroup // those who come
	shut   bool           // the database took nothing the last time
	spare  bool           // the redo log has its reserve
	freed  int            // how often it gave that up
	sought time.Time      // when it last tried to have it
	warned bool           // that was told
}

// takeover is what the database is given in a transaction.
type takeover struct {
	statements []statement
	last       int64  // the number of the newest commit
	known      int64  // the one that the database has
	id         string // that it gets; empty: it has the one that records are signed with
	live       [2]bool
}

// add keeps a commit, or says that it has to be a transaction.
func (s *staged) add(all []statement) bool {
	size := statementsSize(all)
	if len(all) > stageStatements || size > stageBytes || slices.ContainsFunc(all, refusable) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.shut || !s.spare || s.id != "" || !s.redo.fits(size) {
		return false
	}
	s.number++ // is not used again, since the record may be there even if this fails
	if err := s.redo.append(s.number, all); err != nil {
		s.warn(err)
		return false
	}
	s.live[s.redo.half] = true
	s.held = append(s.held, all...)
	s.dirty.Store(true)
	s.schedule(stageTime)
	return true
}

// schedule has somebody come. The caller has s.mu.
func (s *staged) schedule(after time.Duration) {
	if s.timer != nil || s.closed {
		return
	}
	s.coming.Add(1)
	s.timer = time.AfterFunc(after, func() {
		defer s.coming.Done()
		s.mu.Lock()
		s.timer = nil
		s.mu.Unlock()
		if err := s.apply(); err != nil {
			s.complain(err)
		}
	})
}

// complain tells, once, that the database takes nothing, and tries again later.
func (s *staged) complain(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.warned {
		s.warned = true
		s.warn(err)
	}
	s.schedule(stageRetry)
}

// take returns all, for a transaction of the caller's, who has the connection.
func (s *staged) take() *takeover {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &takeover{append(s.stuck, s.held...), s.number, s.known, s.id, s.live}
	s.stuck, s.held = nil, nil
	if other := 1 - s.redo.half; !s.live[other] {
		s.redo.turn(other)
	} else {
		s.redo.at = redoHalf // no room until these are in the database
	}
	if len(t.statements) == 0 {
		s.dirty.Store(false) // readers need not wait for what the caller does
	}
	return t
}

// count gives the caller's transaction, which has more than was staged, a number
// of its own: if it is lost with the machine, commits that came after it are not
// redone without it.
func (s *staged) count(t *takeover) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	t.last = s.number
}

// done is called when the database has what was taken.
func (s *staged) done(t *takeover) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for half, live := range t.live {
		if live {
			s.live[half] = false
		}
	}
	if !s.live[s.redo.half] {
		s.redo.turn(s.redo.half)
	}
	if t.id != "" {
		s.redo.sign(t.id)
		s.id = ""
	}
	s.known, s.shut, s.warned = t.last, false, false
	s.dirty.Store(len(s.held) > 0)
	s.seek()
}

// seek has the redo log take its reserve, without which nothing is staged: it
// could not be read while the disk is full. The caller has s.mu.
func (s *staged) seek() {
	if s.spare || time.Since(s.sought) < stageSeek {
		return
	}
	s.sought = time.Now()
	s.spare = s.redo.reserve() == nil
}

// room is how often room was made, for release.
func (s *staged) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed
}

// release gives the reserve up, and tells whether there is room that was not
// there before: another one may have made it since the caller asked.
func (s *staged) release(before int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freed != before {
		return true
	}
	if !s.spare {
		return false
	}
	s.spare, s.sought = false, time.Now()
	if s.redo.release() != nil {
		return false
	}
	s.freed++
	return true
}

// failed is called when it has not, or has not even begun: then t is nil. No
// commit is staged until it has taken something again, so that their callers hear
// of it.
func (s *staged) failed(t *takeover) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	if t != nil && len(t.statements) > 0 {
		s.stuck = t.statements
		s.dirty.Store(true)
	}
	if s.stuck != nil || s.held != nil {
		s.schedule(stageRetry)
	}
}

// close lets nobody come any more, and waits for who does.
func (s *staged) close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil && s.timer.Stop() {
		s.coming.Done()
	}
	s.mu.Unlock()
	s.coming.Wait()
}

// redo opens the redo log, and gives the database what it does not have of it.
func (db *sqliteDB) redo(ctx context.Context, cfg Config) error {
	var id string
	var applied int64
	if err := db.conn.QueryRowContext(ctx, "select id, applied from redo").Scan(&id, &applied); err != nil {
		return err
	}
	if err := db.reportShortRedo(applied, cfg.Logger); err != nil {
		return err
	}
	log, err := openRedo(db.path, id, cfg.Synchronous == Full)
	if err != nil {
		return err
	}
	s := &db.staged
	s.redo, s.number, s.known = log, applied, applied
	s.apply = func() error { return db.settle(context.Background()) }
	s.warn = func(err error) {
		cfg.Logger.Error("commits wait in the redo log", "error", err)
	}
	// Another one from now on: records of a file that was put back, or of what was
	// lost with the machine, are not taken for those to come.
	s.id = rand.Text()
	s.seek()
	records, dropped, err := log.after(applied)
	if err != nil {
		return db.corrupt(err)
	}
	if n := len(dropped); n > 0 {
		good := applied + int64(len(records))
		cfg.Logger.Error("the redo log is damaged, or stands on what was lost with the machine: the newest commits are lost; "+
			"check the disk, and restore a backup of the database if sessions lack events",
			"file", db.path+redoSuffix, "commits", dropped[n-1].number-good, "copy", keepDamaged(db.path+redoSuffix))
	}
	if len(records) == 0 {
		return nil
	}
	for _, r := range records {
		s.number = r.number
		s.stuck = append(s.stuck, r.statements...)
	}
	s.live = [2]bool{true, true} // whichever they are in
	s.dirty.Store(true)
	if err = db.settle(ctx); errors.Is(err, ErrExists) {
		err = db.corrupt(fmt.Errorf("commits %d to %d of its redo log do not fit: %w", applied+1, s.number, err))
	}
	return err
}
