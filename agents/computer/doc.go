// Package computer offers a desktop to agents as tools of the Model Context Protocol (MCP):
// screenshots, pointer, keyboard, windows, clipboard, elements, browser, and starting
// programs.
//
// # Usage
//
// [NewServer] makes a [Server] of a desktop. A Server is an http.Handler for the streamable HTTP
// transport, see the example. [Server.Run] serves one client on stdio. [Relay] serves one
// client on stdio with the tools of a Server elsewhere.
//
// Names and parameters follow Anthropic's computer tool, for example left_click with
// coordinate, and scroll with scroll_direction. The names of OpenAI's tool have the same effect, for
// example click with x and y, and keypress with keys. Each action is a tool. The tool "computer"
// takes any action, or a list of actions.
//
// [Server.Call] executes a call of the computer tool of a [Provider] as the model made it, and
// returns the result in the provider's form. [Server.Tool] returns the tool's definition.
//
// # Coordinates
//
// Models return coordinates in pixels of the picture that they get, and shrink large pictures.
// So the tools scale pictures to a size that models do not shrink ([Config]), and the desktop's
// Observation maps coordinates back to the screen. Every picture comes with its size.
// Coordinates are in the last picture of the whole screen, never in a picture of zoom.
//
// Each tool that acts returns a new picture after the screen has stopped changing, or after two
// seconds, unless the parameter screenshot is false.
//
// The actor of an action is the desktop.Actor of the context, or else [Config.Actor], or else an
// agent with the name of the MCP client.
//
// # Lifetime
//
// A Server needs no Close, and does not own its desktop. It has no MCP sessions: after a restart
// of the program, a client's next request works.
//
// # Concurrency
//
// All methods may be called from any goroutine, and any number of clients can use one Server.
// The desktop executes their input one call at a time. They share the size of the last picture,
// which matters only when the screen's size changes.
//
// # Errors
//
// An action that fails returns a result that is marked as an error, with a text for the model
// that says what to do. If another actor has control of the desktop, the text begins with
// control_held.
package computer
