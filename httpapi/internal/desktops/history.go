package desktops

import (
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/recording"
)

// A token shows nothing that happened before it was made: a shared link shows the
// desktop from then on, not its past. The server's own token and tokens of the scopes
// supervise and admin show everything.

// recordingView is how much of a recording a token shows.
type recordingView int

const (
	recordingHidden recordingView = iota // nothing
	recordingListed                      // its description
	recordingShown                       // everything
)

// viewOf returns how much of a recording a token shows. The token shows a recording that
// began after it was made. It lists an older one while that goes on, so that people
// know that they are recorded. The ids are compared because the clock may have been set back,
// and the times because the token may have been made where these recordings were not known: by
// another server, or with another directory of recordings.
func viewOf(g *grants.Grant, info recording.Info) recordingView {
	switch {
	case g.Supervises(), info.ID > g.NewestRecording && !info.Started.Before(g.Created):
		return recordingShown
	case info.Status == recording.StatusRecording:
		return recordingListed
	}
	return recordingHidden
}

// recordingFilter selects the events about recordings that the holder of a token gets.
type recordingFilter struct {
	grant  *grants.Grant
	listed map[string]bool // ids of recordings whose description the client may have
}

// newRecordingFilter returns the filter of a token. active are the running recordings.
func newRecordingFilter(g *grants.Grant, active []recording.Info) *recordingFilter {
	f := &recordingFilter{grant: g, listed: map[string]bool{}}
	for _, info := range active {
		f.listed[info.ID] = viewOf(g, info) == recordingListed
	}
	return f
}

// filter returns the event for the token's holder, or nil. When a listed recording
// becomes hidden, filter returns one event that says that it is deleted.
func (f *recordingFilter) filter(e *recordingEvent) *recordingEvent {
	id := e.info.ID
	switch viewOf(f.grant, e.info) {
	case recordingShown:
		return e
	case recordingListed:
		f.listed[id] = true
		return e
	case recordingHidden:
	}
	if !f.listed[id] {
		return nil
	}
	delete(f.listed, id)
	hidden := *e
	hidden.Recording = infoOfRecording(recording.Info{ID: id, Desktop: e.info.Desktop, Started: e.info.Started, Status: recording.StatusDeleted})
	return &hidden
}
