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

// patience bounds what must not take long.
const patience = 30 * time.Second

// bed is the server with its desktop, what draws on that, and the browser.
type bed struct {
	server  *sdktest.Server
	x       *x11.Conn
	page    *page
	browser *browser
}

// newBed starts all of it. Its files are in dir.
func newBed(ctx context.Context, dir, binary, codec string) (b *bed, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b = &bed{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.page, err = servePage(); err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	b.server, err = sdktest.Start(ctx, sdktest.Config{Binary: binary, Home: home, Origins: []string{b.page.url}})
	if err != nil {
		return nil, err
	}
	body := map[string]any{"width": screenWidth, "height": screenHeight}
	if codec != "" {
		body["streamVideoCodec"] = codec
	}
	if err := b.call(ctx, http.MethodPost, "/v1/desktop/start", body, nil); err != nil {
		return nil, err
	}
	var display struct{ Display, XAuthority string }
	if err := b.call(ctx, http.MethodGet, "/v1/desktop/display/info", nil, &display); err != nil {
		return nil, err
	}
	if b.x, err = x11.Dial(ctx, x11.Config{Display: display.Display, Authority: display.XAuthority}); err != nil {
		return nil, err
	}
	b.browser = newBrowser(dir)
	return b, nil
}

// Close ends all of it.
func (b *bed) Close() error {
	var errs []error
	if b.browser != nil {
		b.browser.close()
	}
	if b.x != nil {
		errs = append(errs, b.x.Close())
	}
	if b.server != nil {
		errs = append(errs, b.server.Close())
	}
	if b.page != nil {
		errs = append(errs, b.page.Close())
	}
	return errors.Join(errs...)
}

// call makes a call and decodes the answer into out, unless that is nil.
func (b *bed) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.server.URL+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+b.server.Token)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // between two calls the server has nothing of ours
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case res.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// signaling is where viewers connect to.
func (b *bed) signaling() string {
	return "ws" + strings.TrimPrefix(b.server.URL, "http") + "/v1/desktop/stream/signaling?access_token=" + b.server.Token
}

// stream is what the server tells about the live view.
type stream struct {
	ProcessID string
	Target    int `json:"targetBitsPerSecond"`
	Viewers   []struct{ ID string }
}

func (b *bed) stream(ctx context.Context) (stream, error) {
	var s stream
	err := b.call(ctx, http.MethodGet, "/v1/desktop/stream/status", nil, &s)
	return s, err
}

// used is the processor time of the server, and of its encoder if that is a
// process of its own.
func (b *bed) used(ctx context.Context) (time.Duration, error) {
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

// nobodyWatches waits until the server has no viewer.
func (b *bed) nobodyWatches(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		s, err := b.stream(ctx)
		if err != nil {
			return err
		}
		if len(s.Viewers) == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("viewers do not leave: %w", err)
		}
	}
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
