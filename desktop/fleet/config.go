package fleet

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/webrtc"
)

const (
	// Main is the id of the desktop that every Fleet has.
	Main = "main"

	// IDPattern is the regular expression that ids of desktops match. An id is the
	// name of a folder.
	IDPattern = `^[a-z0-9][a-z0-9_-]{0,62}$`

	// DefaultMaxDesktops is the MaxDesktops of a zero Config.
	DefaultMaxDesktops = 32
)

var idPattern = regexp.MustCompile(IDPattern)

// CheckID returns an *InvalidError if no desktop can have that id.
func CheckID(id string) error {
	if !idPattern.MatchString(id) {
		return &InvalidError{"ID", "must match " + IDPattern + ": lower-case letters, digits, - and _, at most 63"}
	}
	return nil
}

// Config describes a Fleet. The zero value keeps its files in the usual state
// directory, runs *desktop.Desktops as this program's user, and keeps all recordings.
type Config struct {
	// StateDir holds the files of the desktops: Main's directly, and the others' in
	// desktops/ID. One program at a time can use it; see StateDir.Claim.
	// Empty: $XDG_STATE_HOME/deskhand, with the home of Main in
	// $XDG_STATE_HOME/sandbox-agent/desktop/home. For a user without a home,
	// $XDG_STATE_HOME is a temporary directory.
	StateDir string

	// StateName distinguishes this program from others of the same user. If StateDir is
	// empty and another program uses the usual directory, which this one never used, the
	// Fleet uses the folder StateName in it, then and later. Empty: it does not.
	StateName string

	// RecordingsDir holds the recordings: Main's directly, and the others' in
	// desktops/ID. Empty: the folder recordings beside the files of each
	// desktop.
	RecordingsDir string

	// Retention selects the recordings of each desktop that are removed. Zero: none.
	Retention recording.Retention

	// MaxDesktops is the largest number of desktops, including Main and stopped
	// desktops. Zero: 32.
	MaxDesktops int

	// MinMemory is the number of bytes of memory that must be available for a desktop to
	// start. Zero: it starts in any case.
	MinMemory int64

	// IdleStop is the time after which a running desktop is stopped if no caller uses it.
	// These use it: Instance.Use, viewers, recordings in progress, clients of its browser,
	// and InUse. Programs on the desktop do not. Zero: it is not stopped.
	IdleStop time.Duration

	// InUse reports whether a desktop is in use otherwise, for example by agents. It is
	// called a few times in each IdleStop. Nil: it is not.
	InUse func(id string) bool

	// RunAs is the user, by name or number, that the programs of the desktops run as.
	// Empty: this program's user. Another user needs root.
	RunAs string

	// Untrusted names further users, by name or number, whose programs this program
	// runs. Open refuses a StateDir or RecordingsDir that one of them, or RunAs, could
	// replace, and Start a Desktop.StateDir.
	Untrusted []string

	// Media is the network of live views. Zero: UDP port 59050, or a free port if that
	// is in use.
	Media webrtc.NetworkConfig

	// Start runs a desktop. The Fleet has completed the Config. Nil: desktop.Start.
	Start func(ctx context.Context, id string, cfg desktop.Config) (Desktop, error)

	// OnDelete is called with the id of a desktop that is being deleted, when the
	// desktop has stopped and before another one can have its id. Nil: nothing.
	OnDelete func(id string)

	// Logger receives starts, stops and failures. Nil: none.
	Logger *slog.Logger
}

// Desktop is what a Fleet needs of a desktop. A live view also needs webrtc.Desktop,
// and a recording recording.Desktop. A *desktop.Desktop is all three.
type Desktop interface {
	Status() desktop.Status
	Close() error
}

// StartOptions describe a start. The zero value is the zero desktop.Config in the
// Fleet's StateDir, with a live view and recordings of 30 pictures a second.
type StartOptions struct {
	// Desktop describes the desktop. The Fleet replaces ID and RunAs, and chooses
	// StateDir, Home and Logger if they are empty.
	Desktop desktop.Config

	// Stream describes the live view. The Fleet chooses Network and Logger if they are
	// nil.
	Stream webrtc.Config

	// PortMin and PortMax are the UDP ports of a network for the live view of this
	// desktop alone. Zero: the desktops share the network of Config.Media.
	PortMin, PortMax uint16

	// Elements prepares the desktop for Instance.Elements: the accessibility bus runs before
	// Start returns, and programs offer their elements from their start. Without it, the
	// first call of Elements starts the bus, and some programs, such as Chromium and Qt's,
	// offer none. It costs the programs time and memory. Start returns
	// accessibility.ErrUnavailable if at-spi2-core is not installed.
	Elements bool

	// RestartAfterIdle makes Instance.Resume start the desktop again after it was stopped
	// because it was idle.
	RestartAfterIdle bool

	// RecordingFrameRate is the FrameRate of recordings that choose none. Zero: 30.
	RecordingFrameRate int
}

func (c Config) withDefaults() Config {
	c.Untrusted = slices.Clone(c.Untrusted)
	c.MaxDesktops = cmp.Or(c.MaxDesktops, DefaultMaxDesktops)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Start == nil {
		c.Start = startDesktop
	}
	if c.InUse == nil {
		c.InUse = func(string) bool { return false }
	}
	if c.OnDelete == nil {
		c.OnDelete = func(string) {}
	}
	return c
}

func startDesktop(ctx context.Context, _ string, cfg desktop.Config) (Desktop, error) {
	d, err := desktop.Start(ctx, cfg)
	if err != nil {
		return nil, err // d would be a non-nil interface with a nil pointer
	}
	return d, nil
}

func (c Config) validate() error {
	switch {
	case c.MaxDesktops < 0:
		return &InvalidError{"MaxDesktops", fmt.Sprintf("must not be negative, but is %d", c.MaxDesktops)}
	case c.IdleStop < 0:
		return &InvalidError{"IdleStop", fmt.Sprintf("must not be negative, but is %v", c.IdleStop)}
	case c.MinMemory < 0:
		return &InvalidError{"MinMemory", fmt.Sprintf("must not be negative, but is %d", c.MinMemory)}
	case c.StateName != "" && (!filepath.IsLocal(c.StateName) || filepath.Base(c.StateName) != c.StateName || c.StateName == "."):
		return &InvalidError{"StateName", "must be the name of a folder"}
	}
	if err := c.Media.Validate(); err != nil {
		return &InvalidError{"Media", err.Error()}
	}
	return nil
}
