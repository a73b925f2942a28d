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

// The size of a terminal of which none is told.
const (
	defaultCols = 80
	defaultRows = 24
)

// Spec says what to start.
type Spec struct {
	// Command is the program. Without a slash it is searched in the PATH of its
	// environment; with one, and relative, it is relative to Dir.
	Command string

	// Args are the arguments, without the program's name.
	Args []string

	// Dir is the working directory. Empty: the user's home when User is given, or
	// the root directory if there is no such home; else that of this program.
	Dir string

	// Env is added to the environment. A name must not be empty and neither
	// hold "=" nor NUL; a value must not hold NUL.
	Env map[string]string

	// Environ replaces Config.Environ as the environment to add to. Nil: it
	// does not.
	Environ []string

	// Terminal gives the program a terminal of its own as standard input,
	// output and error, and sets TERM to xterm-256color unless Env has it.
	Terminal bool

	// Cols and Rows are the terminal's size at the start. Zero: 80 and 24.
	Cols, Rows uint16

	// Interactive is told in Info. The input can be written to without.
	Interactive bool

	// User is who to run as: a name or a user id in the system's list. HOME,
	// USER, LOGNAME and SHELL are set to what the list says, and the groups to
	// the user's. Only root may name another user. Empty: who this program is.
	User string

	// Owner is told in Info. Processes of OwnerSystem do not count towards
	// Limits.MaxProcesses. Empty: OwnerUser.
	Owner Owner
}

// check returns the Spec with defaults, or an InvalidError.
func (s Spec) check() (Spec, error) {
	if strings.TrimSpace(s.Command) == "" {
		return s, &InvalidError{Field: "command", Problem: "must not be empty"}
	}
	switch s.Owner {
	case "":
		s.Owner = OwnerUser
	case OwnerUser, OwnerSystem:
	default:
		return s, &InvalidError{Field: "owner", Problem: "must be user or system"}
	}
	for name, value := range s.Env {
		if problem := envProblem(name, value); problem != "" {
			return s, &InvalidError{Field: "env", Problem: problem}
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

func envProblem(name, value string) string {
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

// prepare translates a checked Spec, but for the streams.
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

// variables are what a process gets beside its base, as entries for
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
		// The size of this program's terminal, if it has one, is not that of the
		// new one.
		set = append(set, "TERM=xterm-256color", "LINES", "COLUMNS")
	}
	given := len(set)
	for name, value := range s.Env {
		set = append(set, name+"="+value)
	}
	slices.Sort(set[given:])
	return set
}

// checkText refuses what the system would refuse without saying why.
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

// startError translates what supervise or the making of pipes and terminals
// returned.
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
			err = inner // which says "start" once
		}
		err = explainExec(err)
	}
	return &StartError{Command: command, Err: err}
}

// explainExec adds what execve(2) means by an error whose text misleads: the
// program itself was found before.
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
