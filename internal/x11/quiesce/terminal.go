package quiesce

import (
	"context"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// passTerminals waits until the kernel has passed on what programs have written to terminals.
// A thread of the kernel does that later, and only then wakes the program in the terminal: on a
// busy machine, more than 20 ms later. A line through a terminal of our own comes after what was
// written before it.
func (d *Display) passTerminals(ctx context.Context) error {
	master, slave, err := openTerminal()
	if err != nil {
		return nil //nolint:nilerr // there are no terminals here
	}
	defer master.Close()
	defer slave.Close()
	if _, err := master.WriteString("\n"); err != nil {
		return nil //nolint:nilerr // the same
	}
	return d.poll(ctx, func() (bool, error) {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(slave.Fd()), Events: unix.POLLIN}}, 1) // for a millisecond
		return n > 0, nil
	})
}

// openTerminal opens both ends of a new pseudo terminal (pty(7)).
func openTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}
