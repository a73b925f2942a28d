// Package apiclient is a command line made of an OpenAPI document: each route of a
// server is a command, without code for any of them.
//
// # Usage
//
//	c := apiclient.Command{Name: "deskhand api", Document: httpapi.OpenAPI(), ...}
//	err := c.Run(ctx, []string{"desktop", "mouse", "click", "10", "20"})
//
// # Commands
//
// The words of a command follow from its route by four rules.
//
//  1. The words are the fixed segments of the path, without a v1 at the beginning
//     and a ws at the end.
//  2. The parameters of the path are arguments after the words, in their order.
//  3. A verb ends the words of a collection, which is a path that others continue
//     with a parameter, and of a member, which is a path that ends in a parameter.
//     GET is list and get, POST is create and post, PUT is put, PATCH is update,
//     DELETE is delete. A member whose only method is POST has create.
//  4. A verb ends the words of another path if several methods share it or its
//     method is PUT, PATCH or DELETE. GET is get, POST is set.
//
// GET /v1/desktop/screenshot is "desktop screenshot", GET /v1/desktops is "desktops
// list", POST /v1/desktops/{desktop}/windows/{id}/move is "desktops windows move
// DESKTOP ID", and DELETE /v1/fs/entry is "fs entry delete". Any route can be called
// by method and path too: "GET /v1/desktop/screenshot". Commands that sandbox-agent
// names otherwise, such as "acp stream", are aliases.
//
// # Flags and arguments
//
// Each parameter and each member of a JSON body is a flag in kebab case. Lists are
// flags given more than once. Objects are KEY=VALUE or JSON. Required texts and
// numbers may stand as arguments, in the order of the help. Further arguments are
// the member called args: "processes run -- ls -l /tmp".
//
// --json and --data give a whole body and exclude the flags of members. A body that
// may be one of several objects has no flags of members.
//
// The command line does not check values, correct words or guess media types. The
// server checks values against the document. A misspelt word is an error.
//
// # Lifetime and concurrency
//
// [Command.Run] waits for all that it started. It ends early with its context. A
// Command may be run again after Run has returned.
//
// # Errors
//
// Run returns a [UsageError] for a wrong command line, a [ProblemError] for an
// answer that reports an error, and an [InterruptedError] after the end of the
// context. Other errors are of the connection or of files.
package apiclient
