package httpapi

import (
	"net/http"
	"time"

	"github.com/deskhand/deskhand/recording"
)

// A token shows nothing that happened before it was made: a link that is given away
// opens what its maker shows, not what was done before. The server's own token and
// those of scope admin show everything.

// shownSince is the moment from which on a token shows what happened.
func (g *grant) shownSince() time.Time {
	if g == nil || g.scope == scopeAdmin {
		return time.Time{}
	}
	return g.Created
}

// shows says whether a token shows the whole of a recording.
func (g *grant) shows(info recording.Info) bool { return !info.Started.Before(g.shownSince()) }

// recordingClosed is the answer to a token that may not do what a route does with
// a recording that began before the token was made: anything, or, while it goes on,
// reading more than that it does.
func (g *grant) recordingClosed(r route, info recording.Info) error {
	about := r.method != http.MethodGet || r.path == "/recordings/{id}"
	if g.shows(info) || info.Status == recording.StatusRecording && about {
		return nil
	}
	return permissionDenied.problem("permission denied: this recording began before the token was made; use a token of scope admin")
}
