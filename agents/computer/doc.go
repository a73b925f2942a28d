// Package computer offers a desktop to agents as tools of the Model Context
// Protocol: seeing it, pointing, typing, windows, the clipboard, starting
// programs.
//
// # Usage
//
//	d, err := desktop.Start(ctx, desktop.Config{})
//	s, err := computer.NewServer(d, computer.Config{})
//	http.Handle("/mcp", s)                  // streamable HTTP
//	err = s.Run(ctx, os.Stdin, os.Stdout)   // or one client on stdio
//
// Names and parameters are those of Anthropic's computer tool (left_click with
// coordinate, scroll with scroll_direction, key, hold_key, zoom, ...); those of
// OpenAI's (click with x and y, keypress with keys, drag with path, ...) mean
// the same. Each action is a tool; the tool computer takes any of them as its
// action, and a list of them as actions.
//
// # Coordinates
//
// Models answer in pixels of the picture that they were given, and shrink large
// ones themselves. So pictures are scaled to what a model takes as it is
// ([Config]), and coordinates in them mapped back to the screen's pixels by the
// desktop's Observation. Every result tells the picture's size. Coordinates
// always are in the last picture of the whole screen; those of zoom's picture
// mean nothing.
//
// Each tool that acts answers with a fresh picture of the settled screen, unless
// screenshot is false.
//
// # Lifetime
//
// A [Server] has nothing to close, and does not own its desktop. It keeps no
// sessions: after a restart the next request works.
//
// # Concurrency
//
// Everything may be called from any goroutine, and any number of clients may use
// one Server; the desktop does their input one at a time. They share the memory
// of which picture was last, which matters only around a change of the screen's
// size.
//
// # Errors
//
// What goes wrong with an action is told to the model as text that names the
// remedy, in a result that is marked as an error. Somebody else's control of the
// desktop begins with control_held.
//
// # Who acts
//
// Actions are done in the name of the context's desktop.Actor, if it has one,
// else of [Config.Actor], else of an agent with the MCP client's name.
package computer
