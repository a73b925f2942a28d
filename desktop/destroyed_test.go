package desktop_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// destroyWindows destroys the windows of all X clients, as any program on the display can (X11
// protocol, sections 8 and 9).
func destroyWindows(t *testing.T, display, authority string) {
	t.Helper()
	file, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", "/tmp/.X11-unix/X"+strings.TrimPrefix(display, ":"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const name = "MIT-MAGIC-COOKIE-1"
	setup := append([]byte{'l', 0, 11, 0, 0, 0, byte(len(name)), 0, 16, 0, 0, 0}, name+"\x00\x00"...)
	if _, err := conn.Write(append(setup, file[len(file)-16:]...)); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 8)
	if _, err := io.ReadFull(conn, head); err != nil || head[0] != 1 {
		t.Fatalf("answer of the X server: %v, %v", head, err)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for client := range uint32(32) {
		for n := range uint32(400) {
			request := binary.LittleEndian.AppendUint32([]byte{4, 0, 2, 0}, client<<21|n)
			if _, err := conn.Write(request); err != nil {
				return // the X server has been replaced
			}
		}
	}
}

// TestDestroyedWindows: a program destroys the windows with which the desktop follows selections.
// The desktop restarts and reports it, and screenshots, the clipboard and a feed continue.
func TestDestroyedWindows(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	feed := d.Feed()
	defer feed.Close()
	if _, err := feed.Next(ctx); err != nil {
		t.Fatal(err)
	}
	events := d.Subscribe(0)
	defer events.Close()
	defer context.AfterFunc(ctx, func() { events.Close() })()
	destroyWindows(t, d.Status().Display, d.Status().Authority)
	restarted := false
	for e := range events.Events() {
		if restarted = e.Type == desktop.EventRestarted; restarted {
			break
		}
	}
	if !restarted {
		t.Fatal("the desktop did not restart")
	}
	for reset := false; !reset; {
		frame, err := feed.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		reset = frame.Reset
	}
	if _, err := d.Screenshot(ctx, desktop.ScreenshotOptions{}); err != nil {
		t.Error(err)
	}
	if err := d.SetClipboard(ctx, desktop.Content{Data: []byte("new")}); err != nil {
		t.Error(err)
	}
}
