package recording

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNoPicture says that a recording has no such picture: it ended before its
// first one, or thumbnails were not asked for.
var ErrNoPicture = errors.New("the recording has no such picture")

// Poster opens a JPEG file of at most 1280 pixels' width that shows what the
// recording is of: its first picture that is not blank, else its first one.
func (s *Store) Poster(id string) (*os.File, error) {
	dir, _, err := s.locate(id)
	if err != nil {
		return nil, err
	}
	return openPicture(filepath.Join(dir, posterFile))
}

// Thumbnails lists the positions of a recording's thumbnails in ascending order.
// Where nothing changed there are none.
func (s *Store) Thumbnails(id string) ([]time.Duration, error) {
	dir, _, err := s.locate(id)
	if err != nil {
		return nil, err
	}
	return thumbnails(dir)
}

func thumbnails(dir string) ([]time.Duration, error) {
	files, err := os.ReadDir(filepath.Join(dir, thumbsDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	list := []time.Duration{}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".jpg")
		if n, err := strconv.ParseUint(name, 10, 31); ok && err == nil {
			list = append(list, time.Duration(n)*time.Second)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Thumbnail opens the JPEG file, of at most 320 pixels' width, that shows the
// recording at a position: the latest one that is not after it, else the first.
// It also returns the position that it is of.
func (s *Store) Thumbnail(id string, at time.Duration) (*os.File, time.Duration, error) {
	dir, _, err := s.locate(id)
	if err != nil {
		return nil, 0, err
	}
	list, err := thumbnails(dir)
	if err != nil {
		return nil, 0, err
	}
	if len(list) == 0 {
		return nil, 0, ErrNoPicture
	}
	i, found := slices.BinarySearch(list, at)
	if !found && i > 0 {
		i--
	}
	f, err := openPicture(thumbPath(dir, list[min(i, len(list)-1)]))
	return f, list[min(i, len(list)-1)], err
}

func openPicture(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoPicture
	}
	return f, err
}
