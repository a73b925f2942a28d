package apiclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/internal/testlog"
)

func TestReadEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"nothing":        {"", nil},
		"comments":       {": hi\n\n:\n\n", nil},
		"one":            {"event: log\nid: 7\ndata: {}\n\n", []string{"{}"}},
		"no space":       {"event:log\nid:7\ndata:{}\n\n", []string{"{}"}},
		"one space only": {"data:  x\n\n", []string{" x"}},
		"no data":        {"event: x\n\ndata: a\n\n", []string{"a"}},
		"several lines":  {"data: a\ndata\ndata: b\n\n", []string{"a\n\nb"}},
		"empty data":     {"data\n\n", []string{""}},
		"unknown":        {"retry: 5\nfoo: bar\ndata: a\n\n", []string{"a"}},
		"line ends":      {"data: a\r\n\r\ndata: c\n\n", []string{"a", "c"}},
		"unfinished":     {"data: a\n\ndata: b\n", []string{"a"}},
		"colon in data":  {"data: a:b: c\n\n", []string{"a:b: c"}},
	} {
		for how, in := range map[string]io.Reader{"whole": strings.NewReader(c.stream), "by bytes": iotest.OneByteReader(strings.NewReader(c.stream))} {
			var got []string
			for data, err := range events(in, mostEvent) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				got = append(got, string(data))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, how, diff)
			}
		}
	}
}

// endless never stops saying the same.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		n += copy(p[n:], blocks[e])
	}
	return len(p), nil
}

var blocks = map[endless]string{0: strings.Repeat("\x00", 64<<10), 'x': strings.Repeat("x", 64<<10)}

func TestEventOfNoEnd(t *testing.T) {
	t.Parallel()
	lines := func() io.Reader {
		read, write := io.Pipe()
		go func() {
			line := []byte("data: " + strings.Repeat("x", 1<<20) + "\n")
			for {
				if _, err := write.Write(line); err != nil {
					return
				}
			}
		}()
		t.Cleanup(func() { _ = read.Close() })
		return read
	}
	for name, in := range map[string]io.Reader{"one line": endless('x'), "lines": lines()} {
		for _, err := range events(in, 3<<20) {
			if !errors.Is(err, errTooLong) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: a\nid: 1\ndata: {}\n\n"))
	f.Add([]byte("data: a\r\n\r\n\r\ndata:b\r\r"))
	f.Add([]byte(":\n\ndata\ndata\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		read := func(in io.Reader) (all []string) {
			for data, err := range events(in, mostEvent) {
				all = append(all, fmt.Sprintf("%q, %v", data, err))
			}
			return all
		}
		whole, pieces := read(bytes.NewReader(stream)), read(iotest.HalfReader(bytes.NewReader(stream)))
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Errorf("it matters how %q arrives:\n%s", stream, diff)
		}
	})
}

// teller answers with the texts that it is sent, each immediately, until an empty
// one.
func teller(t *testing.T, kind string) (*url.URL, chan<- string) {
	t.Helper()
	more := make(chan string)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusOK)
		for {
			_ = http.NewResponseController(w).Flush() // fails after the client has left
			select {
			case text := <-more:
				if text == "" {
					return
				}
				_, _ = io.WriteString(w, text)
			case <-r.Context().Done():
				return
			}
		}
	}), more
}

// TestEventsAreShownAsTheyCome wants each event before the next one is sent, and
// the command to end with the stream, or with the context.
func TestEventsAreShownAsTheyCome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags       []string
		event, want string
	}{
		"data":    {nil, "event: log\nid: 7\ndata: {\"a\": [1, \"<\"]}\n\n", `{"a":[1,"<"]}` + "\n"},
		"no JSON": {nil, "data: hello\ndata: you\n\n", "hello\nyou\n"},
		"raw":     {[]string{"--raw"}, ": x\n\ndata:  1\n\n", ": x\n\ndata:  1\n\n"},
		"decode":  {[]string{"--decode"}, "data: {\"data\":\"aGkK/w==\",\"encoding\":\"base64\",\"sequence\":1}\n\n", "hi\n\xff"},
	} {
		for how, interrupt := range map[string]bool{"ends": false, "is ended": true} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				at, more := teller(t, "text/event-stream; charset=utf-8")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var stdout, stderr testlog.Buffer
				cmd := Command{
					Name: "deskhand api", Document: apiText(), Stdout: &stdout, Stderr: &stderr,
					Connect: func() (Server, error) { return Server{URL: at}, nil },
				}
				done := make(chan error, 1)
				go func() { done <- cmd.Run(ctx, append([]string{"desktop", "events"}, c.flags...)) }()
				for n := range 3 {
					more <- c.event
					poll(t, "the event", func() string {
						if got := stdout.String(); got != strings.Repeat(c.want, n+1) {
							return fmt.Sprintf("%q", got)
						}
						return ""
					})
				}
				if interrupt {
					cancel()
				} else {
					more <- ""
				}
				err := <-done
				ended, ok := errors.AsType[*InterruptedError](err)
				if ok != interrupt || ok && ended.Text != "" || !ok && err != nil || stderr.String() != "" {
					t.Errorf("%v, stderr %q", err, stderr.String())
				}
			})
		}
	}
}

// TestBrokenStream tells a stream that broke from one that ended.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", eventStream)
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	if out := do(t, at, "desktop", "events"); !errors.Is(out.err, io.ErrUnexpectedEOF) || out.stdout != "1\n" {
		t.Errorf("%+v", out)
	}
}

func TestDecodedData(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"processId":"p","entries":[{"sequence":1,"data":"YQ==","encoding":"base64"},{"data":"Ygo=","encoding":"base64"}]}`: "ab\n",
		`{"data":"plain","encoding":"utf8"}`: "", `[]`: "", `7`: "", `"x"`: "", `null`: "",
	} {
		if got, err := decodedData([]byte(text)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	if _, err := decodedData([]byte(`{"data":"?","encoding":"base64"}`)); err == nil {
		t.Error("invalid base64 passes")
	}
}
