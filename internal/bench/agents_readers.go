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
	lagGoal    = 50 * time.Millisecond
)

// readers measures, with many readers of one agent, how long after a prompt was
// sent each reader has its echo. One of the readers does not read.
func (b *bench) readers(ctx context.Context, beds agentBeds) error {
	beds = slices.Delete(slices.Clone(beds), 1, 2)
	lags := make([]lag, 2)
	for k, bed := range beds {
		if err := lags[k].measure(ctx, bed); err != nil {
			return fmt.Errorf("%s: %w", bed.name, err)
		}
	}
	ours := lags[0]
	met := ours.missed == 0 && ours.stalled && benchkit.Quantile(ours.times, 0.99) < lagGoal
	b.line(agentSessions, fmt.Sprintf("%d readers, one stalled: prompt to echo, p99", audience), ours.String(), lags[1].String(),
		"below "+benchkit.Milliseconds(lagGoal)+", nothing missing", met)
	return nil
}

// lag is what was measured of one server's readers.
type lag struct {
	times   sample     // of all readers and prompts
	missed  incomplete // readers that did not get everything
	stalled bool       // the stalled reader found everything when it read again
}

func (l lag) String() string {
	text := "no reader complete"
	if len(l.times) > 0 {
		text = fmt.Sprintf("%s (median %s)", benchkit.Milliseconds(benchkit.Quantile(l.times, 0.99)), benchkit.Milliseconds(l.times.median()))
	}
	if l.missed > 0 {
		text += fmt.Sprintf("; %v", l.missed)
	}
	if !l.stalled {
		text += "; the stalled one misses something"
	}
	return text
}

func (l *lag) measure(ctx context.Context, bed *bed) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := bed.ownSession(ctx, "readers")
	if err != nil {
		return err
	}
	stalled, err := s.stall(ctx)
	if err != nil {
		return err
	}
	defer stalled.Close()
	if _, err := s.prompt(ctx, fmt.Sprint("burst ", stallBurst)); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	got := make([][]time.Time, audience-1) // when each mark was read
	var group errgroup.Group
	for i := range got {
		got[i] = make([]time.Time, marks)
		body, err := bed.open(reading, s.path)
		if err != nil {
			return err
		}
		group.Go(func() error {
			defer body.Close()
			return readMarks(body, got[i])
		})
	}
	sent, err := s.sendMarks(ctx)
	if err != nil {
		return err
	}
	end := time.AfterFunc(quiet, stop) // a reader that lacks marks by then stays incomplete
	err = group.Wait()
	end.Stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	for _, times := range got {
		if slices.ContainsFunc(times, time.Time.IsZero) {
			l.missed++
			continue
		}
		for n, at := range times {
			l.times = append(l.times, at.Sub(sent[n]))
		}
	}
	slices.Sort(l.times)
	l.stalled, err = catchUp(stalled)
	return err
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
		conn.Close()
		return nil, err
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
