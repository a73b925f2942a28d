package desktops

import (
	"context"
	"testing"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
)

// fakeDesktop is a desktop that only runs.
type fakeDesktop struct{ computer.Desktop }

func (*fakeDesktop) Status() desktop.Status { return desktop.Status{State: desktop.StateActive} }
func (*fakeDesktop) Close() error           { return nil }

// TestMCPServers keeps the server of a desktop's last start alone.
func TestMCPServers(t *testing.T) {
	t.Parallel()
	all, err := fleet.Open(t.Context(), fleet.Config{
		StateDir: t.TempDir(),
		Start:    func(context.Context, string, desktop.Config) (fleet.Desktop, error) { return &fakeDesktop{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	a := &Area{fleet: all, mcp: mcpServers{all: map[string]mcpServer{}}}
	var last *computer.Server
	for range 2 {
		d, err := a.Start(t.Context(), fleet.Main)
		if err != nil {
			t.Fatal(err)
		}
		desk := d.(computer.Desktop)
		made, err := a.mcpServer(fleet.Main, desk)
		if err != nil || made == last {
			t.Fatalf("server %p after %p, error %v", made, last, err)
		}
		if again, err := a.mcpServer(fleet.Main, desk); err != nil || again != made {
			t.Errorf("another server for the same start, error %v", err)
		}
		last = made
		inst, err := all.Find(fleet.Main)
		if err == nil {
			err = inst.Stop(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.mcp.all); n != 1 {
		t.Errorf("%d servers are kept", n)
	}
}
