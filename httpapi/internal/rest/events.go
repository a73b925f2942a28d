package rest

import (
	"bytes"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// OneLine replaces line breaks in a message, which would end an event early.
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

	discard func() // frees what Body would use; nil: nothing
}

// Discard implements discarder.
func (out *EventsOutput) Discard() {
	if out.discard != nil {
		out.discard()
	}
}

// Heartbeat is the time between heartbeats of an event stream without events, for
// proxies that end silent connections.
const Heartbeat = 15 * time.Second

// EventStream is the type of event streams.
const EventStream = "text/event-stream"

// StreamCache is Cache-Control of event streams: no proxy may keep one, or compress it,
// for which it would hold events back.
const StreamCache = "no-cache, no-transform"
