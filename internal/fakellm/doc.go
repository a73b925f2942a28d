// Package fakellm is a scripted model behind the APIs of Anthropic, OpenAI and Gemini. It tests
// real coding agents without a key and without a network.
//
// # Usage
//
// The prompt holds the answer, as lines that begin with "@":
//
//	@call NAME {json}   call a tool; NAME may be "a|b*": the first one that the request offers
//	@say TEXT           answer; {result}, {images} and {tools} are replaced
//	@think TEXT         think
//	@wait MS            wait, at most until the client disconnects
//	@fail STATUS TEXT   answer with an error of the API
//
// The lines up to the next call answer one request. The lines after it answer the
// request with the call's result. The position in the script follows from the
// conversation, so there is no state, and any number of agents may use one server.
// {result} is the text of the last result, {images} the number of images in the results
// since the script, {tools} the names of the offered tools.
//
// The routes are POST /v1/messages and /v1/messages/count_tokens (Anthropic),
// POST /v1/responses and /v1/chat/completions (OpenAI), POST
// /v1beta/models/{model}:generateContent (Gemini), and GET /v1/models. A call of OpenAI's
// computer tool is "@call computer" with the action.
//
// # Concurrency
//
// A Server may be used concurrently. It keeps all requests for tests.
package fakellm
