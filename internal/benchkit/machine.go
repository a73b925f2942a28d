package benchkit

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes the machine and this program's Go on one line.
func Machine() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("uname: %w", err)
	}
	return fmt.Sprintf("%s; %d cores; Linux %s; %s", processor(), runtime.NumCPU(),
		unix.ByteSliceToString(name.Release[:]), runtime.Version()), nil
}

// processor returns the model of the processor.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return "processor unknown (" + runtime.GOARCH + ")"
}

// LoadAverage returns the machine's load average of the last minute. A high one
// before a run means that other programs disturb the measurement.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}
