package desktop

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"
)

// Defaults that a zero Config stands for.
const (
	DefaultWidth  = 1440
	DefaultHeight = 900
	DefaultDPI    = 96
	// MaxWidth and MaxHeight bound every desktop, which also has at most 1<<26 pixels.
	// An X screen's sizes are 16-bit signed numbers (X11 protocol, section 8,
	// "Connection Setup").
	MaxWidth  = 16384
	MaxHeight = 16384
)

// LogName is the name of the log in a desktop's StateDir.
const LogName = "desktop-runtime.log"

// EnvPolicy selects the environment variables of this program that the desktop's programs
// get.
type EnvPolicy int

const (
	// EnvInherit selects all variables except Config.Secrets and variables of another
	// display or session.
	EnvInherit EnvPolicy = iota
	// EnvClean selects only PATH, LANG, LC_*, TZ, TERM and USER.
	EnvClean
)

// Config describes a desktop. The zero value is a 1440x900 desktop at 96 dpi
// on a display number that the X server chooses, with everything it writes in
// a temporary directory that Close removes.
type Config struct {
	// ID names the desktop in events and logs. Empty: "main".
	ID string

	// Size is the screen's first size in pixels. Zero: 1440x900.
	Size Size

	// MaxSize is the largest size that Resize may choose. Zero: 3840x2160,
	// or Size in a direction where that is larger. It costs four bytes of the
	// X server's memory per pixel.
	MaxSize Size

	// DPI is the screen's resolution in dots per inch. Zero: 96.
	DPI int

	// Display is the first display number to try. The desktop gets the first free one.
	// Zero: the X server chooses.
	Display int

	// StateDir holds the X authority file, the log, and a record of the processes, by
	// which the next Start can end them if this program is killed. One desktop at a time
	// may use it. Empty: a temporary directory, which Close removes or, if this program is
	// killed, the next Start with an empty StateDir.
	StateDir string

	// Home is the HOME of the desktop's programs. openbox reads
	// .config/openbox/rc.xml, menu.xml and autostart in it. Empty: "home" in
	// StateDir or, with RunAs, in a temporary directory that Close removes.
	Home string

	// RunAs is the user, by name or number, that the X server and all programs of
	// the desktop run as. Their files are in a temporary directory that this user
	// can enter; Home is made with the user's rights. Empty: the user of this
	// program. Another user needs root. Attach refuses RunAs.
	RunAs string

	// ProgramMenu adds Terminal and Browser to the menu that a right click on the
	// empty desktop opens, unless Home has a menu.xml of its own. Without it, no
	// menu and no key of the window manager starts a program.
	ProgramMenu bool

	// LogPath receives the output of the X server, the window manager, D-Bus
	// and PulseAudio. Empty: "desktop-runtime.log" in StateDir.
	LogPath string

	// EnvPolicy selects the environment variables of this program that the desktop's
	// programs get. Zero: EnvInherit.
	EnvPolicy EnvPolicy

	// Secrets names environment variables that are never passed on.
	Secrets []string

	// SecretValue returns the value of the secret with that name, for Type.SecretName and
	// browser.Fill. It must not block. Nil: there are no secrets. See package
	// desktop/secrets.
	SecretValue func(name string) (value string, ok bool)

	// Env is added to the environment of the desktop's programs, as
	// "NAME=value".
	Env []string

	// BrowserArgs is added to the arguments of Chromium and Chrome on this desktop, however
	// they are started. Each must match ^--[A-Za-z0-9=.,:/_-]+$.
	BrowserArgs []string

	// ShareAuthority adds the display's cookie to this user's X authority file
	// ($XAUTHORITY or ~/.Xauthority) until Close, so that programs started
	// elsewhere reach the display with DISPLAY alone.
	ShareAuthority bool

	// Background is the colour of the empty desktop, 0xRRGGBB. Zero: 0x2e3440.
	Background uint32

	// ControlIdle is how long an actor keeps control without sending input or taking
	// control again. Zero: a minute.
	ControlIdle time.Duration

	// NoQuiesce lets API callers and agents send input, and read the clipboard, before
	// programs have handled the previous input. Input of viewers never waits for that.
	// NoQuiesce is for callers that wait themselves, for example for screenshots: input
	// that is too early goes to the window, menu or field that is there at that time.
	// Keys wait for the window manager in any case.
	NoQuiesce bool

	// Policy is called before every input. If it returns an error, the input is not
	// sent and the caller gets the error. It must not call the Desktop, because no
	// other input can run meanwhile. Nil: everything is allowed.
	Policy func(context.Context, Action) error

	// Observe is called at the end of each input, screenshot and wait for the screen, with
	// the context of the call. It must not block. Nil: nothing.
	Observe func(ctx context.Context, o Observed)

	// Logger receives failures, restarts, panics and debug messages. Nil: nothing is logged.
	Logger *slog.Logger
}

// Size is a width and a height in pixels.
type Size struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}

// Point is a position in pixels; (0,0) is the top left corner.
type Point struct {
	X int `json:"x"`
	Y int `json:"y"`
}

// Rect is a rectangle in pixels.
type Rect struct {
	X      int `json:"x"`
	Y      int `json:"y"`
	Width  int `json:"width"`
	Height int `json:"height"`
}

// State is the state of a desktop.
type State string

// The states of a desktop.
const (
	StateStarting State = "starting" // the X server or the window manager is not ready yet
	StateActive   State = "active"   // every part works; PulseAudio does not count
	StateFailed   State = "failed"   // a part died and is being restarted; see LastError
	StateStopping State = "stopping" // Close is under way
	StateInactive State = "inactive" // closed
)

// Status describes a desktop at one moment.
type Status struct {
	ID        string
	State     State
	Display   string // as in DISPLAY: ":99"
	Authority string // path of the X authority file
	Home      string
	Size      Size
	DPI       int
	StartedAt time.Time // of the present X server
	Restarts  int       // how often a part was restarted, or the keyboard restored; without PulseAudio
	LastError *Failure  // the latest failure; nil: none
	Processes []Process
	LogPath   string
	Sound     SoundStatus

	Host bool // the desktop of a person's own session, not one for programs
}

// Failure is the failure of a part of a desktop.
type Failure struct {
	// Code is "xserver_exited", "xserver_hung", "window_manager_exited", "window_manager_hung", "keyboard_broken",
	// "dbus_exited", "pulseaudio_exited" or "start_failed".
	Code    string
	Message string
	At      time.Time
}

// Process is one of the programs that make up a desktop or run on it.
type Process struct {
	ID      string // "proc_1"
	Name    string // "Xvfb", "openbox", "dbus", or the launched program's name
	PID     int
	Running bool
	LogPath string

	Launched bool // it runs on the desktop and is not a part of it
}

func (c Config) withDefaults() Config {
	c.ID = cmp.Or(c.ID, "main")
	c.ControlIdle = cmp.Or(c.ControlIdle, DefaultControlIdle)
	c.Size = Size{cmp.Or(c.Size.Width, DefaultWidth), cmp.Or(c.Size.Height, DefaultHeight)}
	c.MaxSize = Size{cmp.Or(c.MaxSize.Width, max(3840, c.Size.Width)), cmp.Or(c.MaxSize.Height, max(2160, c.Size.Height))}
	c.DPI = cmp.Or(c.DPI, DefaultDPI)
	c.Background = cmp.Or(c.Background, 0x2e3440)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Env, c.Secrets, c.BrowserArgs = slices.Clone(c.Env), slices.Clone(c.Secrets), slices.Clone(c.BrowserArgs)
	return c
}

func (c Config) validate() error {
	if err := checkSize("Size", c.Size, Size{MaxWidth, MaxHeight}); err != nil {
		return err
	}
	if err := checkSize("MaxSize", c.MaxSize, Size{MaxWidth, MaxHeight}); err != nil {
		return err
	}
	switch {
	case c.Size.Width > c.MaxSize.Width || c.Size.Height > c.MaxSize.Height:
		return &InvalidError{"Size", "must not be larger than maxSize"}
	case c.DPI < 0 || c.DPI > 1000:
		return &InvalidError{"DPI", "must be between 1 and 1000"}
	case c.Display < 0 || c.Display > maxDisplay:
		return &InvalidError{"Display", fmt.Sprintf("must be between 1 and %d, or 0 to let the X server choose", maxDisplay)}
	case c.Background > 0xffffff:
		return &InvalidError{"Background", "must be a colour 0xRRGGBB"}
	case slices.ContainsFunc(c.BrowserArgs, func(arg string) bool { return !browserArg.MatchString(arg) }):
		return &InvalidError{"BrowserArgs", "must match " + browserArg.String()}
	}
	return nil
}

// browserArg matches arguments that need no quotes in scripts and desktop entries.
var browserArg = regexp.MustCompile(`^--[A-Za-z0-9=.,:/_-]+$`)

func checkSize(field string, s, most Size) error {
	if s.Width <= 0 || s.Height <= 0 {
		return &InvalidError{field, "width and height must be greater than 0"}
	}
	if s.Width > most.Width || s.Height > most.Height {
		return &InvalidError{field, fmt.Sprintf("must be at most %dx%d", most.Width, most.Height)}
	}
	if s.Width*s.Height > maxPixels {
		return &InvalidError{field, fmt.Sprintf("must have at most %d pixels", maxPixels)}
	}
	return nil
}

const (
	// maxDisplay is the largest display number: 6000+number is the port of X over TCP.
	maxDisplay = 59535
	// maxPixels is 8192x8192: 256 MiB per frame.
	maxPixels = 1 << 26
)

// Operation is a kind of [Observed].
type Operation string

// The operations.
const (
	OperationInput      Operation = "input"      // from the call to the end of the input, with the wait for its turn
	OperationScreenshot Operation = "screenshot" // the capture and its encoding, after the wait for the screen
	OperationSettle     Operation = "settle"     // the wait for the screen
)

// Observed is an operation that has ended.
type Observed struct {
	Operation Operation
	Action    ActionName // of an input
	Began     time.Time
	Err       error
}

// observe calls Config.Observe.
func (l *lifecycle) observe(ctx context.Context, o Observed) {
	if l.cfg.Observe != nil {
		l.cfg.Observe(ctx, o)
	}
}
