package apiclient

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

const eventStream = "text/event-stream"

// mostEvent bounds the memory that one event takes.
const mostEvent = 64 << 20

var errTooLong = fmt.Errorf("an event of more than %s", ByteCount(mostEvent))

// events returns the data of each server-sent event
// (https://html.spec.whatwg.org/multipage/server-sent-events.html) of a stream whose
// lines end with \n or \r\n. An event has at most most bytes of data.
func events(stream io.Reader, most int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, most)
		var data []byte // nil before the event's first line of data
		for lines.Scan() {
			name, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
			switch {
			case len(lines.Bytes()) == 0 && data != nil:
				if !yield(bytes.TrimSuffix(data, []byte("\n")), nil) {
					return
				}
				data = nil
			case string(name) == "data":
				if data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n'); len(data) > most {
					yield(nil, errTooLong)
					return
				}
			}
		}
		// An event that no empty line ends does not count.
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(nil, errTooLong)
		} else if err != nil {
			yield(nil, err)
		}
	}
}

// printEvents prints the data of each event as it comes, JSON on one line.
func (r *run) printEvents(body io.Reader, file *outputFile) error {
	if file == nil {
		return r.copyEvents(r.Stdout, body)
	}
	f, err := file.direct()
	if err != nil {
		return err
	}
	return errors.Join(r.copyEvents(f, body), f.Close())
}

func (r *run) copyEvents(out io.Writer, body io.Reader) error {
	for data, err := range events(body, mostEvent) {
		if err != nil {
			return err
		}
		if r.decode {
			data, err = decodedData(data)
		} else {
			data = line(data, isTerminal(out))
		}
		if err != nil {
			return err
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// line returns an event's data as a line, JSON without spaces.
func line(data []byte, terminal bool) []byte {
	var compact bytes.Buffer
	if json.Compact(&compact, data) == nil {
		data = compact.Bytes()
	}
	if terminal {
		data = []byte(printable(string(data)))
	}
	return append(data, '\n')
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
		return nil, nil //nolint:nilerr // JSON without such output
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
