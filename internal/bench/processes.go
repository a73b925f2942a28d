package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	crowd     = 500    // processes that run when they are listed
	followers = 64     // of one log
	logLines  = 20_000 // that the process writes
	logLine   = "this is a line of the log, and its number is "
)

var processRows = []row{
	{key: "run", title: "run /bin/true", factor: parity, often: true, once: runTrue},
	{
		key: "list", title: fmt.Sprintf("list of %d running processes", crowd), below: 5 * time.Millisecond,
		prepare: gather, once: listCrowd, finish: dismiss,
	},
	{
		key: "followers", title: fmt.Sprintf("%d lines to %d followers of a log", logLines, followers), bytes: int64(followers * len(logText)),
		whole: true, rounds: true, once: follow,
	},
}

func runTrue(ctx context.Context, b *bed) (time.Duration, error) {
	took, err := b.call(ctx, http.MethodPost, "/v1/processes/run", map[string]any{"command": "/bin/true"})
	if err == nil && !bytes.Contains(b.body.Bytes(), []byte(`"exitCode":0`)) {
		err = errors.New("run: " + b.body.String())
	}
	return took, err
}

// begin starts a process and returns its id.
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

// dismiss ends all processes that begin started, and their records.
func dismiss(ctx context.Context, b *bed) error {
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

// gather starts the processes of listCrowd, with the limit of processes at once
// raised for them.
func gather(ctx context.Context, b *bed) error {
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

// quiet is after how long without a byte more a reader gives up.
const quiet = 3 * time.Second

// follow lets many read the log of a process, and measures from the moment it
// begins to write until each has all of it, or until nothing comes any more.
func follow(ctx context.Context, b *bed) (took time.Duration, err error) {
	defer func() { err = errors.Join(err, dismiss(ctx, b)) }()
	script := fmt.Sprintf("read go; seq -f '%s%%.0f' 0 %d; read go", logLine, logLines-1)
	id, err := b.begin(ctx, map[string]any{"command": "sh", "args": []string{"-c", script}})
	if err != nil {
		return 0, err
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	path := "/v1/processes/" + url.PathEscape(id)
	readers := make([]*logReader, followers)
	for i := range readers {
		if readers[i], err = b.openLog(reading, path); err != nil {
			return 0, err
		}
		defer readers[i].body.Close()
	}
	begin := time.Now()
	if _, err := b.call(ctx, http.MethodPost, path+"/input", map[string]any{"data": "\n", "encoding": "text"}); err != nil {
		return 0, err
	}
	silence := time.AfterFunc(quiet, cancel)
	defer silence.Stop()
	var group errgroup.Group
	for _, r := range readers {
		group.Go(func() error { return r.read(func() { silence.Reset(quiet) }) })
	}
	if err := group.Wait(); err != nil && reading.Err() == nil {
		return 0, err
	}
	var last time.Time
	var missed incomplete
	for _, r := range readers {
		if r.got < len(logText) {
			missed++
		}
		if r.last.After(last) {
			last = r.last
		}
	}
	if missed > 0 {
		return 0, missed
	}
	return last.Sub(begin), nil
}

// logReader reads a log as an event stream (HTML Standard, 9.2).
type logReader struct {
	body  io.ReadCloser
	lines *bufio.Reader
	got   int // bytes of logText
	last  time.Time
}

func (b *bed) openLog(ctx context.Context, path string) (*logReader, error) {
	req, err := b.request(ctx, http.MethodGet, path+"/logs?follow=true", nil)
	if err != nil {
		return nil, err
	}
	res, err := b.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, fmt.Errorf("%s: follow a log: %s", b.name, res.Status)
	}
	return &logReader{body: res.Body, lines: bufio.NewReaderSize(res.Body, 1<<20)}, nil
}

// read reads until it has all of logText, or until what comes is not what comes
// next in it. It calls alive for each entry.
func (r *logReader) read(alive func()) error {
	var text []byte
	for r.got < len(logText) {
		line, err := r.lines.ReadSlice('\n')
		if err != nil {
			return err
		}
		// Both servers write the members of an entry without spaces.
		_, data, found := bytes.Cut(line, []byte(`"data":"`))
		if !found {
			continue
		}
		data, _, _ = bytes.Cut(data, []byte{'"'})
		if text, err = base64.StdEncoding.AppendDecode(text[:0], data); err != nil {
			return err
		}
		if !bytes.HasPrefix(logText[r.got:], text) {
			return nil // something is missing before it
		}
		r.got += len(text)
		r.last = time.Now()
		alive()
	}
	return nil
}
