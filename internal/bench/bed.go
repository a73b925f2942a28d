package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/coder/websocket"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/sdktest"
)

// The screen of both desktops.
const (
	screenWidth  = 1440
	screenHeight = 900
)

// bed is a server, with a desktop if furnished, and what is needed to call it.
type bed struct {
	name      string
	server    *sdktest.Server
	http      *http.Client
	body      bytes.Buffer // of the last answer
	terminals []*terminal
	text      *script
	memory    string          // a directory on a memory file system
	running   []string        // ids of the processes that a row has started
	tty       *websocket.Conn // of one of them
	sessions  []*session      // with agents, that a row has begun
	seed      maphash.Seed
	last      uint64 // hash of the last picture
	resident  int64  // memory at the start of a row
	turn      int    // counts calls, to vary them
	lost      int    // typed characters that did not arrive
	repeated  int    // pictures that came before the change did
}

// newBed starts a server with directories of its own.
func (b *bench) newBed(ctx context.Context, name string, cfg sdktest.Config) (*bed, error) {
	cfg.Home = filepath.Join(b.Dir, name)
	memory := filepath.Join(b.memory, name)
	for _, d := range []string{cfg.Home, memory} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	server, err := sdktest.Start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * max(burst, followers)}
	bed := &bed{
		name: name, server: server, http: &http.Client{Transport: transport}, seed: maphash.MakeSeed(), text: newScript(), memory: memory,
	}
	if cfg.Reference {
		if err := bed.lendMock(b.Binary); err != nil {
			return nil, errors.Join(err, bed.Close())
		}
	}
	return bed, nil
}

// furnish starts the desktop and opens the terminals.
func (b *bed) furnish(ctx context.Context) error {
	if _, err := b.startDesktop(ctx); err != nil {
		return err
	}
	for _, place := range places {
		t, err := openTerminal(ctx, b, place)
		if err != nil {
			return err
		}
		b.terminals = append(b.terminals, t)
	}
	return b.change(ctx)
}

func (b *bed) startDesktop(ctx context.Context) (time.Duration, error) {
	return b.call(ctx, http.MethodPost, "/v1/desktop/start", map[string]any{"width": screenWidth, "height": screenHeight})
}

// change makes every terminal print new lines and returns when they are on the
// screen. A terminal answers before it has drawn, but draws before it reads more,
// so each is asked again after a pause.
func (b *bed) change(ctx context.Context) error {
	if err := b.print((*script).lines); err != nil {
		return err
	}
	if err := benchkit.Pause(ctx, drawTime); err != nil {
		return err
	}
	return b.print(func(*script, int) string { return "" })
}

// print prints text in every terminal and waits for their answers.
func (b *bed) print(text func(s *script, columns int) string) error {
	for _, t := range b.terminals {
		if err := t.print(text(b.text, t.place.columns)); err != nil {
			return err
		}
	}
	for _, t := range b.terminals {
		if err := t.await(); err != nil {
			return fmt.Errorf("terminal %s: %w", t.place.title, err)
		}
	}
	return nil
}

// call makes one call and returns how long it took until its answer was read,
// into b.body.
func (b *bed) call(ctx context.Context, method, path string, body any) (time.Duration, error) {
	req, err := b.server.Request(ctx, method, path, body)
	if err != nil {
		return 0, err
	}
	b.body.Reset()
	return b.timed(req, &b.body)
}

// timed sends a request, reads the answer into w, and returns how long that took.
func (b *bed) timed(req *http.Request, w io.Writer) (time.Duration, error) {
	begin := time.Now()
	err := benchkit.Do(b.http, req, w)
	took := time.Since(begin)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", b.name, err)
	}
	return took, nil
}

// open returns the body of an answer that has no end.
func (b *bed) open(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := b.server.Request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	return benchkit.Open(b.http, req)
}

// lines returns a scanner for an event stream (HTML Standard, 9.2).
func lines(r io.Reader, size int) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, size), size)
	return s
}

// sameAsBefore reports whether the last answer equals the picture before it.
func (b *bed) sameAsBefore() bool {
	sum := maphash.Bytes(b.seed, b.body.Bytes())
	same := sum == b.last
	b.last = sum
	return same
}

// Close ends the server and everything on its desktop.
func (b *bed) Close() error {
	b.http.CloseIdleConnections()
	for _, t := range b.terminals {
		t.close()
	}
	return b.server.Close()
}
