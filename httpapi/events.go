package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop"
)

type eventsInput struct {
	LastEventID string `header:"Last-Event-ID" pattern:"^[0-9]*$" doc:"Number of the last event seen: the ones after it come first"`
}

type eventsOutput struct {
	ContentType string `header:"Content-Type"`
	Cache       string `header:"Cache-Control"`
	Buffering   string `header:"X-Accel-Buffering"`
	Body        func(huma.Context)
}

// heartbeat is how often an event stream that has nothing to tell says so, for
// proxies that end silent connections.
const heartbeat = 15 * time.Second

func (s *Server) registerEvents() {
	on(s, route{
		id: "followEvents", method: http.MethodGet, path: "/events", tag: "Events", query: true, other: runtimeFailed,
		summary: "Follow what happens on the desktop",
		about: "A stream of server-sent events: the event's name is its type, its id counts from 1, its data is JSON. " +
			"It ends with the desktop. An event named gap tells how many were missed.",
		content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}, nil, func(_ context.Context, d Desktop, in *eventsInput) (*eventsOutput, error) {
		var after uint64
		if in.LastEventID != "" {
			if _, err := fmt.Sscanf(in.LastEventID, "%d", &after); err != nil {
				return nil, invalidRequest.problem("invalid request: Last-Event-ID must be a non-negative integer")
			}
		}
		return &eventsOutput{
			ContentType: "text/event-stream", Cache: "no-cache", Buffering: "no",
			Body: func(ctx huma.Context) {
				ctx.SetStatus(http.StatusOK)
				r := requestOf(ctx)
				if r.Method() == fiber.MethodHead {
					return
				}
				sub := d.Subscribe(after)
				ending := s.entryOf(r.c.Context()).ending
				s.streams.Add(1)
				r.stream(func(w *bufio.Writer, flush func() error, gone <-chan struct{}) {
					defer s.streams.Add(-1)
					defer sub.Close()
					writeEvents(w, flush, sub.Events(), writeDesktopEvent, heartbeat, gone, ending)
				})
			},
		}, nil
	})
}

func writeDesktopEvent(w *bufio.Writer, e desktop.Event) error {
	data, err := marshalJSON(e)
	if err == nil {
		fmt.Fprintf(w, "event: %s\nid: %d\ndata: %s\n\n", e.Type, e.Seq, data)
	}
	return err
}

// writeEvents writes events until there are no more, or nobody wants them.
func writeEvents[E any](w *bufio.Writer, flush func() error, events <-chan E, write func(*bufio.Writer, E) error,
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
