package browser

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/deskhand/deskhand/desktop"
)

// Errors that a caller may branch on, with errors.Is.
var (
	// ErrNotInstalled is returned by Start if there is no Chromium and no Chrome.
	ErrNotInstalled = errors.New("no Chromium and no Chrome is installed")

	// ErrEnded is returned once the browser has ended.
	ErrEnded = errors.New("the browser has ended")

	// ErrInvalid is wrapped by *InvalidError.
	ErrInvalid = errors.New("invalid argument")

	// ErrProfileInUse is wrapped by *ProfileError.
	ErrProfileInUse = errors.New("the profile is in use")
)

// InvalidError names an argument that was refused. It wraps ErrInvalid.
type InvalidError struct {
	Field  string // as in the Go struct
	Reason string // what would be accepted
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap returns ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// ProfileError says which process uses a profile. It wraps ErrProfileInUse.
type ProfileError struct {
	Profile string
	Host    string // the machine; empty: this one
	PID     int
	Lock    string // the path of the lock
}

func (e *ProfileError) Error() string {
	if e.Host != "" {
		return fmt.Sprintf("the profile %s is locked by process %d on the machine %s; remove %s if no browser runs there", e.Profile, e.PID, e.Host, e.Lock)
	}
	return fmt.Sprintf("the profile %s is in use by process %d; end that browser or choose another profile", e.Profile, e.PID)
}

// Unwrap returns ErrProfileInUse.
func (e *ProfileError) Unwrap() error { return ErrProfileInUse }

// DialogPolicy is what happens to a page's dialog that no client of the DevTools protocol
// answers.
type DialogPolicy string

// The policies.
const (
	DialogDismiss DialogPolicy = "dismiss" // the default
	DialogAccept  DialogPolicy = "accept"
	DialogLeave   DialogPolicy = "leave" // until Browser.AnswerDialog, or a person, answers it
)

// DefaultProfile is the name of the profile of a zero Config.
const DefaultProfile = "default"

// Config describes a browser. Only Desktop is required.
type Config struct {
	// Desktop is the desktop that shows the browser.
	Desktop *desktop.Desktop

	// Program is the browser's name on PATH, or its path. Empty: the first that is installed
	// of chromium, chromium-browser, google-chrome and google-chrome-stable.
	Program string

	// Profile is the name of the profile, which is kept in .config/deskhand/browser of the
	// desktop's home: 1 to 64 letters, digits, dots, underscores and hyphens. Empty: "default".
	Profile string

	// URL is the first page. Empty: an empty page.
	URL string

	// Args are further arguments of the browser. They must not choose another way to debug
	// it, or another profile.
	Args []string

	// Headless shows no window.
	Headless bool

	// UserAgent replaces the browser's. Empty: it does not.
	UserAgent string

	// Proxy is a proxy, as Chromium's --proxy-server takes it: "http://host:3128". Empty:
	// the system's.
	Proxy string

	// Viewport is the size of pages. Zero: the browser chooses.
	Viewport desktop.Size

	// Dialogs is what happens to pages' dialogs. Empty: DialogDismiss.
	Dialogs DialogPolicy

	// UploadDirs are the directories below which Upload takes files, in addition to the desktop's
	// home.
	UploadDirs []string

	// NextRef returns the number of the next reference to an element. Nil: the Browser
	// counts from 1.
	NextRef func() int

	// Logger receives debug messages. Nil: none.
	Logger *slog.Logger
}

var profileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// reserved are the arguments that Start sets, or that would open another way to debug the
// browser.
var reserved = []string{
	"remote-debugging-port", "remote-debugging-address", "remote-debugging-pipe", "remote-debugging-io-pipes", "remote-debugging-socket-name",
	"remote-allow-origins", "remote-debugging-targets", "user-data-dir", "silent-debugger-extension-api", "enable-unsafe-extension-debugging",
	"renderer-cmd-prefix", "utility-cmd-prefix", "gpu-launcher", "browser-subprocess-path",
}

func (c Config) withDefaults() Config {
	c.Profile = cmp.Or(c.Profile, DefaultProfile)
	c.Dialogs = cmp.Or(c.Dialogs, DialogDismiss)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Args, c.UploadDirs = slices.Clone(c.Args), slices.Clone(c.UploadDirs)
	return c
}

func (c Config) validate() error {
	for _, arg := range c.Args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "--") || arg == "--":
			return &InvalidError{"Args", fmt.Sprintf("must begin with --, unlike %q", arg)}
		case slices.Contains(reserved, strings.ToLower(name)):
			return &InvalidError{"Args", "must not have --" + name}
		}
	}
	switch {
	case !profileName.MatchString(c.Profile):
		return &InvalidError{"Profile", "must have 1 to 64 letters, digits, dots, underscores or hyphens, and begin with a letter or a digit"}
	case c.Dialogs != DialogDismiss && c.Dialogs != DialogAccept && c.Dialogs != DialogLeave:
		return &InvalidError{"Dialogs", "must be dismiss, accept or leave"}
	case c.Viewport != desktop.Size{} && (c.Viewport.Width < 100 || c.Viewport.Height < 100 || c.Viewport.Width > desktop.MaxWidth || c.Viewport.Height > desktop.MaxHeight):
		return &InvalidError{"Viewport", "must be between 100x100 and " + strconv.Itoa(desktop.MaxWidth) + "x" + strconv.Itoa(desktop.MaxHeight)}
	}
	if c.URL != "" {
		return checkURL("URL", c.URL)
	}
	return nil
}

// checkURL accepts absolute URLs.
func checkURL(field, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "":
		return &InvalidError{field, "must be an absolute URL, such as https://example.com"}
	case strings.EqualFold(u.Scheme, "javascript"):
		return &InvalidError{field, "must not be a script; evaluate it"}
	case len(text) > 2<<20:
		return &InvalidError{field, "must be at most 2 MiB"}
	}
	return nil
}

// args returns the arguments of the browser.
func (c Config) args(profile string) []string {
	args := []string{
		"--remote-debugging-pipe", "--user-data-dir=" + profile,
		"--no-first-run", "--no-default-browser-check", "--hide-crash-restore-bubble",
		"--password-store=basic", "--disable-features=Translate",
	}
	if c.Headless {
		args = append(args, "--headless=new")
	}
	if c.UserAgent != "" {
		args = append(args, "--user-agent="+c.UserAgent)
	}
	if c.Proxy != "" {
		args = append(args, "--proxy-server="+c.Proxy)
	}
	if c.Viewport != (desktop.Size{}) {
		args = append(args, fmt.Sprintf("--window-size=%d,%d", c.Viewport.Width, c.Viewport.Height))
	}
	return append(append(args, c.Args...), "about:blank")
}
