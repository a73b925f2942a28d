package supervise

import (
	"os"
	"path/filepath"
	"strings"
)

// Mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type Mount struct {
	Root    string // the mounted directory of the file system
	Point   string // the directory it is mounted on
	Type    string // such as "cgroup2"
	Options string // of the file system, separated by commas
}

// Mounts returns the mounts that this program sees.
func Mounts() ([]Mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	return parseMounts(string(text)), err
}

func parseMounts(text string) []Mount {
	var list []Mount
	for line := range strings.Lines(text) {
		left, right, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(left), strings.Fields(right)
		if len(where) >= 6 && len(what) >= 3 {
			list = append(list, Mount{Root: octal.Replace(where[3]), Point: octal.Replace(where[4]), Type: what[0], Options: what[2]})
		}
	}
	return list
}

// octal replaces the octal escapes of paths.
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// folder returns the folder of a control group below the mount. It reports false if
// the group is outside of what is mounted.
func (m Mount) folder(group string) (string, bool) {
	rel, err := filepath.Rel(m.Root, group)
	if err != nil || !filepath.IsLocal(rel) || strings.HasPrefix(m.Root, "/..") || strings.HasPrefix(group, "/..") {
		return "", false
	}
	return filepath.Join(m.Point, rel), true
}
