// Package computer offers a desktop to agents as tools of the Model Context Protocol
// (MCP): seeing it, pointer, keyboard, windows, clipboard, and starting programs.
//
// # Usage
//
// NewServer makes a [Server] of a desktop. A Server is an http.Handler for the streamable
// HTTP transport, see the example. [Server.Run] serves one client on stdio. [Relay] serves
// one client on stdio with the tools of a Server elsewhere.
//
// Names and parameters follow Anthropic's computer tool (left_click with
// coordinate, scroll with scroll_direction, key, hold_key, zoom and others). Those of
// OpenAI's (click with x and y, keypress with keys, drag with path and others) have the
// same effect. Each action is a tool. The tool "computer" takes any of them as its action,
// or a list of them as actions.
//
// # Coordinates
//
// Models answer in pixels of the picture that they get, and shrink large pictures
// themselves. So pictures are scaled to a size that models take unchanged ([Config]), and
// coordinates are mapped back to pixels of the screen by the desktop's Observation. Every
// result has the picture's size. Coordinates are always in the last picture of the whole
// screen, never in that of zoom.
//
// Each tool that acts returns a new picture after the screen has stopped changing, unless
// the parameter screenshot is false.
//
// Actions are done in the name of the desktop.Actor of the context, if there is one, else
// of [Config.Actor], else of an agent with the name of the MCP client.
//
// # Lifetime
//
// A Server needs no Close, and does not own its desktop. It has no MCP sessions: after a
// restart of the program, a client's next request works.
//
// # Concurrency
//
// All methods may be called from any goroutine. Any number of clients can use one Server.
// The desktop does their input one call at a time. They share the size of the last
// picture, which matters only when the screen's size changes.
//
// # Errors
//
// The error of an action is a result that is marked as an error, with a text for the model
// that says what to do. If another actor has control of the desktop, the text begins with
// control_held.
package computer
