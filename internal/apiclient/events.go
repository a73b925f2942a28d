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

// mostEvent bounds the memory that one event takes.
const mostEvent = 64 << 20

// event is one server-sent event.
type event struct {
	name string
	id   string
	data []byte
}

// eventReader reads a stream of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html) whose lines end
// with \n or \r\n.
type eventReader struct {
	lines *bufio.Scanner
	most  int    // bytes of one event
	id    string // of the last event that had one
}

func newEventReader(r io.Reader, most int) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, most)
	return &eventReader{lines: lines, most: most}
}

// next waits for the next event that has data. It returns io.EOF at the end of the
// stream.
func (r *eventReader) next() (event, error) {
	var e event
	hasData := false
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if len(line) == 0 && hasData {
			e.id, e.data = r.id, bytes.TrimSuffix(e.data, []byte("\n"))
			return e, nil
		}
		if len(line) == 0 {
			e = event{}
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.name = string(value)
		case "data":
			hasData = true
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
	switch err := r.lines.Err(); {
	case err == nil:
		return event{}, io.EOF // an event that no empty line ends does not count
	case errors.Is(err, bufio.ErrTooLong):
		return event{}, errTooLong
	default:
		return event{}, err
	}
}

var errTooLong = fmt.Errorf("an event of more than %s", ByteCount(mostEvent))

// printEvents prints each event as it comes, as one line of JSON.
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
	events := newEventReader(body, mostEvent)
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

// lineOf returns the text that printEvents prints for an event.
func (r *run) lineOf(e event, terminal bool) ([]byte, error) {
	if r.decode {
		return decodedData(e.data)
	}
	line, err := e.line(r.events)
	if terminal {
		line = []byte(printable(string(line)))
	}
	return append(line, '\n'), err
}

// line returns the event's data, with its name and id if all is asked for. Data
// that is not JSON becomes a JSON text there.
func (e event) line(all bool) ([]byte, error) {
	var b bytes.Buffer
	data, err := e.data, json.Compact(&b, e.data)
	if err == nil {
		data = b.Bytes()
	}
	if !all {
		return data, nil
	}
	if err != nil {
		if data, err = marshal(string(e.data)); err != nil {
			return nil, err
		}
	}
	return marshal(struct {
		Event string          `json:"event,omitempty"`
		ID    string          `json:"id,omitempty"`
		Data  json.RawMessage `json:"data"`
	}{e.name, e.id, data})
}

// logEntry is output of a process in an answer, or an answer that has several.
type logEntry struct {
	Data     string
	Encoding string
	Entries  []logEntry
}

// decodedData returns the output of processes that a JSON text carries as base64.
func decodedData(text []byte) ([]byte, error) {
	var all logEntry
	if json.Unmarshal(text, &all) != nil {
		return nil, nil // JSON without such output
	}
	var data []byte
	for _, entry := range append(all.Entries, all) {
		if entry.Encoding != "base64" {
			continue
		}
		decoded, err := base64.StdEncoding.DecodeString(entry.Data)
		if err != nil {
			return nil, err
		}
		data = append(data, decoded...)
	}
	return data, nil
}
