package registry

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTable: the table is complete.
func TestTable(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, Config{})
	if want := []string{"claude", "codex", "opencode", "amp", "pi", "cursor", "gemini", "mock"}; !slices.Equal(r.IDs(), want) {
		t.Errorf("agents: %q", r.IDs())
	}
	for _, a := range agents {
		if a.Name == "" || !a.BuiltIn && len(a.names) == 0 {
			t.Errorf("%s has no name, or none on PATH", a.ID)
		}
		for _, o := range a.Options {
			if !slices.ContainsFunc(o.Choices, func(c Choice) bool { return c.Value == o.Current && c.Name != "" }) {
				t.Errorf("%s %s: %q is not a choice", a.ID, o.ID, o.Current)
			}
		}
		if a.Installable() {
			var kinds []Kind
			for _, p := range a.packages {
				kinds = append(kinds, p.kinds...)
				if !versionPattern.MatchString(p.version) {
					t.Errorf("%s: %s is not pinned: %q", a.ID, p.name, p.version)
				}
			}
			slices.Sort(kinds)
			if want := []Kind{KindProcess, KindNative}; a.needs == "" && !slices.Equal(kinds, []Kind{want[1], want[0]}) && !slices.Equal(kinds, want) {
				t.Errorf("%s: the packages have %q", a.ID, kinds)
			}
		}
	}
}

func TestPlatform(t *testing.T) {
	t.Parallel()
	const name = "opencode-linux-{arch}{baseline}{musl}"
	for p, want := range map[platform]string{
		{arch: "x64"}:                             "opencode-linux-x64",
		{arch: "arm64", musl: true}:               "opencode-linux-arm64-musl",
		{arch: "x64", musl: true, baseline: true}: "opencode-linux-x64-baseline-musl",
	} {
		if got := p.fill(name); got != want {
			t.Errorf("%+v: %s", p, got)
		}
	}
	p := platform{arch: "x64"}
	for _, tc := range []struct {
		os, cpu, libc []string
		want          bool
	}{
		{nil, nil, nil, true},
		{[]string{"linux"}, []string{"x64"}, []string{"glibc"}, true},
		{[]string{"darwin", "linux"}, nil, nil, true},
		{[]string{"darwin"}, nil, nil, false},
		{[]string{"!win32"}, nil, nil, true},
		{[]string{"!linux"}, nil, nil, false},
		{nil, []string{"arm64"}, nil, false},
		{nil, nil, []string{"musl"}, false},
	} {
		if got := p.fits(tc.os, tc.cpu, tc.libc); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
	for files, want := range map[string]bool{
		"lib64/ld-linux-x86-64.so.2":                                        false,
		"lib/ld-musl-x86_64.so.1":                                           true,
		"lib/ld-linux-aarch64.so.1 lib/ld-musl-aarch64.so.1":                false,
		"lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 lib/ld-musl-x86_64.so.1": false,
		"": false,
	} {
		root := t.TempDir()
		for f := range strings.FieldsSeq(files) {
			write(t, filepath.Join(root, f), "", 0o755)
		}
		if hasMusl(root) != want {
			t.Errorf("%q: musl is %v", files, !want)
		}
	}
}

// TestWhereAgentsAreFound adds the places of an agent, the one with the highest precedence
// last.
func TestWhereAgentsAreFound(t *testing.T) {
	t.Parallel()
	bin, data, shared := t.TempDir(), t.TempDir(), t.TempDir()
	r, err := New(Config{Env: []string{"PATH=" + bin, "XDG_DATA_HOME=" + data, "XDG_DATA_DIRS=relative:" + shared, "HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	where := func() string {
		c, err := r.Command("claude")
		if err != nil {
			return err.Error()
		}
		if c.Agent != "claude" || !slices.Contains(c.Env, "DISABLE_AUTOUPDATER=1") {
			t.Errorf("%+v", c)
		}
		return c.Path
	}
	want := "agent not installed: claude; run 'deskhand install-agent claude', or put claude-agent-acp on PATH"
	if got := where(); got != want {
		t.Errorf("nowhere: %s", got)
	}
	old := script(t, filepath.Join(bin, "claude-code-acp"), "exit")
	if got := where(); got != old {
		t.Errorf("older name: %s", got)
	}
	onPath := script(t, filepath.Join(bin, "claude-agent-acp"), "exit")
	if got := where(); got != onPath {
		t.Errorf("on PATH: %s", got)
	}
	install := func(agents string) (dir, program string) {
		dir = filepath.Join(agents, "claude", "1.0.0")
		program = script(t, filepath.Join(dir, "claude-acp"), "exit")
		m := manifest{Agent: "claude", Source: SourceRegistry, Packages: []packageManifest{{Version: "1.0.0", Kinds: both, Program: "claude-acp"}}}
		if err := m.write(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("1.0.0", filepath.Join(dir, "..", currentName)); err != nil {
			t.Fatal(err)
		}
		return dir, program
	}
	_, forAll := install(filepath.Join(shared, "deskhand", "agents"))
	if got := where(); got != forAll {
		t.Errorf("installed for all users: %s", got)
	}
	dir, program := install(r.cfg.Dir)
	if got := where(); got != program {
		t.Errorf("installed: %s", got)
	}
	launcher := script(t, filepath.Join(data, "sandbox-agent/bin/agent_processes/claude-acp"), "exit")
	if got := where(); got != launcher {
		t.Errorf("launcher: %s", got)
	}
	// A missing program is ignored.
	for _, tc := range []struct{ remove, next string }{{launcher, program}, {program, forAll}, {forAll, onPath}, {onPath, old}, {old, want}} {
		if err := os.Remove(tc.remove); err != nil {
			t.Fatal(err)
		}
		if got := where(); got != tc.next {
			t.Errorf("without %s: %s", tc.remove, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := where(); got != want {
		t.Errorf("broken manifest: %s", got)
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	_, env := serveNPM(t, codexPackages(t)...)
	must := newRegistry(t, Config{Env: env, RequirePreinstall: true})
	if _, err := must.Prepare(t.Context(), "codex", nil); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("preinstall is required: %v", err)
	}
	r := newRegistry(t, Config{Env: env})
	reported := false
	c, err := r.Prepare(t.Context(), "codex", func(Progress) { reported = true })
	if err != nil || !reported || c.Path == "" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := r.Prepare(t.Context(), "cursor", nil); !errors.Is(err, ErrNotInstalled) ||
		!strings.Contains(err.Error(), "its own program, cursor-agent, is not on PATH; install Cursor's command line") {
		t.Errorf("cursor: %v", err)
	}
	if _, err := r.Prepare(t.Context(), "nope", nil); !errors.Is(err, ErrUnknownAgent) {
		t.Errorf("nope: %v", err)
	}
}

func TestMock(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	r := newRegistry(t, Config{Env: []string{"PATH=" + bin}})
	if _, err := r.Command("mock"); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "put deskhand on PATH") {
		t.Errorf("without deskhand: %v", err)
	}
	deskhand := script(t, filepath.Join(bin, "deskhand"), "exit")
	c, err := r.Command("mock")
	if err != nil || c.Path != deskhand || !slices.Equal(c.Args, []string{"mock-agent-process"}) || c.Source != SourceBuiltIn {
		t.Errorf("%+v, %v", c, err)
	}
	if got := install(t, r, "mock", InstallOptions{}); !got.Already {
		t.Errorf("install: %+v", got)
	}
	data := t.TempDir()
	launched := newRegistry(t, Config{Env: []string{"PATH=" + bin, "XDG_DATA_HOME=" + data}})
	launcher := script(t, filepath.Join(data, "sandbox-agent/bin/agent_processes/mock-acp"), "exit")
	if c, err := launched.Command("mock"); err != nil || c.Path != launcher || c.Source != SourceLocal {
		t.Errorf("with a launcher: %+v, %v", c, err)
	}
	want := []Artifact{{Kind: KindProcess, Path: deskhand, Source: SourceBuiltIn}}
	if got := install(t, r, "mock", InstallOptions{Reinstall: true}); got.Already || !slices.Equal(got.Artifacts, want) {
		t.Errorf("install again: %+v", got)
	}
	if !r.AgentsWithCredentials()["mock"] || r.AgentsWithCredentials()["nope"] {
		t.Error("credentials of mock, or nope")
	}
	own := newRegistry(t, Config{Mock: []string{deskhand, "a", "b"}})
	if c, err := own.Command("mock"); err != nil || c.Path != deskhand || !slices.Equal(c.Args, []string{"a", "b"}) {
		t.Errorf("configured: %+v, %v", c, err)
	}
}

func TestCustom(t *testing.T) {
	t.Parallel()
	program := script(t, filepath.Join(t.TempDir(), "agent"), "exit")
	file := filepath.Join(t.TempDir(), "agents.json")
	text, err := json.Marshal(map[string]any{"agents": map[string]any{
		"zeta": map[string]any{"command": []string{program, "--acp"}, "env": map[string]string{"B": "2", "A": "1"}, "name": "Zeta", "note": "mine"},
		"alfa": map[string]any{"command": []string{"no-such-program"}, "capabilities": map[string]bool{"images": true}},
		"amp":  map[string]any{"command": []string{program}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(text), 0o600)
	custom, err := ReadCustom(file)
	if err != nil {
		t.Fatal(err)
	}
	r := newRegistry(t, Config{Custom: custom, Env: environment(t, "A=kept from the agent")})
	if want := []string{"claude", "codex", "opencode", "amp", "pi", "cursor", "gemini", "mock", "alfa", "zeta"}; !slices.Equal(r.IDs(), want) {
		t.Errorf("agents: %q", r.IDs())
	}
	c, err := r.Command("zeta")
	want := Command{Agent: "zeta", Path: program, Program: program, Args: []string{"--acp"}, Env: []string{"A=1", "B=2"}, Source: SourceLocal}
	if diff := cmp.Diff(want, c); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	zeta, _ := r.Agent("zeta")
	alfa, _ := r.Agent("alfa")
	if zeta.Name != "Zeta" || zeta.Note != "mine" || !zeta.Custom || zeta.Capabilities != usual || !r.AgentsWithCredentials()["zeta"] {
		t.Errorf("zeta: %+v", zeta)
	}
	if alfa.Name != "alfa" || alfa.Capabilities != (Capabilities{Images: true}) {
		t.Errorf("alfa: %+v", alfa)
	}
	if _, err := r.Command("alfa"); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "correct its command") {
		t.Errorf("alfa: %v", err)
	}
	if c, err := r.Command("amp"); err != nil || c.Path != program || r.AgentsWithCredentials()["amp"] {
		t.Errorf("amp: %+v, %v", c, err)
	}
	_, err = r.Install(t.Context(), "alfa", InstallOptions{})
	checkInstallError(t, "alfa", err, StageResolve, "", "no-such-program", "correct its command")
}

func TestCustomRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``: "must be {", `[]`: "must be {", `{"agents":{"a":{"comand":["x"]}}}`: `unknown field "comand"`,
		`{"agents":{"a":{"command":[]}}}`:                                  `agent "a": command must name a program`,
		`{"agents":{"a":{"command":["x"]}}} {}`:                            "behind the object",
		`{"agents":{"A":{"command":["x"]}}}`:                               "small letters",
		`{"agents":{"a/../b":{"command":["x"]}}}`:                          "small letters",
		`{"agents":{"a":{"command":["x\u0000"]}}}`:                         "NUL",
		`{"agents":{"a":{"command":["x"],"env":{"A=B":"c"}}}}`:             "no variable can have",
		`{"agents":{"a":{"command":"x"}}}`:                                 "must be {",
		`{"agents":{"` + strings.Repeat("a", 65) + `":{"command":["x"]}}}`: "1 to 64",
	} {
		if _, err := parseCustom([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ReadCustom(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	twice := []Custom{{ID: "a", Command: []string{"x"}}, {ID: "a", Command: []string{"y"}}}
	if _, err := New(Config{Custom: twice}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("twice: %v", err)
	}
	if _, err := New(Config{AskTimeout: -1}); !isInvalid(err) {
		t.Errorf("negative time: %v", err)
	}
}

func FuzzCustom(f *testing.F) {
	f.Add([]byte(`{"agents":{"a":{"command":["x"],"env":{"A":"b"}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseCustom(text)
		if err != nil {
			return
		}
		if _, err := New(Config{Custom: list}); err != nil {
			t.Errorf("%q was accepted, then: %v", text, err)
		}
	})
}
