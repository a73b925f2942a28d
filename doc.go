// Package deskhand is the map of the module; it has no code.
//
// deskhand gives a program, or an agent, a computer to use: virtual Linux
// desktops that it can see and act on. Import
//
//   - desktop to run a desktop, take screenshots of it, and use its pointer,
//     keyboard, clipboard and windows;
//   - httpapi to serve that over HTTP, in the wire format of sandbox-agent.
//
// The command cmd/deskhand is the server built from them.
package deskhand
