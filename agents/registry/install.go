package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// InstallOptions configures an install.
type InstallOptions struct {
	// Reinstall replaces an existing install.
	Reinstall bool

	// AgentVersion and ProcessVersion are versions, or tags, of the packages of the agent
	// and of its adapter. Empty: the versions in the table.
	AgentVersion, ProcessVersion string

	// Progress, if set, is called by one goroutine at a time. It must not block.
	Progress func(Progress)
}

// Progress is the progress of an install.
type Progress struct {
	Agent string `json:"agent"`
	Stage Stage  `json:"stage"`

	// Done and Total count packages during the download. Total is zero while it is
	// unknown.
	Done  int `json:"done"`
	Total int `json:"total"`

	// Bytes is the size of the downloaded files.
	Bytes int64 `json:"bytes"`

	// Message is a line for users.
	Message string `json:"message"`
}

// Stage is a stage of an install.
type Stage string

// The stages of an install, in their order.
const (
	StageWait     Stage = "wait"     // another install of the same agent is under way
	StageResolve  Stage = "resolve"  // npm finds the packages
	StageDownload Stage = "download" // npm downloads and unpacks them
	StageCheck    Stage = "check"    // the program runs on this machine
	StageDone     Stage = "done"
	StageFailed   Stage = "failed" // Message says why
)

// Installed is the result of an install.
type Installed struct {
	Already   bool       // the agent was installed before
	Artifacts []Artifact // the installed programs
}

// Install installs an agent. It blocks until other installs of the agent have ended, also in
// other programs, and until the installed agent was checked. It installs nothing if the agent
// is installed, unless o asks for another version or for Reinstall.
//
// It fails if npm takes longer than an hour.
//
// It returns [ErrUnknownAgent], [ErrClosed], an [InvalidError] or an [InstallError]. The end
// of ctx ends the install and does not change the agent.
func (r *Registry) Install(ctx context.Context, id string, o InstallOptions) (Installed, error) {
	a, err := r.find(id)
	if err != nil {
		return Installed{}, err
	}
	if err := o.check(); err != nil {
		return Installed{}, err
	}
	plan, err := a.plan(o)
	if err != nil {
		return Installed{}, err
	}
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return Installed{}, err
	}
	defer done()
	if a.BuiltIn || a.Custom || len(plan) == 0 {
		return r.withoutPackages(a, o)
	}
	in := &installation{r: r, agent: a, options: o, current: StageResolve}
	got, err := in.run(ctx, plan)
	if _, known := errors.AsType[*InstallError](err); err != nil && !known {
		err = in.fail(err, "")
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	if err != nil {
		in.report(Progress{Stage: StageFailed, Message: err.Error()})
	}
	return got, err
}

// withoutPackages returns the result of Install for an agent that has no packages.
func (r *Registry) withoutPackages(a *Agent, o InstallOptions) (Installed, error) {
	c, err := r.locate(a)
	if err != nil {
		var absent *NotInstalledError
		_ = errors.As(err, &absent)
		return Installed{}, &InstallError{
			Agent: a.ID, Stage: StageResolve, Remedy: absent.Remedy,
			Err: errors.New(cmp.Or(absent.Reason, "it is not there")),
		}
	}
	if !o.Reinstall {
		return Installed{Already: true}, nil
	}
	return Installed{Artifacts: []Artifact{{Kind: KindProcess, Path: c.Path, Source: c.Source, Version: c.Version}}}, nil
}

var versionOrTag = regexp.MustCompile(`^([0-9A-Za-z+_][0-9A-Za-z.+_-]{0,63})?$`)

// check returns an error for versions that npm would take for a URL or a path.
func (o InstallOptions) check() error {
	for _, v := range []struct{ field, text string }{{"agentVersion", o.AgentVersion}, {"agentProcessVersion", o.ProcessVersion}} {
		if !versionOrTag.MatchString(v.text) {
			return &InvalidError{v.field, fmt.Sprintf("must be a version as 1.2.3 or a tag as latest, not %q", v.text)}
		}
	}
	return nil
}

// plan returns the packages to install, in the versions of the options.
func (a *Agent) plan(o InstallOptions) ([]npmPackage, error) {
	if o.AgentVersion == "" && o.ProcessVersion == "" {
		return a.packages, nil
	}
	if !a.Installable() {
		return nil, &InvalidError{"agentVersion", fmt.Sprintf("and agentProcessVersion must be left out: %s is not installed from packages", a.ID)}
	}
	packages := slices.Clone(a.packages)
	for i, p := range packages {
		native, process := slices.Contains(p.kinds, KindNative), slices.Contains(p.kinds, KindProcess)
		if native && process && o.AgentVersion != "" && o.ProcessVersion != "" && o.AgentVersion != o.ProcessVersion {
			return nil, &InvalidError{"agentProcessVersion", fmt.Sprintf("must be the version of the agent or left out, because %s is one package", a.ID)}
		}
		if native && o.AgentVersion != "" {
			packages[i].version = o.AgentVersion
		}
		if process && o.ProcessVersion != "" {
			packages[i].version = o.ProcessVersion
		}
	}
	return packages, nil
}

// installation is one call of Install.
type installation struct {
	r       *Registry
	agent   *Agent
	options InstallOptions
	host    platform
	current Stage
}

func (in *installation) report(p Progress) {
	p.Agent, in.current = in.agent.ID, p.Stage
	in.r.setProgress(p)
	in.r.log.Debug("install", "agent", p.Agent, "stage", p.Stage, "done", p.Done, "total", p.Total, "message", p.Message)
	if in.options.Progress != nil {
		in.options.Progress(p)
	}
}

// fail returns an error of the current stage.
func (in *installation) fail(err error, remedy string) error {
	return &InstallError{Agent: in.agent.ID, Stage: in.current, Err: err, Remedy: remedy}
}

func (in *installation) run(ctx context.Context, plan []npmPackage) (Installed, error) {
	var err error
	if in.host, err = host(); err != nil {
		return Installed{}, err
	}
	if in.r.cfg.Dir == "" {
		return Installed{}, in.fail(errors.New("this user has no home directory"), "set HOME or XDG_DATA_HOME")
	}
	if in.present(plan) { // before any directory is made
		return Installed{Already: true}, nil
	}
	dir := in.r.dirOf(in.agent.ID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Installed{}, err
	}
	// npm fails below a symbolic link: it writes its list of packages for another folder.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return Installed{}, err
	}
	if err := in.r.user.Reach(dir); err != nil {
		return Installed{}, in.fail(err, "set XDG_DATA_HOME to a folder that this user may enter, as /var/lib")
	}
	if supervise.NoExec(dir) {
		return Installed{}, in.fail(fmt.Errorf("programs in %s cannot be executed (noexec)", dir),
			"set XDG_DATA_HOME to a directory where they can, or mount this one without noexec (docker run --tmpfs DIR:exec)")
	}
	unlock, err := in.lock(ctx, dir)
	if err != nil {
		return Installed{}, err
	}
	defer unlock()
	in.current = StageResolve
	if in.present(plan) { // the install that held the lock has installed it
		return Installed{Already: true}, nil
	}
	m, err := in.fetch(ctx, dir, plan)
	if err != nil {
		return Installed{}, err
	}
	in.report(Progress{Stage: StageDone, Message: fmt.Sprintf("%s %s is installed", in.agent.Name, m.version())})
	return Installed{Artifacts: m.artifacts()}, nil
}

func (in *installation) present(want []npmPackage) bool {
	o := in.options
	if o.Reinstall {
		return false
	}
	if o.AgentVersion == "" && o.ProcessVersion == "" {
		_, err := in.r.locate(in.agent)
		return err == nil
	}
	m, err := currentIn(in.r.cfg.Dir, in.agent.ID)
	if err != nil {
		return false
	}
	_, err = m.command(in.r)
	return err == nil && m.has(in.host, want)
}

// fetch installs the packages into a new folder.
func (in *installation) fetch(ctx context.Context, dir string, plan []npmPackage) (*manifest, error) {
	staging, err := in.stage(dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(staging) // the next install removes the rest
	npm, err := in.newNPM(ctx, dir, staging)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, in.r.maxTime, fmt.Errorf("npm has not installed it after %v: %s", in.r.maxTime, checkRegistry))
	defer cancel()
	m, err := npm.install(bounded, plan)
	if err != nil {
		return nil, err
	}
	if err := admit(staging); err != nil {
		return nil, err
	}
	if err := in.verify(ctx, m); err != nil {
		return nil, err
	}
	if err := in.publish(dir, staging, m); err != nil {
		return nil, err
	}
	npm.dropCache()
	return m, nil
}

// Names in an agent's folder that are not versions.
const (
	currentName   = "current"
	lockName      = ".lock"
	cacheName     = ".npm"
	stagingPrefix = ".staging-"
)

// stage makes a temporary folder for an install, and removes the folders of killed installs.
// The caller holds the lock.
func (in *installation) stage(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), stagingPrefix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return "", err
			}
		}
	}
	return os.MkdirTemp(dir, stagingPrefix)
}

// admit opens a folder of packages, which only this user may enter so far, to the user of the
// agents. First it takes from all files what a package may not give them: the bits that make a
// program run as the files' owner, and other users' right to write.
func admit(staging string) error {
	root, err := os.OpenRoot(staging)
	if err != nil {
		return err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if allowed := info.Mode().Perm() &^ 0o022; info.Mode()&^fs.ModeDir != allowed {
			return root.Chmod(name, allowed)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.Chmod(staging, 0o755)
}

// publish makes a finished install the current one.
func (in *installation) publish(dir, staging string, m *manifest) error {
	m.Installed = time.Now().UTC()
	if err := m.write(staging); err != nil {
		return err
	}
	name := m.folder()
	for n := 2; ; n++ {
		err := os.Rename(staging, filepath.Join(dir, name))
		if err == nil {
			break
		}
		// An agent may run from an existing folder.
		if !errors.Is(err, os.ErrExist) || n > 1000 {
			return err
		}
		name = fmt.Sprintf("%s-%d", m.folder(), n)
	}
	before, _ := os.Readlink(filepath.Join(dir, currentName))
	link := filepath.Join(dir, stagingPrefix+currentName)
	if err := os.Symlink(name, link); err != nil {
		return err
	}
	if err := os.Rename(link, filepath.Join(dir, currentName)); err != nil {
		return err
	}
	m.dir = filepath.Join(dir, name)
	return prune(dir, name, before)
}

// prune removes all but the current install and the one before.
func prune(dir string, keep ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Name() == currentName || slices.Contains(keep, e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
