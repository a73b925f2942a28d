package desktop

// WindowID is an X window's number.
type WindowID uint32

// Window is a top-level window. Its texts have at most 256 characters and no control
// characters.
type Window struct {
	ID        WindowID `json:"id"`
	Title     string   `json:"title"`
	Class     string   `json:"class,omitempty"`    // second part of WM_CLASS: "XTerm"
	Instance  string   `json:"instance,omitempty"` // first part of WM_CLASS: "xterm"
	PID       int      `json:"pid,omitempty"`      // zero: unknown
	Bounds    Rect     `json:"bounds"`             // the content, without decoration
	Frame     Rect     `json:"frame"`              // with decoration
	Active    bool     `json:"active"`
	Minimised bool     `json:"minimised"`
	Maximised bool     `json:"maximised"`
}

// WindowFilter selects windows. The zero value leaves out windows without a title and
// windows smaller than 120x80, unless they have the focus.
type WindowFilter struct {
	All bool // select every managed window
}

// Launch starts a program on the desktop, without a shell.
type Launch struct {
	App  string   // a name on PATH, or an absolute path
	Args []string // without the name
	Env  []string // added, as "NAME=value"
	Dir  string   // empty: the desktop's HOME
	Wait bool     // wait until its first window is mapped, it and its descendants exit, or 15 s are over
}

// App is a launched program.
type App struct {
	ProcessID string // "proc_7", as in the process list
	PID       int
	Window    WindowID // zero: none, or Launch.Wait is false
	Exited    bool     // it exited before it showed a window
	ExitCode  int      // if Exited; -1: a signal ended it
}
