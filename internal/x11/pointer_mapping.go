package x11

import (
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// mappedPointers are the devices that map the buttons of XTEST: the X server applies the mapping
// of XTEST's pointer, then the mapping of the first pointer.
var mappedPointers = [...]byte{xtestPointer, firstPointer}

// RestoreMapping maps each button and each position to itself again if a program has changed that. It
// reports whether it changed a mapping. The X server refuses to map a button that is down:
// RestoreMapping then releases the buttons that this Pointer does not hold, and tries once more. It
// does nothing while input is being sent.
func (pt *Pointer) RestoreMapping() (restored bool, err error) {
	if !pt.mu.TryLock() {
		return false, nil
	}
	defer pt.mu.Unlock()
	if err := pt.use(); err != nil || pt.xinput(xiGetDeviceButtonMapping) == nil {
		return false, err
	}
	if restored, err = pt.restoreMatrix(); err != nil {
		return restored, err
	}
	var mappings [len(mappedPointers)]*xgb.Cookie
	pt.c.wire.cork()
	for i, id := range mappedPointers {
		mappings[i] = pt.ask(pt.xinput(xiGetDeviceButtonMapping, id, 0, 0, 0))
	}
	if err := pt.c.wire.uncork(); err != nil {
		return restored, request.Wrap("read button mapping", err)
	}
	for i, id := range mappedPointers {
		r, err := mappings[i].Reply()
		if err != nil {
			return restored, request.Wrap("read button mapping", err)
		}
		set := setIdentity(id, r)
		if set == nil {
			continue
		}
		if err := pt.setMapping(set); err != nil {
			return restored, err
		}
		restored = true
	}
	return restored, nil
}

func (pt *Pointer) setMapping(set []byte) error {
	for again := true; ; again = false {
		r, err := pt.ask(pt.xinput(xiSetDeviceButtonMapping, set...)).Reply()
		switch {
		case err != nil:
			return request.Wrap("restore button mapping", err)
		case r[8] == xproto.MappingStatusSuccess:
			return nil
		case !again || r[8] != xproto.MappingStatusBusy:
			return fmt.Errorf("restore button mapping: the X server refuses with status %d: a button is held down", r[8])
		}
		if err := pt.releaseOtherButtons(); err != nil {
			return fmt.Errorf("restore button mapping: %w", err)
		}
	}
}

// setIdentity returns the data of SetDeviceButtonMapping that maps each button of a device to
// itself, or nil if the reply to GetDeviceButtonMapping already does.
func setIdentity(id byte, r []byte) []byte {
	if len(r) < messageHead+int(r[8]) {
		return nil
	}
	set, changed := []byte{id, r[8], 0, 0}, false
	for i, to := range r[messageHead:][:r[8]] {
		set = append(set, byte(i+1))
		changed = changed || to != byte(i+1)
	}
	if !changed {
		return nil
	}
	return append(set, make([]byte, -len(set)&3)...)
}
