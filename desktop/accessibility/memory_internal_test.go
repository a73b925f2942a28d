package accessibility

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// flood is a program with a link that answers as fast as it can.
type flood struct {
	answer func(call []byte) (signature string, body []byte)
}

// links returns a bus with a link to the program, which has the name :1.2.
func (f flood) links(t *testing.T) *bus {
	t.Helper()
	address := listenAs(t, func(c net.Conn) {
		defer c.Close()
		in := bufio.NewReader(c)
		for line := ""; line != begin; {
			var err error
			if line, err = in.ReadString('\n'); err != nil {
				return
			}
			switch {
			case strings.HasSuffix(line, "AUTH\r\n"):
				_, _ = c.Write([]byte("REJECTED EXTERNAL\r\n"))
			case line != begin:
				_, _ = c.Write([]byte("OK 0123456789abcdef0123456789abcdef\r\n"))
			}
		}
		for {
			head, err := in.Peek(16)
			if err != nil {
				return
			}
			order := binary.LittleEndian
			call := make([]byte, 16+(order.Uint32(head[12:])+7)&^7+order.Uint32(head[4:]))
			if _, err := io.ReadFull(in, call); err != nil {
				return
			}
			text := hostileMessage(typeReply, "", nil)
			if signature, body := f.answer(call); signature != "" {
				text = hostileMessage(typeReply, signature, body)
			}
			i := bytes.Index(text, []byte{5, 1, 'u', 0})
			copy(text[i+4:], call[8:12])
			if _, err := c.Write(text); err != nil {
				return
			}
		}
	})
	b := &bus{uid: os.Geteuid()}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b.links.open(ctx, ":1.2", address, b.uid, &b.queued)
	if b.links.to(":1.2") == nil {
		t.Fatal("there is no link")
	}
	t.Cleanup(b.links.close)
	return b
}

// stringBody returns the body of a reply with a text, or with a variant of one.
func stringBody(variant bool, s string) []byte {
	var b []byte
	if variant {
		b = []byte{1, 's', 0, 0}
	}
	return appendString(b, 0, s)
}

// TestManyLists: a query keeps little of the lists of children that a program sends, and is
// truncated. This test does not run beside others that need memory.
func TestManyLists(t *testing.T) {
	const kids, most = 490, 256 << 20
	list, places, made := make([]byte, 8), make([]int, kids), 0
	for i := range kids {
		list = appendString(align(list, 0, 8), 0, ":1.2")
		list = appendString(list, 0, fmt.Sprintf("/%0480d", i))
		places[i] = len(list) - 480
	}
	binary.LittleEndian.PutUint32(list, uint32(len(list)-8))
	b := flood{func(call []byte) (string, []byte) {
		switch {
		case bytes.Contains(call, []byte("GetState")):
			return "au", []byte{8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0} // showing
		case bytes.Contains(call, []byte("GetRole")):
			return "u", []byte{byte(rolePanel), 0, 0, 0}
		case bytes.Contains(call, []byte("ChildCount")):
			return "v", binary.LittleEndian.AppendUint32([]byte{1, 'i', 0, 0}, kids)
		case bytes.Contains(call, []byte("GetChildren")):
			made++
			for i := range kids {
				copy(list[places[i]:], fmt.Sprintf("%08d", made)) // new addresses
			}
			return "a(so)", list
		}
		return "", nil
	}}.links(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := &walker{bus: b, all: true, depth: mostDepth, limit: 1000, screen: desktop.Rect{Width: 100, Height: 100}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.walk(ctx, &node{at: rootOf(":1.2")})
	}()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	largest := uint64(0)
	for walking := true; walking; {
		select {
		case <-poll.C:
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if largest = max(largest, m.HeapAlloc); largest > most {
				cancel()
			}
		case <-done:
			walking = false
		}
	}
	t.Logf("%d elements, %d lists, at most %d bytes in use", len(w.kept), made, largest)
	if largest > most || !w.truncated || len(w.kept) < 700 {
		t.Errorf("%d bytes were in use, %d elements, truncated %v", largest, len(w.kept), w.truncated)
	}
	w.release()
	if kept, queued := b.kept.used.Load(), b.queued.used.Load(); kept != 0 || queued != 0 {
		t.Errorf("%d bytes are still counted as kept, %d as queued", kept, queued)
	}
}

// TestLongTexts: of a text only the beginning is kept until it is decoded, unless the whole text is
// wanted.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("é", 900_000)
	b := flood{func(call []byte) (string, []byte) {
		if variant := bytes.Contains(call, []byte("Properties")); variant {
			return "v", stringBody(true, long)
		}
		return "s", stringBody(false, long)
	}}.links(t)
	to := rootOf(":1.2")
	var name, text, whole string
	requests := []*request{
		propertyOf(to, ifaceAccessible, "Name", &name),
		{to: to, method: ifaceText + ".GetText", args: []any{int32(0), int32(1000)}, into: &text},
		{to: to, method: ifaceText + ".GetText", args: []any{int32(0), int32(-1)}, into: &whole, long: true},
	}
	if err := b.all(t.Context(), requests); err != nil || requests[0].err != nil || requests[1].err != nil || requests[2].err != nil {
		t.Fatal(err, requests[0].err, requests[1].err, requests[2].err)
	}
	for _, s := range []string{name, text} {
		if len(s) > mostShort || clean(s, mostText) != strings.Repeat("é", mostText) {
			t.Errorf("%d bytes", len(s))
		}
	}
	if whole != long {
		t.Errorf("the whole text has %d bytes", len(whole))
	}
}

// TestQueuedAnswers: answers count until they are decoded, or until their caller stops waiting. They are
// dropped if too many wait.
func TestQueuedAnswers(t *testing.T) {
	long := stringBody(false, strings.Repeat("x", 1<<20))
	b := flood{func([]byte) (string, []byte) { return "s", long }}.links(t)
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	await := func(what string, holds func(used int64) bool) {
		t.Helper()
		for !holds(b.queued.used.Load()) {
			select {
			case <-limited.Done():
				t.Fatalf("%s: %d bytes are counted", what, b.queued.used.Load())
			case <-time.After(time.Millisecond):
			}
		}
	}
	ask := func(ctx context.Context) error {
		return b.do(ctx, rootOf(":1.2"), ifaceText+".GetText", new(string))
	}
	ctx, stop := context.WithCancel(limited)
	requests := []*request{{to: rootOf(":1.2"), method: ifaceText + ".GetText", into: new(string), then: func() {
		await("while answers wait", func(used int64) bool { return used > 8<<20 })
		stop()
	}}}
	for range inFlight {
		requests = append(requests, &request{to: rootOf(":1.2"), method: ifaceText + ".GetText", into: new(string), long: true})
	}
	_ = b.all(ctx, requests)
	await("when no caller waits", func(used int64) bool { return used == 0 })
	if err := ask(limited); err != nil {
		t.Error(err)
	}
	b.queued.used.Store(mostQueued) // as if other programs had sent as much
	short, cancel := context.WithTimeout(limited, time.Second)
	defer cancel()
	if err := ask(short); err == nil {
		t.Error("an answer is kept, although too many wait")
	}
	b.queued.used.Store(0)
	if err := ask(limited); err != nil {
		t.Error(err)
	}
}

// TestForgetsWrongAnswers: nothing is kept of an answer that cannot be read, and of names that are
// too long.
func TestForgetsWrongAnswers(t *testing.T) {
	item := func(name, path string) []byte { return appendString(appendString(nil, 0, name), 0, path) }
	list := item(":1.2", "/"+strings.Repeat("a", mostPath))
	body := append(binary.LittleEndian.AppendUint32(nil, uint32(len(list))), 0, 0, 0, 0)
	var got []address
	h := header{signature: "a(so)", body: append(body, list...)}
	if err := h.decode(binary.LittleEndian, &got); err != nil || len(got) != 1 || got[0] != (address{}) {
		t.Errorf("a path that is too long: %v, %v", got, err)
	}
	h.body[0]++ // an array that exceeds the body
	if err := h.decode(binary.LittleEndian, &got); err == nil || got != nil {
		t.Errorf("an array that exceeds the body: %d elements, %v", len(got), err)
	}
	fields := appendString([]byte{4, 1, 's', 0}, 0, strings.Repeat("e", 1<<17))
	text := []byte{'l', typeError, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0}
	text = append(binary.LittleEndian.AppendUint32(text, uint32(len(fields))), fields...)
	if h, ok := parseHeader(text, binary.LittleEndian); !ok || len(h.failure) > mostDBusName {
		t.Errorf("the name of an error has %d bytes, %v", len(h.failure), ok)
	}
}
