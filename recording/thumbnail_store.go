package recording

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoPicture is returned if a recording has no such picture, because the recording ended
// early or has no thumbnails.
var ErrNoPicture = errors.New("the recording has no such picture")

// Poster opens a JPEG file of the first picture that is not blank, or else of the first
// picture. It is at most 1280 pixels wide. The caller closes it. The error is ErrNotFound,
// ErrNoPicture, or an error of the file system.
func (s *Store) Poster(id string) (*os.File, error) {
	e, err := s.entry(id)
	if err != nil {
		return nil, err
	}
	return openPicture(filepath.Join(e.dir, posterFile))
}

// Thumbnails returns the positions of a recording's thumbnails in ascending order. There is
// no thumbnail where nothing has changed. The error is ErrNotFound, or one of the file system.
func (s *Store) Thumbnails(id string) ([]time.Duration, error) {
	e, err := s.entry(id)
	if err != nil {
		return nil, err
	}
	return thumbnails(e.dir)
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

// Thumbnail opens the JPEG file of the latest thumbnail that is not after a position, or
// else of the first one, and returns its position. It is at most 320 pixels wide. The caller
// closes it. The error is ErrNotFound, ErrNoPicture, or an error of the file system.
func (s *Store) Thumbnail(id string, at time.Duration) (*os.File, time.Duration, error) {
	e, err := s.entry(id)
	if err != nil {
		return nil, 0, err
	}
	list, err := thumbnails(e.dir)
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
	f, err := openPicture(thumbPath(e.dir, list[i]))
	return f, list[i], err
}

func openPicture(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoPicture
	}
	return f, err
}
