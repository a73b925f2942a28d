package httpapi

import (
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/desktops"
	"github.com/deskhand/deskhand/internal/testx11"
)

// terminal opens an xterm that writes what is typed, a line at a time, to the
// file that it returns.
func (s *testServer) terminal(t *testing.T) (file string) {
	t.Helper()
	testx11.Require(t, "xterm")
	file = filepath.Join(t.TempDir(), "typed")
	args, err := json.Marshal([]string{"-u8", "-geometry", "60x20+20+40", "-e", "sh", "-c", `: > "$0"; exec cat > "$0"`, file})
	if err != nil {
		t.Fatal(err)
	}
	out := s.post(t, mainPath+"/launch", `{"app":"xterm","wait":true,"args":`+string(args)+`}`).want(t, 200).json(t)
	s.post(t, fmt.Sprintf("%s/windows/%v/focus", mainPath, out["windowId"]), "").want(t, 200)
	eventually(t, "shell in the terminal", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	return file
}

// wantFile waits until a file holds a text.
func wantFile(t *testing.T, file, want string) {
	t.Helper()
	var got []byte
	defer func() {
		if t.Failed() {
			t.Logf("%s holds %q, want %q", file, got, want)
		}
	}()
	eventually(t, "text in the terminal", func() bool {
		got, _ = os.ReadFile(file)
		return string(got) == want
	})
}

func TestTextReachesTerminal(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":800,"height":600}`)
	file := s.terminal(t)
	const text = "Grüße, 漢字 한글 😀 ~`'\"\\|<>{}[]^ 0123456789"
	body, err := json.Marshal(map[string]any{"text": text + "\n", "delayMs": 0})
	if err != nil {
		t.Fatal(err)
	}
	s.post(t, mainPath+"/keyboard/type", string(body)).want(t, 200)
	wantFile(t, file, text+"\n")
	// A chord by its text, one by its modifiers, a key that is held, one that
	// is let go by the call for that.
	for _, c := range [][2]string{
		{"/keyboard/press", `{"key":"shift+a"}`},
		{"/keyboard/press", `{"key":"b","modifiers":{"shift":true,"ctrl":false,"alt":null}}`},
		{"/keyboard/down", `{"key":"Shift_L"}`},
		{"/keyboard/press", `{"key":"c"}`},
		{"/keyboard/up", `{"key":"Shift_L"}`},
		{"/keyboard/down", `{"key":"shift"}`},
		{"/input/release", ``},
		{"/keyboard/type", `{"text":"d","secret":true,"delayMs":null}`},
		{"/keyboard/press", `{"key":"Enter"}`},
	} {
		s.post(t, mainPath+c[0], c[1]).want(t, 200)
	}
	wantFile(t, file, text+"\nABCd\n")
	for _, key := range []string{"a b", "--help", "ctrl+", "ctrl+NoSuchKey"} {
		body, err := json.Marshal(map[string]string{"key": key})
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range []string{"press", "down", "up"} {
			s.post(t, mainPath+"/keyboard/"+how, string(body)).problem(t, 400, "desktop_invalid_action")
		}
	}
}

// TestObservedClick acts on pictures of five sizes, and on a part of the screen.
func TestObservedClick(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":1001,"height":703}`)
	for _, query := range []string{"?scale=1", "?scale=0.75", "?scale=0.5", "?scale=0.333", "?scale=0.1", "/region?x=101&y=53&width=333&height=222&scale=0.4"} {
		left, top, width, height := 0., 0., 1001., 703.
		if strings.HasPrefix(query, "/region") {
			left, top, width, height = 101, 53, 333, 222
		}
		a := s.get(t, mainPath+"/screenshot"+query)
		img, _ := a.picture(t)
		id, size := a.Header.Get("Deskhand-Observation"), img.Bounds().Size()
		for _, p := range []image.Point{{}, {X: size.X / 3, Y: size.Y / 2}, {X: size.X - 1, Y: size.Y - 1}} {
			m := s.post(t, mainPath+"/mouse/click", fmt.Sprintf(`{"x":%d,"y":%d,"observation":%q}`, p.X, p.Y, id)).want(t, 200).json(t)
			x := left + (float64(p.X)+0.5)*width/float64(size.X) - 0.5 // the centre of that pixel, on the screen
			y := top + (float64(p.Y)+0.5)*height/float64(size.Y) - 0.5
			if math.Abs(m["x"].(float64)-x) > 1 || math.Abs(m["y"].(float64)-y) > 1 {
				t.Errorf("%s: %v clicked %v,%v, want %.1f,%.1f", query, p, m["x"], m["y"], x, y)
			}
		}
		s.post(t, mainPath+"/mouse/click", fmt.Sprintf(`{"x":%d,"y":0,"observation":%q}`, size.X+5, id)).problem(t, 400, "desktop_invalid_action")
	}
}

func TestPointerImages(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":400,"height":300}`)
	s.post(t, mainPath+"/mouse/move", `{"x":200,"y":150}`).want(t, 200)
	red := func(query string) (n, far int) {
		img, _ := s.get(t, mainPath+"/screenshot"+query).picture(t)
		for y := range 300 {
			for x := range 400 {
				if c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA); c.R > 200 && c.G < 60 && c.B < 60 {
					n++
					if x < 170 || x > 230 || y < 120 || y > 180 {
						far++
					}
				}
			}
		}
		return n, far
	}
	if n, _ := red(""); n != 0 {
		t.Fatalf("the bare desktop has %d red pixels", n)
	}
	if n, far := red("?cursorStyle=crosshair"); n < 10 || far > 0 {
		t.Errorf("the cross has %d pixels, %d of them far from the pointer", n, far)
	}
	plain := s.get(t, mainPath+"/screenshot?settleMs=100").want(t, 200).body
	if n, _ := red("?cursorStyle=pointer"); n != 0 {
		t.Errorf("cursorStyle=pointer has %d red pixels", n)
	}
	if same := s.get(t, mainPath+"/screenshot?cursorStyle=pointer").want(t, 200).body; string(same) == string(plain) {
		t.Error("cursorStyle=pointer does not show the pointer")
	}
}

func TestNeverStill(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	s := startReal(t, Config{}, "")
	s.post(t, mainPath+"/launch", `{"app":"xterm","args":["-geometry","150x50","-e","while :; do n=$(date +%N); n=$n$n$n$n; echo $n$n$n$n; done"],"wait":true}`).want(t, 200)
	for range 10 { // on a machine that is busy it may stand still for a while
		begun := time.Now()
		a := s.get(t, mainPath+"/screenshot?settleMs=500&timeoutMs=1000").want(t, 200)
		took := time.Since(begun)
		if a.Header.Get("Deskhand-Settled") == "false" && took >= time.Second {
			return
		}
		t.Logf("settled = %s after %v", a.Header.Get("Deskhand-Settled"), took)
	}
	t.Error("a screen that is never still settled, whenever it was looked at")
}

// pidOf is the process of that name that status lists, 0 when it does not run.
func (s *testServer) pidOf(t *testing.T, name string) int {
	t.Helper()
	for _, p := range s.get(t, mainPath+"/status").want(t, 200).json(t)["processes"].([]any) {
		if p := p.(map[string]any); p["name"] == name && p["running"] == true {
			return int(p["pid"].(float64))
		}
	}
	return 0
}

// TestKilledParts ends the X server, then the window manager, by force: calls
// say what goes on, and soon everything works again.
func TestKilledParts(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	events := s.follow(t.Context(), t, mainPath+"/events?access_token="+s.Token(), nil)
	display := s.get(t, mainPath+"/display/info").want(t, 200).json(t)["display"].(string)
	for _, name := range []string{"Xvfb", "openbox"} {
		old := s.pidOf(t, name)
		if old == 0 {
			t.Fatalf("%s does not run", name)
		}
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, e := await(t, events, desktop.EventFailed); e.Failure == nil || e.Failure.Message == "" {
			t.Errorf("%s: event = %+v", name, e)
		}
		eventually(t, "another "+name, func() bool {
			a := s.get(t, mainPath+"/windows")
			if a.StatusCode != 200 {
				a.problem(t, 503, "desktop_runtime_failed")
				if a.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			}
			pid := s.pidOf(t, name)
			return a.StatusCode == 200 && pid != 0 && pid != old && state(t, s) == "active"
		})
		await(t, events, desktop.EventRestarted)
		st := s.get(t, mainPath+"/status").want(t, 200).json(t)
		if last, _ := st["lastError"].(map[string]any); last == nil || !testx11.Stays(display, st["display"].(string)) {
			t.Errorf("%s: status = %v, want the error, and the display %v", name, st, display)
		}
		display = st["display"].(string)
		file := s.terminal(t)
		s.post(t, mainPath+"/keyboard/type", `{"text":"works\n"}`).want(t, 200)
		wantFile(t, file, "works\n")
	}
}

// TestRealRaces starts, stops and creates at the same time, on real X servers.
func TestRealRaces(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, Config{})
	var starts []<-chan answer
	for range 4 {
		starts = append(starts, later(t, s, call{method: http.MethodPost, path: mainPath + "/start", body: `{"width":320,"height":240}`}))
	}
	displays := map[any]bool{}
	for _, a := range starts {
		displays[(<-a).want(t, 200).json(t)["display"]] = true
	}
	if len(displays) != 1 {
		t.Errorf("starts at once gave the displays %v", displays)
	}
	// Calls while it stops are answered, and a start waits for the stop.
	stop := later(t, s, stopMain)
	eventually(t, "a stop", func() bool { return state(t, s) != "active" })
	shot, again := later(t, s, call{path: mainPath + "/screenshot"}), later(t, s, startMain)
	(<-stop).want(t, 200)
	if a := <-shot; a.StatusCode != 200 { // it may have been started again
		a.want(t, 409)
	}
	(<-again).want(t, 200)
	if got := state(t, s); got != "active" {
		t.Errorf("state = %v, want active", got)
	}
	s.do(t, stopMain).want(t, 200)
	// A stop while it starts wins.
	start := later(t, s, startMain)
	eventually(t, "a start", func() bool { return state(t, s) != "inactive" })
	s.do(t, stopMain).want(t, 200)
	if a := <-start; a.StatusCode != 200 { // it may have been through
		a.problem(t, 409, "desktop_runtime_inactive")
	}
	if got := state(t, s); got != "inactive" {
		t.Errorf("state = %v, want inactive", got)
	}
	// Of two that want a name, one gets it.
	create := call{method: http.MethodPost, path: "/v1/desktops", body: `{"id":"wanted","width":320,"height":240}`}
	first, second := later(t, s, create), later(t, s, create)
	one, two := <-first, <-second
	if one.StatusCode == 201 {
		one, two = two, one
	}
	two.want(t, 201)
	one.problem(t, 409, "conflict")
	s.do(t, call{method: http.MethodDelete, path: "/v1/desktops/wanted"}).want(t, 204)
}

// TestParallelCallers mixes everything; each gets its own answer.
func TestParallelCallers(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	var wg sync.WaitGroup
	for i := range 24 {
		c := []call{
			{path: mainPath + "/screenshot?format=jpeg"},
			{path: mainPath + "/screenshot?scale=0.5&showCursor=true"},
			{path: mainPath + "/mouse/click", body: fmt.Sprintf(`{"x":%d,"y":%d,"modifiers":["ctrl"]}`, i, 2*i)},
			{path: mainPath + "/keyboard/type", body: `{"text":"x","delayMs":0}`},
			{path: mainPath + "/windows"},
			{path: mainPath + "/clipboard", body: `{"text":"y"}`},
		}[i%6]
		wg.Go(func() {
			a := s.try(t.Context(), c)
			if a.err != nil || a.StatusCode != 200 {
				t.Errorf("%s: %v, %s", c.path, a.err, a.body)
				return
			}
			if i%6 == 2 {
				var at struct{ X, Y int }
				if err := json.Unmarshal(a.body, &at); err != nil || at.X != i || at.Y != 2*i {
					t.Errorf("click at %d,%d = %s, %v", i, 2*i, a.body, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestDeletedStaysDeleted: a start that found the desktop before it was deleted
// must not leave a desktop running without an entry.
func TestDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	f := newFactory()
	f.end(t)
	s := serve(t, Config{Start: f.make})
	created := later(t, s, call{method: http.MethodPost, path: "/v1/desktops", body: `{"id":"x"}`})
	<-f.starting
	f.start <- nil
	(<-created).want(t, 201)
	found, err := s.fleet.Find("x")
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-f.closing; f.close <- nil }()
	s.do(t, call{method: http.MethodDelete, path: "/v1/desktops/x"}).want(t, 204)
	err = found.Start(t.Context(), fleet.StartOptions{})
	if p := desktops.Problem(err); p == nil || p.Status != 404 {
		t.Errorf("start of a deleted desktop = %v, want not found", err)
	}
}
