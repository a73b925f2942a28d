package recording

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskhand/deskhand/recording/timeline"
)

// until waits until a condition is true.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !happened() {
		select {
		case <-look.C:
		case <-deadline.C:
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// grow appends to the file of a recording, as a recorder does.
func grow(t testing.TB, e *entry, data []byte) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(e.dir, videoFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	_, err = f.Write(data)
	size, err2 := f.Seek(0, io.SeekEnd)
	if err := errors.Join(err, err2); err != nil {
		t.Error(err)
	}
	e.grow(size)
}

// finished ends a recording that grows.
func finished(e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writing = false
	e.wake()
}

func growing(t testing.TB, s *Store) *entry {
	t.Helper()
	e, err := s.newEntry(Info{Status: StatusCompleted, Started: time.Now(), FrameRate: numberRate})
	if err != nil {
		t.Fatal(err)
	}
	grow(t, e, []byte("begin "))
	return e
}

func TestLiveFollows(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e := growing(t, s)
	live, info, err := s.Live(t.Context(), e.id)
	if err != nil || info.ID != e.id {
		t.Fatal(info, err)
	}
	defer live.Close()
	buf := make([]byte, 100)
	for _, piece := range []string{"begin ", "middle ", "end"} {
		if piece != "begin " {
			go grow(t, e, []byte(piece))
		}
		if n, err := live.Read(buf); string(buf[:n]) != piece || err != nil {
			t.Fatalf("read %q, %v instead of %q", buf[:n], err, piece)
		}
	}
	// A reader that waits gets the last data and the end, although the file is replaced and
	// deleted meanwhile.
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(live)
		read <- result{data, err}
	}()
	path := filepath.Join(e.dir, videoFile)
	grow(t, e, []byte(" of it"))
	other := path + partSuffix
	if err := os.WriteFile(other, []byte("another file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	finished(e)
	if err := s.Delete(e.id); err != nil {
		t.Fatal(err)
	}
	if r := <-read; string(r.data) != " of it" || r.err != nil {
		t.Errorf("read %q, %v", r.data, r.err)
	}
	if _, _, err := s.Live(t.Context(), e.id); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted recording: %v", err)
	}
}

func TestLiveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e := growing(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	live, _, err := s.Live(ctx, e.id)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	failed := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, live)
		failed <- err
	}()
	until(t, "the reader to wait", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.more != nil
	})
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	finished(e)
}

func TestLiveClosed(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e := growing(t, s)
	live, _, err := s.Live(t.Context(), e.id)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, live)
		failed <- err
	}()
	until(t, "the reader to wait", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.more != nil
	})
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	finished(e)
}

// TestClipOfWhatGrows makes a clip whose end is not written yet.
func TestClipOfWhatGrows(t *testing.T) {
	t.Parallel()
	video, source := numberedVideo(t)
	s := openStore(t, StoreConfig{})
	e, err := s.newEntry(Info{Status: StatusRecording, Started: time.Now(), FrameRate: numberRate})
	if err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	e.epoch = time.Now().Add(-8 * time.Second)
	e.mu.Unlock()
	half, early := firstPart(t, video, 6*time.Second)
	grow(t, e, video[:half])
	path := filepath.Join(e.dir, videoFile)
	made := make(chan *Clip, 1)
	span := timeline.Span{From: early - time.Second, To: early + 480*time.Millisecond}
	go func() {
		clip, err := s.Clip(t.Context(), e.id, ClipRequest{From: span.From, To: span.To})
		if err != nil {
			t.Error(err)
		}
		made <- clip
	}()
	until(t, "the clip to wait", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.more != nil
	})
	more, _ := firstPart(t, video, 9*time.Second)
	grow(t, e, video[half:more])
	clip := <-made
	if clip == nil {
		return
	}
	if (clip.To - span.To).Abs() > time.Millisecond {
		t.Errorf("ends at %v, not %v", clip.To, span.To)
	}
	checkClip(t, source, save(t, clip), timeline.Span{From: clip.From, To: clip.To})
	// After the recording has ended, the clip ends with the recording.
	finished(e)
	clip, err = s.Clip(t.Context(), e.id, ClipRequest{From: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := readMovieFile(path); err != nil || clip.To > m.duration {
		t.Errorf("ends at %v of %v, %v", clip.To, m.duration, err)
	}
	_ = clip.Close()
	e.mu.Lock()
	e.info.Status = StatusCompleted
	e.mu.Unlock()
}

// firstPart returns the size and length of the longest beginning of a video that is at most as
// long as most.
func firstPart(t testing.TB, video []byte, most time.Duration) (size int, length time.Duration) {
	t.Helper()
	for at := 0; ; at++ {
		next := bytes.Index(video[at:], []byte("moof"))
		if next < 0 {
			return size, length
		}
		at += next
		m, err := readMovie(bytes.NewReader(video), int64(at-4))
		switch {
		case err != nil:
			t.Fatal(err)
		case m.duration > most:
			return size, length
		}
		size, length = at-4, m.duration
	}
}
