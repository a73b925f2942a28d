package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/internal/plainjson"
)

// Feed is the source of an event stream that is read batch by batch, at the pace of the
// client.
type Feed[B any] struct {
	// Open, if set, is called before the answer begins. Its problem is
	// the answer instead of the events.
	Open func() *Problem

	// Next waits for a batch. Write writes its events and reports whether others may follow.
	Next  func(context.Context) (B, error)
	Write func(context.Context, *EventWriter, B) (more bool)

	// Flushed, if set, is called when everything that was written has been flushed.
	Flushed func()

	// Sent, if set, is called with the id of the last event that was written to the
	// client's connection, first with 0 when the client is ready for events.
	Sent func(id int64)

	// Endless says that the answer is never complete. At its end the connection breaks, so
	// that clients which connect again after errors alone do so.
	Endless bool

	// Close, if set, is called at the end, also if Open was not called or failed.
	Close func()
}

// EventWriter writes events of a stream.
type EventWriter struct {
	w     *bufio.Writer
	wrote int64 // bytes
	last  int64 // id of the newest event
	line  []byte
}

// Write writes an event. A name and an id that are zero are left out.
func (e *EventWriter) Write(name string, id int64, data []byte) {
	e.line = e.line[:0]
	if name != "" {
		e.line = append(append(append(e.line, "event: "...), name...), '\n')
	}
	if id != 0 {
		e.line = append(strconv.AppendInt(append(e.line, "id: "...), id, 10), '\n')
		e.last = id
	}
	e.line = append(e.line, "data: "...)
	e.put(e.line)
	e.put(OneLine(data))
	e.put([]byte("\n\n"))
}

// WriteText is like Write with an id that is a text in one line.
func (e *EventWriter) WriteText(name, id string, data []byte) {
	if id != "" {
		e.put([]byte("id: " + id + "\n"))
	}
	e.Write(name, 0, data)
}

// WriteJSON writes an event whose data is JSON. It reports whether v can be encoded.
func (e *EventWriter) WriteJSON(name string, id int64, v any) bool {
	data, err := plainjson.Marshal(v)
	if err != nil {
		return false
	}
	e.Write(name, id, data)
	return true
}

// put writes to the buffer; flush returns the error.
func (e *EventWriter) put(b []byte) {
	n, _ := e.w.Write(b)
	e.wrote += int64(n)
}

// Receive waits for a value of a channel. Its error is io.EOF if the channel is closed.
func Receive[E any](ctx context.Context, values <-chan E) (e E, err error) {
	select {
	case e, open := <-values:
		if !open {
			err = io.EOF
		}
		return e, err
	case <-ctx.Done():
		return e, ctx.Err()
	}
}

// AnswerFeed answers with the event stream of a feed. It ends when the client disconnects,
// the server closes, Next returns an error, or Write returns false.
func AnswerFeed[B any](a *API, f Feed[B]) *EventsOutput {
	if f.Close == nil {
		f.Close = func() {}
	}
	var tracker *FlushTracker
	if f.Sent != nil {
		tracker = &FlushTracker{Sent: f.Sent}
	}
	return &EventsOutput{
		ContentType: EventStream, Cache: StreamCache, Buffering: "no", discard: f.Close,
		Body: func(ctx huma.Context) {
			r := RequestOf(ctx)
			if f.Open != nil && r.Method() != fiber.MethodHead {
				if bad := f.Open(); bad != nil {
					f.Close()
					a.Write(r.Fiber, bad)
					return
				}
			}
			ctx.SetStatus(http.StatusOK)
			r.endless = f.Endless
			if r.Method() == fiber.MethodHead {
				f.Close()
				return
			}
			a.Follow(r, tracker, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
				defer f.Close()
				ctx, stop := WhileWanted(gone, ending)
				defer stop()
				f.send(ctx, &EventWriter{w: w}, func(e *EventWriter) error {
					if tracker != nil {
						tracker.Mark(e.wrote, e.last)
					}
					err := flush()
					if err == nil && f.Flushed != nil {
						f.Flushed()
					}
					return err
				})
			})
		},
	}
}

// send sends batches until there are no more or ctx is done.
func (f *Feed[B]) send(ctx context.Context, e *EventWriter, flush func(*EventWriter) error) {
	e.put([]byte(": connected\n\n")) // so that the client sees the headers
	for more := true; flush(e) == nil && more; {
		wait, stop := context.WithTimeout(ctx, Heartbeat)
		batch, err := f.Next(wait)
		stop()
		switch {
		case err == nil:
			more = f.Write(ctx, e, batch)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			e.put([]byte(": heartbeat\n\n"))
		default:
			return
		}
	}
}

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
