package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/deskhand/deskhand/internal/configfile"
)

// settings are the settings of projects, which clients change.
type settings struct {
	dir   func(write bool) (string, error)
	store configfile.Store
	mu    sync.Mutex // held while settings are read and written
}

// globalSettings is the name of the settings of all projects.
const globalSettings = "*"

// settingsName returns the name of the settings of the project of a directory. Outside
// repositories each directory has settings of its own.
func settingsName(dir string) string {
	if p := projectOf(dir); p.id != globalProject {
		return p.id
	}
	return dir
}

func (s *settings) routes() []route {
	project := func(c *call) (string, func() (any, error)) {
		return settingsName(c.directory), func() (any, error) { return s.of(c.directory) }
	}
	global := func(*call) (string, func() (any, error)) {
		return globalSettings, func() (any, error) { return s.read(globalSettings) }
	}
	var all []route
	for path, scope := range map[string]func(*call) (string, func() (any, error)){"/config": project, "/global/config": global} {
		all = append(all, get(path, func(c *call) (any, error) {
			_, read := scope(c)
			return read()
		}), route{http.MethodPatch, path, func(c *call) (any, error) {
			var patch map[string]any
			if err := c.ReadJSON(&patch); err != nil {
				return nil, err
			}
			name, read := scope(c)
			if err := s.change(c.ctx, name, patch); err != nil {
				return nil, err
			}
			return read()
		}})
	}
	return all
}

// of returns the settings of the project of a directory: the server's, the settings of
// all projects, and the project's own.
func (s *settings) of(dir string) (map[string]any, error) {
	all := map[string]any{"$schema": "https://opencode.ai/config.json", "share": "disabled", "autoupdate": false}
	for _, name := range []string{globalSettings, settingsName(dir)} {
		own, err := s.read(name)
		if err != nil {
			return nil, err
		}
		merge(all, own)
	}
	return all, nil
}

func (s *settings) file(write bool) (string, error) {
	dir, err := s.dir(write)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "opencode")
	if write {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	return configfile.Path(dir, "projects"), nil
}

// read returns the settings that clients have made.
func (s *settings) read(name string) (map[string]any, error) {
	out := map[string]any{}
	file, err := s.file(false)
	if err != nil {
		return nil, err
	}
	text, err := s.store.Get(file, name)
	switch {
	case errors.Is(err, configfile.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return out, nil
	case err != nil:
		return nil, err
	}
	return out, json.Unmarshal(text, &out)
}

func (s *settings) change(ctx context.Context, name string, patch map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.read(name)
	if err != nil {
		return err
	}
	merge(now, patch)
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	file, err := s.file(true)
	if err != nil {
		return err
	}
	return s.store.Put(ctx, file, name, text)
}

// merge applies a patch to settings, as RFC 7396 has it: members replace members, objects are
// merged, and null removes a member.
func merge(to, patch map[string]any) {
	for name, value := range patch {
		object, isObject := value.(map[string]any)
		old, wasObject := to[name].(map[string]any)
		switch {
		case value == nil:
			delete(to, name)
		case isObject && wasObject:
			merged := maps.Clone(old)
			merge(merged, object)
			to[name] = merged
		case isObject:
			merged := map[string]any{}
			merge(merged, object)
			to[name] = merged
		default:
			to[name] = value
		}
	}
}

// allow reports whether the settings of a directory allow everything, as the permission "allow"
// does.
func (s *settings) allow(dir string) (bool, error) {
	all, err := s.of(dir)
	return all["permission"] == "allow", err
}
