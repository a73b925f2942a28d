package x11

import (
	"errors"
	"fmt"

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
	xiSetClientPointer       = 44
	xiDeviceInfo             = 8 // bytes
	xiExtensionDevice        = 2 // the lowest use of a device that is neither the pointer nor the keyboard of the core protocol
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

// otherButtons returns the buttons that are down on other devices than XTEST's pointer. The X
// server drops presses and releases of a button that another device holds down.
func (d *device) otherButtons() (down []deviceButton, err error) {
	list := d.xinput(xiListInputDevices)
	if list == nil {
		return nil, nil
	}
	r, err := d.ask(list).Reply()
	if err != nil {
		return nil, request.Wrap("list devices", err)
	}
	states := map[byte]*xgb.Cookie{}
	for _, id := range otherDevices(r) {
		states[id] = d.ask(d.xinput(xiQueryDeviceState, id, 0, 0, 0))
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
			down = append(down, deviceButton{id, button})
		}
	}
	return down, nil
}

// otherDevices returns the devices of a reply to ListInputDevices that otherButtons asks for.
func otherDevices(r []byte) (ids []byte) {
	if len(r) < messageHead {
		return nil
	}
	n := int(r[8])
	for r = r[messageHead:]; n > 0 && len(r) >= xiDeviceInfo; n-- {
		if id, use := r[4], r[6]; use >= xiExtensionDevice && id != xtestPointer && id <= maxDevice {
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

// releaseOtherButtons releases the buttons of otherButtons.
func (d *device) releaseOtherButtons() error {
	down, err := d.otherButtons()
	if err != nil || len(down) == 0 {
		return err
	}
	d.c.wire.cork()
	for _, b := range down {
		xtest.FakeInput(d.c.x, d.c.ext.input+xiDeviceButtonRelease, b.button, 0, 0, 0, 0, b.device)
	}
	if err := d.c.wire.uncork(); err != nil {
		return request.Wrap("release buttons", err)
	}
	if down, err = d.otherButtons(); len(down) > 0 {
		return fmt.Errorf("release buttons: button %d of device %d is still down", down[0].button, down[0].device)
	}
	return err
}
