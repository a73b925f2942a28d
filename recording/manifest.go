package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"
)

// Names of files in a recording's folder, and of folders.
const (
	videoFile    = "video.mp4"
	manifestFile = "manifest.json"
	partSuffix   = ".part" // of a file that is not complete

	idPrefix    = "rec_"
	trashPrefix = ".deleted-" // of a folder that is being deleted

	manifestVersion = 1
	maxManifest     = 1 << 20
)

// manifest is the file with the Info of a recording.
type manifest struct {
	Version int `json:"version"`
	Info
}

// parseID returns the ULID in an id of a recording.
func parseID(id string) (ulid.ULID, bool) {
	text, ok := strings.CutPrefix(id, idPrefix)
	if !ok || strings.ToLower(text) != text {
		return ulid.ULID{}, false
	}
	u, err := ulid.ParseStrict(text)
	return u, err == nil && formatID(u) == id
}

func formatID(u ulid.ULID) string { return idPrefix + strings.ToLower(u.String()) }

func readManifest(dir string) (Info, error) {
	f, err := os.OpenFile(filepath.Join(dir, manifestFile), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return Info{}, err
	}
	return parseManifest(text)
}

func parseManifest(text []byte) (Info, error) {
	var m manifest
	switch err := json.Unmarshal(text, &m); {
	case err != nil:
		return Info{}, fmt.Errorf("%s: %w", manifestFile, err)
	case m.Version != manifestVersion:
		return Info{}, fmt.Errorf("%s: version %d; this program knows %d", manifestFile, m.Version, manifestVersion)
	}
	switch m.Status {
	case StatusRecording, StatusRecovering, StatusCompleted, StatusRecovered, StatusFailed:
	default:
		return Info{}, fmt.Errorf("%s: unknown status %q", manifestFile, m.Status)
	}
	return m.Info, nil
}

// writeManifest replaces the manifest atomically, also for a power failure if sync is set.
// On a full disk, which may have ended the recording, it overwrites the old manifest.
func writeManifest(dir string, info Info, sync bool) error {
	text, err := json.MarshalIndent(manifest{manifestVersion, info}, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	path := filepath.Join(dir, manifestFile)
	part := path + partSuffix
	err = writePart(part, sync, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		if overwrite(path, text) == nil {
			return nil
		}
		return err
	}
	if !sync {
		return os.Rename(part, path)
	}
	return replace(part, path)
}

// writePart writes a file, which it removes after an error.
func writePart(part string, sync bool, write func(io.Writer) error) error {
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// overwrite overwrites a file of one block, which needs no room on the disk.
func overwrite(path string, text []byte) error {
	const block = 4096
	if len(text) > block {
		return errors.New("it is too long to be overwritten")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// replace renames a file and syncs the directory.
func replace(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncPath(filepath.Dir(to))
}

// syncPath syncs a file, or the names in a directory.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
