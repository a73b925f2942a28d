package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// sweepGrace is the time between SIGTERM and SIGKILL for processes of a dead program. It
// is short because it delays the start of this program.
const sweepGrace = 500 * time.Millisecond

// Sweep ends the processes of groups whose records are in dir and whose programs died
// without closing them: SIGTERM, then SIGKILL after half a second. It returns the number
// of processes when they have ended, or a [LeftoverError] five seconds after SIGKILL. It
// also returns errors of reading dir and the records. It does nothing if dir does not
// exist. logger may be nil.
//
// It leaves the groups of running programs alone, and never ends the calling program, its
// ancestors or its children.
func Sweep(dir string, logger *slog.Logger) (ended int, err error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("sweep %s: %w", dir, err)
	}
	var errs []error
	var taken []*recordFile
	r := &roundup{spare: spareOwn}
	for _, e := range entries {
		if !isRecordName(e.Name()) {
			continue
		}
		rf, rec, err := lockRecord(filepath.Join(dir, e.Name()))
		switch {
		case errors.Is(err, errAlive), errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			errs = append(errs, err)
			continue
		}
		taken = append(taken, rf)
		if rec.Token != "" && rec.Boot == bootID() {
			logger.Debug("ending processes of a dead program", "owner", rec.Owner, "pid", rec.PID)
			r.tags = append(r.tags, tag{text: rec.Token, mark: rec.Mark, since: rec.Since})
		}
	}
	if len(r.tags) > 0 {
		if err = r.end(context.Background(), sweepGrace); err != nil {
			errs = append(errs, err)
		}
	}
	for _, rf := range taken {
		errs = append(errs, rf.close(err == nil))
	}
	if err := errors.Join(errs...); err != nil {
		return r.ended, fmt.Errorf("sweep %s: %w", dir, err)
	}
	return r.ended, nil
}

// spareOwn excepts the children of this program and the members of its groups. They also
// carry a dead program's token if this program was started on a desktop of the dead one.
func spareOwn(p process, all map[int]process) bool {
	self := os.Getpid()
	for a, n := p, 0; a.parent > 0 && n < len(all); a, n = all[a.parent], n+1 {
		if a.parent == self {
			return true
		}
	}
	l, _, _ := lineage(p.pid)
	for _, g := range program.list() {
		if (tag{text: g.token}).in(l) {
			return true
		}
	}
	return false
}
