package process

import "time"

// Limits bound what processes take. They can be changed at any time.
type Limits struct {
	// MaxProcesses is how many managed processes of owner user may run at once,
	// and, counted apart, how many calls of Run. Zero: 64.
	MaxProcesses int

	// RunTimeout is how long Run waits when it is not told. Zero: 30 s. It is
	// cut to MaxRunTimeout.
	RunTimeout time.Duration

	// MaxRunTimeout is how long Run waits at most. Zero: 5 min.
	MaxRunTimeout time.Duration

	// MaxOutput is how many bytes of each of the two outputs Run keeps at most.
	// Zero: 1 MiB.
	MaxOutput int

	// MaxLog is how many bytes the log of one process keeps: the last ones.
	// Zero: 10 MiB.
	MaxLog int

	// MaxInput is how many bytes one Write may have. Zero: 64 KiB.
	MaxInput int
}

// DefaultLimits returns what the zero value stands for.
func DefaultLimits() Limits {
	return Limits{
		MaxProcesses:  64,
		RunTimeout:    30 * time.Second,
		MaxRunTimeout: 5 * time.Minute,
		MaxOutput:     1 << 20,
		MaxLog:        10 << 20,
		MaxInput:      64 << 10,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&l.MaxProcesses, d.MaxProcesses)
	set(&l.MaxOutput, d.MaxOutput)
	set(&l.MaxLog, d.MaxLog)
	set(&l.MaxInput, d.MaxInput)
	if l.RunTimeout == 0 {
		l.RunTimeout = d.RunTimeout
	}
	if l.MaxRunTimeout == 0 {
		l.MaxRunTimeout = d.MaxRunTimeout
	}
	return l
}

// check refuses what is not positive, and cuts what is above another limit.
func (l Limits) check() (Limits, error) {
	switch {
	case l.MaxProcesses <= 0:
		return l, &InvalidError{Field: "maxConcurrentProcesses", Problem: "must be greater than 0"}
	case l.RunTimeout <= 0, l.MaxRunTimeout <= 0:
		return l, &InvalidError{Field: "timeouts", Problem: "must be greater than 0"}
	case l.MaxOutput <= 0, l.MaxLog <= 0, l.MaxInput <= 0:
		return l, &InvalidError{Field: "byte limits", Problem: "must be greater than 0"}
	}
	l.RunTimeout = min(l.RunTimeout, l.MaxRunTimeout)
	return l, nil
}
