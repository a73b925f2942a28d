// Package folders keeps the configuration of sessions' folders, MCP servers and
// skills, and decides which entries count, that is, take effect.
//
// A folder, and the configuration in it, may come from an untrusted repository.
// An entry counts when it was written by [Store.Put], when its content was
// approved by [Store.Approve], or when its folder is trusted (Config.Trust). An
// approval is recorded in the state directory as a hash of the content, so an
// entry that is changed in the folder no longer counts.
//
// # Usage
//
// Open returns a [Store]. Entries and Entry read a folder's configuration, Put and Delete
// change it, and Approve makes an entry count. See the example.
//
// # Lifetime
//
// A Store has no goroutines. Close deletes the records of a Store that has no
// state directory.
//
// # Concurrency
//
// All methods may be called from any goroutine. A reader sees an entry and its
// approval together, even while a writer replaces them. Two Stores must not share
// a state directory.
//
// # Errors
//
// [ErrNotFound] and [ChangedError]. Errors of internal/configfile describe files
// that cannot be used. All other errors come from the operating system.
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

// ErrNotFound is returned if a folder has no entry of a name.
var ErrNotFound = configfile.ErrNotFound

// ChangedError reports that an entry no longer has the content that the caller approved.
type ChangedError struct {
	Name string
	Hash string // the hash of the present content
}

// Error names the entry.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("entry %q has changed: its hash is %s now; read it again", e.Name, e.Hash)
}

// Config configures a [Store].
type Config struct {
	// StateDir is the directory of the records of approvals. Empty: a temporary
	// directory, which Close removes.
	StateDir string

	// Locate replaces StateDir: it returns the directory, which need not exist
	// unless write is set.
	Locate func(write bool) (string, error)

	// Trust lists folders. All entries in them and in the folders below them
	// count. "/" trusts every folder.
	Trust []string

	// RunAs is the user, by name or number, with whose rights folders are read and
	// written. Empty: this program's user. Another user needs root.
	RunAs string

	// Remedy returns a text that says how to approve an entry. The message about
	// an entry that does not count ends with it. Nil: a text about Approve.
	Remedy func(dir string, kind Kind, name, hash string) string
}

// Entry is an entry of a folder's configuration.
type Entry struct {
	Content  json.RawMessage
	Hash     string // the hash of the content; indentation does not change it
	Approved bool   // whether the entry counts
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
// absolute, or if the user Config.RunAs does not exist.
func Open(cfg Config) (*Store, error) {
	user, err := supervise.LookupUser(cfg.RunAs)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
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

// Refusal returns the message for the user about an entry that does not count.
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

// Files returns the Files that reads and writes in folders.
func (s *Store) Files() folder.Files { return s.files }

// Close deletes the records of a store that has no state directory.
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

// resolve returns the path of a folder with symbolic links resolved, as far as the
// folder exists.
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

// Hash returns the hash of a content. Indentation does not change it.
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
