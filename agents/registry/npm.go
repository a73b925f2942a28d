package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/internal/folder"
	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	// oldestNode is the oldest version of node with which the agents were tried, except those
	// that name a newer one.
	oldestNode = 20
)

// npm runs npm in one staging folder.
type npm struct {
	in      *installation
	staging string
	env     []string
	cache   string // --cache of npm; empty: the configured one
}

// newNPM checks that npm can be used.
func (in *installation) newNPM(ctx context.Context, dir, staging string) (*npm, error) {
	oldest := cmp.Or(in.agent.node, oldestNode)
	installNode := fmt.Sprintf("install Node.js %d or newer, with npm: the packages nodejs and npm of a recent distribution, or https://nodejs.org", oldest)
	if _, err := in.r.lookPath("npm"); err != nil {
		return nil, in.fail(errors.New("npm is not installed"), installNode)
	}
	env, err := in.r.environ(supervise.User{})
	if err != nil {
		return nil, in.fail(err, "")
	}
	out, err := in.r.output(ctx, supervise.Spec{Path: "node", Args: []string{"--version"}, Env: env})
	if err != nil {
		return nil, in.fail(fmt.Errorf("node: %w", err), installNode)
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(out), "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldest {
		return nil, in.fail(fmt.Errorf("node is %s", strings.TrimSpace(out)), installNode)
	}
	n := &npm{in: in, staging: staging, env: env}
	if in.r.variable("npm_config_cache") == "" && in.r.variable("NPM_CONFIG_CACHE") == "" {
		n.cache = filepath.Join(dir, cacheName)
	}
	return n, nil
}

// dropCache removes npm's downloads. An install that was interrupted reuses them.
func (n *npm) dropCache() {
	if n.cache == "" {
		return
	}
	if err := os.RemoveAll(n.cache); err != nil {
		n.in.r.log.Debug("npm's cache", "error", err)
	}
}

func (n *npm) install(ctx context.Context, packages []npmPackage) (*manifest, error) {
	m := &manifest{Agent: n.in.agent.ID, Source: SourceRegistry, Args: n.in.agent.args, dir: n.staging}
	m.named = n.in.options.AgentVersion != ""
	wanted := map[string]string{}
	for _, p := range packages {
		wanted[n.in.host.fill(p.name)] = p.version
	}
	n.in.report(Progress{Stage: StageResolve, Message: "find the packages of " + n.in.agent.Name})
	if err := n.resolve(ctx, wanted); err != nil {
		return nil, err
	}
	total, err := n.count()
	if err != nil {
		return nil, err
	}
	if err := n.download(ctx, total); err != nil {
		return nil, err
	}
	for _, p := range packages {
		got := packageManifest{
			Name: n.in.host.fill(p.name), Kinds: p.kinds, Node: p.node, Variable: p.variable, check: p.check,
		}
		folder := filepath.Join("node_modules", filepath.FromSlash(got.Name))
		got.Program = filepath.Join(folder, filepath.FromSlash(n.in.host.fill(p.program)))
		if got.Version, err = packageVersion(filepath.Join(n.staging, folder)); err != nil {
			return nil, err
		}
		m.Packages = append(m.Packages, got)
	}
	return m, nil
}

// resolve writes package.json and package-lock.json: the embedded lock if it has the wanted
// packages, else the packages that npm finds in its registry.
func (n *npm) resolve(ctx context.Context, wanted map[string]string) error {
	text, err := json.Marshal(map[string]any{"private": true, "dependencies": wanted})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.staging, "package.json"), text, 0o644); err != nil {
		return err
	}
	lock, err := n.in.pinned(wanted)
	if err != nil {
		return err
	}
	if lock == nil {
		if err := n.run(ctx, StageResolve, nil, "install", "--package-lock-only"); err != nil {
			return err
		}
		return n.checkSources()
	}
	return os.WriteFile(filepath.Join(n.staging, "package-lock.json"), lock, 0o644)
}

// checkSources returns an error if package-lock.json has a package that is not a file of a
// web server, such as a git repository or a folder of this machine.
func (n *npm) checkSources() error {
	packages, err := n.locked()
	if err != nil {
		return err
	}
	for path, p := range packages {
		if p.Link || p.Resolved != "" && !strings.HasPrefix(p.Resolved, "https://") && !strings.HasPrefix(p.Resolved, "http://") {
			return n.in.fail(fmt.Errorf("%s comes from %s, not from npm's registry", path, p.Resolved), "choose another version")
		}
	}
	return nil
}

// maxJSON bounds the JSON files of packages that are read.
const maxJSON = 16 << 20

func packageVersion(dir string) (string, error) {
	text, err := folder.Files{}.Read(dir, "package.json", maxJSON)
	if err != nil {
		return "", err
	}
	var p struct{ Version string }
	if err := json.Unmarshal(text, &p); err != nil || p.Version == "" {
		return "", fmt.Errorf("%s: package.json without a version", dir)
	}
	return filepath.Base(p.Version), nil // it becomes a folder's name
}

// lockedPackage is a package of package-lock.json.
type lockedPackage struct {
	OS       []string `json:"os"`
	CPU      []string `json:"cpu"`
	Libc     []string `json:"libc"`
	Dev      bool     `json:"dev"`
	Link     bool     `json:"link"`
	Resolved string   `json:"resolved"`
}

// locked returns the packages of package-lock.json by their folders.
func (n *npm) locked() (map[string]lockedPackage, error) {
	text, err := folder.Files{}.Read(n.staging, "package-lock.json", maxJSON)
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]lockedPackage `json:"packages"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	return lock.Packages, nil
}

func (n *npm) count() (int, error) {
	packages, err := n.locked()
	if err != nil {
		return 0, err
	}
	total := 0
	for path, p := range packages {
		if path != "" && !p.Dev && n.in.host.fits(p.OS, p.CPU, p.Libc) {
			total++
		}
	}
	return total, nil
}

// sizePoll is the interval between measurements of the download.
const sizePoll = 500 * time.Millisecond

// download downloads the packages of package-lock.json.
func (n *npm) download(ctx context.Context, total int) error {
	var mu sync.Mutex // guards p, and calls of report
	p := Progress{Stage: StageDownload, Total: total, Message: "download " + n.in.agent.Name}
	n.in.report(p)
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(sizePoll)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				size, _ := sizeOf(filepath.Join(n.staging, "node_modules"))
				mu.Lock()
				if size != p.Bytes {
					p.Bytes = size
					n.in.report(p)
				}
				mu.Unlock()
			}
		}
	})
	seen := map[string]bool{}
	err := n.run(ctx, StageDownload, func(line []byte) {
		name := fetched(string(line))
		if name == "" || seen[name] {
			return
		}
		seen[name] = true
		mu.Lock()
		defer mu.Unlock()
		p.Done, p.Message = min(len(seen), total), "got "+name
		n.in.report(p)
	}, "ci")
	close(stop)
	wait.Wait()
	return err
}

// fetched returns the package that was fetched, or taken from the cache, according to a
// line of npm's log, or "".
//
//	npm http fetch GET 200 https://registry.npmjs.org/pi-acp/-/pi-acp-0.0.34.tgz 66ms (cache miss)
//	npm http cache pi-acp@https://registry.npmjs.org/pi-acp/-/pi-acp-0.0.34.tgz 0ms (cache hit)
func fetched(line string) string {
	for word := range strings.FieldsSeq(line) {
		if name, ok := strings.CutSuffix(word, ".tgz"); ok && strings.Contains(line, "npm http") {
			return name[strings.LastIndexByte(name, '/')+1:]
		}
	}
	return ""
}

// sizeOf returns the size of the files below a folder, and the number of files and folders. It
// ignores files that disappear.
func sizeOf(dir string) (size, entries int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		entries++
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size, entries
}

// run runs npm. npm runs no scripts of packages: native programs are packages of their own.
// Nor does it fetch from git: npm installs the dependencies of a repository in its folder,
// and the .npmrc there can name the programs that it runs. npm before 11.10 does not know
// --allow-git. It runs the program false as git, and reads no node-options there.
func (n *npm) run(ctx context.Context, stage Stage, line func([]byte), args ...string) error {
	args = append(args, "--prefix", n.staging, "--ignore-scripts", "--allow-git=none", "--git=false", "--node-options=", "--omit=dev", "--no-audit", "--no-fund", "--no-progress",
		"--no-update-notifier", "--loglevel=http", "--logs-max=0")
	if n.cache != "" {
		args = append(args, "--cache", n.cache)
	}
	out := &lines{limit: maxLine, each: line}
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { n.limitSize(ctx, cancel) })
	exit, tail, err := n.in.r.finish(ctx, supervise.Spec{
		Name: "npm", Path: "npm", Args: args, Dir: n.staging, Env: n.env, Output: out,
	})
	cancel(nil)
	watch.Wait()
	if err == nil {
		err = n.checkSize()
	}
	switch {
	case errors.Is(err, errTooLarge):
		n.dropCache()
		return err
	case err != nil:
		return err
	case exit.Code == 0:
		return nil
	}
	stderr := withoutHTTP(tail)
	code := npmCode(stderr)
	text := fmt.Sprintf("npm %s: %v", args[0], exit)
	if code != "" {
		text += " (" + code + ")"
	}
	return &InstallError{
		Agent: n.in.agent.ID, Stage: stage, Stderr: stderr, Remedy: npmRemedies[code],
		Err: errors.New(text),
	}
}

// limitSize calls cancel when the install is too large. It returns when ctx has ended.
func (n *npm) limitSize(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(sizePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := n.checkSize(); err != nil {
			cancel(err)
		}
	}
}

// entrySize is what a file or folder counts in addition to its bytes.
const entrySize = 4 << 10

// checkSize returns an error if the files of the install have more than maxBytes.
func (n *npm) checkSize() error {
	size, entries := sizeOf(n.staging)
	if n.cache != "" {
		cached, more := sizeOf(n.cache)
		size, entries = size+cached, entries+more
	}
	if size+entries*entrySize > n.in.r.maxBytes {
		return fmt.Errorf("%w than %d MiB, with 4 KiB for each file: %s", errTooLarge, n.in.r.maxBytes>>20, checkRegistry)
	}
	return nil
}

var errTooLarge = errors.New("the packages have more")

const checkRegistry = "check the registry that 'npm config get registry' names"

// npmRemedies says what to do about npm's error codes.
var npmRemedies = map[string]string{
	"E404":         "there is no such package in npm's registry",
	"ETARGET":      "there is no such version of the package",
	"ENOTFOUND":    "npm's registry cannot be reached: check the network, the proxy and 'npm config get registry'",
	"EAI_AGAIN":    "npm's registry cannot be reached: check the network, the proxy and 'npm config get registry'",
	"ECONNREFUSED": "npm's registry cannot be reached: check the network, the proxy and 'npm config get registry'",
	"ETIMEDOUT":    "npm's registry cannot be reached: check the network, the proxy and 'npm config get registry'",
	"ECONNRESET":   "the connection to npm's registry broke: try again, what was downloaded is kept",
	"EINTEGRITY":   "a package is not what its registry promised: try again, or check the registry",
	"ENOSPC":       "the disk is full",
	"EALLOWGIT":    "choose another version: a package of this one comes from a git repository, not from npm's registry",
	"EBADPLATFORM": "the package is not made for this machine",
	"EACCES":       "this user may not write there",
}

func npmCode(text string) string {
	for line := range strings.Lines(text) {
		for _, prefix := range []string{"npm error code ", "npm ERR! code "} {
			if code, ok := strings.CutPrefix(line, prefix); ok {
				return strings.TrimSpace(code)
			}
		}
	}
	return ""
}

// withoutHTTP returns npm's output without the lines about requests.
func withoutHTTP(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "npm http") {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String())
}

// lines is a writer that calls a function with each line. It drops the end of longer lines.
type lines struct {
	limit int
	each  func([]byte) // nil: none
	rest  []byte
}

const maxLine = 16 << 10

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	if l.each == nil {
		return n, nil
	}
	for {
		part, rest, found := bytes.Cut(p, []byte{'\n'})
		if len(l.rest)+len(part) <= l.limit {
			l.rest = append(l.rest, part...)
		}
		if !found {
			return n, nil
		}
		l.each(l.rest)
		l.rest, p = l.rest[:0], rest
	}
}
