package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/userhome"
)

const aboutHealth = `Asks the server that this user started last whether it is alive (GET /livez), and
exits with 0 if it is, with 1 if not. It is for a container's health check: it
needs neither the port nor the token.

The server writes its address to $TMPDIR/deskhand-UID/address (TMPDIR is /tmp,
unless set).`

// healthLimit is less than the time that the image's HEALTHCHECK gives.
const healthLimit = 2500 * time.Millisecond

// addressFile is where a server of this user leaves its address.
func addressFile() string { return filepath.Join(userhome.TemporaryPath(), "address") }

// publishAddress writes the address of this server for deskhand health, until
// the returned function is called.
func publishAddress(url string, log *slog.Logger) (remove func()) {
	text := url + "\n"
	err := func() error {
		dir, err := userhome.Temporary()
		if err != nil {
			return err
		}
		f, err := os.CreateTemp(dir, "address-*")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		if _, err = f.WriteString(text); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
		return os.Rename(f.Name(), addressFile())
	}()
	if err != nil {
		log.Warn("deskhand health cannot find this server", "error", err)
		return func() {}
	}
	return func() {
		// A server that was started later has its own address there.
		if now, err := os.ReadFile(addressFile()); err == nil && string(now) == text {
			_ = os.Remove(addressFile())
		}
	}
}

func (p program) health(ctx context.Context, args []string) error {
	flags := p.flags("health", aboutHealth)
	p.ignoreAccess(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return usagef("health takes no argument, so not %q", flags.Arg(0))
	}
	text, err := os.ReadFile(addressFile())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("health: no server of this user runs: %w", err)
	}
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(string(text))+"livez", nil)
	if err != nil {
		return fmt.Errorf("health: %s: %w", addressFile(), err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req) // by no proxy
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health: %s answers %s", req.URL, resp.Status)
	}
	_, err = fmt.Fprintln(p.stdout, "ok")
	return err
}
