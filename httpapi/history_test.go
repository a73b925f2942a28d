package httpapi

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/recording"
)

// TestTokensShowNoPast makes a link after much has happened. It shows what happens from
// then on.
func TestTokensShowNoPast(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":640,"height":480}`)
	begin := func() (id, at string) {
		id = s.post(t, mainPath+"/recordings", "").want(t, 201).json(t)["id"].(string)
		return id, mainPath + "/recordings/" + id
	}
	end := func(at string) {
		s.awaitVideo(t, at, 200*time.Millisecond)
		s.post(t, at+"/stop", "").want(t, 200)
	}
	events := s.follow(t.Context(), t, mainPath+"/events", nil)
	s.post(t, mainPath+"/mouse/move", `{"x":1,"y":1}`).want(t, 200)
	first, _ := await(t, events, desktop.EventAction)
	old, oldAt := begin()
	s.post(t, mainPath+"/keyboard/type", `{"text":"before","delayMs":0}`).want(t, 200)
	end(oldAt)
	running, runningAt := begin()
	values := map[string]string{}
	for _, scope := range []string{"view", "control", "admin"} {
		_, values[scope] = s.token(t, `{"scope":"`+scope+`"}`)
	}
	s.post(t, mainPath+"/keyboard/type", `{"text":"after","delayMs":0}`).want(t, 200)
	recent, recentAt := begin()
	end(recentAt)

	for scope, value := range values {
		all := scope == "admin"
		with := map[string]string{"Authorization": "Bearer " + value}
		resumed := s.follow(t.Context(), t, mainPath+"/events?access_token="+value, map[string]string{"Last-Event-ID": first.id})
		want := "after"
		if all {
			want = "before"
		}
		if _, e := await(t, resumed, desktop.EventAction); e.Action.Text != want {
			t.Errorf("%s: events resume with %q", scope, e.Action.Text)
		}
		list := string(s.do(t, call{path: mainPath + "/recordings", header: with}).want(t, 200).body)
		if strings.Contains(list, old) != all || !strings.Contains(list, running) || !strings.Contains(list, recent) {
			t.Errorf("%s: recordings are %s", scope, list)
		}
		for at, may := range map[string]bool{
			oldAt: all, oldAt + "/timeline": all, oldAt + "/captions.vtt": all, oldAt + "/chapters.vtt": all, oldAt + "/download": all,
			oldAt + "/thumbnails": all, oldAt + "/clip?from=0&to=100": all,
			runningAt: true, runningAt + "/timeline": all, runningAt + "/download": all, runningAt + "/download?live=true": all,
			recentAt: true, recentAt + "/timeline": true, recentAt + "/download": true,
		} {
			if strings.Contains(at, "live") && may {
				continue // it would not end
			}
			if a := s.do(t, call{path: at, header: with}); (a.StatusCode == 200) != may {
				t.Errorf("%s: GET %s: %d %s", scope, at, a.StatusCode, a.body)
			} else if !may {
				a.problem(t, 403, "permission_denied")
			}
		}
	}
	marker := call{method: http.MethodPost, path: oldAt + "/markers", body: `{"title":"x","at":0}`, header: map[string]string{"Authorization": "Bearer " + values["control"]}}
	s.do(t, marker).problem(t, 403, "permission_denied")
	marker.path = runningAt + "/markers"
	s.do(t, marker).problem(t, 403, "permission_denied") // the position is before the token was made
	marker.body = `{"title":"x"}`
	s.do(t, marker).want(t, 201)
	event := marker
	event.path, event.body = runningAt+"/events", `{"type":"x","time":"2020-01-01T00:00:00Z"}`
	s.do(t, event).problem(t, 403, "permission_denied")
	event.body = `{"type":"x","time":"` + time.Now().Format(time.RFC3339Nano) + `"}`
	s.do(t, event).want(t, 201)
	event.body, event.header = `{"type":"x","time":"2020-01-01T00:00:00Z"}`, nil
	s.do(t, event).want(t, 201)
	end(runningAt)
}

// TestRecordingEventsShowNoPast ends and deletes recordings that began before a link
// was made. The link is told only that the one that was running left its list.
func TestRecordingEventsShowNoPast(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":640,"height":480}`)
	begin := func() (id, at string) {
		id = s.post(t, mainPath+"/recordings", "").want(t, 201).json(t)["id"].(string)
		return id, mainPath + "/recordings/" + id
	}
	old, oldAt := begin()
	s.awaitVideo(t, oldAt, 200*time.Millisecond)
	s.post(t, oldAt+"/stop", "").want(t, 200)
	running, runningAt := begin()
	_, value := s.token(t, `{"scope":"view"}`)
	events := s.follow(t.Context(), t, mainPath+"/events?types=recording&access_token="+value, nil)
	all := s.follow(t.Context(), t, mainPath+"/events?types=recording", nil)
	s.awaitVideo(t, runningAt, 200*time.Millisecond)
	s.post(t, runningAt+"/stop", "").want(t, 200)
	for _, at := range []string{runningAt, oldAt} {
		s.do(t, call{method: http.MethodDelete, path: at}).want(t, 204)
	}
	recent, _ := begin()

	type recordingInfo struct {
		ID       string
		Status   recording.Status
		EndedAt  string
		Bytes    int64
		Duration int64 `json:"durationMs"`
		Reason   recording.Reason
	}
	told := func(events <-chan sse) (statuses map[string][]recording.Status, left recordingInfo) {
		statuses = map[string][]recording.Status{}
		for statuses[recent] == nil {
			e, _ := await(t, events, "recording")
			var decoded struct{ Recording recordingInfo }
			if err := json.Unmarshal([]byte(e.data), &decoded); err != nil {
				t.Fatal(err)
			}
			info := decoded.Recording
			if statuses[info.ID] = append(statuses[info.ID], info.Status); info.Status == recording.StatusDeleted {
				left = info
			}
		}
		return statuses, left
	}
	statuses, left := told(events)
	last := slices.DeleteFunc(statuses[running], func(s recording.Status) bool { return s == recording.StatusRecording })
	if statuses[old] != nil || !slices.Equal(last, []recording.Status{recording.StatusDeleted}) {
		t.Errorf("the link has the statuses %v; the old one is %s, the running one %s", statuses, old, running)
	}
	if left.EndedAt != "" || left.Bytes != 0 || left.Duration != 0 || left.Reason != "" {
		t.Errorf("the event of the end of the running one is %+v", left)
	}
	if statuses, _ := told(all); len(statuses) != 3 {
		t.Errorf("the server's token has the statuses %v", statuses)
	}
}

// TestTokensShowNoPastAfterClockSetBack starts on a state directory with a recording whose
// time is still to come, as when the clock was set back. A token shows the recordings that
// begin after it was made, and not that one.
func TestTokensShowNoPastAfterClockSetBack(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "ffmpeg", "ffprobe")
	stateDir := t.TempDir()
	old := earlierRecording(t, filepath.Join(stateDir, "recordings"), time.Now().Add(time.Hour))
	s := startReal(t, Config{StateDir: stateDir}, `{"width":640,"height":480}`)
	if list := string(s.get(t, mainPath+"/recordings").want(t, 200).body); !strings.Contains(list, old) {
		t.Fatalf("the server's recordings are %s", list)
	}
	_, value := s.token(t, `{"scope":"view"}`)
	token := map[string]string{"Authorization": "Bearer " + value}
	recent := s.post(t, mainPath+"/recordings", "").want(t, 201).json(t)["id"].(string)
	s.awaitVideo(t, mainPath+"/recordings/"+recent, 100*time.Millisecond)
	s.post(t, mainPath+"/recordings/"+recent+"/stop", "").want(t, 200)
	list := string(s.do(t, call{path: mainPath + "/recordings", header: token}).want(t, 200).body)
	if strings.Contains(list, old) || !strings.Contains(list, recent) {
		t.Errorf("the token shows %s", list)
	}
	s.do(t, call{path: mainPath + "/recordings/" + old, header: token}).problem(t, 403, "permission_denied")
	s.do(t, call{path: mainPath + "/recordings/" + recent + "/timeline", header: token}).want(t, 200)
}

// TestTokensShowNoPastOfOtherDirectory: a token does not show earlier recordings in a directory that
// the server did not have when it made the token.
func TestTokensShowNoPastOfOtherDirectory(t *testing.T) {
	t.Parallel()
	state, recordings := t.TempDir(), t.TempDir()
	s := serve(t, Config{StateDir: state})
	_, value := s.token(t, `{"scope":"view"}`)
	_, all := s.token(t, `{"scope":"supervise"}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	id := earlierRecording(t, recordings, time.Now().Add(-time.Hour))
	s = serve(t, Config{StateDir: state, RecordingsDir: recordings})
	at := mainPath + "/recordings/" + id
	s.do(t, call{path: at, header: bearer(all)}).want(t, 200)
	s.do(t, call{path: at, header: bearer(value)}).problem(t, 403, "permission_denied")
	s.do(t, call{path: at + "/timeline", header: bearer(value)}).problem(t, 403, "permission_denied")
	if list := string(s.do(t, call{path: mainPath + "/recordings", header: bearer(value)}).want(t, 200).body); strings.Contains(list, id) {
		t.Errorf("the token shows %s", list)
	}
}

// earlierRecording adds a recording to a directory, and returns its id.
func earlierRecording(t *testing.T, dir string, started time.Time) string {
	t.Helper()
	var u ulid.ULID
	if err := u.SetTime(ulid.Timestamp(started)); err != nil {
		t.Fatal(err)
	}
	id := "rec_" + strings.ToLower(u.String())
	at := filepath.Join(dir, id)
	manifest, err := json.Marshal(map[string]any{"version": 1, "id": id, "status": recording.StatusCompleted, "started": started, "ended": started})
	if err := errors.Join(err, os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, "manifest.json"), manifest, 0o600)); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestPersonsTypingOverHTTP types as the page does where nothing but plain requests
// gets through.
func TestPersonsTypingOverHTTP(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	events := s.follow(t.Context(), t, mainPath+"/events", nil)
	person := map[string]string{"Deskhand-Actor": "Jane", "Deskhand-Typing": "secret"}
	for _, in := range [][2]string{{"down", `{"key":"0x6a"}`}, {"up", `{"key":"0x6a"}`}, {"press", `{"key":"j"}`}, {"type", `{"text":"jjj"}`}} {
		s.do(t, call{path: mainPath + "/keyboard/" + in[0], body: in[1], header: person}).want(t, 200)
	}
	e, typed := await(t, events, desktop.EventAction)
	if a := typed.Action; a.Name != "type" || a.Length != 5 || a.Actor.Name != "Jane" || strings.Contains(e.data, "j\"") || strings.Contains(e.data, "0x6a") {
		t.Errorf("the event of what a person typed is %s", e.data)
	}
	tool := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"type","arguments":{"text":"kkkk","screenshot":false}}}`
	accept := map[string]string{"Accept": "application/json, text/event-stream"}
	maps.Copy(accept, person)
	s.do(t, call{path: "/v1/mcp", body: tool, header: accept}).want(t, 200)
	e, typed = await(t, events, desktop.EventAction)
	if a := typed.Action; a.Length != 4 || strings.Contains(e.data, "kkkk") {
		t.Errorf("the event of what a person typed by a tool is %s", e.data)
	}
}
