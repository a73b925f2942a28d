package benchscale

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Load prompts sessions at servers that share a log, and follows the sessions' events. A client
// goes to the next server if one does not answer or refuses. Make one with [NewLoad].
type Load struct {
	bases    []string // the servers' URLs
	token    string
	client   *http.Client
	sessions []*loadSession
	work     sync.WaitGroup
	next     atomic.Int64 // counts requests, to spread them over the servers

	mu        sync.Mutex // guards what follows
	errs      []error
	uncertain []string // why the outcome of a prompt is not known, for each
}

// loadSession is what the clients of one session know.
type loadSession struct {
	id string

	mu      sync.Mutex      // guards what follows
	prompts map[string]bool // by text; true: a server has acknowledged it
	seen    []string        // ids of events, in the order in which the follower got them
	retries int             // requests that another server had to answer
}

// event is an event of a session.
type event struct {
	ID       string `json:"event_id"`
	Sequence int64  `json:"sequence"`
	Type     string `json:"type"`
	Data     struct {
		Item struct {
			Kind    string `json:"kind"`
			Role    string `json:"role"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"item"`
	} `json:"data"`
}

// NewLoad returns a load for servers with one token.
func NewLoad(token string, bases ...string) *Load {
	return &Load{
		bases: bases, token: token,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}},
	}
}

// Create makes sessions with the mock agent in dir.
func (l *Load) Create(ctx context.Context, n int, dir string) error {
	for i := range n {
		s := &loadSession{id: fmt.Sprintf("load-%d", i), prompts: map[string]bool{}}
		body, err := json.Marshal(map[string]string{"agent": "mock", "directory": dir})
		if err != nil {
			return err
		}
		status, text, err := l.do(ctx, l.bases[i%len(l.bases)], http.MethodPost, "/v1/sessions/"+s.id, body)
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("create %s: %d %s: %w", s.id, status, text, err)
		}
		l.sessions = append(l.sessions, s)
	}
	return nil
}

// Run prompts all sessions and follows them until ctx ends.
func (l *Load) Run(ctx context.Context) {
	for _, s := range l.sessions {
		l.work.Go(func() { l.prompt(ctx, s) })
		l.work.Go(func() { l.follow(ctx, s) })
	}
	l.work.Wait()
	l.client.CloseIdleConnections()
}

// Counts returns how many prompts were acknowledged, how many may or may not be in the log, and
// how many requests another server had to answer.
func (l *Load) Counts() (acknowledged, uncertain, retries int) {
	for _, s := range l.sessions {
		s.mu.Lock()
		for _, ok := range s.prompts {
			if ok {
				acknowledged++
			} else {
				uncertain++
			}
		}
		retries += s.retries
		s.mu.Unlock()
	}
	return acknowledged, uncertain, retries
}

// Uncertain returns why the outcome of a prompt is not known, for each of those.
func (l *Load) Uncertain() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.uncertain)
}

// doubt records a prompt whose outcome is not known.
func (l *Load) doubt(s *loadSession, text, why string) outcome {
	s.record(text, false)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uncertain = append(l.uncertain, text+": "+why)
	return unknown
}

func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

// pick returns a server, each in turn.
func (l *Load) pick() string { return l.bases[int(l.next.Add(1))%len(l.bases)] }

// do sends a request and returns the answer.
func (l *Load) do(ctx context.Context, base, method, path string, body []byte) (status int, text []byte, err error) {
	resp, err := l.open(ctx, base, method, path, body)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// open is like do with an answer whose body the caller reads and closes.
func (l *Load) open(ctx context.Context, base, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return l.client.Do(req)
}

// retryPause is the time between attempts at servers.
const retryPause = 50 * time.Millisecond

// prompt sends one prompt after the other and reads each turn to its end.
func (l *Load) prompt(ctx context.Context, s *loadSession) {
	base := l.pick()
	for n := 0; ctx.Err() == nil; n++ {
		text := fmt.Sprintf("%s says %d", s.id, n)
		for ctx.Err() == nil {
			outcome := l.say(ctx, base, s, text)
			if outcome != refused {
				break
			}
			s.mu.Lock()
			s.retries++
			s.mu.Unlock()
			base = l.pick()
			pause(ctx, retryPause)
		}
	}
}

// outcome is what a client knows of a prompt that it has sent.
type outcome int

const (
	acknowledged outcome = iota // a server has it
	unknown                     // the connection broke, or the server does not know
	refused                     // no server has it
)

// say sends a prompt and reads the turn to its end, unless the connection breaks.
func (l *Load) say(ctx context.Context, base string, s *loadSession, text string) outcome {
	body, err := json.Marshal(map[string]string{"message": text})
	if err != nil {
		l.fail(err)
		return unknown
	}
	// Later than ctx: a prompt whose answer is not awaited would be uncertain.
	during, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	resp, err := l.open(during, base, http.MethodPost, "/v1/sessions/"+s.id+"/messages/stream", body)
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return refused
	case err != nil:
		return l.doubt(s, text, err.Error())
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		s.record(text, true)
		_, _ = io.Copy(io.Discard, resp.Body) // to the end of the turn, or of the server
		return acknowledged
	}
	problem, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if resp.StatusCode == http.StatusConflict || bytes.Contains(problem, []byte("shutting down")) || bytes.Contains(problem, []byte("cannot be reached")) {
		return refused
	}
	return l.doubt(s, text, fmt.Sprintf("%d %s", resp.StatusCode, problem))
}

func (s *loadSession) record(text string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompts[text] = ok
}

// follow reads the events of a session, at another server after each break.
func (l *Load) follow(ctx context.Context, s *loadSession) {
	last := int64(0)
	for ; ctx.Err() == nil; pause(ctx, retryPause) {
		path := fmt.Sprintf("/v1/sessions/%s/events/sse?offset=%d", s.id, last)
		resp, err := l.open(ctx, l.pick(), http.MethodGet, path, nil)
		if err != nil {
			continue
		}
		if resp.StatusCode == http.StatusOK {
			last = l.read(resp.Body, s, last)
		}
		_ = resp.Body.Close()
	}
}

// maxLine bounds a line of an event stream.
const maxLine = 1 << 20

// read reads an event stream to its end and returns the number of the last event.
func (l *Load) read(body io.Reader, s *loadSession, last int64) int64 {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil || e.Sequence == 0 {
			continue // a heartbeat, or cut off with the connection
		}
		if e.Sequence != last+1 {
			l.fail(fmt.Errorf("%s: event %d came after %d", s.id, e.Sequence, last))
		}
		last = e.Sequence
		s.mu.Lock()
		s.seen = append(s.seen, e.ID)
		s.mu.Unlock()
	}
	return last
}

// Check reads the log through a server, and returns an error for each acknowledged prompt that is
// not there once, for each other prompt that is there twice, and for each event that a follower got
// otherwise than the log has it.
func (l *Load) Check(ctx context.Context, base string) error {
	for _, s := range l.sessions {
		all, err := l.events(ctx, base, s.id)
		if err != nil {
			return err
		}
		said := map[string]int{}
		for i, e := range all {
			if e.Sequence != int64(i+1) {
				l.fail(fmt.Errorf("%s: event %d where %d belongs", s.id, e.Sequence, i+1))
			}
			if i < len(s.seen) && s.seen[i] != e.ID {
				l.fail(fmt.Errorf("%s: a client got the event %s as number %d, and the log has %s", s.id, s.seen[i], i+1, e.ID))
			}
			if e.Type == "item.completed" && e.Data.Item.Role == "user" && len(e.Data.Item.Content) > 0 {
				said[strings.TrimSpace(e.Data.Item.Content[0].Text)]++
			}
		}
		if len(s.seen) > len(all) {
			l.fail(fmt.Errorf("%s: a client got %d events of %d", s.id, len(s.seen), len(all)))
		}
		for text, ok := range s.prompts {
			if n := said[text]; n > 1 || ok && n != 1 {
				l.fail(fmt.Errorf("%s: %q is in the log %d times, acknowledged: %v", s.id, text, n, ok))
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}

// events returns all events of a session.
func (l *Load) events(ctx context.Context, base, id string) (all []event, err error) {
	for more := true; more; {
		var page struct {
			Events  []event
			HasMore bool
		}
		status, text, err := l.do(ctx, base, http.MethodGet, fmt.Sprintf("/v1/sessions/%s/events?offset=%d&limit=1000", id, len(all)), nil)
		if err != nil || status != http.StatusOK {
			return nil, fmt.Errorf("events of %s: %d %s: %w", id, status, text, err)
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, err
		}
		all, more = append(all, page.Events...), page.HasMore && len(page.Events) > 0
	}
	return all, nil
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
