package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/x11"
)

// The screen of the desktop.
const (
	screenWidth  = 1920
	screenHeight = 1080
)

const (
	patience   = 30 * time.Second // bounds calls and waits
	rowTimeout = 15 * time.Minute
)

// bench is a run, with the server, the browser, and the X connection that draws
// on the desktop.
type bench struct {
	*benchkit.Run
	options
	server   *sdktest.Server
	x        *x11.Conn
	page     *page
	browser  *benchkit.Browser
	browsers int // that were started
	table    [][]string
}

func newBench(ctx context.Context, o options, progress io.Writer) (*bench, error) {
	base, err := benchkit.Start(ctx, o.Options, progress)
	if err != nil {
		return nil, err
	}
	b := &bench{Run: base, options: o}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *bench) open(ctx context.Context) (err error) {
	b.Tell("starting the server and its desktop")
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if b.page, err = servePage(); err != nil {
		return err
	}
	home := filepath.Join(b.Dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	b.server, err = sdktest.Start(ctx, sdktest.Config{Binary: b.Binary, Home: home, Origins: []string{b.page.URL}})
	if err != nil {
		return err
	}
	body := map[string]any{"width": screenWidth, "height": screenHeight}
	var display struct{ Display, XAuthority string }
	if err := b.call(ctx, http.MethodPost, "/v1/desktop/start", body, &display); err != nil {
		return err
	}
	if err := b.call(ctx, http.MethodGet, "/v1/desktop/display/info", nil, &display); err != nil {
		return err
	}
	b.x, err = x11.Dial(ctx, x11.Config{Display: display.Display, Authority: display.XAuthority})
	return err
}

// Close ends everything and removes its files.
func (b *bench) Close() error {
	b.closeBrowser()
	var errs []error
	if b.x != nil {
		errs = append(errs, b.x.Close())
	}
	if b.server != nil {
		errs = append(errs, b.server.Close())
	}
	if b.page != nil {
		b.page.Close()
	}
	return errors.Join(append(errs, b.Run.Close())...)
}

// call makes a call and decodes the answer into out.
func (b *bench) call(ctx context.Context, method, path string, in, out any) error {
	req, err := b.server.Request(ctx, method, path, in)
	if err != nil {
		return err
	}
	req.Close = true // the server keeps no connection between two calls
	var answer bytes.Buffer
	if err := benchkit.Do(http.DefaultClient, req, &answer); err != nil {
		return err
	}
	return json.Unmarshal(answer.Bytes(), out)
}

// signaling returns the URL that viewers connect to.
func (b *bench) signaling() string {
	return "ws" + strings.TrimPrefix(b.server.URL, "http") + "/v1/desktop/stream/signaling?access_token=" + b.server.Token
}

// stream is the server's status of the live view.
type stream struct {
	ProcessID string
	Target    int `json:"targetBitsPerSecond"`
	Viewers   []struct{ ID string }
}

func (b *bench) stream(ctx context.Context) (s stream, err error) {
	err = b.call(ctx, http.MethodGet, "/v1/desktop/stream/status", nil, &s)
	return s, err
}

// used returns the processor time of the server, and of its encoder if that is a
// process of its own.
func (b *bench) used(ctx context.Context) (time.Duration, error) {
	server, err := benchkit.ProcessorTime(b.server.PID)
	if err != nil {
		return 0, err
	}
	s, err := b.stream(ctx)
	if err != nil || s.ProcessID == "" {
		return server, err
	}
	var encoder struct{ PID int }
	if err := b.call(ctx, http.MethodGet, "/v1/processes/"+s.ProcessID, nil, &encoder); err != nil {
		return 0, err
	}
	more, err := benchkit.ProcessorTime(encoder.PID)
	return server + more, err
}

// awaitNoViewers waits until the server has no viewer.
func (b *bench) awaitNoViewers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		s, err := b.stream(ctx)
		if err != nil || len(s.Viewers) == 0 {
			return err
		}
		if err := benchkit.Pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("viewers do not leave: %w", err)
		}
	}
}
