package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/deskhand/deskhand/internal/supervise"
)

// maxArgument is how long one argument may be with its final NUL
// (MAX_ARG_STRLEN, execve(2)).
const maxArgument = 128 << 10

// The default size of a terminal.
const (
	defaultCols = 80
	defaultRows = 24
)

// Spec describes a program to start.
type Spec struct {
	// Command is the program. A name without a slash is looked up in the PATH of its
	// environment. A relative path is relative to Dir.
	Command string

	// Args are the arguments, without the program's name.
	Args []string

	// Dir is the working directory. Empty: with User, the user's home, or the root
	// directory if there is no such home; else this program's working directory.
	Dir string

	// Env is added to the environment. A name must not be empty, or hold "=" or NUL.
	// A value must not hold NUL.
	Env map[string]string

	// Environ, if not nil, replaces Config.Environ as the environment to add to.
	Environ []string

	// Terminal gives the program a new terminal as standard input, output and error,
	// and sets TERM to xterm-256color unless Env has it.
	Terminal bool

	// Cols and Rows are the terminal's size at the start. Zero: 80 and 24.
	Cols, Rows uint16

	// Interactive is reported in Info. It has no other effect.
	Interactive bool

	// User is the user to run as: a name, or a number of a user that the system
	// knows. HOME, USER, LOGNAME, SHELL and the groups are set for the user. Only
	// root may name another user. Empty: this program's user.
	User string

	// Owner is reported in Info. Processes of OwnerSystem do not count towards
	// Limits.MaxProcesses. Empty: OwnerUser.
	Owner Owner
}

// check returns the Spec with defaults, or an InvalidError.
func (s Spec) check() (Spec, error) {
	if strings.TrimSpace(s.Command) == "" {
		return s, &InvalidError{Field: "Command", Reason: "must not be empty"}
	}
	switch s.Owner {
	case "":
		s.Owner = OwnerUser
	case OwnerUser, OwnerSystem:
	default:
		return s, &InvalidError{Field: "Owner", Reason: "must be user or system"}
	}
	for name, value := range s.Env {
		if reason := checkVariable(name, value); reason != "" {
			return s, &InvalidError{Field: "Env", Reason: reason}
		}
	}
	if s.Cols == 0 {
		s.Cols = defaultCols
	}
	if s.Rows == 0 {
		s.Rows = defaultRows
	}
	s.Args = slices.Clone(s.Args)
	return s, nil
}

// checkVariable returns why an environment variable is not valid, or "".
func checkVariable(name, value string) string {
	switch {
	case name == "":
		return "has a variable without a name"
	case strings.ContainsAny(name, "=\x00"):
		return fmt.Sprintf("has the variable %.40q, whose name holds = or NUL", name)
	case strings.Contains(value, "\x00"):
		return fmt.Sprintf("has the variable %.40q, whose value holds NUL", name)
	}
	return ""
}

// prepare translates a checked Spec, except for the streams.
func (m *Manager) prepare(s Spec) (supervise.Spec, error) {
	if err := s.checkText(); err != nil {
		return supervise.Spec{}, &StartError{Command: s.Command, Err: err}
	}
	sup := supervise.Spec{Path: s.Command, Args: s.Args, Dir: s.Dir}
	account, err := lookupAccount(s.User)
	if err != nil {
		return supervise.Spec{}, err
	}
	if account != nil {
		sup.Credential = account.credential
		if s.Dir == "" {
			sup.Dir = account.directory()
		}
	}
	base := s.Environ
	if base == nil {
		base = m.cfg.Environ
	}
	if base == nil {
		base = supervise.Inherit(false)
	}
	sup.Env = base
	if set := s.variables(sup.Dir, account); len(set) > 0 || s.Environ != nil {
		sup.Env = supervise.Environ(base, set...)
	}
	return sup, nil
}

// variables returns the changes to a process's base environment, as entries for
// supervise.Environ.
func (s Spec) variables(dir string, account *account) []string {
	set := make([]string, 0, len(s.Env)+8)
	if filepath.IsAbs(dir) {
		set = append(set, "PWD="+dir)
	}
	if account != nil {
		set = append(set, account.variables()...)
	}
	if s.Terminal {
		// LINES and COLUMNS would be the size of this program's terminal.
		set = append(set, "TERM=xterm-256color", "LINES", "COLUMNS")
	}
	given := len(set)
	for name, value := range s.Env {
		set = append(set, name+"="+value)
	}
	slices.Sort(set[given:])
	return set
}

// checkText returns an error where the system's error would not name the reason.
func (s Spec) checkText() error {
	for _, t := range append([]string{s.Command, s.Dir}, s.Args...) {
		if strings.Contains(t, "\x00") {
			return fmt.Errorf("command, directory or argument holds a NUL byte: %w", syscall.EINVAL)
		}
		if len(t) >= maxArgument {
			return fmt.Errorf("an argument of %d bytes is longer than the system's limit of %d: %w", len(t), maxArgument-1, syscall.E2BIG)
		}
	}
	return nil
}

// startError translates an error of supervise, or of opening pipes and terminals.
func startError(command string, err error) error {
	switch {
	case errors.Is(err, supervise.ErrClosed):
		return ErrClosed
	case errors.Is(err, supervise.ErrNotFound) && strings.Contains(command, "/"):
		err = fmt.Errorf("program not found: %w", syscall.ENOENT)
	case errors.Is(err, supervise.ErrNotFound):
		err = fmt.Errorf("program not found in any directory of PATH: %w", syscall.ENOENT)
	default:
		if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "start ") {
			err = inner // without a second "start"
		}
		err = explainExec(err)
	}
	return &StartError{Command: command, Err: err}
}

// explainExec explains errors of execve(2) that are not about the program itself,
// which was found before.
func explainExec(err error) error {
	var exec *os.PathError
	if !errors.As(err, &exec) || exec.Op != "fork/exec" {
		return err
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("its interpreter or loader is missing: %w", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("the program, its interpreter or the working directory is closed to the user: %w", err)
	}
	return err
}
