package opencode

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
)

// globalProject is the id of the project of directories outside git repositories.
const globalProject = "global"

// project is a git repository, or everything outside repositories.
type project struct {
	id       string
	worktree string // absolute; "/" outside repositories
}

// projectOf returns the project of a directory, which need not exist.
func projectOf(directory string) project {
	for dir := directory; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			sum := sha256.Sum256([]byte(dir))
			return project{hex.EncodeToString(sum[:20]), dir}
		}
		if dir == filepath.Dir(dir) {
			return project{globalProject, "/"}
		}
	}
}
