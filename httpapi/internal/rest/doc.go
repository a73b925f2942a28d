// Package rest is the HTTP layer below the routes of package httpapi. It does not depend on
// desktops, processes or agents.
//
// # Routes
//
// An area of the API is a package of its own. It keeps a [Group], which has the [API] and
// the area's table of problems, and adds each [Route] with [Add]. The function of a route
// gets the decoded request, makes a call into the domain and returns what is encoded. An
// error that it returns becomes the [Problem] that the area's table has for it, or one of
// those that all areas have in common.
//
// # Access
//
// [API] checks the request's origin, its token and the scope that the route needs before
// the route's function runs.
//
// # Bodies and streams
//
// Bodies and answers in memory count against [BodyMemory]. Files and archives pass in
// pieces of [ChunkSize] bytes. [API.Follow] answers with an event stream, [API.Upgrade]
// with a WebSocket, [AnswerLong] and [Beat] with an answer that may take minutes.
package rest
