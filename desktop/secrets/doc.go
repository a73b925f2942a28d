// Package secrets holds values, such as passwords and keys, under names, so that programs and
// agents use a value without knowing it.
//
// # Usage
//
// [New] returns an empty [Store]. [Store.Set] and [Store.Load] add values. [Store.Value] has the
// signature of desktop.Config.SecretValue: with it, desktop.Type.SecretName types a value. See
// the example.
//
// # Lifetime
//
// A store holds its values in memory only, so they end with the program. It needs no Close.
//
// # Concurrency
//
// All functions and methods may be called from any goroutine.
//
// # Errors
//
// Errors name secrets, variables and files. No error contains a value or a part of one, and
// neither does the text of a store that package fmt prints.
package secrets
