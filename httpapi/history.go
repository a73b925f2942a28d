package httpapi

import (
	"net/http"
	"time"

	"github.com/deskhand/deskhand/recording"
)

// A token shows nothing that happened before it was made: a shared link shows the
// desktop from then on, not its past. The server's own token and tokens of scope
// admin show everything.

// shownSince returns the time from which on a token shows events.
func (g *grant) shownSince() time.Time {
	if g == nil || g.scope == scopeAdmin {
		return time.Time{}
	}
	return g.Created
}

// shows reports whether a token shows the whole of a recording.
func (g *grant) shows(info recording.Info) bool { return !info.Started.Before(g.shownSince()) }

// recordingClosed returns a problem if a recording began before the token was made.
// While such a recording goes on, only reading more than its description is
// refused.
func (g *grant) recordingClosed(r route, info recording.Info) error {
	about := r.method != http.MethodGet || r.path == "/recordings/{id}"
	if g.shows(info) || info.Status == recording.StatusRecording && about {
		return nil
	}
	return permissionDenied.problem("permission denied: this recording began before the token was made; use a token of scope admin")
}
