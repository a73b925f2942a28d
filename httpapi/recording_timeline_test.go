package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// toldEntry is one of a timeline.
type toldEntry struct {
	Seq    uint64
	At     int64
	Type   string
	Title  string
	Data   json.RawMessage
	Marker *struct{ Title, Text, Color string }
	Action *struct {
		Name, Text string
		Actor      struct{ Kind, Name string }
	}
}

// timeline reads a recording's timeline, by small pages.
func (s *testServer) timeline(t *testing.T, at string) []toldEntry {
	t.Helper()
	var all []toldEntry
	for after := uint64(0); ; {
		var page struct {
			Entries []toldEntry
			Next    uint64
		}
		a := s.get(t, fmt.Sprintf("%s/timeline?limit=3&after=%d", at, after)).want(t, 200)
		if err := json.Unmarshal(a.body, &page); err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Entries...)
		if page.Next == 0 {
			return all
		}
		after = page.Next
	}
}

// awaitVideo waits until a recording has grown by that much.
func (s *testServer) awaitVideo(t *testing.T, at string, more time.Duration) {
	t.Helper()
	length := func() float64 { return s.get(t, at).want(t, 200).json(t)["durationMs"].(float64) }
	begin := length()
	eventually(t, "the video is longer", func() bool { return length() >= begin+float64(more.Milliseconds()) })
}

func TestRecordingTimeline(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":640,"height":480}`)
	id := s.post(t, mainPath+"/recordings", "").want(t, 201).json(t)["id"].(string)
	at := mainPath + "/recordings/" + id
	s.do(t, call{path: mainPath + "/mouse/click", body: `{"x":100,"y":60}`, header: map[string]string{"Deskhand-Actor": "ann"}}).want(t, 200)
	s.post(t, mainPath+"/keyboard/type", `{"text":"hunter2","secret":true}`).want(t, 200)
	s.post(t, at+"/markers", `{"title":"Here","text":"it begins","color":"#ff8800"}`).want(t, 201)
	s.post(t, at+"/events", `{"type":"agent_message","title":"Thinking","data":{"text":["anything"]}}`).want(t, 201)
	for path, body := range map[string]string{"/markers": `{"title":" "}`, "/events": `{"type":"Not A Name"}`, "/markers?": `{"title":"x","color":"red"}`} {
		s.post(t, at+path, body).problem(t, 400, "desktop_invalid_action")
	}
	s.awaitVideo(t, at, time.Second)
	// What the desktop tells and what callers tell become known independently.
	var done, told []string
	check := func(entries []toldEntry) {
		t.Helper()
		done, told = nil, nil
		last := uint64(0)
		for _, e := range entries {
			if e.Seq <= last || e.At < 0 {
				t.Errorf("entry %+v after %d", e, last)
			}
			last = e.Seq
			switch {
			case e.Action != nil && e.Action.Name == "click":
				done = append(done, "click by "+e.Action.Actor.Name)
			case e.Action != nil:
				done = append(done, e.Action.Name+e.Action.Text)
			case e.Marker != nil:
				told = append(told, fmt.Sprint(*e.Marker))
			case e.Type == "agent_message":
				told = append(told, e.Title+string(e.Data))
			}
		}
	}
	actions, want := []string{"click by ann", "type"}, []string{"{Here it begins #ff8800}", `Thinking{"text":["anything"]}`}
	check(s.timeline(t, at))
	if !slices.Equal(done, actions) || !slices.Equal(told, want) {
		t.Errorf("while it goes on: %q and %q, want %q and %q", done, told, actions, want)
	}
	s.post(t, at+"/stop", "").want(t, 200)
	s.post(t, at+"/events", `{"type":"late"}`).problem(t, 409, "conflict")
	s.post(t, at+"/markers", `{"title":"Later"}`).problem(t, 400, "desktop_invalid_action")
	s.post(t, at+"/markers", `{"title":"Later","at":900}`).want(t, 201)
	s.post(t, at+"/markers", `{}`).problem(t, 422, "invalid_request")
	check(s.timeline(t, at))
	if want = append(want, "{Later  }"); !slices.Equal(done, actions) || !slices.Equal(told, want) {
		t.Errorf("after the end: %q and %q, want %q and %q", done, told, actions, want)
	}
	for path, wants := range map[string][]string{
		"/captions.vtt": {"Click at 100, 60", "Thinking", "-->"}, "/chapters.vtt": {"Here", "Later"},
	} {
		a := s.get(t, at+path).want(t, 200)
		text := string(a.body)
		if !strings.HasPrefix(text, "WEBVTT") || a.Header.Get("Content-Type") != "text/vtt; charset=utf-8" {
			t.Errorf("%s: %v: %s", path, a.Header, text)
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q: %s", path, want, text)
			}
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s tells the secret: %s", path, text)
		}
	}
}

// TestRecordingClip cuts parts out.
func TestRecordingClip(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":320,"height":240}`)
	id := s.recordFor(t, mainPath, `{"fps":20}`, 3*time.Second)["id"].(string)
	at := mainPath + "/recordings/" + id
	a := s.do(t, call{path: at + "/clip?from=700&to=1700&access_token=" + s.Token(), header: map[string]string{"Authorization": ""}}).want(t, 200)
	if _, seconds := probe(t, a.body); seconds < 0.9 || seconds > 1.15 {
		t.Errorf("the clip takes %v s", seconds)
	}
	if got := a.Header.Get("Content-Disposition"); a.ContentLength != int64(len(a.body)) || !strings.Contains(got, id+"-700-") {
		t.Errorf("length %d of %d, %s", a.ContentLength, len(a.body), got)
	}
	moves := s.timeline(t, at)
	move := moves[slices.IndexFunc(moves, func(e toldEntry) bool { return e.Action != nil && e.At > 1000 })]
	_, seconds := probe(t, s.get(t, fmt.Sprintf("%s/clip?around=%d&before=500&after=600", at, move.Seq)).want(t, 200).body)
	if seconds < 1 || seconds > 1.25 {
		t.Errorf("the clip around %+v takes %v s", move, seconds)
	}
	probe(t, s.get(t, at+"/clip?from=2000").want(t, 200).body)
	for _, query := range []string{"from=900&to=800", "from=99999999", "around=999999", "around=1&from=5", "before=5"} {
		s.get(t, at+"/clip?"+query).problem(t, 400, "desktop_invalid_action")
	}
	s.get(t, at+"/clip?from=-1").problem(t, 400, "invalid_request")
	text := string(s.get(t, at+"/captions.vtt?from=700&to=1700").want(t, 200).body)
	if !strings.HasPrefix(text, "WEBVTT") || strings.Contains(text, "00:02.") {
		t.Errorf("captions of the clip: %s", text)
	}
}

// TestRecordingEvents tells of recordings in the desktop's stream of events.
func TestRecordingEvents(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":320,"height":240}`)
	events := s.follow(t.Context(), t, mainPath+"/events?types=recording,closed", nil)
	s.post(t, mainPath+"/mouse/move", `{"x":1,"y":1}`).want(t, 200) // not wanted
	next := func() (typ, id, status string) {
		t.Helper()
		select {
		case e := <-events:
			var told struct {
				Type, Desktop string
				Recording     struct{ ID, Status string }
			}
			if err := json.Unmarshal([]byte(e.data), &told); err != nil || told.Type != e.event || told.Desktop != "main" || e.event == "recording" && e.id != "" {
				t.Fatalf("event %+v: %v", e, err)
			}
			return e.event, told.Recording.ID, told.Recording.Status
		case <-time.After(time.Minute):
			t.Fatal("no event")
		}
		return "", "", ""
	}
	until := func(id, status string) {
		t.Helper()
		for {
			typ, of, is := next()
			if typ != "recording" || of != id {
				t.Fatalf("%s of %s that is %s, want one of %s until it is %s", typ, of, is, id, status)
			}
			if is == status {
				return
			}
		}
	}
	first := s.post(t, mainPath+"/recording/start", "").want(t, 200).json(t)["id"].(string)
	until(first, "recording")
	s.post(t, mainPath+"/recording/stop", "").want(t, 200)
	until(first, "completed")
	eventually(t, "it is seekable", func() bool {
		return s.get(t, mainPath+"/recordings/"+first).want(t, 200).json(t)["seekable"] == true
	})
	s.do(t, call{method: "DELETE", path: mainPath + "/recordings/" + first}).want(t, 204)
	until(first, "deleted")
	second := s.post(t, mainPath+"/recording/start", "").want(t, 200).json(t)["id"].(string)
	until(second, "recording")
	s.post(t, mainPath+"/stop", "").want(t, 200)
	until(second, "completed")
	for {
		if typ, _, _ := next(); typ == "closed" {
			break
		}
	}
	for e := range events {
		t.Errorf("event after the last one: %v", e)
	}
}

func TestRecordingScopes(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg", "ffprobe")
	s := startReal(t, Config{}, `{"width":64,"height":64}`)
	values := map[string]string{}
	for _, scope := range []string{"view", "control", "admin"} {
		_, values[scope] = s.token(t, `{"scope":"`+scope+`"}`)
	}
	id := s.post(t, mainPath+"/recordings", "").want(t, 201).json(t)["id"].(string)
	at := mainPath + "/recordings/" + id
	for _, tt := range []struct {
		call call
		who  string
	}{
		{call{path: mainPath + "/recordings"}, "view control admin"},
		{call{path: at}, "view control admin"},
		{call{path: at + "/download"}, "view control admin"},
		{call{path: at + "/timeline"}, "view control admin"},
		{call{path: at + "/captions.vtt"}, "view control admin"},
		{call{path: at + "/markers", body: `{"title":"x"}`}, "control admin"},
		{call{path: at + "/events", body: `{"type":"x"}`}, "control admin"},
		{call{method: "POST", path: mainPath + "/recording/start"}, "control admin"},
		{call{method: "POST", path: mainPath + "/recording/stop"}, "control admin"},
		{call{method: "POST", path: at + "/stop"}, "control admin"},
		{call{method: "DELETE", path: at}, "admin"},
	} {
		for _, who := range []string{"view", "control", "admin"} {
			c := tt.call
			c.header = map[string]string{"Authorization": "Bearer " + values[who]}
			a := s.do(t, c)
			if got, may := a.StatusCode != 403, strings.Contains(tt.who, who); got != may || a.StatusCode == 401 {
				t.Errorf("%s %s with a token for %s: %d %s", a.Request.Method, c.path, who, a.StatusCode, a.body)
			}
		}
	}
}

// playing is what TestRecordingPlays does in the page.
const playing = `
window.video = document.createElement("video");
video.muted = true;
video.src = %q;
const track = document.createElement("track");
track.kind = "captions"; track.src = %q; track.default = true;
video.append(track);
document.body.append(video);
track.track.mode = "hidden";
const seen = (name, of) => new Promise((done, fail) => {
	of.addEventListener(name, done, { once: true });
	of.addEventListener("error", () => fail(new Error("no " + name)), { once: true });
});
const both = [seen("loadeddata", video), seen("load", track)];
window.ready = Promise.all(both).then(() => [...track.track.cues].map((c) => ({ From: c.startTime, To: c.endTime, Text: c.text })));
const canvas = document.createElement("canvas");
// seek shows the picture of a moment. A browser with much to do says that it is
// there before it is.
window.seek = async (at) => {
	const shown = new Promise((done) => {
		const look = (_, frame) => frame.mediaTime <= at + 0.001 ? done() : video.requestVideoFrameCallback(look);
		video.requestVideoFrameCallback(look);
	});
	const seeked = seen("seeked", video);
	video.currentTime = at;
	await Promise.all([seeked, shown]);
};
// pixels returns a part of the picture at a moment.
window.pixels = async (at, [x, y, w, h]) => {
	if (video.currentTime !== at) await seek(at);
	Object.assign(canvas, { width: video.videoWidth, height: video.videoHeight });
	const context = canvas.getContext("2d", { willReadFrequently: true });
	context.drawImage(video, 0, 0);
	return context.getImageData(x, y, w, h).data;
};
// changed is how many pixels differ clearly between two moments.
window.changed = async (a, b, part) => {
	const [one, other] = [new Uint8Array(await pixels(a, part)), await pixels(b, part)];
	let n = 0;
	for (let i = 0; i < one.length; i += 4) if (Math.abs(one[i] - other[i]) > 60) n++;
	return n;
};
true`

type shownCue struct {
	From, To float64
	Text     string
}

// TestRecordingPlays plays the recording of a scripted session in a browser, and
// looks whether each caption comes with what it tells.
func TestRecordingPlays(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := recordable(t, `{"width":641,"height":481}`)
	id := s.post(t, mainPath+"/recordings", `{"quality":"high"}`).want(t, 201).json(t)["id"].(string)
	at := mainPath + "/recordings/" + id
	pause := func() { t.Helper(); s.awaitVideo(t, at, 1200*time.Millisecond) }
	s.post(t, mainPath+"/mouse/move", `{"x":600,"y":440}`).want(t, 200)
	pause()
	file := s.terminal(t)
	pause()
	s.post(t, mainPath+"/keyboard/type", `{"text":"hello there\n"}`).want(t, 200)
	wantFile(t, file, "hello there\n")
	pause()
	s.post(t, mainPath+"/mouse/click", `{"x":300,"y":250}`).want(t, 200)
	pause()
	s.post(t, mainPath+"/mouse/drag", `{"startX":30,"startY":70,"endX":200,"endY":70}`).want(t, 200)
	pause()
	s.post(t, at+"/stop", "").want(t, 200)

	v := testbrowser.Open(t, s.url+"/ui/?role=view&token="+s.Token())
	query := "?access_token=" + s.Token()
	testbrowser.Evaluate[bool](v, t, fmt.Sprintf(playing, s.url+at+"/download"+query, s.url+at+"/captions.vtt"+query))
	cues := testbrowser.Await[[]shownCue](v, t, "ready")
	for _, tt := range []struct {
		text  string
		part  string  // of the screen where it is seen: x, y, width, height
		least int     // how many pixels change there
		soon  float64 // seconds after which they have, and nothing else has happened yet
	}{
		{"Launch xterm", "[30, 60, 300, 200]", 20000, 2},
		{"Type in xterm: hello there", "[20, 40, 200, 40]", 100, 0.9},
		{"Click at 300, 250", "[290, 240, 30, 40]", 15, 0.9},
		{"Drag from 30, 70 to 200, 70", "[20, 40, 200, 40]", 500, 0.9},
	} {
		i := slices.IndexFunc(cues, func(c shownCue) bool { return strings.Contains(c.Text, tt.text) })
		if i < 0 {
			t.Errorf("no caption says %q: %v", tt.text, cues)
			continue
		}
		to := cues[i].To
		for _, c := range cues[i:] { // it stays while others come and go
			if strings.Contains(c.Text, tt.text) {
				to = c.To
			}
		}
		before, after := max(0, cues[i].From-0.25), min(to-0.02, cues[i].From+tt.soon)
		if n := testbrowser.Await[int](v, t, fmt.Sprintf("changed(%v, %v, %s)", before, after, tt.part)); n < tt.least {
			t.Errorf("%q: %d pixels change there between %v and %v s, want %d", tt.text, n, before, after, tt.least)
		}
		// It is not seen sooner.
		if early := max(0, before-0.5); early < before {
			if n := testbrowser.Await[int](v, t, fmt.Sprintf("changed(%v, %v, %s)", early, before, tt.part)); n > tt.least/4 {
				t.Errorf("%q: %d pixels change there before the caption comes", tt.text, n)
			}
		}
	}
}

// TestTimelineDropped fills the room for events of API callers in a timeline. The timeline
// and the recording count the events that were left out.
func TestTimelineDropped(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":64,"height":64}`)
	at := mainPath + "/recordings/" + s.post(t, mainPath+"/recordings", "").want(t, 201).json(t)["id"].(string)
	if dropped, ok := s.get(t, at).want(t, 200).json(t)["timelineDropped"]; ok {
		t.Errorf("timelineDropped is %v before any event", dropped)
	}
	const most = 16 << 20
	event := `{"type":"note","data":"` + strings.Repeat("x", 60<<10) + `"}`
	stored, status := 0, 201
	for ; status == 201 && stored <= most; stored += len(event) {
		a := s.post(t, at+"/events", event)
		if status = a.StatusCode; status != 201 {
			a.problem(t, 409, "conflict")
			break
		}
	}
	if stored > most || status != 409 {
		t.Errorf("%d bytes of events were stored, then the answer was %d", stored, status)
	}
	s.post(t, mainPath+"/mouse/click", `{"x":1,"y":1}`).want(t, 200) // has room of its own
	s.post(t, at+"/stop", "").want(t, 200)
	var page struct {
		Entries []struct {
			Type   string
			Missed int
		}
	}
	notes, missed := 0, 0
	for after, more := 0, true; more; {
		a := s.get(t, fmt.Sprintf("%s/timeline?after=%d", at, after)).want(t, 200)
		page.Entries = nil
		if err := json.Unmarshal(a.body, &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			missed += e.Missed
			if e.Type == "note" {
				notes++
			}
		}
		next, _ := a.json(t)["next"].(float64)
		after, more = int(next), next > 0
	}
	dropped := s.get(t, at).want(t, 200).json(t)["timelineDropped"]
	if notes != stored/len(event) || missed != 1 || dropped != 1.0 {
		t.Errorf("%d notes, gaps of %d and timelineDropped %v, want %d, 1 and 1", notes, missed, dropped, stored/len(event))
	}
}
