package apiclient

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const eventStream = "text/event-stream"

// mostEvent bounds one event of a stream: more than that is no event but an
// attempt on the memory.
const mostEvent = 64 << 20

// event is one server-sent event.
type event struct {
	name string
	id   string
	data []byte
}

// eventReader takes a stream of server-sent events apart
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type eventReader struct {
	in      *bufio.Reader
	most    int    // bytes of one event
	id      string // of the last event that had one
	wasCR   bool   // the last line ended with a carriage return
	started bool
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(r, 64<<10), most: mostEvent}
}

// next waits for the next event that has data; io.EOF: the stream has ended.
// Its data is valid until the next call.
func (r *eventReader) next() (event, error) {
	var e event
	some := false
	for {
		line, err := r.line()
		if err != nil {
			return event{}, err // what no empty line has ended is no event
		}
		if len(line) == 0 {
			if some {
				e.id = r.id
				e.data = bytes.TrimSuffix(e.data, []byte("\n"))
				return e, nil
			}
			e = event{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.name = string(value)
		case "data":
			some = true
			if len(e.data)+len(value) > r.most {
				return event{}, errTooLong
			}
			e.data = append(append(e.data, value...), '\n')
		case "id":
			if !bytes.ContainsRune(value, 0) {
				r.id = string(value)
			}
		}
	}
}

var errTooLong = fmt.Errorf("an event of more than %s", byteCount(mostEvent))

// line is the next line without its end, which is \n, \r\n or \r.
func (r *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return nil, err
		}
		if !r.started {
			r.started = true
			if b == 0xef { // a byte order mark
				if mark, err := r.in.Peek(2); err == nil && mark[0] == 0xbb && mark[1] == 0xbf {
					_, _ = r.in.Discard(2)
					continue
				}
			}
		}
		wasCR := r.wasCR
		r.wasCR = b == '\r'
		switch {
		case b == '\n' && wasCR && len(line) == 0:
			continue // the second half of \r\n
		case b == '\n' || b == '\r':
			return line, nil
		case len(line) >= r.most:
			return nil, errTooLong
		}
		line = append(line, b)
		// The rest of what is buffered, up to the line's end, in one piece.
		if buffered, _ := r.in.Peek(r.in.Buffered()); len(buffered) > 0 {
			n := bytes.IndexAny(buffered, "\r\n")
			if n < 0 {
				n = len(buffered)
			}
			line = append(line, buffered[:n]...)
			_, _ = r.in.Discard(n)
		}
	}
}

// printEvents prints events as they come, one line of JSON each.
func (r *run) printEvents(body io.Reader, file *outputFile) error {
	out, done := r.Stdout, func() error { return nil }
	if file != nil {
		f, err := file.direct()
		if err != nil {
			return err
		}
		out, done = f, f.Close
	}
	err := r.copyEvents(out, body)
	return errors.Join(err, done())
}

func (r *run) copyEvents(out io.Writer, body io.Reader) error {
	events := newEventReader(body)
	for {
		e, err := events.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, err := r.lineOf(e, isTerminal(out))
		if err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
}

// lineOf is what is printed of an event.
func (r *run) lineOf(e event, terminal bool) ([]byte, error) {
	if r.decode {
		return encodedData(e.data)
	}
	line, err := e.line(r.events)
	if terminal {
		line = []byte(printable(string(line)))
	}
	return append(line, '\n'), err
}

// encodedData is what all base64 data in a JSON text stands for, one after the
// other: of objects that say so in a member called encoding.
func encodedData(text []byte) ([]byte, error) {
	var carrier struct {
		Data     string `json:"data"`
		Encoding string `json:"encoding"`
	}
	if json.Unmarshal(text, &carrier) == nil && carrier.Encoding == "base64" {
		return base64.StdEncoding.DecodeString(carrier.Data)
	}
	// It is an object or a list; of anything else nothing is left to look into.
	var members map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		_ = json.Unmarshal(text, &items)
	}
	for _, name := range sortedKeys(members) {
		items = append(items, members[name])
	}
	var all []byte
	for _, item := range items {
		data, err := encodedData(item)
		if err != nil {
			return nil, err
		}
		all = append(all, data...)
	}
	return all, nil
}

// line is an event as it is printed: its data, or with its name and id. Data
// that is no JSON becomes a JSON text there.
func (e event) line(whole bool) ([]byte, error) {
	var b bytes.Buffer
	if json.Compact(&b, e.data) != nil {
		b.Reset()
		b.Write(e.data)
		if whole {
			text, err := marshal(string(e.data))
			if err != nil {
				return nil, err
			}
			b.Reset()
			b.Write(text)
		}
	}
	if !whole {
		return b.Bytes(), nil
	}
	return marshal(struct {
		Event string          `json:"event,omitempty"`
		ID    string          `json:"id,omitempty"`
		Data  json.RawMessage `json:"data"`
	}{e.name, e.id, b.Bytes()})
}
