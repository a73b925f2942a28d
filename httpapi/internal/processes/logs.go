package processes

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

type logsInput struct {
	ID          string                `path:"id"`
	Stream      string                `query:"stream" enum:"stdout,stderr,combined,pty" doc:"combined is all there is; without it, pty for a process on a terminal and combined for others"`
	Tail        rest.Optional[uint]   `query:"tail" minimum:"0" doc:"Only the last so many of the entries that there are"`
	Since       rest.Optional[uint64] `query:"since" minimum:"0" doc:"Only entries with a higher sequence"`
	Follow      bool                  `query:"follow" doc:"Go on, as server-sent events, until the process has ended and all is told"`
	LastEventID string                `header:"Last-Event-ID" pattern:"^[0-9]*$" doc:"The same as since, when following"`
}

// logEntry is one piece of output. The names of its members are repeated in
// appendEntry.
type logEntry struct {
	Sequence    uint64         `json:"sequence" doc:"Counts from 1; never used twice"`
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

type logsOutput struct {
	ContentType string `header:"Content-Type"`
	Cache       string `header:"Cache-Control"`
	Buffering   string `header:"X-Accel-Buffering"`
	Body        func(huma.Context)
}

func (a *Area) registerProcessLogs() {
	schema := a.Huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[logsBody](), true, "ProcessLogs")
	rest.Add(a.Group, rest.Route{
		ID: "getProcessLogs", Method: http.MethodGet, Path: "/v1/processes/{id}/logs", Tag: "Processes", Query: true,
		Summary: "Read, or follow, what a process prints",
		About: "With follow, each entry is an event named log, whose id is its sequence. " +
			"An event named gap tells how much was dropped because the client was too slow.",
		Errors: []int{http.StatusBadRequest, http.StatusNotFound},
		Content: map[string]*huma.MediaType{
			fiber.MIMEApplicationJSON: {Schema: schema},
			rest.EventStream:          {Schema: &huma.Schema{Type: huma.TypeString}},
		},
	}, a.readLogs)
}

func (a *Area) readLogs(_ context.Context, in *logsInput) (*logsOutput, error) {
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
	body := logsBody{ProcessID: p.Info().ID, Stream: in.Stream, Entries: []logEntry{}}
	for _, e := range p.Log().Entries(q) {
		body.Entries = append(body.Entries, logEntry{
			e.Sequence, e.Stream, e.Time.UnixMilli(), base64.StdEncoding.EncodeToString(e.Data), "base64",
		})
	}
	data, err := rest.MarshalJSON(body)
	if err != nil {
		return nil, err
	}
	return &logsOutput{ContentType: fiber.MIMEApplicationJSON, Cache: "no-store", Body: func(ctx huma.Context) {
		ctx.SetStatus(http.StatusOK)
		rest.RequestOf(ctx).Send(data)
	}}, nil
}

// followLogs sends the entries that q asks for, and then all that come.
func (a *Area) followLogs(log *process.Log, q process.Query) *logsOutput {
	return &logsOutput{
		ContentType: rest.EventStream, Cache: rest.StreamCache, Buffering: "no",
		Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			r := rest.RequestOf(ctx)
			if r.Method() == fiber.MethodHead {
				return
			}
			after, entries := q.Since, []process.Entry(nil)
			if q.Tail != nil {
				// What is printed between the two calls is among the entries.
				one := 1
				if last := log.Entries(process.Query{Tail: &one}); len(last) > 0 {
					after = max(after, last[0].Sequence)
				}
				entries = log.Entries(q)
			}
			if n := len(entries); n > 0 {
				after = max(after, entries[n-1].Sequence)
			}
			a.Follow(r, nil, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
				f := follower{w: w, flush: flush, stream: q.Stream, reader: log.Follow(after), beat: rest.Heartbeat}
				f.run(entries, gone, ending)
			})
		},
	}
}

// follower sends one client what a process prints.
type follower struct {
	w      *bufio.Writer
	flush  func() error
	stream process.Stream // empty: all
	reader *process.Reader
	beat   time.Duration
	buf    []byte
}

// run sends entries, then what the reader has, until the process has ended or
// the client, or the server, wants no more.
func (f *follower) run(entries []process.Entry, gone, ending <-chan struct{}) {
	ctx, stopped := rest.WhileWanted(gone, ending)
	defer stopped()
	_, _ = f.w.WriteString(": connected\n\n") // so that the client sees the headers
	for {
		f.send(entries)
		if f.flush() != nil {
			return
		}
		var err error
		var gap process.Gap
		if entries, gap, err = f.next(ctx); err != nil {
			return
		}
		if gap.Bytes > 0 {
			fmt.Fprintf(f.w, "event: gap\ndata: {\"bytes\":%d,\"entries\":%d}\n\n", gap.Bytes, gap.Entries)
		}
	}
}

// next waits for more. Nothing new for a while is no entries.
func (f *follower) next(ctx context.Context) ([]process.Entry, process.Gap, error) {
	wait, cancel := context.WithTimeout(ctx, f.beat)
	defer cancel()
	entries, gap, err := f.reader.Next(wait)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		_, _ = f.w.WriteString(":\n\n")
		return nil, process.Gap{}, nil
	}
	return entries, gap, err
}

func (f *follower) send(entries []process.Entry) {
	for _, e := range entries {
		if f.stream != "" && e.Stream != f.stream {
			continue
		}
		f.buf = append(f.buf[:0], "event: log\nid: "...)
		f.buf = strconv.AppendUint(f.buf, e.Sequence, 10)
		f.buf = append(f.buf, "\ndata: "...)
		f.buf = appendEntry(f.buf, e)
		f.buf = append(f.buf, "\n\n"...)
		_, _ = f.w.Write(f.buf) // flush tells the error
	}
}

// appendEntry appends an entry as the JSON of a logEntry, without the
// allocations of encoding/json: many may follow one process.
func appendEntry(b []byte, e process.Entry) []byte {
	b = append(b, `{"sequence":`...)
	b = strconv.AppendUint(b, e.Sequence, 10)
	b = append(b, `,"stream":"`...)
	b = append(b, e.Stream...)
	b = append(b, `","timestampMs":`...)
	b = strconv.AppendInt(b, e.Time.UnixMilli(), 10)
	b = append(b, `,"data":"`...)
	b = base64.StdEncoding.AppendEncode(b, e.Data)
	return append(b, `","encoding":"base64"}`...)
}
