package events

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// Message is an event for the client, and the position of its source after it.
type Message struct {
	Name string // of the event; empty: there is none
	Data any    // for JSON
	Key  string // of the source's position; empty: it has none
	At   string // empty: the position is removed
}

// Reset returns the event that tells the client to read what a topic is about again.
func Reset(topic string, fields map[string]any) Message {
	data := map[string]any{"type": "reset", "topic": topic}
	maps.Copy(data, fields)
	return Message{Name: "reset", Data: data}
}

// slowTime is how long a client may take to accept an event before its stream ends.
const slowTime = 20 * time.Second

// Source sends the messages of its topics until send returns false, or ctx ends. It returns an
// error if it cannot read what is new.
type Source func(ctx context.Context, send func(Message) bool) error

// feed merges the messages of sources. A source waits until the client has taken its
// message. If that takes slowTime, the stream ends, and the client resumes it.
type feed struct {
	positions Positions // of the messages that were written; at first where the sources begin
	slowTime  time.Duration

	messages chan Message
	ending   chan Message // gets the last message, once
	once     sync.Once
	stop     context.CancelFunc
	sources  sync.WaitGroup
}

// newFeed starts the sources. The caller must call close.
func newFeed(at Positions, slow time.Duration, sources []Source) *feed {
	f := &feed{positions: at, slowTime: slow, messages: make(chan Message), ending: make(chan Message, 1)}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	for _, run := range sources {
		f.sources.Go(func() {
			err := run(ctx, func(m Message) bool { return f.send(ctx, m) })
			if ctx.Err() == nil && err != nil {
				f.end("failed", "The server could not read what is new: "+err.Error())
			}
		})
	}
	return f
}

// send waits until the client takes a message. It returns false if the stream has ended.
func (f *feed) send(ctx context.Context, m Message) bool {
	patience := time.NewTimer(f.slowTime)
	defer patience.Stop()
	select {
	case f.messages <- m:
		return true
	case <-ctx.Done():
	case <-patience.C:
		f.end("slow", "The client did not read for a while. Connect again with Last-Event-ID; nothing is lost.")
	}
	return false
}

// end ends the stream with a reason. Messages that were not taken are not written.
func (f *feed) end(reason, detail string) {
	f.once.Do(func() {
		f.ending <- Message{Name: "end", Data: map[string]any{"type": "end", "reason": reason, "detail": detail}}
		f.stop()
	})
}

// mostInBatch is how many messages are written before they are flushed.
const mostInBatch = 256

// next waits for messages. Its error is io.EOF after the last one.
func (f *feed) next(ctx context.Context) ([]Message, error) {
	var batch []Message
	select {
	case m := <-f.messages:
		batch = append(batch, m)
	case m, open := <-f.ending:
		if !open {
			return nil, io.EOF
		}
		close(f.ending)
		return []Message{m}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for len(batch) < mostInBatch {
		select {
		case m := <-f.messages:
			batch = append(batch, m)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// write writes messages. It returns false after the last one.
func (f *feed) write(w *rest.EventWriter, batch []Message) (more bool) {
	for _, m := range batch {
		switch {
		case m.Key == "":
		case m.At == "":
			delete(f.positions, m.Key)
		default:
			f.positions[m.Key] = m.At
		}
		if m.Name == "" {
			continue
		}
		data, err := plainjson.Marshal(m.Data)
		if err != nil {
			return false
		}
		w.WriteText(m.Name, f.positions.String(), data)
		if m.Name == "end" {
			return false
		}
	}
	return true
}

// close ends the sources and waits for them.
func (f *feed) close() {
	f.stop()
	f.sources.Wait()
}

// IgnoreEnd returns nil for an error that the end of ctx explains, and err otherwise.
func IgnoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
