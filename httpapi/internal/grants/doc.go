// Package grants has the tokens other than the server's own: what each allows, where it is
// kept, and when it ends.
//
// A [Store] has tokens that clients make, which survive a restart, and tokens of agents
// that run here, which end with the agent's process. The value of a token is known to its
// holder alone. The store keeps a hash of it.
//
// Servers with one log of sessions accept each other's tokens, except tokens for one desktop: see
// Config.Log.
//
// The context of a [Grant] ends when the token expires, is revoked, or its desktop is
// deleted. Whatever the token is used for watches that context.
package grants
