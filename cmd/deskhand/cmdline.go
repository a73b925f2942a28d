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

// hide overwrites a secret in argv, which must be the strings of os.Args themselves.
// They lie in the memory that the kernel wrote the command line to, so the process
// list shows stars from then on. Strings of argv change with it; see ownCopy.
func hide(secret string, argv []string) {
	if secret == "" {
		return
	}
	for _, a := range argv {
		// The secret is an argument of its own, or follows --token= or -t.
		if strings.HasSuffix(a, secret) {
			b := unsafe.Slice(unsafe.StringData(a), len(a))
			copy(b[len(a)-len(secret):], strings.Repeat("*", len(secret)))
		}
	}
}
