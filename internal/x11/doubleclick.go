package x11

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Bounds of clicks that programs count together.
const (
	// doubleClickTime is the longest default time between the presses of a double click: that
	// of Chromium, Java and Tk. GTK and Qt have 400 ms.
	doubleClickTime = 500 * time.Millisecond
	// doubleClickMost bounds what a settings daemon may ask for.
	doubleClickMost = 2 * time.Second
	// clickMargin is added, because the server sets the times of events.
	clickMargin = 10 * time.Millisecond
	// clickRadius is more than the distance between the presses of a double click in any
	// toolkit.
	clickRadius = 10
)

// series is presses of a button that programs may count together.
type series struct {
	button  byte
	at      Point
	presses int
	latest  time.Time
}

// near reports whether presses at p continue the series.
func (s *series) near(button byte, p Point) bool {
	return s.button == button && distance(s.at, p) <= clickRadius
}

// pressedAt records presses of a button at a point.
func (pt *Pointer) pressedAt(button byte, p Point, presses int) {
	if button >= wheelFirst && button <= wheelLast {
		return
	}
	if now := time.Now(); pt.series.near(button, p) && now.Sub(pt.series.latest) < doubleClickTime {
		pt.series.presses, pt.series.latest = pt.series.presses+presses, now
	} else {
		pt.series = series{button, p, presses, now}
	}
}

// UntilSeparate returns how long to wait before presses of a button at a point, so that
// programs count them apart from earlier ones: two clicks are no double click then. A double
// click also waits after a click elsewhere, because widgets of GTK 3 would take it for a
// single one.
func (pt *Pointer) UntilSeparate(button int, p Point, presses int) time.Duration {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	s := &pt.series
	if time.Since(s.latest) > 2*doubleClickMost || presses < 2 && !s.near(byte(button), p) {
		return 0
	}
	limit := pt.doubleClickTime() + clickMargin
	if s.near(byte(button), p) && s.presses > 1 {
		limit *= 2 // GTK counts a triple click from its first press
	}
	return limit - time.Since(s.latest)
}

// doubleClickTime returns the time in which programs count presses together: their own, or a
// longer one of the settings daemon ("XSETTINGS - cross toolkit configuration proposal").
func (pt *Pointer) doubleClickTime() time.Duration {
	owner, property := xproto.Atom(0), xproto.Atom(0)
	if request.Atoms(pt.c.x, map[string]*xproto.Atom{"_XSETTINGS_S0": &owner, "_XSETTINGS_SETTINGS": &property}) != nil {
		return doubleClickTime
	}
	daemon, err := xproto.GetSelectionOwner(pt.c.x, owner).Reply()
	if err != nil || daemon.Owner == 0 {
		return doubleClickTime
	}
	settings, err := request.Property(pt.c.x, daemon.Owner, property, 1<<14).Reply()
	if err != nil {
		return doubleClickTime
	}
	set := time.Duration(xsettingsInteger(settings.Value, "Net/DoubleClickTime")) * time.Millisecond
	return min(max(set, doubleClickTime), doubleClickMost)
}

// xsettingsInteger returns an integer of the XSETTINGS property, or 0.
func xsettingsInteger(b []byte, name string) uint32 {
	if len(b) < 12 {
		return 0
	}
	var order binary.ByteOrder = binary.LittleEndian
	if b[0] != 0 {
		order = binary.BigEndian
	}
	// A setting is its type (0: integer), a byte, the length of its name, the name, padded
	// to four bytes, a serial number, and the value.
	header := make([]byte, 4, 4+len(name)+8)
	order.PutUint16(header[2:], uint16(len(name)))
	i := bytes.Index(b[12:], append(header, name...))
	if i < 0 {
		return 0
	}
	value := 12 + i + 4 + (len(name)+3)&^3 + 4
	if value+4 > len(b) {
		return 0
	}
	return order.Uint32(b[value:])
}
