// Package panics keeps a panic in a goroutine from ending the program.
package panics

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Err is the error of a function that panicked. It does not have the value of the panic, in which
// may be what the function worked on.
var Err = errors.New("panic; the log has its stack")

// Catch calls f and returns its error. If f panics, Catch logs the panic with its stack, and returns
// Err.
func Catch(log *slog.Logger, op string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic", "op", op, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = Err
		}
	}()
	return f()
}
