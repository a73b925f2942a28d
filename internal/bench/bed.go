package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/coder/websocket"

	"github.com/deskhand/deskhand/internal/sdktest"
)

// The screen of both desktops.
const (
	screenWidth  = 1440
	screenHeight = 900
)

// callTimeout is how long a server may take for the calls of one measurement.
// The reference needs more than a minute for fifty screenshots at once when
// the machine has other work.
const callTimeout = 5 * time.Minute

// bed is a server with a desktop, and what is needed to call it.
type bed struct {
	name      string
	server    *sdktest.Server
	http      *http.Client
	body      bytes.Buffer // of the last answer
	terminals []*terminal
	text      *script
	memory    string          // a directory on a memory file system
	running   []string        // processes that a row has started
	tty       *websocket.Conn // of one of them
	seed      maphash.Seed
	last      uint64 // hash of the last picture
	resident  int64  // memory at the start of a row
	fresh     int64  // resident memory before the rows, in bytes
	turn      int    // counts calls, to vary them
	lost      int    // typed characters that did not arrive
	repeated  int    // pictures that came before the change did
}

// newBed starts a server and its desktop.
func newBed(ctx context.Context, name, dir, memory string, cfg sdktest.Config) (*bed, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b, err := bareBed(ctx, name, dir, memory, cfg)
	if err != nil {
		return nil, err
	}
	if err := b.furnish(ctx); err != nil {
		_ = b.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// bareBed starts a server. Its files are in dir and, for those that no disk
// should slow, in memory.
func bareBed(ctx context.Context, name, dir, memory string, cfg sdktest.Config) (*bed, error) {
	cfg.Home = filepath.Join(dir, name)
	memory = filepath.Join(memory, name)
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
	return &bed{
		name: name, server: server, http: &http.Client{Transport: transport}, seed: maphash.MakeSeed(), text: newScript(), memory: memory,
	}, nil
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
// screen. A terminal answers before it has drawn, but it draws before it waits
// for more to print: so each is asked again after a pause.
func (b *bed) change(ctx context.Context) error {
	for _, t := range b.terminals {
		if err := t.print(b.text.lines(t.place.columns)); err != nil {
			return err
		}
	}
	if err := b.await(); err != nil {
		return err
	}
	if err := pause(ctx, drawTime); err != nil {
		return err
	}
	for _, t := range b.terminals {
		if err := t.print(""); err != nil {
			return err
		}
	}
	return b.await()
}

func (b *bed) await() error {
	for _, t := range b.terminals {
		if err := t.await(); err != nil {
			return fmt.Errorf("terminal %s: %w", t.place.title, err)
		}
	}
	return nil
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call makes one call and returns how long it took until its answer was read,
// into b.body. An answer that is no success is an error.
func (b *bed) call(ctx context.Context, method, path string, body any) (time.Duration, error) {
	req, err := b.request(ctx, method, path, body)
	if err != nil {
		return 0, err
	}
	b.body.Reset()
	begin := time.Now()
	err = do(b.http, req, &b.body)
	took := time.Since(begin)
	if err != nil {
		return 0, fmt.Errorf("%s: %s %s: %w", b.name, method, path, err)
	}
	return took, nil
}

func (b *bed) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.server.URL+path, payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+b.server.Token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// do sends a request and reads its whole answer into w.
func do(c *http.Client, req *http.Request, w io.Writer) error {
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 2000))
		return fmt.Errorf("%s: %s", res.Status, text)
	}
	_, err = io.Copy(w, res.Body)
	return err
}

// sameAsBefore tells whether the last answer equals the picture before it.
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
