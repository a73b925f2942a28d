package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskhand/deskhand/internal/benchkit"
)

const (
	audience   = 100                   // readers of one agent, the stalled one among them
	marks      = 400                   // prompts whose echo is timed
	markPause  = 10 * time.Millisecond // between them
	stallBurst = 20_000                // messages that fill the stalled reader's connection
)

// readers measures, with many readers of one agent, how long after a prompt was
// sent each reader has its echo: the 99th percentile, of the readers that got
// everything. One of the readers does not read until the end.
func readers(ctx context.Context, b *bed) (time.Duration, error) {
	s, err := b.ownSession(ctx)
	if err != nil {
		return 0, err
	}
	stalled, err := s.stall(ctx)
	if err != nil {
		return 0, err
	}
	defer stalled.Close() //nolint:errcheck // it was never read
	if _, err := s.prompt(ctx, fmt.Sprint("burst ", stallBurst)); err != nil {
		return 0, err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	got := make([][]time.Time, audience-1) // when each mark was read
	var group errgroup.Group
	for i := range got {
		got[i] = make([]time.Time, marks)
		body, err := b.open(reading, s.path)
		if err != nil {
			return 0, err
		}
		group.Go(func() error {
			defer body.Close()
			return readMarks(body, got[i])
		})
	}
	sent, err := s.sendMarks(ctx)
	if err != nil {
		return 0, err
	}
	end := time.AfterFunc(quiet, stop) // a reader that lacks marks by then stays incomplete
	err = group.Wait()
	end.Stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		return 0, err
	}
	var lags sample
	var missed incomplete
	for _, times := range got {
		if slices.ContainsFunc(times, time.Time.IsZero) {
			missed++
			continue
		}
		for n, at := range times {
			lags = append(lags, at.Sub(sent[n]))
		}
	}
	slices.Sort(lags)
	whole, err := catchUp(stalled)
	if err != nil {
		return 0, err
	}
	if !whole {
		missed++
	}
	if missed > 0 {
		err = missed
	}
	return benchkit.Quantile(lags, 0.99), err
}

// sendMarks makes the prompts that are timed and returns when each was sent.
func (s *session) sendMarks(ctx context.Context) ([]time.Time, error) {
	sent := make([]time.Time, marks)
	tick := time.NewTicker(markPause)
	defer tick.Stop()
	for n := range sent {
		<-tick.C
		sent[n] = time.Now()
		if _, err := s.prompt(ctx, fmt.Sprintf("mark %d.", n)); err != nil {
			return nil, err
		}
	}
	return sent, nil
}

// markOf returns the number of the mark in a line of a stream, and -1 for others.
func markOf(line []byte) int {
	_, rest, _ := bytes.Cut(line, []byte(`"mark `))
	digits, _, ended := bytes.Cut(rest, []byte("."))
	n, err := strconv.Atoi(string(digits))
	if err != nil || !ended || n < 0 || n >= marks {
		return -1
	}
	return n
}

// readMarks notes when the marks come, until the last has come.
func readMarks(body io.Reader, got []time.Time) error {
	events := lines(body, 64<<10)
	for events.Scan() {
		if n := markOf(events.Bytes()); n >= 0 {
			if got[n] = time.Now(); n == marks-1 {
				return nil
			}
		}
	}
	return events.Err()
}

// stall follows the agent on a connection whose buffer is small.
func (s *session) stall(ctx context.Context) (*net.TCPConn, error) {
	at, err := url.Parse(s.bed.server.URL)
	if err != nil {
		return nil, err
	}
	dialed, err := new(net.Dialer).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return nil, err
	}
	conn := dialed.(*net.TCPConn)
	err = conn.SetReadBuffer(4 << 10)
	if err == nil {
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n",
			s.path, at.Host, s.bed.server.Token)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// catchUp has the stalled reader read, and reports whether it gets everything.
func catchUp(conn *net.TCPConn) (bool, error) {
	if err := errors.Join(conn.SetReadBuffer(1<<20), conn.SetReadDeadline(time.Now().Add(10*quiet))); err != nil {
		return false, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	last := 0
	for events := lines(res.Body, 64<<10); events.Scan(); {
		if text, ok := bytes.CutPrefix(events.Bytes(), []byte("id: ")); ok {
			id, err := strconv.Atoi(string(text))
			if err != nil || last > 0 && id != last+1 {
				return false, err
			}
			last = id
		}
		if markOf(events.Bytes()) == marks-1 {
			return true, nil
		}
	}
	return false, nil // it was cut off, which is a finding
}
