// Package npmtest tests the npm packages of the folder npm.
//
// Its tests build the packages with npm/build.mjs, serve them from a registry on
// this machine, install them with npm into empty folders, and run the scripts in
// npm/test with node.
//
// # Usage
//
//	go test ./internal/npmtest
//	make test-npm
//
// The second form also builds the packages of all platforms, and runs the Docker
// provider on a Docker engine that it starts. The other vendors' providers run
// with the vendors' SDKs on recorded answers.
//
// # Requirements
//
// node 20 or later, npm, make and, at the first run, the npm registry; for
// make test-npm also dockerd, docker and debootstrap, and root.
package npmtest
