package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// defaultBaseURL is the URL of releases unless DESKHAND_BASE_URL is set. It has
// latest/download/VERSION and, for every version, download/VERSION/ with SHA256SUMS
// and the archives. deploy/install.sh has the same default.
const defaultBaseURL = "https://github.com/deskhand/deskhand/releases"

// Limits of a release, in bytes.
const (
	mostSums    = 64 << 10
	mostArchive = 256 << 20
	mostProgram = 512 << 20
)

// releases is a server of releases.
type releases struct {
	base   *url.URL
	client *http.Client
}

func newReleases(base string) (releases, error) {
	base = cmp.Or(base, defaultBaseURL)
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return releases{}, usagef("DESKHAND_BASE_URL must be a URL such as %s, not %q", defaultBaseURL, base)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	return releases{u, &http.Client{Transport: transport, CheckRedirect: sameSecurity}}, nil
}

// sameSecurity refuses a redirect from https to http.
func sameSecurity(req *http.Request, via []*http.Request) error {
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("it redirects to %s, which is not encrypted", req.URL.Redacted())
	}
	if len(via) > 10 {
		return errors.New("it redirects more than 10 times")
	}
	return nil
}

// errNoRelease says that the server has no such file.
var errNoRelease = errors.New("there is no such release")

// get fetches a file of at most limit bytes.
func (r releases) get(ctx context.Context, limit int64, path ...string) ([]byte, error) {
	at := r.base.JoinPath(path...)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := r.client.Do(req)
	if err != nil {
		return nil, err // names the URL
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("get %s: %w (status 404)", at.Redacted(), errNoRelease)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("get %s: status %s", at.Redacted(), res.Status)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the download was cut off; try again")
	case err == nil && int64(len(data)) > limit:
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", at.Redacted(), err)
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")) {
		return nil, fmt.Errorf("get %s: the answer is a web page, perhaps of a proxy or a login, and not the file", at.Redacted())
	}
	return data, nil
}

var versionForm = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)

func isVersion(text string) bool { return len(text) <= 128 && versionForm.MatchString(text) }

// newest returns the newest version.
func (r releases) newest(ctx context.Context) (string, error) {
	data, err := r.get(ctx, 1<<10, "latest", "download", "VERSION")
	if err != nil {
		return "", fmt.Errorf("find the newest release: %w", err)
	}
	version := strings.TrimSpace(string(data))
	if !isVersion(version) {
		return "", fmt.Errorf("find the newest release: %s/latest/download/VERSION holds %q, which is not a version", r.base.Redacted(), version)
	}
	return version, nil
}

// download checks the archive of a version and writes its program to file.
func (r releases) download(ctx context.Context, version string, file *os.File) error {
	name := "deskhand-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz"
	sums, err := r.get(ctx, mostSums, "download", version, "SHA256SUMS")
	if err != nil {
		return fmt.Errorf("release %s: %w", version, err)
	}
	want := ""
	for line := range strings.Lines(string(sums)) {
		if f := strings.Fields(line); len(f) == 2 && strings.TrimPrefix(f[1], "*") == name {
			want = f[0]
		}
	}
	if want == "" {
		return fmt.Errorf("release %s has no %s in its SHA256SUMS", version, name)
	}
	archive, err := r.get(ctx, mostArchive, "download", version, name)
	if err != nil {
		return fmt.Errorf("release %s: %w", version, err)
	}
	if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != want {
		return fmt.Errorf("release %s: the SHA-256 sum of %s is %x, and SHA256SUMS says %s; nothing was replaced", version, name, sum, want)
	}
	if err := unpackProgram(archive, file); err != nil {
		return fmt.Errorf("release %s: %s: %w", version, name, err)
	}
	return nil
}

// unpackProgram writes the program in an archive to file.
func unpackProgram(archive []byte, file io.Writer) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	for entries := tar.NewReader(unzipped); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("it has no program")
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeReg && strings.HasSuffix(header.Name, "/deskhand") && header.Size <= mostProgram && strings.Count(header.Name, "/") == 1 {
			_, err := io.Copy(file, entries)
			return err
		}
	}
}
