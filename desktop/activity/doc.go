// Package activity describes what actors did on a desktop: their gestures, and what a person
// did while an agent did not have control.
//
// # Usage
//
// [Tracker.Meanwhile] returns the deeds of other actors since the last call for an actor, once
// the actor may act again. See the example. [Join] joins events of buttons and wheels into
// clicks, drags and scrolls.
//
// # Secrets
//
// A [Deed] has the number of characters that were typed, but no text and no keys. For a secret
// that was typed by its name it has not even the number.
//
// # Lifetime
//
// A Tracker is for one desktop, and needs no Close.
//
// # Concurrency
//
// The methods of a Tracker may be called from any goroutine. Join changes its argument.
//
// # Errors
//
// No function fails or blocks.
package activity
