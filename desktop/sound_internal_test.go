package desktop

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestCloseWithBlockingSocket makes the socket of the sound blocking, which every process that
// has a copy can do. The desktop still ends.
func TestCloseWithBlockingSocket(t *testing.T) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "sh")
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "pulseaudio"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	d, err := Start(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	shared, err := d.sound.copySocket()
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	fd := int(shared.Fd()) // makes it blocking
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	caller, err := net.Dial("unix", d.soundSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	for range time.Tick(time.Millisecond) {
		if d.sound.status().Running {
			break
		}
	}
	for flags := 0; flags&unix.O_NONBLOCK == 0; { // until start has returned
		if flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	d.sound.mu.Lock()
	child := d.sound.child
	d.sound.mu.Unlock()
	if err := unix.Kill(child.Info().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := caller.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the caller was not rejected: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the desktop did not end")
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
		<-closed
	}
}

// TestSoundConfig: the desktop's user cannot change the configuration of PulseAudio, which
// could name a folder of modules.
func TestSoundConfig(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "pulseaudio")
	if os.Geteuid() != 0 {
		t.Skip("only root may run programs as another user")
	}
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	d, err := Start(t.Context(), Config{RunAs: u.Name, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.sound.start(); err != nil {
		t.Fatal(err)
	}
	path := lookup(d.sound.environ(), "PULSE_CONFIG")
	if err := u.Do(func() error {
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), "flat-volumes = no") {
			err = errors.New(string(text))
		}
		return err
	}); err != nil {
		t.Errorf("PulseAudio cannot read its configuration: %v", err)
	}
	for _, change := range []func() error{
		func() error { return os.WriteFile(path, nil, 0o600) },
		func() error { return os.Remove(path) },
		func() error { return os.Mkdir(path+".d", 0o700) },
	} {
		if u.Do(change) == nil {
			t.Error("the user can change it")
		}
	}
}
