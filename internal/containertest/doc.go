// Package containertest holds the test of the server as process 1 of a
// container; it has no code of its own.
//
// A container engine is seldom at hand where tests run, so bubblewrap makes
// what matters of one: fresh process, IPC and user namespaces, a file system
// that is read-only but for an empty /tmp, 64 MB of /dev/shm, no HOME, no
// capabilities, and no way to make further user namespaces, which is how
// Docker's default seccomp profile leaves a program.
package containertest
