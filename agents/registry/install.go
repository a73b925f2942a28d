package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// InstallOptions say what to install.
type InstallOptions struct {
	// Reinstall installs again what is installed already.
	Reinstall bool

	// AgentVersion and ProcessVersion are versions, or tags, of the packages of
	// the agent and of what makes it speak ACP. Empty: those of the table.
	AgentVersion, ProcessVersion string

	// Progress, if set, is called now and then by one goroutine at a time. It
	// must not block.
	Progress func(Progress)
}

// Progress tells how far an install is.
type Progress struct {
	Agent string `json:"agent"`
	Stage Stage  `json:"stage"`

	// Done and Total count packages while they are downloaded. Total is zero
	// while it is not known.
	Done  int `json:"done"`
	Total int `json:"total"`

	// Bytes is what is on the disk so far.
	Bytes int64 `json:"bytes"`

	// Message is a line for people.
	Message string `json:"message"`
}

// Stage is a part of an install.
type Stage string

// The stages of an install, in their order.
const (
	StageWait     Stage = "wait"     // another install of the same agent is under way
	StageResolve  Stage = "resolve"  // find out which packages are needed
	StageDownload Stage = "download" // and unpack
	StageCheck    Stage = "check"    // that it runs here
	StageDone     Stage = "done"
	StageFailed   Stage = "failed" // Message says why
)

// Installed tells what an install did.
type Installed struct {
	// Already says that there was nothing to do.
	Already bool

	// Artifacts are what was installed.
	Artifacts []Artifact
}

// Install installs an agent. It returns ErrUnknownAgent, an [InvalidError] or
// an [InstallError]. What the end of ctx interrupts leaves the agent as it was.
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
		return r.ready(a, o)
	}
	in := &installation{r: r, agent: a, options: o}
	got, err := in.run(ctx, plan)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	if err != nil {
		in.tell(Progress{Stage: StageFailed, Message: err.Error()})
	}
	return got, err
}

// ready is the answer about an agent that no package makes.
func (r *Registry) ready(a *Agent, o InstallOptions) (Installed, error) {
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

// check refuses what is no version: npm would take addresses and folders as
// well.
func (o InstallOptions) check() error {
	for _, v := range []struct{ field, text string }{{"agentVersion", o.AgentVersion}, {"agentProcessVersion", o.ProcessVersion}} {
		ok := len(v.text) <= 64 && !strings.HasPrefix(v.text, "-") && !strings.HasPrefix(v.text, ".")
		for _, ch := range v.text {
			ok = ok && (ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9' || strings.ContainsRune(".-+_", ch))
		}
		if !ok {
			return &InvalidError{v.field, fmt.Sprintf("must be a version as 1.2.3 or a tag as latest, not %q", v.text)}
		}
	}
	return nil
}

// plan is the sources to try, with the versions that were asked for. Those are
// of packages under their present name.
func (a *Agent) plan(o InstallOptions) ([]source, error) {
	if o.AgentVersion == "" && o.ProcessVersion == "" {
		return a.sources, nil
	}
	if len(a.sources) == 0 {
		return nil, &InvalidError{"agentVersion", fmt.Sprintf("and agentProcessVersion must be left out: %s is not installed from packages", a.ID)}
	}
	s := a.sources[0]
	s.packages = slices.Clone(s.packages)
	for i, p := range s.packages {
		native, process := slices.Contains(p.kinds, KindNative), slices.Contains(p.kinds, KindProcess)
		if native && process && o.AgentVersion != "" && o.ProcessVersion != "" && o.AgentVersion != o.ProcessVersion {
			return nil, &InvalidError{"agentProcessVersion", fmt.Sprintf("must be that of the agent, or left out: %s is one package", a.ID)}
		}
		if native && o.AgentVersion != "" {
			s.packages[i].version = o.AgentVersion
		}
		if process && o.ProcessVersion != "" {
			s.packages[i].version = o.ProcessVersion
		}
	}
	return []source{s}, nil
}

// installation is one call of Install.
type installation struct {
	r       *Registry
	agent   *Agent
	options InstallOptions
	host    platform
}

func (in *installation) tell(p Progress) {
	p.Agent = in.agent.ID
	in.r.tell(p)
	in.r.log.Debug("install", "agent", p.Agent, "stage", p.Stage, "done", p.Done, "total", p.Total, "message", p.Message)
	if in.options.Progress != nil {
		in.options.Progress(p)
	}
}

func (in *installation) fail(stage Stage, err error, remedy string) error {
	return &InstallError{Agent: in.agent.ID, Stage: stage, Err: err, Remedy: remedy}
}

func (in *installation) run(ctx context.Context, plan []source) (Installed, error) {
	var err error
	if in.host, err = host(); err != nil {
		return Installed{}, in.fail(StageResolve, err, "")
	}
	if in.r.cfg.Dir == "" {
		return Installed{}, in.fail(StageResolve, errors.New("this user has no home directory"), "set HOME or XDG_DATA_HOME")
	}
	// Before any directory is made: most who ask have it already.
	if in.present(plan[0]) {
		return Installed{Already: true}, nil
	}
	dir := in.r.dirOf(in.agent.ID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Installed{}, in.fail(StageResolve, err, "")
	}
	// Below a link, npm writes its list of packages as if the folder were somewhere
	// else, and then misses all of them.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return Installed{}, in.fail(StageResolve, err, "")
	}
	if err := in.r.user.Reach(dir); err != nil {
		return Installed{}, in.fail(StageResolve, err, "set XDG_DATA_HOME to a folder that this user may enter, as /var/lib")
	}
	if supervise.NoExec(dir) {
		return Installed{}, in.fail(StageResolve, fmt.Errorf("programs in %s cannot be executed (noexec)", dir),
			"set XDG_DATA_HOME to a directory where they can, or mount this one without noexec (docker run --tmpfs DIR:exec)")
	}
	unlock, err := in.lock(ctx, dir)
	if err != nil {
		return Installed{}, in.fail(StageWait, err, "")
	}
	defer unlock()
	if in.present(plan[0]) { // by the one that this waited for
		return Installed{Already: true}, nil
	}
	m, err := in.fetch(ctx, dir, plan)
	if err != nil {
		return Installed{}, err
	}
	in.tell(Progress{Stage: StageDone, Message: fmt.Sprintf("%s %s is installed", in.agent.Name, m.version())})
	return Installed{Artifacts: m.artifacts()}, nil
}

// present tells whether there is nothing to do.
func (in *installation) present(want source) bool {
	o := in.options
	if o.Reinstall {
		return false
	}
	if o.AgentVersion == "" && o.ProcessVersion == "" {
		_, err := in.r.locate(in.agent)
		return err == nil
	}
	m, err := in.r.current(in.agent.ID)
	if err != nil {
		return false
	}
	_, err = m.command(in.r)
	return err == nil && m.has(in.host, want)
}

// fetch installs the first of several sources that exists.
func (in *installation) fetch(ctx context.Context, dir string, plan []source) (*manifest, error) {
	staging, err := in.stage(dir)
	if err != nil {
		return nil, in.fail(StageResolve, err, "")
	}
	defer os.RemoveAll(staging) // what is left is removed by the next install
	npm, err := in.newNPM(ctx, dir, staging)
	if err != nil {
		return nil, err
	}
	var m *manifest
	for i, s := range plan {
		m, err = npm.install(ctx, s)
		if i == len(plan)-1 || !isMissing(err) {
			break
		}
		in.r.log.Debug("package is missing, try its older name", "agent", in.agent.ID, "error", err)
	}
	if err != nil {
		return nil, err
	}
	if err := in.verify(ctx, m); err != nil {
		return nil, err
	}
	if err := in.publish(dir, staging, m); err != nil {
		return nil, in.fail(StageCheck, err, "")
	}
	npm.dropCache()
	return m, nil
}

// The names in an agent's folder that are no version.
const (
	currentName   = "current"
	lockName      = ".lock"
	cacheName     = ".npm"
	stagingPrefix = ".staging-"
)

// stage makes the folder in which an install comes to be, and removes those of
// others that were killed. The lock is held.
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
	staging, err := os.MkdirTemp(dir, stagingPrefix)
	if err != nil {
		return "", err
	}
	return staging, os.Chmod(staging, 0o755) // agents may run as another user
}

// publish gives a finished install its name, and makes it the current one.
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
		// A folder that somebody may run an agent from is never replaced.
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
