package registry

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// embeddedLocks has a package-lock.json for each agent of the table, with the versions and
// checksums of its packages and of all their dependencies. make agent-locks writes them.
//
//go:embed locks/*.json
var embeddedLocks embed.FS

// lockPath returns the name of an agent's lock in embeddedLocks.
func lockPath(agent string) string { return "locks/" + agent + ".json" }

// packageLock is a package-lock.json of npm.
type packageLock struct {
	Version  int                       `json:"lockfileVersion"`
	Requires bool                      `json:"requires"`
	Packages map[string]map[string]any `json:"packages"` // by folder; "": the project itself
}

// pinned returns the package-lock.json with which npm installs exactly the wanted
// packages, by name and version, and their dependencies. It returns nil if the
// agent's lock lacks one of them, for example for another version.
func (in *installation) pinned(wanted map[string]string) ([]byte, error) {
	name := lockPath(in.agent.ID)
	text, err := fs.ReadFile(in.r.locks, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lock packageLock
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for name, version := range wanted {
		p := lock.Packages["node_modules/"+name]
		if p["version"] != version {
			return nil, nil
		}
		delete(p, "optional") // it is for one platform; npm would accept its absence
	}
	// The programs for other platforms stay in the lock, but npm installs only what
	// the project depends on.
	lock.Packages[""] = map[string]any{"dependencies": wanted}
	return json.Marshal(lock)
}
