package apiclient

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// outputFile is the file that an answer goes to. It gets its name once it is
// complete.
type outputFile struct {
	name   string      // as the user gave it
	path   string      // the target if name is a link
	mode   fs.FileMode // of the file that it replaces, or zero
	device bool        // it is written in place
	resume bool

	part string   // the file with the received bytes, or empty
	f    *os.File // the part, open
	kept int64    // bytes from an earlier download
	etag string   // of their content
}

const partEnding = ".part"

// openOutput prepares the file of --output, so that its errors come before the
// request. It returns nil if the answer goes to standard output.
func (r *run) openOutput(command string) (*outputFile, error) {
	if r.output == "" || r.output == "-" {
		return nil, nil
	}
	o := &outputFile{name: r.output, path: r.output, resume: r.resume}
	switch info, err := os.Stat(o.path); {
	case err == nil && info.IsDir():
		return nil, usagef(command, "--output %s is a directory; name a file in it", o.name)
	case err == nil:
		o.device, o.mode = !info.Mode().IsRegular(), info.Mode().Perm()
		if !o.device {
			if o.path, err = followLinks(o.path); err != nil {
				return nil, fmt.Errorf("--output: %w", err)
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("--output: %w", err)
	}
	if info, err := os.Stat(filepath.Dir(o.path)); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("--output %s: there is no directory %s", o.name, filepath.Dir(o.path))
	}
	if o.resume && !o.device {
		return o, o.find()
	}
	return o, nil
}

// followLinks follows the links at the end of a path. It refuses links of other users, because
// they would choose which file is replaced.
func followLinks(path string) (string, error) {
	const most = 40
	for range most {
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Type() != fs.ModeSymlink {
			return path, err
		}
		if !own(info) && owner(info) != 0 {
			return "", fmt.Errorf("%s is a link of another user; name the file itself", path)
		}
		next, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(next) {
			dir, _ := filepath.Split(path)
			next = dir + next
		}
		path = next
	}
	return "", &fs.PathError{Op: "follow", Path: path, Err: unix.ELOOP}
}

func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// own reports whether a file belongs to the user of this process.
func own(info fs.FileInfo) bool { return owner(info) == os.Geteuid() }

// find opens the part that an earlier download left beside the file.
func (o *outputFile) find() error {
	entries, err := os.ReadDir(filepath.Dir(o.path))
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	for _, e := range entries {
		encoded, ok := strings.CutPrefix(e.Name(), "."+filepath.Base(o.path)+".")
		encoded, ended := strings.CutSuffix(encoded, partEnding)
		etag, err := base64.RawURLEncoding.DecodeString(encoded)
		if !ok || !ended || err != nil || len(etag) == 0 {
			continue
		}
		part := filepath.Join(filepath.Dir(o.path), e.Name())
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || !own(info) {
			return fmt.Errorf("--resume: %s is not a file of this user; remove it, or leave out --resume", part)
		}
		f, err := os.OpenFile(part, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0)
		if err != nil {
			return fmt.Errorf("--resume: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			return fmt.Errorf("--resume: another download writes %s", part)
		}
		info, err := f.Stat()
		if err != nil {
			_ = f.Close()
			return fmt.Errorf("--resume: %w", err)
		}
		o.part, o.f, o.kept, o.etag = part, f, info.Size(), string(etag)
		return nil
	}
	return nil
}

// has reports whether an earlier download has left bytes.
func (o *outputFile) has() bool { return o != nil && o.kept > 0 }

// continueFrom requests the missing bytes alone (RFC 9110, section 14.2) if the
// content has not changed.
func (o *outputFile) continueFrom(header http.Header) {
	if o.has() {
		header.Set("Range", fmt.Sprintf("bytes=%d-", o.kept))
		header.Set("If-Range", o.etag)
	}
}

// forget removes the part.
func (o *outputFile) forget() {
	if o.f != nil {
		_ = o.f.Close()
		_ = os.Remove(o.part)
	}
	o.f, o.part, o.kept, o.etag = nil, "", 0, ""
}

// discard removes an unfinished part unless a later download can go on with it.
func (o *outputFile) discard() {
	if o.f == nil {
		return
	}
	if info, err := o.f.Stat(); o.etag != "" && err == nil && info.Size() > 0 {
		_ = o.f.Close()
		o.f = nil
		return
	}
	o.forget()
}

// direct opens the file itself, for devices and streams.
func (o *outputFile) direct() (*os.File, error) {
	f, err := os.OpenFile(o.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	return f, nil
}

// begin opens the part for an answer.
func (o *outputFile) begin(res *http.Response) error {
	if o.has() && res.StatusCode == http.StatusPartialContent {
		if want := fmt.Sprintf("bytes %d-", o.kept); strings.HasPrefix(res.Header.Get("Content-Range"), want) {
			return nil
		}
		return fmt.Errorf("the server sends another part than was asked for (Content-Range: %s)", res.Header.Get("Content-Range"))
	}
	o.forget()
	middle := rand.Text()
	if etag := res.Header.Get("ETag"); o.resume && strings.HasPrefix(etag, `"`) && res.StatusCode == http.StatusOK {
		// Weak ETags do not promise the same bytes.
		const most = 120
		if encoded := base64.RawURLEncoding.EncodeToString([]byte(etag)); len(encoded) <= most {
			middle, o.etag = encoded, etag
		}
	}
	o.part = filepath.Join(filepath.Dir(o.path), "."+filepath.Base(o.path)+"."+middle+partEnding)
	var err error
	if o.f, err = os.OpenFile(o.part, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o666); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return unix.Flock(int(o.f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// finish gives the part the file's name.
func (o *outputFile) finish() error {
	if o.mode != 0 {
		if err := o.f.Chmod(o.mode); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	// Some file systems report errors of writes at the end.
	err := o.f.Close()
	o.f = nil
	if err == nil {
		err = os.Rename(o.part, o.path)
	}
	if err != nil {
		_ = os.Remove(o.part)
		return fmt.Errorf("--output: %w", err)
	}
	return nil
}

// save writes an answer to the file.
func (r *run) save(ctx context.Context, res *http.Response, o *outputFile) error {
	if o.device {
		f, err := o.direct()
		if err != nil {
			return err
		}
		_, err = io.Copy(f, res.Body)
		return errors.Join(err, f.Close())
	}
	if err := o.begin(res); err != nil {
		return err
	}
	n, err := io.Copy(o.f, res.Body)
	if err == nil {
		err = o.finish()
	}
	if err != nil {
		return o.explain(ctx, n, err)
	}
	return nil
}

// explain adds to an error which part of the download is kept.
func (o *outputFile) explain(ctx context.Context, received int64, err error) error {
	text := fmt.Sprintf("%s is as it was before", o.name)
	switch all := o.kept + received; {
	case o.etag != "" && o.f != nil:
		text += fmt.Sprintf("; %s are kept, and the same command continues from there", ByteCount(all))
	case !o.resume:
		text += "; with --resume the received part would be kept"
	default:
		text += "; nothing is kept, because the server sent no ETag for this content"
	}
	if ctx.Err() != nil {
		return &InterruptedError{Text: text}
	}
	return fmt.Errorf("%w; %s", err, text)
}
