package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	audience   = 100                   // readers of one agent, the stalled one among them
	marks      = 400                   // prompts whose echo is timed
	markPause  = 10 * time.Millisecond // between them
	stallBurst = 20_000                // messages that fill the stalled reader's connection
)

// readers measures, with many readers of one agent, how long after a prompt was
// sent each has read its echo. One of the readers does not read.
func (b *bench) readers(ctx context.Context, beds *agentBeds) error {
	b.agents.lag = make([]lagFigures, 2)
	for k, bed := range []*bed{beds.full, beds.reference} {
		if bed == nil {
			continue
		}
		if err := b.agents.lag[k].measure(ctx, bed); err != nil {
			return fmt.Errorf("%s: %w", bed.name, err)
		}
	}
	return nil
}

// lagFigures are what was measured of one server.
type lagFigures struct {
	times   sample     // of all readers and prompts
	missed  incomplete // readers that did not get all
	stalled bool       // the stalled reader found everything when it read again
}

func (f *lagFigures) measure(ctx context.Context, bed *bed) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t, err := bed.own(ctx, "readers")
	if err != nil {
		return err
	}
	stalled, err := t.stall(ctx)
	if err != nil {
		return err
	}
	defer stalled.Close()
	if _, err := t.prompt(ctx, fmt.Sprint("burst ", stallBurst)); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	got := make([][]time.Time, audience-1) // when each mark was read
	var group errgroup.Group
	for i := range got {
		got[i] = make([]time.Time, marks)
		body, err := t.listen(reading, "")
		if err != nil {
			return err
		}
		group.Go(func() error {
			defer body.Close()
			return readMarks(bufio.NewReaderSize(body, 64<<10), got[i])
		})
	}
	sent, err := t.send(ctx)
	if err != nil {
		return err
	}
	quietly := time.AfterFunc(quiet, stop) // who has not got all by then never will
	err = group.Wait()
	quietly.Stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	f.count(sent, got)
	f.stalled, err = catchUp(stalled)
	return err
}

// send makes the prompts that are timed.
func (t *talk) send(ctx context.Context) ([]time.Time, error) {
	sent := make([]time.Time, marks)
	tick := time.NewTicker(markPause)
	defer tick.Stop()
	for n := range sent {
		<-tick.C
		sent[n] = time.Now()
		if _, err := t.prompt(ctx, fmt.Sprintf("mark %d.", n)); err != nil {
			return nil, err
		}
	}
	return sent, nil
}

func (f *lagFigures) count(sent []time.Time, got [][]time.Time) {
	for _, times := range got {
		if slices.ContainsFunc(times, time.Time.IsZero) {
			f.missed++
			continue
		}
		for n, at := range times {
			f.times = append(f.times, at.Sub(sent[n]))
		}
	}
	slices.Sort(f.times)
}

// markOf returns the number of the mark that a line of a stream has.
func markOf(line []byte) (int, bool) {
	_, rest, found := bytes.Cut(line, []byte(`"mark `))
	digits, _, ended := bytes.Cut(rest, []byte("."))
	if !found || !ended {
		return 0, false
	}
	n, err := strconv.Atoi(string(digits))
	return n, err == nil && n >= 0 && n < marks
}

// readMarks notes when the marks come, until the last has come.
func readMarks(lines *bufio.Reader, got []time.Time) error {
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return err
		}
		if n, ok := markOf(line); ok {
			if got[n] = time.Now(); n == marks-1 {
				return nil
			}
		}
	}
}

// stall follows the agent on a connection that takes hardly anything.
func (t *talk) stall(ctx context.Context) (net.Conn, error) {
	at, err := url.Parse(t.bed.server.URL)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return nil, err
	}
	err = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if err == nil {
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n",
			t.path, at.Host, t.bed.server.Token)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// catchUp lets the stalled reader read, and tells whether it gets all.
func catchUp(conn net.Conn) (bool, error) {
	if err := errors.Join(conn.(*net.TCPConn).SetReadBuffer(1<<20), conn.SetReadDeadline(time.Now().Add(10*quiet))); err != nil {
		return false, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	lines := bufio.NewReaderSize(res.Body, 64<<10)
	for last := 0; ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return false, nil // it was left behind, or cut off: a finding
		}
		if text, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			id, err := strconv.Atoi(string(bytes.TrimSpace(text)))
			if err != nil || last > 0 && id != last+1 {
				return false, err
			}
			last = id
		}
		if n, ok := markOf(line); ok && n == marks-1 {
			return true, nil
		}
	}
}
