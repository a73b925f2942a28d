package registry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	initializeAnswer = `{"protocolVersion":1,"agentInfo":{"name":"x","version":"3.2.1"},
		"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true,"embeddedContext":true},"mcpCapabilities":{"http":true}}}`
	optionsAnswer = `{"sessionId":"s","configOptions":[
		{"id":"m","name":"Model","category":"model","type":"select","currentValue":"b","options":[
			{"group":"g","name":"G","options":[{"value":"a","name":"A"}]},{"value":"b","name":"B","description":"the better"}]},
		{"id":"on","name":"On","type":"boolean","currentValue":true},
		{"id":"empty","name":"Empty","type":"select","currentValue":"","options":[]}],
		"modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask","description":"asks"},{"id":"go","name":"Go"}]},
		"models":{"currentModelId":"ignored","availableModels":[{"modelId":"ignored","name":"the option goes before"}]}}`
)

// answered are the options in optionsAnswer.
var answered = []Option{
	{"m", "Model", CategoryModel, "select", "b", []Choice{{"a", "A", ""}, {"b", "B", "the better"}}},
	{CategoryMode, "Mode", CategoryMode, "select", "ask", []Choice{{"ask", "Ask", "asks"}, {"go", "Go", ""}}},
}

func TestObserve(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, Config{})
	before, err := r.Agent("codex")
	if err != nil {
		t.Fatal(err)
	}
	for _, ignored := range []string{"", "null", "7", "{", `{"agentCapabilities":null}`, `{"modes":null,"configOptions":[]}`} {
		r.Observe("codex", "initialize", []byte(ignored))
		r.Observe("codex", "session/new", []byte(ignored))
	}
	r.Observe("codex", "session/prompt", []byte(optionsAnswer))
	r.Observe("nope", "session/new", []byte(optionsAnswer))
	if after, _ := r.Agent("codex"); !cmp.Equal(before.Options, after.Options) || before.Capabilities != after.Capabilities {
		t.Errorf("nothing was said, but: %+v", after)
	}
	r.Observe("claude", "initialize", []byte(initializeAnswer))
	r.Observe("codex", "session/load", []byte(optionsAnswer))
	r.Observe("gemini", "session/new", []byte(`{"models":{"currentModelId":"x","availableModels":[{"modelId":"x","name":"X"}]}}`))

	claude, _ := r.Agent("claude")
	if can := claude.Capabilities; !can.Images || !can.FileAttachments || !can.SessionLifecycle || !can.MCPTools || can.SharedProcess {
		t.Errorf("claude can %+v", can)
	}
	if v := r.ObservedVersion("claude"); v != "3.2.1" {
		t.Errorf("version %q", v)
	}
	codex, _ := r.Agent("codex")
	if diff := cmp.Diff(append(answered[:2:2], before.Options[2]), codex.Options); diff != "" {
		t.Errorf("codex (-want +got):\n%s", diff)
	}
	if gemini, _ := r.Agent("gemini"); len(gemini.Options) != 1 || gemini.Options[0].Current != "x" {
		t.Errorf("gemini: %+v", gemini.Options)
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	one := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	dir := t.TempDir()
	agent := func(name, text string) Custom {
		return Custom{ID: name, Command: []string{script(t, filepath.Join(dir, name), text)}}
	}
	r := newRegistry(t, Config{Env: environment(t), AskTimeout: 20 * time.Second, Custom: []Custom{
		agent("good", agentScript(one(initializeAnswer), one(optionsAnswer))),
		agent("dies", "read -r line; echo no key found >&2; exit 7"),
		agent("refuses", `read -r line; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"log in first"}}'; read -r line`),
		agent("wordy", `read -r line; echo '{"jsonrpc":"2.0","id":0,"error":{"message":"`+strings.Repeat("x", 1<<20)+`"}}'; read -r line`),
		{ID: "absent", Command: []string{"no-such-program"}},
	}})
	if err := r.Ask(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	good, _ := r.Agent("good")
	if diff := cmp.Diff(answered, good.Options); diff != "" || r.ObservedVersion("good") != "3.2.1" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for id, want := range map[string]struct{ text, stderr string }{
		"dies":    {"ask dies: initialize: it ended: exit status 7", "no key found"},
		"refuses": {"ask refuses: initialize: log in first", ""},
		"wordy":   {"ask wordy: initialize: " + strings.Repeat("x", 4<<10), ""},
	} {
		err := r.Ask(t.Context(), id)
		if failed, ok := errors.AsType[*AskError](err); !ok || err.Error() != want.text || !strings.Contains(failed.Stderr, want.stderr) {
			t.Errorf("%s: %.5000v", id, err)
		}
	}
	if err := r.Ask(t.Context(), "absent"); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("absent: %v", err)
	}
	silent := newRegistry(t, Config{Env: environment(t), AskTimeout: 200 * time.Millisecond, Custom: []Custom{agent("silent", "cat >/dev/null; exec sleep 1000")}})
	if err := silent.Ask(t.Context(), "silent"); err == nil || !strings.Contains(err.Error(), "no answer for 200ms") {
		t.Errorf("silent: %v", err)
	}
}

// TestAskTakesTurns asks more agents than may be asked at the same time. Each notes when too many
// run.
func TestAskTakesTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := fmt.Sprintf("mkdir -p %[1]s/running/$$; [ $(ls %[1]s/running | wc -l) -le 2 ] || touch %[1]s/exceeded; sleep 0.3; rmdir %[1]s/running/$$", dir)
	agent := Custom{ID: "slow", Command: []string{script(t, filepath.Join(dir, "slow"), text)}}
	r := newRegistry(t, Config{Env: environment(t), Custom: []Custom{agent}})
	var asked sync.WaitGroup
	for range 6 {
		asked.Go(func() {
			if err := r.Ask(t.Context(), "slow"); err == nil || !strings.Contains(err.Error(), "it ended: exit status 0") {
				t.Errorf("Ask() = %v", err)
			}
		})
	}
	asked.Wait()
	if _, err := os.Stat(filepath.Join(dir, "exceeded")); err == nil {
		t.Error("more than two agents were asked at the same time")
	}
}

// FuzzAnswers writes possible output of agents in pieces.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"id":0,"result":`+strings.ReplaceAll(optionsAnswer, "\n", "")+"}\n"), 7)
	f.Add([]byte("\n\n{}\n[1]\n{\"id\":1,\"error\":{\"message\":\"x\"}}"), 1)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		a := newAnswers()
		a.answer = make(chan rpcAnswer, 1)
		r := &Registry{agents: agents, observed: map[string]observed{}}
		for size = max(1, size%64); len(text) > 0; text = text[min(size, len(text)):] {
			if n, err := a.Write(text[:min(size, len(text))]); err != nil || n != min(size, len(text)) {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		select {
		case got := <-a.answer:
			r.Observe("claude", "initialize", got.Result)
			r.Observe("claude", "session/new", got.Result)
		default:
		}
		for _, o := range r.observed["claude"].options {
			if o.ID == "" || len(o.Choices) == 0 {
				t.Errorf("an option without an id or choices: %+v", o)
			}
		}
	})
}
