package processes

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

type logsInput struct {
	ID          string                `path:"id"`
	Stream      string                `query:"stream" enum:"stdout,stderr,combined,pty" doc:"Stream to return; defaults to pty for a process on a terminal, and to combined for others"`
	Tail        rest.Optional[uint]   `query:"tail" minimum:"0" doc:"Number of the latest entries to return"`
	Since       rest.Optional[uint64] `query:"since" minimum:"0" doc:"Return entries with a higher sequence"`
	Follow      bool                  `query:"follow" doc:"Stream entries as server-sent events until the process has ended and all its output is sent"`
	LastEventID string                `header:"Last-Event-ID" pattern:"^[0-9]*$" doc:"With follow, the same as since"`
}

// logEntry is one piece of output. appendEntry repeats the names of its members.
type logEntry struct {
	Sequence    uint64         `json:"sequence" doc:"Sequence number, starting at 1; never reused"`
	Stream      process.Stream `json:"stream" enum:"stdout,stderr,pty"`
	TimestampMS int64          `json:"timestampMs"`
	Data        string         `json:"data" doc:"Base64"`
	Encoding    string         `json:"encoding" enum:"base64"`
}

type logsBody struct {
	ProcessID string     `json:"processId"`
	Stream    string     `json:"stream"`
	Entries   []logEntry `json:"entries" nullable:"false"`
}

func (a *Area) registerProcessLogs() {
	schema := a.Huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[logsBody](), true, "ProcessLogs")
	rest.Add(a.Group, rest.Route{
		ID: "getProcessLogs", Method: http.MethodGet, Path: "/v1/processes/{id}/logs", Tag: "Processes", Query: true, Scope: grants.ScopeSupervise, Enter: a.enter,
		Summary: "Get or stream the output of a process",
		About: "With follow, each entry is an event named log, whose id is its sequence. " +
			"An event named gap reports how much was dropped because the client was too slow.",
		Errors: []int{http.StatusBadRequest, http.StatusNotFound}, Large: true,
		Content: map[string]*huma.MediaType{
			fiber.MIMEApplicationJSON: {Schema: schema},
			rest.EventStream:          {Schema: &huma.Schema{Type: huma.TypeString}},
		},
	}, a.readLogs)
}

func (a *Area) readLogs(_ context.Context, in *logsInput) (*rest.EventsOutput, error) {
	p, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	q := process.Query{Since: in.Since.Value}
	if in.Stream == "" {
		in.Stream = "combined"
		if p.Info().Terminal {
			in.Stream = string(process.Terminal)
		}
	}
	if in.Stream != "combined" {
		q.Stream = process.Stream(in.Stream)
	}
	if in.Tail.Set {
		n := int(min(in.Tail.Value, 1<<31))
		q.Tail = &n
	}
	if in.Follow {
		if in.LastEventID != "" {
			if q.Since, err = strconv.ParseUint(in.LastEventID, 10, 64); err != nil {
				return nil, rest.InvalidRequest.Problem("invalid request: Last-Event-ID must be a sequence, from 0 to 18446744073709551615")
			}
		}
		return a.followLogs(p.Log(), q), nil
	}
	data := appendLogs(nil, p.Info().ID, in.Stream, p.Log().Entries(q))
	return &rest.EventsOutput{ContentType: fiber.MIMEApplicationJSON, Cache: "no-store", Body: func(ctx huma.Context) {
		ctx.SetStatus(http.StatusOK)
		rest.RequestOf(ctx).Send(data)
	}}, nil
}

// followLogs sends the entries that q asks for, then all that the process prints.
func (a *Area) followLogs(log *process.Log, q process.Query) *rest.EventsOutput {
	after, first := q.Since, []process.Entry(nil)
	if q.Tail != nil {
		// What is printed between the two calls is among the entries.
		one := 1
		if last := log.Entries(process.Query{Tail: &one}); len(last) > 0 {
			after = max(after, last[0].Sequence)
		}
		first = log.Entries(q)
	}
	if n := len(first); n > 0 {
		after = max(after, first[n-1].Sequence)
	}
	reader := log.Follow(after)
	var buf []byte
	return rest.AnswerFeed(a.API, rest.Feed[logBatch]{
		Next: func(ctx context.Context) (b logBatch, err error) {
			if b.entries, first = first, nil; len(b.entries) == 0 {
				b.entries, b.gap, err = reader.Next(ctx)
			}
			return b, err
		},
		Write: func(_ context.Context, w *rest.EventWriter, b logBatch) (more bool) {
			if b.gap.Bytes > 0 {
				w.Write("gap", 0, fmt.Appendf(nil, `{"bytes":%d,"entries":%d}`, b.gap.Bytes, b.gap.Entries))
			}
			for _, e := range b.entries {
				if q.Stream == "" || e.Stream == q.Stream {
					buf = appendEntry(buf[:0], e)
					w.Write("log", int64(e.Sequence), buf)
				}
			}
			return true
		},
	})
}

// logBatch is what a process has printed, after a gap if that is not zero.
type logBatch struct {
	entries []process.Entry
	gap     process.Gap
}

// appendLogs appends the JSON of a logsBody. It takes no memory but that of the result, which
// may be large.
func appendLogs(b []byte, id, stream string, entries []process.Entry) []byte {
	const room = 128 // of an entry besides its data
	size := room
	for _, e := range entries {
		size += base64.StdEncoding.EncodedLen(len(e.Data)) + room
	}
	b = slices.Grow(b, size)
	b = fmt.Appendf(b, `{"processId":%q,"stream":%q,"entries":[`, id, stream)
	for i, e := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendEntry(b, e)
	}
	return append(b, "]}"...)
}

// appendEntry appends the JSON of a logEntry. It does not allocate as encoding/json does,
// because many clients may follow one process.
func appendEntry(b []byte, e process.Entry) []byte {
	b = strconv.AppendUint(append(b, `{"sequence":`...), e.Sequence, 10)
	b = append(append(b, `,"stream":"`...), e.Stream...)
	b = strconv.AppendInt(append(b, `","timestampMs":`...), e.Time.UnixMilli(), 10)
	b = base64.StdEncoding.AppendEncode(append(b, `,"data":"`...), e.Data)
	return append(b, `","encoding":"base64"}`...)
}
