package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// manifest says what is in a folder, so that a newer program with another table
// can start it, too.
type manifest struct {
	Agent     string            `json:"agent"`
	Installed time.Time         `json:"installed"`
	Source    Source            `json:"source"`
	Args      []string          `json:"args,omitempty"`
	Packages  []packageManifest `json:"packages"`

	dir   string
	named bool // versions were asked for
}

type packageManifest struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Kinds    []Kind `json:"kinds"`
	Program  string `json:"program"` // below the folder
	Node     bool   `json:"node,omitempty"`
	Variable string `json:"variable,omitempty"`
	Reports  string `json:"reports,omitempty"` // the version that it tells itself

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

// dirOf is the folder of an agent's installs.
func (r *Registry) dirOf(id string) string { return filepath.Join(r.cfg.Dir, id) }

// current reads what this user has installed of an agent.
func (r *Registry) current(id string) (*manifest, error) { return currentIn(r.cfg.Dir, id) }

// currentIn reads what is installed of an agent in a folder with a folder for
// each agent.
func currentIn(dir, id string) (*manifest, error) {
	if dir == "" {
		return nil, os.ErrNotExist
	}
	// Resolved now, so that a later install does not change what is running.
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

// command is how it is started; an error says what is missing.
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

// version is what people call the version: the agent's own.
func (m *manifest) version() string {
	for _, p := range m.Packages {
		if p.is(KindNative) {
			if p.Reports != "" {
				return p.Reports
			}
			return p.Version
		}
	}
	return ""
}

// folder is the name for it: the version of what speaks ACP, and that of the
// agent if it was asked for.
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

// has tells whether the packages of a source are those of the install. A tag is
// never known to be.
func (m *manifest) has(h platform, s source) bool {
	for _, want := range s.packages {
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
