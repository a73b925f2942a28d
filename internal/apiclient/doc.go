// Package apiclient is a command line made of an OpenAPI document: every route
// of a server is a command, without a line of code for any of them.
//
// # Usage
//
//	c := apiclient.Command{Name: "deskhand api", Document: httpapi.OpenAPI(), ...}
//	err := c.Run(ctx, []string{"desktop", "mouse", "click", "10", "20"})
//
// # How commands are called
//
// These rules make a command of a route; nothing else goes in, so that who
// knows the route knows the command.
//
//  1. The path's fixed segments are the words, without a v1 at the beginning
//     and a ws at the end.
//  2. The path's parameters are arguments after the words, in their order.
//  3. A verb ends the words of a collection, which is a path that others
//     continue with a parameter, and of a member of one, which is a path that
//     ends in a parameter. GET is list and get, POST is create and post, PUT is
//     put, PATCH is update, DELETE is delete.
//  4. Other paths have one as well when several methods share them or the only
//     method changes something in place (PUT, PATCH, DELETE). GET is get, POST
//     is set.
//
// A member whose only method is POST is made by it: that is create. What releases
// of sandbox-agent before 0.2 called "sessions send-message", events-sse,
// reply-permission and so on is understood as well.
//
// So GET /v1/desktop/screenshot is "desktop screenshot", GET /v1/desktops is
// "desktops list", POST /v1/desktops/{desktop}/windows/{id}/move is "desktops
// windows move DESKTOP ID", and DELETE /v1/fs/entry is "fs entry delete". Every
// route can be named by method and path too: "GET /v1/desktop/screenshot".
//
// # What they take
//
// Query and header parameters and the members of a JSON body are flags, in
// kebab case; the names of the document work as well. Members of objects are
// --a.b, lists are flags given more than once, maps are KEY=VALUE. Up to four
// required values, as long as they are texts and numbers, may stand as
// arguments behind those of the path; where nothing is required, what is
// called path, from and to may. When the last of them names a program,
// what follows are its arguments: "processes run -- ls -l /tmp".
//
// # Lifetime and concurrency
//
// A [Command] is used for one [Command.Run], which waits for all that it
// started. The context ends it in the middle.
//
// # Errors
//
// [UsageError] is a command line that was not understood, [ProblemError] an
// answer that tells of an error, [InterruptedError] an end by the context.
// Others are about the way to the server, or files.
package apiclient
