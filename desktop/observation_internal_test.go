package desktop

import (
	"errors"
	"testing"

	"github.com/deskhand/deskhand/internal/picture"
)

// TestObservationID: parseObservationID parses the IDs that String returns, and refuses others.
func TestObservationID(t *testing.T) {
	t.Parallel()
	m := observationID{epoch: "e1", damage: 7, region: Rect{10, 20, 300, 200}, size: Size{150, 100}, look: "jpeg85-cross-3-4"}
	const id = "obs_e1.7.10.20.300.200.150.100.jpeg85-cross-3-4"
	if got, ok := parseObservationID(m.String()); m.String() != id || !ok || got != m {
		t.Errorf("%s is %+v, %t, want %+v", m, got, ok, m)
	}
	for _, bad := range []string{
		"", "obs_", "e1.7.10.20.300.200.150.100.png", "obs_e1.7.10.20.300.200.150.100", "obs_e1.7.10.20.300.200.150.100.",
		"obs_e1.7.10.20.0.200.150.100.png", "obs_e1.7.-1.20.300.200.150.100.png", "obs_e1.7.10.20.300.200.150.40000.png",
		"obs_e1.07.10.20.300.200.150.100.png", "obs_e1.7.10.20.300.200.150.100.png more",
	} {
		if got, ok := parseObservationID(bad); ok {
			t.Errorf("parseObservationID(%q) = %+v", bad, got)
		}
	}
}

// TestMapped maps points of a picture of half the size of its region.
func TestMapped(t *testing.T) {
	t.Parallel()
	id := observationID{epoch: "e1", region: Rect{10, 20, 300, 200}, size: Size{150, 100}, look: "png"}.String()
	for at, want := range map[Point]Point{{0, 0}: {11, 21}, {149, 99}: {309, 219}, {75, 50}: {161, 121}} {
		if got, err := mapped(at, id, "e1"); got != want || err != nil {
			t.Errorf("%v of the picture is %v, %v, want %v", at, got, err, want)
		}
	}
	if got, err := mapped(Point{5, 6}, "", "e1"); got != (Point{5, 6}) || err != nil {
		t.Errorf("a point without a picture is %v, %v", got, err)
	}
	for name, c := range map[string]struct {
		at        Point
		id, epoch string
	}{
		"no observation":        {Point{}, "screenshot.png", "e1"},
		"an earlier X server":   {Point{}, id, "e2"},
		"right of the picture":  {Point{150, 0}, id, "e1"},
		"below the picture":     {Point{0, 100}, id, "e1"},
		"beyond both its edges": {Point{1000, 1000}, id, "e1"},
	} {
		var invalid *InvalidError
		if _, err := mapped(c.at, c.id, c.epoch); !errors.As(err, &invalid) || invalid.Field != "Observation" {
			t.Errorf("%s: %v, want an InvalidError about the observation", name, err)
		}
	}
}

// TestDamageOf returns the newest change of the bands in a region.
func TestDamageOf(t *testing.T) {
	t.Parallel()
	screen := &picture.Image{Seq: 9, Bands: []uint64{4, 9, 2}, BandHeight: 16}
	for region, want := range map[Rect]uint64{
		{0, 0, 5, 16}: 4, {0, 0, 5, 17}: 9, {0, 16, 5, 16}: 9, {0, 32, 5, 1}: 2, {0, 31, 5, 2}: 9, {0, 40, 5, 100}: 2,
	} {
		if got := damageOf(screen, region); got != want {
			t.Errorf("the newest change in %+v is %d, want %d", region, got, want)
		}
	}
}
