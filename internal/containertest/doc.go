// Package containertest holds the tests of the server in a container: as its
// process 1, and behind the address translation around it; it has no code of its
// own.
//
// A container engine is seldom at hand where tests run, so bubblewrap makes
// what matters of one: fresh process, IPC and user namespaces, a file system
// that is read-only but for an empty /tmp, 64 MB of /dev/shm, no HOME, no
// capabilities, and no way to make further user namespaces, which is how
// Docker's default seccomp profile leaves a program. The networks are namespaces,
// too, and a forwarder of bytes between them stands for docker run -p.
package containertest
