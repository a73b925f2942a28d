package desktop

import (
	"fmt"
	"strings"

	"github.com/deskhand/deskhand/internal/picture"
)

// observationID is the parsed form of Observation.ID. The text has all that is needed to map
// coordinates, so that the desktop need not keep observations:
//
//	obs_EPOCH.DAMAGE.X.Y.W.H.PW.PH.LOOK
//
// LOOK distinguishes pictures of the same content: format, quality, and the pointer if it
// was drawn.
type observationID struct {
	epoch  string
	damage uint64
	region Rect
	size   Size // of the picture
	look   string
}

const observationPrefix = "obs_"

func (m observationID) String() string {
	return fmt.Sprintf("%s%s.%d.%d.%d.%d.%d.%d.%d.%s", observationPrefix, m.epoch, m.damage,
		m.region.X, m.region.Y, m.region.Width, m.region.Height, m.size.Width, m.size.Height, m.look)
}

func parseObservationID(id string) (observationID, bool) {
	rest, ok := strings.CutPrefix(id, observationPrefix)
	if !ok {
		return observationID{}, false
	}
	var m observationID
	epoch, rest, ok := strings.Cut(rest, ".")
	if !ok || len(rest) > 200 {
		return observationID{}, false
	}
	m.epoch = epoch
	n, err := fmt.Sscanf(rest, "%d.%d.%d.%d.%d.%d.%d.%s", &m.damage, &m.region.X, &m.region.Y,
		&m.region.Width, &m.region.Height, &m.size.Width, &m.size.Height, &m.look)
	valid := err == nil && n == 8 && inRange(m.region.X, m.region.Width) && inRange(m.region.Y, m.region.Height) &&
		inRange(0, m.size.Width) && inRange(0, m.size.Height)
	return m, valid && m.String() == id
}

func inRange(at, length int) bool {
	return at >= 0 && length > 0 && at <= 1<<15 && length <= 1<<15
}

// toScreen maps a pixel of the picture to the screen pixel under its centre.
func (m observationID) toScreen(p Point) Point {
	axis := func(v, from, picture, at int) int {
		v = min(max(v, 0), picture-1)
		return at + (2*v+1)*from/(2*picture)
	}
	return Point{
		axis(p.X, m.region.Width, m.size.Width, m.region.X),
		axis(p.Y, m.region.Height, m.size.Height, m.region.Y),
	}
}

// ParseObservation returns the observation with an ID. It returns an *InvalidError if that is
// not the ID of a screenshot.
func ParseObservation(id string) (Observation, error) {
	m, ok := parseObservationID(id)
	if !ok {
		return Observation{}, &InvalidError{"Observation", "is not the id of a screenshot; pass the one that came with the picture"}
	}
	return Observation{ID: id, Size: m.size, Region: m.region, Scale: float64(m.size.Width) / float64(m.region.Width), Damage: m.damage}, nil
}

// FromScreen maps a point on the screen to the pixel of the picture that shows it, or to the
// nearest one.
func (o Observation) FromScreen(p Point) Point {
	axis := func(v, from, picture, at int) int {
		return min(max((2*(v-at)+1)*picture/(2*max(from, 1)), 0), max(picture-1, 0))
	}
	return Point{
		axis(p.X, o.Region.Width, o.Size.Width, o.Region.X),
		axis(p.Y, o.Region.Height, o.Size.Height, o.Region.Y),
	}
}

// RectFromScreen maps a rectangle on the screen to the pixels of the picture that show it.
func (o Observation) RectFromScreen(r Rect) Rect {
	from, to := o.FromScreen(Point{r.X, r.Y}), o.FromScreen(Point{r.X + r.Width - 1, r.Y + r.Height - 1})
	return Rect{from.X, from.Y, to.X - from.X + 1, to.Y - from.Y + 1}
}

// onScreen maps p from the picture of an observation, if any, and moves it onto the
// screen.
func (s *session) onScreen(p Point, observation string) (Point, error) {
	p, err := mapped(p, observation, s.epoch)
	if err != nil {
		return p, err
	}
	w, h, err := s.conn.Size()
	return Point{min(p.X, w-1), min(p.Y, h-1)}, err
}

// mapped maps p from the picture of an observation of that epoch, if any.
func mapped(p Point, observation, epoch string) (Point, error) {
	if observation == "" {
		return p, nil
	}
	m, ok := parseObservationID(observation)
	if !ok {
		return p, &InvalidError{"Observation", "is not the id of a screenshot; pass the one that came with the picture"}
	}
	if m.epoch != epoch {
		return p, &InvalidError{"Observation", "is of a screen that is gone; take a new screenshot"}
	}
	if p.X >= m.size.Width || p.Y >= m.size.Height {
		return p, &InvalidError{"Observation", fmt.Sprintf("shows %dx%d pixels, and the point %d,%d is outside", m.size.Width, m.size.Height, p.X, p.Y)}
	}
	return m.toScreen(p), nil
}

// damageOf returns the newest change within the rows of a region.
func damageOf(f *picture.Image, r Rect) uint64 {
	var newest uint64
	for band := r.Y / f.BandHeight; band <= (r.Y+r.Height-1)/f.BandHeight && band < len(f.Bands); band++ {
		newest = max(newest, f.Bands[band])
	}
	return newest
}
