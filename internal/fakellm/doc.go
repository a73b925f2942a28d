// Package fakellm is a scripted model behind the APIs of
// Anthropic and OpenAI, so that real coding agents can be tested without a key
// and without a network.
//
// # Usage
//
// The prompt holds the answer, as lines that begin with "@":
//
//	@call NAME {json}   call a tool; NAME may be "a|b*": the first one that the request offers
//	@say TEXT           answer; {result}, {images} and {tools} are replaced
//	@think TEXT         think
//	@wait MS            wait, or until the request is given up
//	@fail STATUS TEXT   answer with an error of the API
//
// One request is answered with the lines up to the next call. When the agent
// comes back with the call's result, the lines after it follow. Where it is in
// the script is read off the conversation, so there is no state, and any number
// of agents may use one server. {result} is the text of the last result,
// {images} how many images came with the results since the script, {tools} the
// names of the tools that were offered.
//
// The routes are POST /v1/messages and /v1/messages/count_tokens (Anthropic),
// POST /v1/responses and /v1/chat/completions (OpenAI), and GET /v1/models.
//
// # Concurrency
//
// A Server may be used by any number of goroutines. It remembers the last 1000
// requests, for tests to look at.
package fakellm
