package fleet

import (
	"errors"
	"slices"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/recording"
)

// TestRecordings ends the recordings of a desktop with the fleet, which reports that to
// subscribers. The next fleet, without that desktop, has the recordings.
func TestRecordings(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "ffmpeg", "ffprobe")
	cfg := Config{StateDir: t.TempDir()}
	f := open(t, cfg)
	in, err := f.Create(t.Context(), "x", StartOptions{
		Desktop: desktop.Config{Size: desktop.Size{Width: 320, Height: 240}}, RecordingFrameRate: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	changes := in.SubscribeRecordings()
	defer changes.Close()
	first, err := in.RecordExclusive(t.Context(), recording.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.RecordExclusive(t.Context(), recording.Config{}); !errors.Is(err, ErrRecording) {
		t.Errorf("a second exclusive recording: %v", err)
	}
	second, err := in.Record(t.Context(), recording.Config{FrameRate: 9})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := first.Info().FrameRate, second.Info().FrameRate; a != 7 || b != 9 {
		t.Errorf("frame rates %d and %d, want that of the start and that of the recording", a, b)
	}
	if got := in.ExclusiveRecording(); got != first {
		t.Errorf("ExclusiveRecording = %v", got)
	}
	if n := len(in.ActiveRecordings()); n != 2 {
		t.Errorf("%d recordings are active", n)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := in.ExclusiveRecording(); got != nil {
		t.Errorf("ExclusiveRecording after its end = %v", got)
	}
	<-changes.Changed()
	var changed []string // the latest change of each alone
	for _, c := range changes.Take() {
		changed = append(changed, c.Info.ID)
		if c.Info.Status != recording.StatusCompleted || c.Time.IsZero() {
			t.Errorf("change %+v", c)
		}
	}
	want := []string{first.Info().ID, second.Info().ID}
	if slices.Sort(changed); !slices.Equal(changed, want) {
		t.Errorf("changes of %q, want %q", changed, want)
	}

	var fake faker
	cfg.Start = fake.start
	next := open(t, cfg)
	if got := next.Recorded(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("Recorded = %q", got)
	}
	for id, newest := range map[string]string{"": want[1], "x": want[1], Main: "rec_"} {
		if got, err := next.NewestRecording(id); got != newest || err != nil {
			t.Errorf("NewestRecording(%q) = %q, %v, want %q", id, got, err, newest)
		}
	}
	if _, err := next.Find("x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Find of a desktop that is gone: %v", err)
	}
	gone, err := next.FindRecorded("x")
	if err != nil {
		t.Fatal(err)
	}
	store, err := gone.Recordings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if list := store.List(); len(list) != 2 || list[0].ID != want[0] || list[1].ID != want[1] {
		t.Errorf("recordings of a desktop that is gone: %+v", list)
	}
	if in, err = next.Create(t.Context(), "x", StartOptions{}); err != nil || in != gone {
		t.Errorf("a desktop of that id = %v, %v, want the instance that has its recordings open", in, err)
	}
	if got := next.Recorded(); len(got) != 0 {
		t.Errorf("Recorded with a desktop of that id = %q", got)
	}
}
