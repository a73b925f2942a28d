package x11_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/internal/x11"
)

// dropPage has something to drag and a place to drop it, and reports where the
// page is on the screen, and what happens.
const dropPage = `<!doctype html><meta charset=utf-8><title>drag</title>
<div id=from draggable=true style="position:fixed;left:50px;top:50px;width:100px;height:100px;background:#88f"></div>
<div id=to style="position:fixed;left:450px;top:250px;width:200px;height:200px;background:#8f8"></div>
<script>
const send = o => fetch('/event', {method: 'POST', body: JSON.stringify(o)});
onmousemove = e => send({Kind: 'at', X: e.screenX - e.clientX, Y: e.screenY - e.clientY});
from.ondragstart = e => { e.dataTransfer.setData('text/plain', 'gift'); send({Kind: 'start'}); };
to.ondragover = e => e.preventDefault();
to.ondrop = e => { e.preventDefault(); send({Kind: 'drop', Data: e.dataTransfer.getData('text/plain')}); };
from.ondragend = e => send({Kind: 'end'});
</script>`

type dropEvent struct {
	Kind, Data string
	X, Y       int
}

type dropPad struct {
	mu     sync.Mutex
	origin *x11.Point
	drops  []string
	ends   int
}

func (p *dropPad) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/event" {
		_, _ = io.WriteString(w, dropPage)
		return
	}
	var ev dropEvent
	if json.NewDecoder(r.Body).Decode(&ev) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev.Kind {
	case "at":
		p.origin = &x11.Point{X: ev.X, Y: ev.Y}
	case "drop":
		p.drops = append(p.drops, ev.Data)
	case "end":
		p.ends++
	}
}

// TestDragAndDrop drags something in a page of Chromium's to another place
// there, while the processors are busy.
func TestDragAndDrop(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var pad dropPad
	web := httptest.NewServer(&pad)
	t.Cleanup(web.Close)
	d.chromium(t, web.URL)
	at := 0
	poll(t, "page", func() bool {
		at++
		if err := d.in.Pointer.Move(300+at%50, 300); err != nil {
			t.Fatal(err)
		}
		pad.mu.Lock()
		defer pad.mu.Unlock()
		return pad.origin != nil
	})
	burn(t)
	pad.mu.Lock()
	o := *pad.origin
	pad.mu.Unlock()
	for i := range rounds(t) {
		if err := d.in.Pointer.Drag(t.Context(), []x11.Point{{X: o.X + 100, Y: o.Y + 100}, {X: o.X + 550, Y: o.Y + 350}}, 1); err != nil {
			t.Fatal(err)
		}
		poll(t, "drop", func() bool { // the reports come in any order
			pad.mu.Lock()
			defer pad.mu.Unlock()
			return pad.ends > i && len(pad.drops) > i
		})
		pad.mu.Lock()
		if len(pad.drops) != i+1 || pad.drops[i] != "gift" {
			t.Errorf("drops %q after %d drags", pad.drops, i+1)
		}
		pad.mu.Unlock()
	}
}
