package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/internal/supervise"
)

const aboutDaemon = `Runs a server in the background.

  start    start it, and wait until it answers; flags of the server follow after --
  stop     end it, and wait for its end
  status   tell whether it runs; the exit status is 1 when it does not

Its number, its version and its log are $XDG_DATA_HOME/deskhand/daemon/daemon-HOST-PORT.*`

// readyPrefix begins the line that the server prints when it is ready. As JSON the
// line has readyMessage and a url.
const (
	readyPrefix  = readyMessage + " at "
	readyMessage = "deskhand is ready"
)

const (
	// daemonStart is how long a server may take until it answers.
	daemonStart = time.Minute
	// daemonPoll is how often it is looked whether something has happened.
	daemonPoll = 50 * time.Millisecond
)

// daemonFlags are what the three commands take.
type daemonFlags struct {
	serverFlags
	upgrade bool
}

func (p program) daemon(ctx context.Context, access accessFlags, args []string) error {
	f := daemonFlags{serverFlags: serverFlags{accessFlags: access}}
	flags := p.flags("daemon", "")
	flags.StringVarP(&f.host, "host", "H", "127.0.0.1", "`address` to listen on")
	flags.Uint16VarP(&f.port, "port", "p", defaultPort, "`port` to listen on")
	f.accessFlags.register(flags)
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` that holds the token")
	flags.BoolVar(&f.upgrade, "upgrade", false, "start: replace one of another version")
	flags.Bool("no-telemetry", false, "accepted for compatibility; there is no telemetry")
	flags.Usage = func() {
		p.showHelp(helpText{"daemon start|stop|status [FLAGS] [-- SERVER-FLAGS]", aboutDaemon, flags})
	}
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
	switch command {
	case "start":
		return p.startDaemon(ctx, d, f, rest)
	case "stop":
		return p.stopDaemon(ctx, d)
	case "status":
		return p.daemonStatus(d)
	}
	return usagef("there is no command %q of daemon; there are start, stop, status", command)
}

// daemon names the files of the server that the flags mean.
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

func (p program) startDaemon(ctx context.Context, d *daemon, f daemonFlags, more []string) error {
	lock, err := d.claim()
	switch {
	case errors.Is(err, errRunning) && f.upgrade && d.version() != versionText():
		fmt.Fprintf(p.stdout, "version %s ends, version %s takes its place\n", d.version(), versionText())
		if err := p.stopDaemon(ctx, d); err != nil {
			return err
		}
		lock, err = d.claim()
	case errors.Is(err, errRunning):
		return p.daemonStatus(d)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	url, err := p.launchDaemon(ctx, d, f, lock, more)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "deskhand runs in the background at %s, as process %d; its log is %s\n", url, d.pid(), d.log)
	return err
}

// launchDaemon starts the server, which inherits the lock, and waits until it
// answers.
func (p program) launchDaemon(ctx context.Context, d *daemon, f daemonFlags, lock *os.File, more []string) (url string, err error) {
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
	hide(token, p.argv)
	env := supervise.Environ(os.Environ(), append(slices.Clone(ownVariables), lockVariable+"=3", "DESKHAND_TOKEN_FILE", "SANDBOX_AGENT_TOKEN_FILE")...)
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

// await waits until the server says that it is ready, and answers.
func (d *daemon) await(ctx context.Context, server *supervise.Detached) (url string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, daemonStart, fmt.Errorf("it did not answer within %v; its log is %s", daemonStart, d.log))
	defer cancel()
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	tick := time.NewTicker(daemonPoll)
	defer tick.Stop()
	for {
		if url = d.readyAt(); url != "" && answers(ctx, client, url) {
			return url, nil
		}
		select {
		case <-server.Done():
			return "", fmt.Errorf("it ended at once (%v):\n%s", server, indent(d.tail()))
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// answers says whether a server is alive.
func answers(ctx context.Context, client *http.Client, url string) bool {
	base, _, _ := strings.Cut(url, "?")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"livez", nil)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// readyAt is the URL that the server has printed; empty: it is not ready.
func (d *daemon) readyAt() string {
	f, err := os.Open(d.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewReader(io.LimitReader(f, 1<<20)); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return "" // of a line that is being written, the end may be missing
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

// tail is the end of the log.
func (d *daemon) tail() string {
	const most = 2 << 10
	text, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	text = text[max(0, len(text)-most):]
	return string(bytes.TrimSpace(text))
}

func (p program) stopDaemon(ctx context.Context, d *daemon) error {
	if !d.running() {
		_, err := fmt.Fprintf(p.stdout, "no daemon runs at %s\n", d.address)
		return errors.Join(err, d.forget())
	}
	pid := d.pid()
	if err := d.end(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "process %d has ended\n", pid)
	return err
}

func (p program) daemonStatus(d *daemon) error {
	if !d.running() {
		return fmt.Errorf("no daemon runs at %s", d.address)
	}
	_, err := fmt.Fprintf(p.stdout, "version %s runs at http://%s/, as process %d; its log is %s\n", d.version(), d.address, d.pid(), d.log)
	if err == nil && d.version() != versionText() {
		_, err = fmt.Fprintf(p.stdout, "this program is version %s: '%s daemon start --upgrade' replaces it\n", versionText(), p.name)
	}
	return err
}
