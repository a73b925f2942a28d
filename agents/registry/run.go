package registry

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// finish runs a program until its end or the end of ctx. tail is the end of its output.
func (r *Registry) finish(ctx context.Context, spec supervise.Spec) (exit supervise.Exit, tail string, err error) {
	g, err := r.group()
	if err != nil {
		return exit, "", err
	}
	child, err := g.Start(spec)
	if err != nil {
		return exit, "", err
	}
	defer child.Forget()
	select {
	case <-child.Done():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	err = errors.Join(err, child.Stop(context.WithoutCancel(ctx))) // also ends its descendants
	return child.Exit(), child.Tail(), err
}

// Bounds of an install: a registry may answer slowly, and with files of any size.
const (
	installTime  = time.Hour
	installBytes = 4 << 30
)

// asAgent returns a Spec with the user of agents, its environment to which that of the Spec is added,
// and HOME of this as the working directory. Agents load configuration, with programs, from their
// working directory and the directories above it. Other users can write to /tmp and may be able to
// write to this program's.
func (r *Registry) asAgent(spec supervise.Spec) (supervise.Spec, error) {
	env, err := r.environ(r.user, spec.Env...)
	spec.Dir, spec.Credential = r.user.HomeDir(env), r.user.Credential
	spec.Env = supervise.Environ(env, "PWD="+spec.Dir)
	return spec, err
}

const checkTime = 30 * time.Second

// output returns the output of a program.
func (r *Registry) output(ctx context.Context, spec supervise.Spec) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, fmt.Errorf("no answer for %v", checkTime))
	defer cancel()
	exit, tail, err := r.finish(ctx, spec)
	if err != nil {
		return tail, err
	}
	if exit.Code != 0 {
		return tail, errors.New(exit.String())
	}
	return tail, nil
}

var versionPattern = regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?`)

// verify checks that the installed programs run on this machine, and records their versions.
func (in *installation) verify(ctx context.Context, m *manifest) error {
	in.report(Progress{Stage: StageCheck, Message: "check that " + in.agent.Name + " runs here"})
	if _, err := m.command(in.r); err != nil {
		return in.fail(err, "try again with --reinstall; if that does not help, npm's registry has another package than expected")
	}
	for i, p := range m.Packages {
		if !p.check {
			continue
		}
		file := filepath.Join(m.dir, p.Program)
		spec, err := in.r.asAgent(supervise.Spec{Path: file, Args: []string{"--version"}, Env: in.agent.setting})
		var out string
		if err == nil {
			out, err = in.r.output(ctx, spec)
		}
		if err != nil {
			return &InstallError{
				Agent: in.agent.ID, Stage: StageCheck, Err: fmt.Errorf("%s --version: %w", p.Name, err), Stderr: strings.TrimSpace(out),
				Remedy: "it may not be made for this machine's processor or C library",
			}
		}
		m.Packages[i].Reports = versionPattern.FindString(out)
	}
	return nil
}
