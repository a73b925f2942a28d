package desktop

// WindowID is an X window's number.
type WindowID uint32

// Window is a top-level window. Its texts have at most 256 characters, without control
// characters.
type Window struct {
	ID        WindowID `json:"id"`
	Title     string   `json:"title"`
	Class     string   `json:"class,omitempty"`    // second part of WM_CLASS: "XTerm"
	Instance  string   `json:"instance,omitempty"` // first part of WM_CLASS: "xterm"
	PID       int      `json:"pid,omitempty"`      // zero when the window does not tell
	Bounds    Rect     `json:"bounds"`             // the content, without decoration
	Frame     Rect     `json:"frame"`              // with decoration
	Active    bool     `json:"active"`
	Minimised bool     `json:"minimised"`
	Maximised bool     `json:"maximised"`
}

// WindowFilter chooses windows. The zero value leaves out what a person would
// not call a window: those without a title and those smaller than 120x80,
// unless focused.
type WindowFilter struct {
	All bool // every managed window
}

// Launch starts a program on the desktop. Nothing is passed through a shell.
type Launch struct {
	App  string   // a name on PATH, or an absolute path
	Args []string // without the name
	Env  []string // added, as "NAME=value"
	Dir  string   // empty: the desktop's HOME
	Wait bool     // until its first window is mapped, it exits, or 15 s are over
}

// App is a launched program.
type App struct {
	ProcessID string // "proc_7", as in the process list
	PID       int
	Window    WindowID // zero when there is none, or Wait was not asked for
	Exited    bool     // it ended before it showed a window
	ExitCode  int      // when Exited; -1 when a signal ended it
}
