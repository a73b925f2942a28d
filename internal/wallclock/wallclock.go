// Package wallclock calls a function at a time of the wall clock.
//
// Timers of package time count the time during which the system runs. They stop while it is
// suspended, and ignore changes of the clock.
package wallclock

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm is an alarm clock. [Start] makes one.
type Alarm struct {
	file *os.File
	work sync.WaitGroup
}

// Start returns an Alarm that calls ring at the time of Set, and whenever the clock
// is set after the first Set. ring is called in one goroutine. The caller must call
// Close.
func Start(ring func()) (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("wall clock: %w", os.NewSyscallError("timerfd_create", err))
	}
	a := &Alarm{file: os.NewFile(uintptr(fd), "timerfd")}
	a.work.Go(func() {
		for b := make([]byte, 8); ; { // timerfd_create(2)
			if _, err := a.file.Read(b); err != nil && !errors.Is(err, unix.ECANCELED) {
				return
			}
			ring()
		}
	})
	return a, nil
}

// Set replaces the time of the alarm. If the time has passed, ring is called immediately.
func (a *Alarm) Set(at time.Time) error {
	raw, err := a.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("wall clock: %w", err)
	}
	spec := &unix.ItimerSpec{Value: unix.NsecToTimespec(max(at.UnixNano(), 1))}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, spec, nil)
	})
	if err = errors.Join(err, os.NewSyscallError("timerfd_settime", failed)); err != nil {
		return fmt.Errorf("wall clock: %w", err)
	}
	return nil
}

// Close stops the alarm and waits for a running call of ring.
func (a *Alarm) Close() {
	_ = a.file.Close() // it fails only after another Close
	a.work.Wait()
}
