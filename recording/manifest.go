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
)

// The files in a recording's folder, besides those of its timeline and pictures.
const (
	videoFile    = "video.mp4"
	manifestFile = "manifest.json"
	partSuffix   = ".part" // of what is not whole yet

	idPrefix = "rec_"
	// trashPrefix is that of a folder which is being deleted.
	trashPrefix = ".deleted-"

	manifestVersion = 1
	// largestManifest bounds what is read.
	largestManifest = 1 << 20
)

// manifest is what is kept of an Info beside the video.
type manifest struct {
	Version int `json:"version"`
	Info
}

// parseID returns the ULID in an id that a store may have made.
func parseID(id string) (ulid.ULID, bool) {
	text, ok := strings.CutPrefix(id, idPrefix)
	if !ok || strings.ToLower(text) != text {
		return ulid.ULID{}, false
	}
	u, err := ulid.ParseStrict(text)
	// What does not come out as it went in would be another folder's name.
	return u, err == nil && formatID(u) == id
}

func formatID(u ulid.ULID) string { return idPrefix + strings.ToLower(u.String()) }

func readManifest(dir string) (Info, error) {
	f, err := os.Open(filepath.Join(dir, manifestFile))
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, largestManifest))
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

// writeManifest replaces the manifest, so that there is either the old one or the
// new one, whenever this program dies and, when it is forced to the disk, whenever
// the power fails. On a disk without room for another file, such as one that ended
// the recording, the new one is written over the old one.
func writeManifest(dir string, info Info, force bool) error {
	text, err := json.MarshalIndent(manifest{manifestVersion, info}, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	path := filepath.Join(dir, manifestFile)
	part := path + partSuffix
	if err := writePart(part, text, force); err != nil {
		if overwrite(path, text) == nil {
			return nil
		}
		return err
	}
	if !force {
		return os.Rename(part, path)
	}
	return replace(part, path)
}

func writePart(part string, text []byte, force bool) error {
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && force {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// overwrite changes a file in its place, which takes no room on a disk: both texts
// are within its first block.
func overwrite(path string, text []byte) error {
	const block = 4096
	if len(text) > block {
		return errors.New("it is too long to be changed in its place")
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// replace renames a file, for good.
func replace(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// syncDir makes what was done to a directory's names last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
