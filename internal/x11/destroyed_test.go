package x11_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/damage"
	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
	"github.com/deskhand/deskhand/internal/x11/request"
)

// TestDestroyedByAnother: any client can destroy the resources of another. The connection ends
// with the next request that needs one, or when the clipboard's window is destroyed, so that its owner
// makes another connection.
func TestDestroyedByAnother(t *testing.T) {
	t.Parallel()
	for name, destroy := range map[string]func(x *xgb.Conn, id uint32){
		"segment": func(x *xgb.Conn, id uint32) { shm.Detach(x, shm.Seg(id)) },
		"region":  func(x *xgb.Conn, id uint32) { xfixes.DestroyRegion(x, xfixes.Region(id)) },
		"damage":  func(x *xgb.Conn, id uint32) { damage.Destroy(x, damage.Damage(id)) },
		"window":  func(x *xgb.Conn, id uint32) { xproto.DestroyWindow(x, xproto.Window(id)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testx11.Start(t, 320, 200)
			c := s.Dial(t)
			cp, err := c.NewCapture()
			if err != nil {
				t.Fatal(err)
			}
			defer cp.Close()
			cb, err := c.NewClipboard()
			if err != nil {
				t.Fatal(err)
			}
			defer cb.Close()
			look := func() error {
				frame, err := cp.Frame(t.Context())
				if err == nil {
					frame.Release()
				}
				return err
			}
			if err := look(); err != nil {
				t.Fatal(err)
			}
			victim, _ := c.Raw()
			other := s.Dial(t)
			x, _ := other.Raw()
			for i := range uint32(64) {
				destroy(x, xproto.Setup(victim).ResourceIdBase+i)
			}
			if err := other.Sync(); err != nil {
				t.Fatal(err)
			}
			if err := other.FillRoot(0xcc0000); err != nil {
				t.Fatal(err)
			}
			err = look()
			if name != "window" && !errors.Is(err, x11.ErrConnClosed) {
				t.Errorf("the next frame: %v, want %v", err, x11.ErrConnClosed)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			select {
			case <-c.Done():
			case <-ctx.Done():
				t.Error("the connection goes on")
			}
			if err := other.Sync(); err != nil {
				t.Errorf("the other connection: %v", err)
			}
		})
	}
}

// TestOwnWindowNamed: a program names a window of the connection's range, which does not exist, in
// properties of the root window. The connection continues.
func TestOwnWindowNamed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"_NET_CLIENT_LIST", "_NET_ACTIVE_WINDOW", "_NET_SUPPORTING_WM_CHECK"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testx11.Start(t, 320, 200)
			c, p := s.Dial(t), newPeer(t, s)
			w, err := c.NewWindows()
			if err != nil {
				t.Fatal(err)
			}
			x, root := c.Raw()
			setup := xproto.Setup(x)
			p.putOn(root, "_NET_SUPPORTED", "ATOM", uint32(p.atom("_NET_REQUEST_FRAME_EXTENTS")))
			p.putOn(root, name, "WINDOW", setup.ResourceIdBase|setup.ResourceIdMask)
			if infos, err := w.List(t.Context()); err != nil || len(infos) > 0 {
				t.Errorf("List() = %v, %v", infos, err)
			}
			if _, err := w.Active(); !errors.Is(err, x11.ErrNoWindow) {
				t.Errorf("Active() = %v, want %v", err, x11.ErrNoWindow)
			}
			if ok, err := w.Responds(t.Context(), time.Minute); err != nil || !ok {
				t.Errorf("Responds() = %t, %v, as if there were a window manager", ok, err)
			}
			if err := c.Sync(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestStackWithoutOwnWindows: hidden windows of the connection that are destroyed meanwhile do not end
// the connection.
func TestStackWithoutOwnWindows(t *testing.T) {
	t.Parallel()
	c := testx11.Start(t, 320, 200).Dial(t)
	w, err := c.NewWindows()
	if err != nil {
		t.Fatal(err)
	}
	x, root := c.Raw()
	over := make(chan struct{})
	var hidden sync.WaitGroup
	hidden.Go(func() {
		for {
			win, err := request.HiddenWindow(x, root, 0)
			if err != nil {
				t.Error(err)
				return
			}
			xproto.DestroyWindow(x, win)
			select {
			case <-over:
				return
			default:
			}
		}
	})
	defer hidden.Wait()
	defer close(over)
	for range 2000 {
		if _, err := w.Stack(); err != nil {
			t.Fatal(err)
		}
	}
}
