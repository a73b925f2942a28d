package eventlog

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/internal/cuttext"
)

// Direction is the sender of an event or a request.
type Direction int

// The senders.
const (
	Agent  Direction = iota // the agent's process
	Client                  // a client of the agent
	Daemon                  // the server itself
)

// String returns "agent", "client" or "daemon".
func (d Direction) String() string {
	switch d {
	case Agent:
		return "agent"
	case Client:
		return "client"
	case Daemon:
		return "daemon"
	default:
		return fmt.Sprintf("Direction(%d)", int(d))
	}
}

// Event is one entry of a stream. It never changes once it is committed.
type Event struct {
	Stream  string    // "acp:" and a server's id, "ses:", "uni:" or "oc:" and a session's
	Seq     int64     // from 1, never reused, in steps of 1 except after [Tx.AppendMany]; Append sets it
	ID      string    // unique in the log; Append sets it if it is empty
	At      time.Time // by the clock, which may be set back (Seq has the order); Append sets it when it is zero
	Process string    // the agent process that it belongs to; may be empty
	Session string    // the session that it belongs to; may be empty
	Dir     Direction
	Kind    string // a method, a kind of update, an event type; Append cuts it to what can be stored
	Payload []byte // exactly these bytes; shared, never to be changed
}

const (
	maxName    = 1024      // bytes of ids, streams and kinds
	maxText    = 64 << 10  // bytes of titles, folders and reasons
	maxPayload = 256 << 20 // bytes
)

// check returns an error for an event that cannot be stored, and sets all empty fields
// except Seq.
func (e *Event) check(now time.Time) error {
	if e.Stream == "" {
		return &InvalidError{"event.stream", "must not be empty"}
	}
	if e.Dir < Agent || e.Dir > Daemon {
		return &InvalidError{"event.dir", "must be Agent, Client or Daemon"}
	}
	if err := checkTexts("event", maxName, "stream", e.Stream, "id", e.ID, "process", e.Process, "session", e.Session); err != nil {
		return err
	}
	if len(e.Payload) > maxPayload {
		return &InvalidError{"event.payload", fmt.Sprintf("has %d bytes; it may have %d", len(e.Payload), maxPayload)}
	}
	// An agent chooses it, and the event must be stored anyway.
	e.Kind = strings.ToValidUTF8(strings.ReplaceAll(cuttext.Cut(e.Kind, maxName), "\x00", ""), "")
	if e.ID == "" {
		e.ID = NewID()
	}
	e.At = asStored(e.At, now)
	if e.Payload == nil {
		e.Payload = []byte{}
	}
	return nil
}

// NewID returns an id for an event.
func NewID() string { return "evt_" + strings.ToLower(rand.Text()) }

// checkTexts checks the texts of a record: names and values in turn. It refuses what
// Postgres cannot store, also for SQLite.
func checkTexts(record string, limit int, texts ...string) error {
	for pair := range slices.Chunk(texts, 2) {
		field, s := record+"."+pair[0], pair[1]
		switch {
		case len(s) > limit:
			return &InvalidError{field, fmt.Sprintf("has %d bytes; it may have %d", len(s), limit)}
		case !utf8.ValidString(s):
			return &InvalidError{field, "is not UTF-8"}
		case strings.IndexByte(s, 0) >= 0:
			return &InvalidError{field, "has a zero byte"}
		}
	}
	return nil
}

// The limits of times in JSON.
var (
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro()
)

// micros returns a time as it is stored: 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return min(max(t.UnixMicro(), firstTime+1), lastTime)
}

// fromMicros is the reverse of micros.
func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// asStored rounds a time as storing it does. It replaces a zero time by missing.
func asStored(t, missing time.Time) time.Time {
	if t.IsZero() {
		t = missing
	}
	return fromMicros(micros(t))
}
