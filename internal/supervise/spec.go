package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// GroupVariable is the environment variable that names the group of a process: the
// group's token and the child's number, "<token>.<number>". A program that is itself a
// child of a group appends its own after a comma.
const GroupVariable = "DESKHAND_GROUP"

// Spec describes a child to start.
type Spec struct {
	// Name is the child's name in errors, logs and lists. Empty: the last element of
	// Path.
	Name string

	// Path is the program. A name without a slash is looked up in the PATH of Env. A
	// relative path is relative to Dir.
	Path string

	// Args are the arguments, without the program's name.
	Args []string

	// Env is the complete environment. Nil: what Inherit(true) returns, and the variables for
	// drivers of video encoders. GroupVariable is always added.
	Env []string

	// Dir is the working directory. Empty: this program's.
	Dir string

	// Stdin is the child's standard input. Nil: /dev/null. The caller closes its own
	// copy.
	Stdin *os.File

	// Output receives standard output and standard error in the order of the writes.
	// Nil: they go to LogPath and Tail only. The child blocks while Write blocks.
	// After an error of Write, Output receives nothing more. Calls are not concurrent,
	// and may come after Done, for processes that the child started. If Output is a
	// [Filler], output is read into it instead.
	Output io.Writer

	// Stdout and Stderr, if not nil, replace Output for one of the two streams. The
	// child inherits an *os.File. Output to it reaches neither LogPath nor Tail.
	Stdout, Stderr io.Writer

	// TTY makes the child a session leader with this as its controlling
	// terminal and as its standard input, output and error. Stdin, Stdout,
	// Stderr and LogPath are ignored then. The caller closes its own copy.
	TTY *os.File

	// Master is the other side of TTY, in non-blocking mode. Output receives what the
	// terminal prints. Master is closed when the child has ended and no process has
	// TTY open, or when Start fails. Nil: the caller reads from it.
	Master *os.File

	// Credential is the user and the groups to run as. It requires root. The start executes
	// this program again, up to its init functions. Nil: this program's.
	Credential *syscall.Credential

	// Cgroup is the folder of a control group of version 2 that the child starts in.
	// If the kernel refuses that (before Linux 5.7, or by a filter of system calls),
	// the child is moved there as soon as it runs, if that is allowed. Nil: this
	// program's. The caller closes its own copy.
	Cgroup *os.File

	// LogPath is a file to which standard output and standard error are appended. At
	// 4 MiB it is renamed to LogPath.1 and replaces an earlier one. Write errors are
	// ignored. Empty: no log.
	LogPath string

	// ExtraFiles become the child's file descriptors 3, 4, ...
	ExtraFiles []*os.File

	// Grace is the time between SIGTERM and SIGKILL when the child is stopped. Zero:
	// the group's. Negative: none.
	Grace time.Duration
}

// command is a Spec that is ready for fork.
type command struct {
	path string
	argv []string
	env  []string
	args []string // for Info
}

// maxArgs bounds the arguments that are kept of a child, in bytes.
const maxArgs = 4 << 10

// shortened returns arguments up to maxArgs, with an ellipsis where they are cut.
func shortened(args []string) []string {
	short := slices.Clone(args)
	left := maxArgs
	for i, arg := range args {
		if left -= len(arg) + int(unsafe.Sizeof(arg)); left < 0 {
			short[i] = strings.ToValidUTF8(arg[:max(0, len(arg)+left)], "") + "…"
			return slices.Clone(short[:i+1])
		}
	}
	return short
}

// drivers are the variables that choose the libraries and devices of video encoders.
var drivers = []string{"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LIBVA_DRIVERS_PATH", "LIBVA_DRIVER_NAME", "NVIDIA_VISIBLE_DEVICES"}

func (s Spec) resolve() (command, error) {
	if s.Path == "" {
		return command{}, errors.New("no program named")
	}
	env := s.Env
	if env == nil {
		env = slices.Concat(Inherit(true), slices.DeleteFunc(Inherit(false), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return !slices.Contains(drivers, name)
		}))
		if s.Dir != "" {
			env = Environ(env, "PWD="+s.Dir)
		}
	}
	file := s.Path
	if strings.Contains(file, "/") && !filepath.IsAbs(file) {
		file = filepath.Join(s.Dir, file)
		// The fork changes to Dir before it executes the program.
		abs, err := filepath.Abs(file)
		if err != nil {
			return command{}, err
		}
		file = abs
	}
	var path string
	// Errors must not tell another user which files exist where only this program can look.
	err := User{Credential: s.Credential}.Do(func() (err error) {
		if path, err = LookPath(file, env); err != nil || s.Dir == "" {
			return err
		}
		// execve's error would not distinguish the directory from the program.
		fi, err := os.Stat(s.Dir)
		if err != nil {
			return fmt.Errorf("working directory: %w", err)
		}
		if !fi.IsDir() {
			return fmt.Errorf("working directory %s: %w", s.Dir, syscall.ENOTDIR)
		}
		return nil
	})
	return command{path: path, argv: append([]string{s.Path}, s.Args...), env: env, args: shortened(s.Args)}, err
}

// closeMaster closes the master of a child that could not start.
func (s Spec) closeMaster() {
	if s.TTY != nil && s.Master != nil {
		_ = s.Master.Close()
	}
}

// streams are the files of a child's first descriptors, and the pumps that read its
// pipes.
type streams struct {
	files []*os.File // by descriptor
	ours  []*os.File // the files that are closed after the fork
	pumps []*pump
	sink  *sink
}

func (s Spec) open() (*streams, error) {
	st := &streams{sink: &sink{}}
	if s.TTY != nil {
		st.files = append([]*os.File{s.TTY, s.TTY, s.TTY}, s.ExtraFiles...)
		if s.Master != nil {
			p := pumpFrom(s.Master, s.Output, st.sink)
			p.tty = true
			st.pumps = []*pump{p}
		}
		return st, nil
	}
	if st.sink.log = program.openLog(s.LogPath); st.sink.log != nil {
		st.sink.log.write(nil) // makes the file; after an error the first output tries again
	}
	if err := st.openAll(s); err != nil {
		st.closeOurs()
		st.abandon()
		return nil, err
	}
	st.files = append(st.files, s.ExtraFiles...)
	return st, nil
}

func (st *streams) openAll(s Spec) error {
	in := s.Stdin
	if in == nil {
		var err error
		if in, err = program.null(); err != nil {
			return err
		}
	}
	out, errw := s.Stdout, s.Stderr
	if out == nil && errw == nil {
		both, err := st.end(s.Output)
		st.files = []*os.File{in, both, both}
		return err
	}
	if out == nil {
		out = s.Output
	}
	if errw == nil {
		errw = s.Output
	}
	stdout, err := st.end(out)
	if err != nil {
		return err
	}
	stderr, err := st.end(errw)
	st.files = []*os.File{in, stdout, stderr}
	return err
}

// end returns the file that the child writes to for w.
func (st *streams) end(w io.Writer) (*os.File, error) {
	if f, ok := w.(*os.File); ok && f != nil {
		return f, nil
	}
	p, child, err := newPump(w, st.sink)
	if err != nil {
		return nil, err
	}
	st.pumps = append(st.pumps, p)
	st.ours = append(st.ours, child)
	return child, nil
}

// fds are the descriptors to inherit.
func (st *streams) fds() []uintptr {
	fds := make([]uintptr, len(st.files))
	for i, f := range st.files {
		fds[i] = ^uintptr(0)
		if f != nil {
			fds[i] = f.Fd()
		}
	}
	return fds
}

func (st *streams) closeOurs() {
	for _, f := range st.ours {
		_ = f.Close()
	}
	st.ours = nil
}

// abandon releases the streams of a child that did not start.
func (st *streams) abandon() {
	for _, p := range st.pumps {
		_ = p.r.Close()
	}
	program.closeLog(st.sink.log)
}
