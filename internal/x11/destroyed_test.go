package x11_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/damage"
	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
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
