package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// manifest describes an installed agent. Newer programs with another table can start it.
type manifest struct {
	Agent     string            `json:"agent"`
	Installed time.Time         `json:"installed"`
	Source    Source            `json:"source"`
	Args      []string          `json:"args,omitempty"`
	Packages  []packageManifest `json:"packages"`

	dir   string
	named bool // the options had a version
}

type packageManifest struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Kinds    []Kind `json:"kinds"`
	Program  string `json:"program"` // below the folder
	Node     bool   `json:"node,omitempty"`
	Variable string `json:"variable,omitempty"`
	Reports  string `json:"reports,omitempty"` // the version that the program prints

	check bool
}

const manifestName = "deskhand.json"

func (m *manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestName), append(text, '\n'), 0o644)
}

func (r *Registry) dirOf(id string) string { return filepath.Join(r.cfg.Dir, id) }

// currentIn reads the manifest of an agent in a directory of installed agents.
func currentIn(dir, id string) (*manifest, error) {
	if dir == "" {
		return nil, os.ErrNotExist
	}
	// Links are resolved now, so that a later install does not change a running agent.
	dir, err := filepath.EvalSymlinks(filepath.Join(dir, id, currentName))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, err
	}
	m := &manifest{dir: dir}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, manifestName), err)
	}
	return m, nil
}

func (p packageManifest) is(k Kind) bool { return slices.Contains(p.Kinds, k) }

// command returns the command line. It returns an error if a program is missing.
func (m *manifest) command(r *Registry) (Command, error) {
	c := Command{Source: m.Source, Version: m.version(), Args: m.Args}
	found := false
	for _, p := range m.Packages {
		file := filepath.Join(m.dir, p.Program)
		if ok := p.Node && isFile(file) || isProgram(file); !ok {
			return c, &os.PathError{Op: "execute", Path: file, Err: os.ErrNotExist}
		}
		if p.Variable != "" {
			c.Env = append(c.Env, p.Variable+"="+file)
		}
		if !p.is(KindProcess) {
			continue
		}
		found, c.Path, c.Program = true, file, file
		if p.Node {
			node, err := r.lookPath("node")
			if err != nil {
				return c, err
			}
			c.Path, c.Args = node, slices.Concat([]string{file}, m.Args)
		}
	}
	if !found {
		return c, errors.New("no program that speaks ACP")
	}
	return c, nil
}

// version returns the agent's own version.
func (m *manifest) version() string {
	for _, p := range m.Packages {
		if p.is(KindNative) {
			return cmp.Or(p.Reports, p.Version)
		}
	}
	return ""
}

// folder returns the folder's name: the version of the adapter, and the agent's if the
// options had one.
func (m *manifest) folder() string {
	name, agent := "", ""
	for _, p := range m.Packages {
		switch {
		case p.is(KindProcess):
			name = p.Version
		case p.is(KindNative) && m.named:
			agent = "_" + p.Version
		}
	}
	return name + agent
}

// has reports whether the install has these packages. It is false for versions that are
// tags.
func (m *manifest) has(h platform, packages []npmPackage) bool {
	for _, want := range packages {
		if !slices.ContainsFunc(m.Packages, func(p packageManifest) bool { return p.Name == h.fill(want.name) && p.Version == want.version }) {
			return false
		}
	}
	return true
}

func (m *manifest) artifacts() []Artifact {
	var list []Artifact
	for _, kind := range []Kind{KindNative, KindProcess} {
		for _, p := range m.Packages {
			if p.is(kind) {
				list = append(list, Artifact{Kind: kind, Path: filepath.Join(m.dir, p.Program), Source: m.Source, Version: p.Version})
			}
		}
	}
	return list
}
