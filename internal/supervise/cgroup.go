package agents

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ownCgroup is the folder of the control group of version 2 that this program is
// in, or "".
func ownCgroup() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for _, dir := range cgroupFolders(string(mounts), string(self)) {
		// What is mounted may be hidden by another mount, or be of another
		// namespace: only the group itself knows.
		procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err == nil && strings.Contains("\n"+string(procs), "\n"+strconv.Itoa(os.Getpid())+"\n") {
			return dir
		}
	}
	return ""
}

// cgroupFolders are the places where a process's group may be found, by its
// mountinfo and cgroup files (proc_pid_mountinfo(5), cgroups(7)): with version 2
// alone, mostly one below /sys/fs/cgroup; beside version 1, below
// /sys/fs/cgroup/unified; in a container, the mount may begin at its group.
func cgroupFolders(mountinfo, cgroup string) (folders []string) {
	own := ""
	for line := range strings.Lines(cgroup) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			own = path
		}
	}
	if !filepath.IsAbs(own) {
		return nil
	}
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if len(mount) < 6 || len(kind) < 1 || kind[0] != "cgroup2" {
			continue
		}
		root, point := unescaped(mount[3]), unescaped(mount[4])
		rel, err := filepath.Rel(root, own)
		if err == nil && filepath.IsLocal(rel) && !strings.HasPrefix(root, "/..") && !strings.HasPrefix(own, "/..") {
			folders = append(folders, filepath.Join(point, rel))
		}
	}
	return folders
}

// unescaped is a path as mountinfo has it: blanks, tabs, ends of lines and
// backslashes are octal numbers there.
func unescaped(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
