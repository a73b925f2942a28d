package agents_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// chosen is the text of an agent's settings that a prompt returns.
type chosen struct {
	Mode  string `json:"mode"`
	Model string `json:"model"`
	Think string `json:"thought_level"`
	Web   bool   `json:"web"`
}

// choice is an agent that offers choices and, like many agents, forgets them when its process
// ends. OFFERS is modes, options or both. LACKS has the values that it does not offer. GATE is
// a file without which it sets no mode.
type choice struct {
	script
	now   chosen
	lists bool
	opts  bool
	lacks []string
}

func chooser() int {
	offers := os.Getenv("OFFERS")
	c := &choice{
		script: script{in: bufio.NewReaderSize(os.Stdin, 1<<20), out: bufio.NewWriter(os.Stdout)}, now: chosen{"normal", "m1", "low", false},
		lists: offers != "options", opts: offers != "modes", lacks: strings.Fields(os.Getenv("LACKS")),
	}
	for {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		if f, err := os.OpenFile(os.Getenv("RECEIVED"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, _ = f.Write(line)
			_ = f.Close()
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			return 9
		}
		c.do(m)
	}
}

func (c *choice) do(m message) {
	var p struct {
		SessionID, ConfigID, ModeID, ModelID string
		Value                                any
		Prompt                               []struct{ Text string }
	}
	_ = json.Unmarshal(m.Params, &p)
	switch m.Method {
	case "initialize":
		c.result(m.ID, `{"protocolVersion":1,"agentCapabilities":`+os.Getenv("CAPS")+`}`)
	case "session/new":
		c.made++
		c.result(m.ID, c.about(fmt.Sprintf(`"sessionId":"c%d-%d"`, os.Getpid(), c.made)))
	case "session/resume", "session/load":
		if os.Getenv("GATE_AT") == m.Method {
			gated()
		}
		c.result(m.ID, c.about(`"_meta":{}`))
		n, _ := strconv.Atoi(os.Getenv("UPDATES"))
		for i := range n { // what changes the session's record
			c.say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"session_info_update","title":"title %d"}}}`, p.SessionID, i)
		}
	case "session/set_mode":
		if os.Getenv("GATE_AT") == "" {
			gated()
		}
		c.set(m, "mode", p.ModeID, c.lists)
	case "session/set_model":
		c.set(m, "model", p.ModelID, c.lists)
	case "session/set_config_option":
		c.set(m, p.ConfigID, p.Value, c.opts)
	case "session/prompt":
		c.prompt(p.SessionID, p.Prompt[len(p.Prompt)-1].Text)
		c.result(m.ID, `{"stopReason":"end_turn"}`)
	}
}

// gated waits until the test makes the file GATE.
func gated() {
	gate := os.Getenv("GATE")
	if gate == "" {
		return
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := os.Stat(gate); err == nil {
			return
		}
	}
}

// prompt sets what the prompt names, and answers with the settings.
func (c *choice) prompt(session, text string) {
	id, value, sets := strings.Cut(text, "=")
	if sets {
		c.change(id, value)
		if c.opts {
			c.say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"config_option_update","configOptions":%s}}}`,
				session, c.options())
		}
		if c.lists && id == "mode" {
			c.say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"current_mode_update","currentModeId":%q}}}`,
				session, value)
		}
	}
	now, _ := json.Marshal(c.now)
	c.update(session, text+": "+string(now))
}

func (c *choice) change(id string, value any) bool {
	text, _ := value.(string)
	if slices.Contains(c.lacks, id) || slices.Contains(c.lacks, text) {
		return false
	}
	switch id {
	case "mode":
		c.now.Mode = text
	case "model":
		if text != c.now.Model {
			c.now.Think = "low" // as it is with every model at first
		}
		c.now.Model = text
	case "thought_level":
		if text == "high" && c.now.Model != "m2" {
			return false
		}
		c.now.Think = text
	case "web":
		on, ok := value.(bool)
		c.now.Web = on
		return ok
	default:
		return false
	}
	return text != ""
}

func (c *choice) set(m message, id string, value any, can bool) {
	switch {
	case !can || !c.change(id, value):
		c.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"there is no such %s"}}`, m.ID, id)
	case m.Method == "session/set_config_option":
		c.result(m.ID, `{"configOptions":`+c.options()+`}`)
	default:
		c.result(m.ID, "{}")
	}
}

func (c *choice) about(first string) string {
	if c.lists {
		first += `,"modes":{"currentModeId":"` + c.now.Mode + `","availableModes":[{"id":"normal","name":"n"},{"id":"plan","name":"p"}]}` +
			`,"models":{"currentModelId":"` + c.now.Model + `","availableModels":[{"modelId":"m1","name":"1"},{"modelId":"m2","name":"2"}]}`
	}
	if c.opts {
		first += `,"configOptions":` + c.options()
	}
	return "{" + first + "}"
}

// options has the values of the model in groups. The thought level comes before the model, on
// which it depends.
func (c *choice) options() string {
	var all []string
	add := func(id, current string, values ...string) {
		if slices.Contains(c.lacks, id) {
			return
		}
		var list []string
		for _, v := range values {
			if !slices.Contains(c.lacks, v) {
				list = append(list, fmt.Sprintf(`{"value":%q,"name":"n"}`, v))
			}
		}
		text := strings.Join(list, ",")
		if id == "model" {
			text = `{"group":"g","name":"G","options":[` + text + `]}`
		}
		all = append(all, fmt.Sprintf(`{"id":%q,"name":"n","category":%q,"type":"select","currentValue":%q,"options":[%s]}`, id, id, current, text))
	}
	levels := []string{"low"}
	if c.now.Model == "m2" {
		levels = append(levels, "high")
	}
	add("thought_level", c.now.Think, levels...)
	add("mode", c.now.Mode, "normal", "plan")
	add("model", c.now.Model, "m1", "m2")
	all = append(all, fmt.Sprintf(`{"id":"web","name":"n","type":"boolean","currentValue":%v}`, c.now.Web))
	return "[" + strings.Join(all, ",") + "]"
}

// setting returns the settings that the agent answers to a prompt.
func setting(t testing.TB, h *agents.Host, id, text string) (c chosen) {
	t.Helper()
	finish(t, say(t, h, id, text))
	for _, e := range slices.Backward(stream(t, h, id)) {
		if _, said, found := strings.Cut(toldBy(t, e), text+": "); found {
			if err := json.Unmarshal([]byte(said), &c); err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	t.Fatalf("nothing about %s in%s", text, payloads(stream(t, h, id)))
	return c
}

// toldBy returns the text of an update.
func toldBy(t testing.TB, e eventlog.Event) string {
	t.Helper()
	if e.Kind != "session/update" {
		return ""
	}
	var m struct {
		Params struct {
			Update struct{ Content struct{ Text string } }
		}
	}
	if err := json.Unmarshal(e.Payload, &m); err != nil {
		t.Fatal(err)
	}
	return m.Params.Update.Content.Text
}

// Clients of a session that is being restored wait until its choices are made again.
func TestRestoredWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, gate := filepath.Join(dir, "received"), filepath.Join(dir, "gate")
	env := []string{actAs + "=chooser", "OFFERS=modes", `CAPS={"sessionCapabilities":{"resume":{}}}`}
	cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(env...)}
	h := host(t, cfg)
	create(t, h, "s", agents.SessionOptions{Mode: "plan", Model: "m2"})
	cfg.Launch = agentOf(append(env, "RECEIVED="+file, "GATE="+gate, "UPDATES=300")...)
	h = restart(t, h, cfg)
	began := int64(len(stream(t, h, "s")))
	var wg sync.WaitGroup
	prompt := func() {
		turn, err := h.Prompt(t.Context(), "s", []byte(`[{"type":"text","text":"go"}]`))
		if err == nil {
			_, err = turn.Wait(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}
	wg.Go(prompt)
	wait(t, func() error {
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "session/set_mode") {
			return fmt.Errorf("the agent got %s: %w", b, err)
		}
		return nil
	})
	for range 5 {
		wg.Go(prompt)
	}
	wg.Go(func() { // a client that opens the session does not affect the others
		open := `{"jsonrpc":"2.0","id":1,"method":"session/resume","params":{"sessionId":"s","cwd":"/","mcpServers":[]}}`
		if _, err := h.Post(t.Context(), "ses-s", agents.PostOptions{}, []byte(open)); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := h.SetPermissions(t.Context(), "s", agents.Policy{Mode: agents.Reject}); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-t.Context().Done():
	case <-time.After(200 * time.Millisecond): // they have to wait; the shorter this is, the less is tested
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	events, err := h.Log().Read(within(t), agents.SessionStream("s"), began, 1000)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if said := toldBy(t, e); said != "" {
			if n++; said != `go: {"mode":"plan","model":"m2","thought_level":"low","web":false}` {
				t.Errorf("the agent said %s", said)
			}
		}
	}
	if n != 6 {
		t.Errorf("%d turns:%s", n, payloads(events))
	}
	if got := received(t, file); strings.LastIndex(got, "session/resume") < strings.LastIndex(got, "session/set_model") {
		t.Errorf("a client opened the session while the host did:\n%s", got)
	}
	if s, err := h.Session(within(t), "s"); err != nil || s.Permissions.Mode != agents.Reject {
		t.Errorf("session = %+v, %v", s, err)
	}
}

// The choices of a session, by any method, are set in the next process.
func TestChoicesRestored(t *testing.T) {
	t.Parallel()
	for _, caps := range []string{`{"sessionCapabilities":{"resume":{}}}`, `{"loadSession":true}`, `{}`} {
		for _, offers := range []string{"options", "modes", "both"} {
			t.Run(offers+caps, func(t *testing.T) {
				t.Parallel()
				cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(actAs+"=chooser", "OFFERS="+offers, "CAPS="+caps)}
				h := host(t, cfg)
				o := agents.SessionOptions{Mode: "plan", Model: "m2"}
				want := chosen{Mode: "plan", Model: "m2", Think: "low"}
				if offers != "modes" {
					o.ThoughtLevel, want.Think, want.Web = "high", "high", true
				}
				create(t, h, "s", o)
				if err := h.SetModel(within(t), "s", "m2"); err != nil { // again, after what depends on it
					t.Fatal(err)
				}
				if want.Web {
					post(t, h, "ses-s", `{"jsonrpc":"2.0","id":1,"method":"session/set_config_option","params":{"sessionId":"s","configId":"web","type":"boolean","value":true}}`)
				}
				checkSet(t, h, "made", want)
				for range 2 {
					h = restart(t, h, cfg)
					checkSet(t, h, "restored", want)
				}
				// Changes by the agent count as well, and the changes that these cause.
				want.Model, want.Think = "m1", "low"
				if offers == "modes" {
					want.Mode, want.Model = "normal", "m2" // the older way tells of modes alone
					checkSet(t, h, "mode=normal", want)
				} else {
					checkSet(t, h, "model=m1", want)
				}
				h = restart(t, h, cfg)
				checkSet(t, h, "changed", want)
				if err := h.SetMode(within(t), "s", "plan"); err != nil {
					t.Fatal(err)
				}
				if offers == "both" { // what is chosen last counts, in whichever way
					post(t, h, "ses-s", `{"jsonrpc":"2.0","id":1,"method":"session/set_mode","params":{"sessionId":"s","modeId":"normal"}}`)
					want.Mode = "normal"
				} else {
					want.Mode = "plan"
				}
				h = restart(t, h, cfg)
				checkSet(t, h, "last", want)
				if p := problems(t, h, "s"); len(p) > 0 {
					t.Errorf("problems: %q", p)
				}
			})
		}
	}
}

// checkSet asks the agent for its settings.
func checkSet(t *testing.T, h *agents.Host, text string, want chosen) {
	t.Helper()
	if got := setting(t, h, "s", text); got != want {
		t.Errorf("%s: %+v, want %+v", text, got, want)
	}
	s, err := h.Session(within(t), "s")
	if err != nil || s.Mode != want.Mode || s.Model != want.Model {
		t.Errorf("%s: the session has mode %q and model %q, %v; want %+v", text, s.Mode, s.Model, err, want)
	}
}

// problems returns the problems in a session's stream.
func problems(t *testing.T, h *agents.Host, id string) (all []string) {
	t.Helper()
	for _, e := range stream(t, h, id) {
		if e.Kind == "session/problem" {
			var text string
			if err := json.Unmarshal([]byte(member(t, string(e.Payload), "params", "message")), &text); err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
	}
	return all
}

// A choice that the agent no longer offers becomes a problem. The others are set.
func TestChoicesLost(t *testing.T) {
	t.Parallel()
	for offers, refusal := range map[string]string{
		"options": "the agent does not offer it any more",
		"modes":   "session/set_mode: there is no such mode (-32602)",
	} {
		t.Run(offers, func(t *testing.T) {
			t.Parallel()
			env := []string{actAs + "=chooser", "OFFERS=" + offers, `CAPS={"loadSession":true}`}
			cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(env...)}
			h := host(t, cfg)
			create(t, h, "s", agents.SessionOptions{Mode: "plan", Model: "m2"})
			want := []string{`mode is not "plan" any more: ` + refusal}
			if offers == "options" {
				if err := h.SetThoughtLevel(within(t), "s", "high"); err != nil {
					t.Fatal(err)
				}
				want = append(want, `thought_level is not "high" any more: `+refusal)
			}
			cfg.Launch = agentOf(append(env, "LACKS=plan thought_level")...)
			for range 2 { // it is told once
				h = restart(t, h, cfg)
				checkSet(t, h, "restored", chosen{Mode: "normal", Model: "m2", Think: "low"})
			}
			if got := problems(t, h, "s"); !slices.Equal(got, want) {
				t.Errorf("problems: %q, want %q", got, want)
			}
		})
	}
}

// A client that opens a session gets it in the agent's state, and so do later clients.
func TestChoicesOfOpener(t *testing.T) {
	t.Parallel()
	for _, offers := range []string{"options", "modes"} {
		cfg := agents.Config{
			Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(actAs+"=chooser", "OFFERS="+offers, `CAPS={"loadSession":true}`),
		}
		h := host(t, cfg)
		create(t, h, "s", agents.SessionOptions{Mode: "plan", Model: "m2"})
		h = restart(t, h, cfg)
		post(t, h, "ses-s", `{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/","mcpServers":[]}}`)
		checkSet(t, h, "loaded", chosen{Mode: "normal", Model: "m1", Think: "low"})
	}
}
