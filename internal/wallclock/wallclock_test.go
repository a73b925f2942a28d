package wallclock

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAlarm(t *testing.T) {
	t.Parallel()
	rang := make(chan time.Time, 10)
	a, err := Start(func() { rang <- time.Now() })
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	wait := func() time.Time {
		t.Helper()
		select {
		case at := <-rang:
			return at
		case <-time.After(time.Minute):
			t.Fatal("the alarm does not fire")
			return time.Time{}
		}
	}
	for _, at := range []time.Time{time.Now().Add(50 * time.Millisecond), time.Now().Add(-time.Hour), {}} {
		if err := a.Set(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := a.Set(at); err != nil {
			t.Fatal(err)
		}
		if got := wait(); got.Before(at) {
			t.Errorf("the alarm fires at %v, not %v", got, at)
		}
	}
	if len(rang) > 0 {
		t.Error("the alarm fires again")
	}
}
