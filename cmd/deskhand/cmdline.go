package main

import (
	"strings"
	"unsafe"
)

// ownCopy copies a command line out of the memory that the kernel shows to all
// users in /proc/PID/cmdline.
func ownCopy(argv []string) []string {
	args := make([]string, len(argv))
	for i, a := range argv {
		args[i] = strings.Clone(a)
	}
	return args
}

// hide overwrites a secret in argv, which must be the strings of os.Args
// themselves: the runtime makes them of the memory that the kernel wrote the
// command line to, so that the process list shows the stars from then on.
// Whoever reads strings of argv sees them change: use ownCopy's.
func hide(secret string, argv []string) {
	if secret == "" {
		return
	}
	for _, a := range argv {
		// It is a word of its own, or follows --token= or -t.
		if strings.HasSuffix(a, secret) {
			b := unsafe.Slice(unsafe.StringData(a), len(a))
			copy(b[len(a)-len(secret):], strings.Repeat("*", len(secret)))
		}
	}
}
