package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/userhome"
)

const aboutHealth = `Checks whether the server that this user started last is alive (GET /livez). The
exit status is 0 if it is, else 1. It is for a container's health check, and needs
neither the port nor the token.

The server writes its address to $TMPDIR/deskhand-UID/address (TMPDIR defaults to
/tmp).`

// healthLimit is shorter than the timeout of the image's HEALTHCHECK.
const healthLimit = 2500 * time.Millisecond

// addressFile returns the file that a server of this user writes its address to.
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
		if now, err := readAddress(); err == nil && now == url {
			_ = os.Remove(addressFile())
		}
	}
}

// readAddress returns the address that a server of this user has published.
func readAddress() (string, error) {
	dir := userhome.TemporaryPath()
	if _, err := os.Lstat(dir); err != nil {
		return "", err
	}
	if !userhome.Belongs(dir, os.Geteuid(), 0o700) { // another user could have published any address
		return "", fmt.Errorf("%s is not this user's own with mode 0700", dir)
	}
	f, err := os.OpenFile(addressFile(), os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO must not block
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", cmp.Or(err, fmt.Errorf("%s is not a regular file", f.Name()))
	}
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return strings.TrimSpace(string(text)), err
}

func (p program) health(ctx context.Context, _ accessFlags, args []string) error {
	flags := p.flags("health", aboutHealth)
	p.ignoreAccess(flags)
	if err := parseNone(flags, args); err != nil {
		return err
	}
	url, err := readAddress()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("health: no server of this user runs: %w", err)
	}
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	if err := checkAlive(ctx, url); err != nil {
		return fmt.Errorf("health: %w", err)
	}
	_, err = fmt.Fprintln(p.stdout, "ok")
	return err
}

// checkAlive returns an error unless the server at a base URL is alive.
func checkAlive(ctx context.Context, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"livez", nil)
	if err != nil {
		return err
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req) // without a proxy
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", req.URL, res.Status)
	}
	return nil
}
