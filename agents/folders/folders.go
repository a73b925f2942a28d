// Package folders keeps the configuration of sessions' folders, MCP servers and
// skills, and decides which of it counts.
//
// A folder may be a repository of strangers, and so may the configuration in it.
// An entry counts when it was written by [Store.Put], when its content was
// approved by [Store.Approve], or when its folder is trusted (Config.Trust). What
// was approved is recorded as a hash of the content in the state directory, so
// that an entry that is changed in the folder does not count any more.
//
// # Usage
//
//	store, err := folders.Open(folders.Config{StateDir: "/var/lib/mine"})
//	defer store.Close()
//	found, err := store.Entries(ctx, "/home/user/project", folders.MCP)
//	err = store.Approve(ctx, "/home/user/project", folders.MCP, "search", found["search"].Hash)
//
// # Lifetime
//
// A Store has no goroutines. Close removes what a Store without a state directory
// keeps.
//
// # Concurrency
//
// All methods may be called from any goroutine. A reader sees an entry together
// with its approval, also while it is being replaced. A state directory belongs to
// one Store.
//
// # Errors
//
// [ErrNotFound], [ChangedError]; those of internal/configfile about files that
// cannot be used, and those of the operating system.
//
// # Requirements
//
// Linux.
package folders

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/deskhand/deskhand/internal/configfile"
	"github.com/deskhand/deskhand/internal/folder"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Kind is what an entry configures.
type Kind string

// The kinds of entries, each of which has a file in a folder.
const (
	MCP    Kind = "mcp"    // .sandbox-agent/config/mcp.json
	Skills Kind = "skills" // .sandbox-agent/config/skills.json
)

// ErrNotFound says that a folder has no entry of a name.
var ErrNotFound = configfile.ErrNotFound

// ChangedError says that an entry is not what the caller has approved.
type ChangedError struct {
	Name string
	Hash string // of what it is now
}

// Error names the entry.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("entry %q has changed: its hash is %s now; read it again", e.Name, e.Hash)
}

// Config configures a [Store].
type Config struct {
	// StateDir is where it is recorded what counts. Empty: in a temporary
	// directory, which Close removes.
	StateDir string

	// Locate replaces StateDir: it returns the directory, which need not exist
	// unless write is set.
	Locate func(write bool) (string, error)

	// Trust lists folders whose entries all count, and those of all folders below
	// them. "/" trusts every folder.
	Trust []string

	// RunAs is the user, by name or number, with whose rights all work inside of
	// folders is done. Empty: the one of this program. Another one needs root.
	RunAs string

	// Remedy says how a user approves an entry that does not count; it ends the
	// message about one. Nil: by Approve.
	Remedy func(dir string, kind Kind, name, hash string) string
}

// Entry is an entry of a folder's configuration.
type Entry struct {
	Content  json.RawMessage
	Hash     string // of the content, however it is indented
	Approved bool   // it counts
}

// Store keeps the configuration of folders. Make one with [Open].
type Store struct {
	cfg     Config
	files   folder.Files
	trust   []string
	entries configfile.Store // in folders
	records configfile.Store // in the state directory

	mu   sync.Mutex
	temp string // guarded by mu
}

// Open makes a store. It returns an error if a folder of Config.Trust is not
// absolute, or if there is no user Config.RunAs.
func Open(cfg Config) (*Store, error) {
	user, err := supervise.LookupUser(cfg.RunAs)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, files: folder.Local{}}
	if user.Credential != nil {
		s.files = folder.Acting(user.Do)
	}
	s.entries.Files, s.entries.Written = s.Files(), s.written
	for _, dir := range cfg.Trust {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("trusted folder %q must be an absolute path", dir)
		}
		s.trust = append(s.trust, resolve(dir))
	}
	return s, nil
}

// Refusal is what to tell the user about an entry that does not count.
func (s *Store) Refusal(dir string, kind Kind, name string, e Entry) string {
	remedy := s.cfg.Remedy
	if remedy == nil {
		remedy = func(dir string, kind Kind, name, hash string) string {
			return fmt.Sprintf("read it, and approve it by folders.Store.Approve(ctx, %q, %q, %q, %q), or trust the folder", dir, kind, name, hash)
		}
	}
	return fmt.Sprintf("it was found in %s and is not approved, so it is left out: %s",
		configfile.Path(dir, string(kind)), remedy(dir, kind, name, e.Hash))
}

// Files does all work inside of folders.
func (s *Store) Files() folder.Files { return s.files }

// Close removes what a store without a state directory has recorded.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := s.temp
	s.temp = ""
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// resolve is the path of a folder without symbolic links, as far as it exists.
func resolve(dir string) string {
	dir = filepath.Clean(dir)
	for rest, at := "", dir; ; {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest)
		}
		if parent := filepath.Dir(at); !errors.Is(err, fs.ErrNotExist) || parent == at {
			return dir
		}
		rest, at = filepath.Join(filepath.Base(at), rest), filepath.Dir(at)
	}
}

// Hash tells a content from others, however it is indented.
func Hash(content json.RawMessage) string {
	sum := sha256.Sum256(compact(content))
	return hex.EncodeToString(sum[:])
}

func (s *Store) trusted(dir string) bool {
	for _, t := range s.trust {
		if rest, ok := strings.CutPrefix(dir, t); ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(t, "/")) {
			return true
		}
	}
	return false
}
