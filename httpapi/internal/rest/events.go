package rest

import (
	"bufio"
	"bytes"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// OneLine keeps a message from ending an event early.
func OneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, b)
}

// EventsOutput is an answer that is an event stream.
type EventsOutput struct {
	ContentType string `header:"Content-Type"`
	Cache       string `header:"Cache-Control"`
	Buffering   string `header:"X-Accel-Buffering"`
	Body        func(huma.Context)
}

// Heartbeat is how often an event stream that has nothing to tell says so, for
// proxies that end silent connections.
const Heartbeat = 15 * time.Second

// WriteEvents writes events until there are no more or the client has disconnected.
func WriteEvents[E any](w *bufio.Writer, flush func() error, events <-chan E, write func(*bufio.Writer, E) error,
	beat time.Duration, gone, ending <-chan struct{},
) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	_, _ = w.WriteString(": connected\n\n") // so that the client sees the headers
	for {
		if err := flush(); err != nil {
			return
		}
		select {
		case e, open := <-events:
			if !open {
				return
			}
			if write(w, e) != nil {
				return
			}
		case <-ticker.C:
			_, _ = w.WriteString(": heartbeat\n\n")
		case <-gone:
			return
		case <-ending:
			return
		}
	}
}

// WriteProblem tells why a stream ends.
func WriteProblem(w *bufio.Writer, p *Problem) {
	if data, err := MarshalJSON(p); err == nil {
		fmt.Fprintf(w, "event: error\ndata: %s\n\n", data)
	}
}

// EventStream is the type of event streams.
const EventStream = "text/event-stream"

// StreamCache is Cache-Control of event streams: no proxy may keep one, or compress it,
// for which it would hold events back.
const StreamCache = "no-cache, no-transform"
