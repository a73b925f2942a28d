package x11

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xtest"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Requests of the X Input Extension, for which xgb has no package ("X11 Input Extension
// Protocol Specification", "The X Input Extension 2.x").
const (
	inputExtension           = "XInputExtension"
	xiListInputDevices       = 2
	xiGetDeviceButtonMapping = 28
	xiSetDeviceButtonMapping = 29
	xiQueryDeviceState       = 30
	xiChangeDeviceProperty   = 37
	xiGetDeviceProperty      = 39
	xiSetClientPointer       = 44
	xiDeviceInfo             = 8 // bytes
	xiButtonClass            = 1
	xiButtonState            = 36 // bytes
	xiDeviceButtonRelease    = 4  // after the extension's first event

	// The X server numbers the first pointer, the first keyboard and their XTEST devices from 2
	// to 5.
	firstPointer = 2
	xtestPointer = 4
	// maxDevice is the highest device for which XTEST sends input.
	maxDevice = 127
)

// errButtonHeld is returned for a press that the X server drops.
var errButtonHeld = errors.New("no program got the press, because the button is held down on another device: input/release releases it")

// xinput returns a request of the X Input Extension, or nil if the X server lacks it.
func (d *device) xinput(minor byte, data ...byte) []byte {
	d.c.x.ExtLock.RLock()
	defer d.c.x.ExtLock.RUnlock()
	opcode, ok := d.c.x.Extensions[inputExtension]
	if !ok {
		return nil
	}
	return append([]byte{opcode, minor, byte(1 + len(data)/4), 0}, data...)
}

// ask sends a request that has a reply.
func (d *device) ask(b []byte) *xgb.Cookie {
	cookie := d.c.x.NewCookie(true, true)
	d.c.x.NewRequest(b, cookie)
	return cookie
}

// deviceButton is a button of a device.
type deviceButton struct{ device, button byte }

// otherButtons returns the buttons that are down on any device, and that this Pointer does not hold.
// The X server drops presses and releases of a button that another device holds down. The first
// pointer can hold a button that no device holds: one that was released while its device was frozen.
func (pt *Pointer) otherButtons() (down []deviceButton, err error) {
	list := pt.xinput(xiListInputDevices)
	if list == nil {
		return nil, nil
	}
	r, err := pt.ask(list).Reply()
	if err != nil {
		return nil, request.Wrap("list devices", err)
	}
	states := map[byte]*xgb.Cookie{}
	for _, id := range listedDevices(r) {
		states[id] = pt.ask(pt.xinput(xiQueryDeviceState, id, 0, 0, 0))
	}
	for id, state := range states {
		r, err := state.Reply()
		if _, gone := errors.AsType[xgb.Error](err); gone {
			continue
		}
		if err != nil {
			return nil, request.Wrap("read the state of a device", err)
		}
		for _, button := range buttonsDown(r) {
			if !slices.Contains(mappedPointers[:], id) || !slices.Contains(pt.buttons, button) {
				down = append(down, deviceButton{id, button})
			}
		}
	}
	return down, nil
}

// listedDevices returns the devices of a reply to ListInputDevices that otherButtons asks for.
func listedDevices(r []byte) (ids []byte) {
	if len(r) < messageHead {
		return nil
	}
	n := int(r[8])
	for r = r[messageHead:]; n > 0 && len(r) >= xiDeviceInfo; n-- {
		if id := r[4]; id <= maxDevice {
			ids = append(ids, id)
		}
		r = r[xiDeviceInfo:]
	}
	return ids
}

// buttonsDown returns the buttons of a reply to QueryDeviceState that are down.
func buttonsDown(r []byte) (down []byte) {
	if len(r) < messageHead {
		return nil
	}
	for r = r[messageHead:]; len(r) >= 2; {
		class, size := r[0], int(r[1])
		if size < 2 || size > len(r) {
			return nil
		}
		if class == xiButtonClass && size == xiButtonState {
			for b := 1; b < 256; b++ {
				if r[4+b/8]>>(b%8)&1 != 0 {
					down = append(down, byte(b))
				}
			}
		}
		r = r[size:]
	}
	return down
}

// releaseOtherButtons releases the buttons of otherButtons. It returns an error if a device keeps one
// down. The first pointer may keep it a while: see heldElsewhere.
func (pt *Pointer) releaseOtherButtons() error {
	down, err := pt.otherButtons()
	if err != nil || len(down) == 0 {
		return err
	}
	pt.c.wire.cork()
	for _, b := range down {
		xtest.FakeInput(pt.c.x, pt.c.ext.input+xiDeviceButtonRelease, b.button, 0, 0, 0, 0, b.device)
	}
	if err := pt.c.wire.uncork(); err != nil {
		return request.Wrap("release buttons", err)
	}
	down, err = pt.otherButtons()
	for _, b := range down {
		if b.device != firstPointer {
			return fmt.Errorf("release buttons: button %d of device %d is still down", b.button, b.device)
		}
	}
	return err
}
