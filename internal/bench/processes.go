package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	crowd     = 500    // processes that run when they are listed
	followers = 64     // of one log
	logLines  = 20_000 // that the process writes
	logLine   = "this is a line of the log, and its number is "
)

func runTrue(ctx context.Context, b *bed) (time.Duration, error) {
	took, err := b.call(ctx, http.MethodPost, "/v1/processes/run", map[string]any{"command": "/bin/true"})
	if err == nil && !bytes.Contains(b.body.Bytes(), []byte(`"exitCode":0`)) {
		err = errors.New("run: " + b.body.String())
	}
	return took, err
}

// begin starts a process for endProcesses to end, and returns its id.
func (b *bed) begin(ctx context.Context, spec map[string]any) (string, error) {
	if _, err := b.call(ctx, http.MethodPost, "/v1/processes", spec); err != nil {
		return "", err
	}
	var info struct{ ID string }
	if err := json.Unmarshal(b.body.Bytes(), &info); err != nil {
		return "", err
	}
	b.running = append(b.running, info.ID)
	return info.ID, nil
}

// endProcesses ends all processes that begin started, and deletes their records.
func endProcesses(ctx context.Context, b *bed) error {
	for _, id := range b.running {
		path := "/v1/processes/" + url.PathEscape(id)
		if _, err := b.call(ctx, http.MethodPost, path+"/kill?waitMs=5000", nil); err != nil {
			return err
		}
		if _, err := b.call(ctx, http.MethodDelete, path, nil); err != nil {
			return err
		}
	}
	b.running = nil
	return nil
}

// startCrowd starts the processes of listCrowd, with the limit of concurrent
// processes raised for them.
func startCrowd(ctx context.Context, b *bed) error {
	if _, err := b.call(ctx, http.MethodGet, "/v1/processes/config", nil); err != nil {
		return err
	}
	var limits map[string]any
	if err := json.Unmarshal(b.body.Bytes(), &limits); err != nil {
		return err
	}
	limits["maxConcurrentProcesses"] = 2 * crowd
	if _, err := b.call(ctx, http.MethodPost, "/v1/processes/config", limits); err != nil {
		return err
	}
	for range crowd {
		if _, err := b.begin(ctx, map[string]any{"command": "sleep", "args": []string{"infinity"}}); err != nil {
			return err
		}
	}
	return nil
}

func listCrowd(ctx context.Context, b *bed) (time.Duration, error) {
	took, err := b.call(ctx, http.MethodGet, "/v1/processes?owner=user", nil)
	if err != nil {
		return 0, err
	}
	if n := bytes.Count(b.body.Bytes(), []byte(`"status":"running"`)); n < crowd {
		err = fmt.Errorf("%s lists %d processes, want %d", b.name, n, crowd)
	}
	return took, err
}

// logText is what the followed process writes.
var logText = func() []byte {
	var text []byte
	for i := range logLines {
		text = fmt.Appendf(text, "%s%d\n", logLine, i)
	}
	return text
}()

// quiet is how long a reader waits for more before it gives up.
const quiet = 3 * time.Second

// follow has many clients read the log of a process. It measures from the moment
// the process begins to write until each client has everything, or until nothing
// has come for a while.
func follow(ctx context.Context, b *bed) (took time.Duration, err error) {
	defer func() { err = errors.Join(err, endProcesses(ctx, b)) }()
	script := fmt.Sprintf("read go; seq -f '%s%%.0f' 0 %d; read go", logLine, logLines-1)
	id, err := b.begin(ctx, map[string]any{"command": "sh", "args": []string{"-c", script}})
	if err != nil {
		return 0, err
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	path := "/v1/processes/" + url.PathEscape(id)
	bodies := make([]io.ReadCloser, followers)
	for i := range bodies {
		if bodies[i], err = b.open(reading, path+"/logs?follow=true"); err != nil {
			return 0, err
		}
		defer bodies[i].Close()
	}
	begin := time.Now()
	if _, err := b.call(ctx, http.MethodPost, path+"/input", map[string]any{"data": "\n", "encoding": "text"}); err != nil {
		return 0, err
	}
	silence := time.AfterFunc(quiet, cancel)
	defer silence.Stop()
	ends := make([]time.Time, followers)
	_, err = concurrently(followers, func(i int) (err error) {
		ends[i], err = readLog(bodies[i], func() { silence.Reset(quiet) })
		return err
	})
	if err != nil && reading.Err() == nil {
		return 0, err
	}
	var missed incomplete
	for _, end := range ends {
		if end.IsZero() {
			missed++
		}
	}
	if missed > 0 {
		return 0, missed
	}
	return slices.MaxFunc(ends, time.Time.Compare).Sub(begin), nil
}

// readLog reads a log until it has all of logText and returns that moment. It
// returns the zero time if an entry is not what comes next in logText. It calls
// alive for each entry.
func readLog(body io.Reader, alive func()) (end time.Time, err error) {
	var text []byte
	rest := logText
	for entries := lines(body, 1<<20); len(rest) > 0; {
		if !entries.Scan() {
			return time.Time{}, cmp.Or(entries.Err(), io.ErrUnexpectedEOF)
		}
		// Both servers write the members of an entry without spaces.
		_, data, found := bytes.Cut(entries.Bytes(), []byte(`"data":"`))
		if !found {
			continue
		}
		data, _, _ = bytes.Cut(data, []byte{'"'})
		if text, err = base64.StdEncoding.AppendDecode(text[:0], data); err != nil {
			return time.Time{}, err
		}
		if rest, found = bytes.CutPrefix(rest, text); !found {
			return time.Time{}, nil
		}
		end = time.Now()
		alive()
	}
	return end, nil
}
