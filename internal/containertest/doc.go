// Package containertest holds the tests of the server in a container: as its
// process 1, behind the address translation around it, and in the image that the
// Dockerfile makes; it has no code of its own.
//
// # Without an engine
//
// A container engine is seldom at hand where tests run, so bubblewrap makes
// what matters of one: fresh process, IPC and user namespaces, a file system
// that is read-only but for an empty /tmp, 64 MB of /dev/shm, no HOME, no
// capabilities, and no way to make further user namespaces, which is how
// Docker's default seccomp profile leaves a program. The networks are namespaces,
// too, and a forwarder of bytes between them stands for docker run -p.
//
// # With an engine
//
// TestImage, which make test-image runs, builds all targets of the Dockerfile, runs containers
// of them with several users, limits, volumes and agents, and with the settings of the pods in
// deploy/kubernetes, and prints a table. It uses the Docker engine that runs. Without one, root
// starts one from Debian's packages docker.io and iptables: first in the network of this machine,
// to build, then in a network of its own, to run containers, so that neither a bridge nor a rule of
// it stays. The images that the Dockerfile builds on are made with debootstrap and from npm, since
// no registry may be reachable. The test is skipped where none of that can be done.
//
// Such an engine also runs deploy/compose/fleet with docker-compose, as its guide says. The images
// that the fleet takes from a registry are made of Debian's packages by testdata/fleet/Dockerfile. A client
// in another network uses the fleet, a server is killed, and the project is removed.
//
// -run chooses rows. Those that build are needed by those that run:
//
//	make test-image ARGS="-run 'TestImage/(base|desktop,_the_default|fleet|settings)'"
package containertest
