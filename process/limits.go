package process

import (
	"cmp"
	"time"
)

// Limits bound the resources of processes. [Manager.SetLimits] changes them. A zero field
// has its default in Config only.
type Limits struct {
	// MaxProcesses is the maximum number of managed processes of OwnerUser that
	// run, and, counted separately, of calls of Run. Zero: 64.
	MaxProcesses int

	// RunTimeout is the timeout of Run if its options set none. Zero: 30 s. A value
	// above MaxRunTimeout is lowered to it.
	RunTimeout time.Duration

	// MaxRunTimeout is the longest timeout of Run. Zero: 5 min.
	MaxRunTimeout time.Duration

	// MaxOutput is how many bytes of each of the two outputs Run keeps at most.
	// Zero: 1 MiB.
	MaxOutput int

	// MaxLog is how many bytes the log of one process keeps: the last ones.
	// Zero: 10 MiB.
	MaxLog int

	// MaxInput is the maximum number of bytes of one Write. Zero: 64 KiB.
	MaxInput int
}

// DefaultLimits returns the limits that the zero value stands for.
func DefaultLimits() Limits { return Limits{}.withDefaults() }

func (l Limits) withDefaults() Limits {
	return Limits{
		MaxProcesses:  cmp.Or(l.MaxProcesses, 64),
		RunTimeout:    cmp.Or(l.RunTimeout, 30*time.Second),
		MaxRunTimeout: cmp.Or(l.MaxRunTimeout, 5*time.Minute),
		MaxOutput:     cmp.Or(l.MaxOutput, 1<<20),
		MaxLog:        cmp.Or(l.MaxLog, 10<<20),
		MaxInput:      cmp.Or(l.MaxInput, 64<<10),
	}
}

// check returns an InvalidError if a limit is not positive. It lowers RunTimeout to
// MaxRunTimeout.
func (l Limits) check() (Limits, error) {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxProcesses", int64(l.MaxProcesses)},
		{"RunTimeout", int64(l.RunTimeout)},
		{"MaxRunTimeout", int64(l.MaxRunTimeout)},
		{"MaxOutput", int64(l.MaxOutput)},
		{"MaxLog", int64(l.MaxLog)},
		{"MaxInput", int64(l.MaxInput)},
	} {
		if f.value <= 0 {
			return l, &InvalidError{Field: f.name, Reason: "must be greater than 0"}
		}
	}
	l.RunTimeout = min(l.RunTimeout, l.MaxRunTimeout)
	return l, nil
}
