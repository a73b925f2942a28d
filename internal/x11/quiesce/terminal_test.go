package quiesce

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestTerminal: a program in a terminal is awake, or has handled a line, when passTerminals
// returns after that line. It ends at the end of the file.
func TestTerminal(t *testing.T) {
	t.Parallel()
	master, slave, err := openTerminal()
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	defer slave.Close()
	cmd := exec.Command("cat")
	cmd.Stdin, cmd.Stdout = slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	asleep := func() (counts []uint64) {
		until(t, "a program that sleeps", func() bool { counts, err = sleeps(cmd.Process.Pid); return err == nil && counts != nil })
		return counts
	}
	write := func(text string) {
		t.Helper()
		if _, err := master.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := (&Display{}).passTerminals(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		before := asleep()
		write("line\n")
		if after, err := sleeps(cmd.Process.Pid); err != nil || after != nil && after[0] == before[0] {
			t.Errorf("slept %v times before a line, and %v after it, %v", before, after, err)
		}
		const answer = "line\r\nline\r\n" // the echo, and what the program writes
		if _, err := io.ReadFull(master, make([]byte, len(answer))); err != nil {
			t.Fatal(err)
		}
	}
	before := parentOf(os.Getpid())
	if !before.terminal {
		t.Error("no child has a terminal")
	}
	write("\x04") // the end of the file
	until(t, "a program that has ended", func() bool { return parentOf(os.Getpid()).ends })
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !parentOf(os.Getpid()).lost(before) {
		t.Error("a program that has ended is still there")
	}
}
