package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/internal/supervise"
)

const aboutDaemon = `Runs a server in the background.

  start    start the server and wait until it answers; its flags follow after --
  stop     end the server and wait for its end
  status   print whether the server runs; the exit status is 1 if it does not

The process id, the version and the log of the server are in
$XDG_DATA_HOME/deskhand/daemon/daemon-HOST-PORT.*`

// readyPrefix begins the line that the server prints when it is ready. As JSON the
// line has readyMessage and a url.
const (
	readyPrefix  = readyMessage + " at "
	readyMessage = "deskhand is ready"
)

const (
	daemonStart = time.Minute // for a server to answer
	daemonPoll  = 50 * time.Millisecond
)

// daemonFlags are the flags of the three commands.
type daemonFlags struct {
	serverFlags
	upgrade bool
}

// daemonCommand is a call of the command daemon.
type daemonCommand struct {
	program
	daemon *daemon
	flags  daemonFlags
}

func (p program) daemon(ctx context.Context, access accessFlags, args []string) error {
	f := daemonFlags{serverFlags: serverFlags{accessFlags: access}}
	flags := p.flags("daemon start|stop|status [FLAGS] [-- SERVER-FLAGS]", aboutDaemon)
	flags.StringVarP(&f.host, "host", "H", "127.0.0.1", "`address` to listen on")
	flags.Uint16VarP(&f.port, "port", "p", defaultPort, "`port` to listen on")
	f.accessFlags.register(flags)
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` that holds the token")
	flags.BoolVar(&f.upgrade, "upgrade", false, "start: replace a running server of another version")
	flags.Bool("no-telemetry", false, "accepted for compatibility; there is no telemetry")
	if err := parse(flags, args); err != nil {
		return err
	}
	rest := flags.Args()
	if len(rest) == 0 {
		return usagef("daemon what? There are: daemon start, daemon stop, daemon status")
	}
	command, rest := rest[0], rest[1:]
	if len(rest) > 0 && command != "start" {
		return usagef("daemon %s takes no argument, so not %q", command, rest[0])
	}
	d, err := f.daemon(flags)
	if err != nil {
		return err
	}
	c := daemonCommand{program: p, daemon: d, flags: f}
	switch command {
	case "start":
		return c.start(ctx, rest)
	case "stop":
		return c.stop(ctx)
	case "status":
		return c.status()
	}
	return usagef("there is no command %q of daemon; there are start, stop, status", command)
}

// daemon returns the files of the server with the host and port of the flags.
func (f *daemonFlags) daemon(flags *pflag.FlagSet) (*daemon, error) {
	if err := f.environment(flags); err != nil {
		return nil, err
	}
	if f.port == 0 {
		return nil, usagef("--port must be from 1 to 65535: the files of a daemon are named after it")
	}
	dir := userDir("XDG_DATA_HOME", ".local/share", "daemon")
	if dir == "" {
		return nil, errors.New("this user has no home directory for the daemon's files; set HOME or XDG_DATA_HOME")
	}
	return newDaemon(dir, f.host, f.port), nil
}

func (c daemonCommand) start(ctx context.Context, more []string) error {
	d := c.daemon
	lock, err := d.claim()
	switch {
	case errors.Is(err, errRunning) && c.flags.upgrade && d.version() != versionText():
		fmt.Fprintf(c.stdout, "replacing version %s with version %s\n", d.version(), versionText())
		if err := c.stop(ctx); err != nil {
			return err
		}
		lock, err = d.claim()
	case errors.Is(err, errRunning):
		return c.status()
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	url, err := c.launch(ctx, lock, more)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.stdout, "deskhand runs in the background at %s, as process %d; its log is %s\n", url, d.pid(), d.log)
	return err
}

// launch starts the server, which inherits the lock, and waits until it
// answers.
func (c daemonCommand) launch(ctx context.Context, lock *os.File, more []string) (url string, err error) {
	d, f := c.daemon, c.flags
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	log, err := d.openLog()
	if err != nil {
		return "", err
	}
	defer log.Close()
	token, err := f.resolve()
	if err != nil {
		return "", err
	}
	hide(token, c.argv)
	env := supervise.Environ(os.Environ(), lockVariable+"=3",
		"DESKHAND_TOKEN", "SANDBOX_AGENT_TOKEN", "DESKHAND_TOKEN_FILE", "SANDBOX_AGENT_TOKEN_FILE") // without these four
	args := []string{"server", "--host", f.host, "--port", fmt.Sprint(f.port)}
	if f.noToken {
		args = append(args, "--no-token")
	} else if token != "" {
		env = supervise.Environ(env, "DESKHAND_TOKEN="+token)
	}
	server, err := supervise.Detach(self, append(args, more...), env, log, lock)
	if err != nil {
		return "", err
	}
	if err := d.record(server.PID(), versionText()); err != nil {
		return "", errors.Join(err, d.end(context.WithoutCancel(ctx)))
	}
	url, err = d.await(ctx, server)
	if err == nil {
		return url, nil
	}
	select {
	case <-server.Done(): // this program alone holds the lock then
		return "", errors.Join(err, lock.Close(), d.forget())
	default:
		return "", errors.Join(err, d.end(context.WithoutCancel(ctx)))
	}
}

// await waits until the server has printed its URL and answers there.
func (d *daemon) await(ctx context.Context, server *supervise.Detached) (url string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, daemonStart, fmt.Errorf("it did not answer within %v; its log is %s", daemonStart, d.log))
	defer cancel()
	tick := time.NewTicker(daemonPoll)
	defer tick.Stop()
	for {
		url = d.readyAt()
		if base, _, _ := strings.Cut(url, "?"); url != "" && checkAlive(ctx, base) == nil {
			return url, nil
		}
		select {
		case <-server.Done():
			return "", fmt.Errorf("it ended immediately (%v):\n%s", server, indent(d.tail()))
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// readyAt returns the URL that the server has printed, or "".
func (d *daemon) readyAt() string {
	f, err := os.Open(d.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewReader(io.LimitReader(f, 1<<20)); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return "" // the last line may be incomplete
		}
		if url, ok := strings.CutPrefix(line, readyPrefix); ok {
			return strings.TrimSuffix(url, "\n")
		}
		var entry struct{ Msg, URL string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == readyMessage {
			return entry.URL
		}
	}
}

// tail returns the end of the log.
func (d *daemon) tail() string {
	const most = 2 << 10
	text, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	text = text[max(0, len(text)-most):]
	return string(bytes.TrimSpace(text))
}

func (c daemonCommand) stop(ctx context.Context) error {
	d := c.daemon
	if !d.running() {
		_, err := fmt.Fprintf(c.stdout, "no daemon runs at %s\n", d.address)
		return errors.Join(err, d.forget())
	}
	pid := d.pid()
	if err := d.end(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.stdout, "process %d has ended\n", pid)
	return err
}

func (c daemonCommand) status() error {
	d := c.daemon
	if !d.running() {
		return fmt.Errorf("no daemon runs at %s", d.address)
	}
	_, err := fmt.Fprintf(c.stdout, "version %s runs at http://%s/, as process %d; its log is %s\n", d.version(), d.address, d.pid(), d.log)
	if err == nil && d.version() != versionText() {
		_, err = fmt.Fprintf(c.stdout, "this program is version %s: '%s daemon start --upgrade' replaces it\n", versionText(), c.name)
	}
	return err
}
