package opencode

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/opencode"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// prompts has the routes that have an agent do something.
type prompts struct{ *area }

func (a prompts) routes() []route {
	const one = "/session/{sessionID}"
	return []route{
		{http.MethodPost, one + "/message", func(c *call) (any, error) { return a.message(c, true) }},
		{http.MethodPost, one + "/prompt_async", func(c *call) (any, error) { return a.message(c, false) }},
		{http.MethodPost, one + "/command", a.command},
		{http.MethodPost, one + "/init", a.init},
		{http.MethodPost, one + "/summarize", a.summarize},
		{http.MethodPost, one + "/abort", a.abort},
	}
}

// promptBody is the body of a prompt.
type promptBody struct {
	Message string             `json:"messageID"`
	Model   *opencode.ModelRef `json:"model"`
	Agent   string             `json:"agent"`
	NoReply bool               `json:"noReply"`
	System  string             `json:"system"`
	Tools   map[string]bool    `json:"tools"`
	Variant string             `json:"variant"`
	Format  *struct {
		Type string `json:"type"`
	} `json:"format"`
	Parts []promptPart `json:"parts"`
}

// promptPart is a part of a prompt.
type promptPart struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Text     string `json:"text"`
	Mime     string `json:"mime"`
	Filename string `json:"filename"`
	URL      string `json:"url"`
	Name     string `json:"name"`
}

// check returns a problem if a prompt has what agents cannot do.
func (b *promptBody) check() error {
	const why = " is not supported: agents have no such option"
	switch {
	case b.NoReply:
		return notImplemented("noReply" + why)
	case b.System != "":
		return notImplemented("system" + why)
	case len(b.Tools) > 0:
		return notImplemented("tools" + why)
	case b.Format != nil && b.Format.Type != "text":
		return notImplemented("format " + b.Format.Type + why)
	case len(b.Parts) == 0:
		return rest.InvalidField("parts", "parts must not be empty")
	case b.Message != "" && !strings.HasPrefix(b.Message, "msg"):
		return rest.InvalidField("messageID", "messageID must begin with msg")
	}
	return nil
}

// block is a content block of ACP.
type block struct {
	Type     string         `json:"type"`
	Text     string         `json:"text,omitempty"`
	Data     string         `json:"data,omitempty"`
	Mime     string         `json:"mimeType,omitempty"`
	URI      string         `json:"uri,omitempty"`
	Name     string         `json:"name,omitempty"`
	Resource *resource      `json:"resource,omitempty"`
	Meta     *opencode.Meta `json:"_meta,omitempty"`
}

type resource struct {
	URI  string `json:"uri"`
	Mime string `json:"mimeType,omitempty"`
	Text string `json:"text,omitempty"`
	Blob string `json:"blob,omitempty"`
}

// block returns the part as ACP has it.
func (p promptPart) block() (block, error) {
	switch p.Type {
	case "text":
		return block{Type: "text", Text: p.Text}, nil
	case "agent":
		return block{Type: "text", Text: "@" + p.Name}, nil
	case "file":
		return p.file()
	}
	return block{}, notImplemented(fmt.Sprintf("parts of the type %.50q are not supported; use text, file or agent", p.Type))
}

// file returns a file as ACP has it: with its content, or as a link.
func (p promptPart) file() (block, error) {
	at, err := url.Parse(p.URL)
	if err != nil || at.Scheme == "" {
		return block{}, rest.InvalidField("url", "url of a file must be a file:, data: or http: URL")
	}
	name := cmp.Or(p.Filename, path.Base(at.Path))
	if at.Scheme != "data" {
		return block{Type: "resource_link", URI: p.URL, Name: name, Mime: p.Mime}, nil
	}
	head, data, _ := strings.Cut(at.Opaque, ",")
	kind, encoded := strings.CutSuffix(head, ";base64")
	kind = cmp.Or(p.Mime, kind)
	var content []byte
	if encoded {
		content, err = base64.StdEncoding.DecodeString(data)
	} else {
		var text string
		text, err = url.PathUnescape(data)
		content = []byte(text)
	}
	if err != nil {
		return block{}, rest.InvalidField("url", "url: the data could not be decoded")
	}
	uri := "file:///" + url.PathEscape(cmp.Or(p.Filename, "attachment"))
	switch {
	case strings.HasPrefix(kind, "image/"):
		return block{Type: "image", Data: base64.StdEncoding.EncodeToString(content), Mime: kind, URI: uri}, nil
	case strings.HasPrefix(kind, "text/") || kind == "application/json":
		return block{Type: "resource", Resource: &resource{URI: uri, Mime: kind, Text: string(content)}}, nil
	}
	return block{Type: "resource", Resource: &resource{URI: uri, Mime: kind, Blob: base64.StdEncoding.EncodeToString(content)}}, nil
}

// turn is a prompt that an agent has.
type turn struct {
	found
	turn *agents.Turn
	user string // the id of its message
}

// prompt passes a prompt on. It first sets the model and the mode that the client chose.
func (a prompts) prompt(c *call, b *promptBody) (turn, error) {
	if err := b.check(); err != nil {
		return turn{}, err
	}
	blocks := make([]block, len(b.Parts))
	for i, p := range b.Parts {
		var err error
		if blocks[i], err = p.block(); err != nil {
			return turn{}, err
		}
		if p.ID != "" {
			blocks[i].Meta = &opencode.Meta{Chosen: &opencode.Chosen{Part: p.ID}}
		}
	}
	ctx, leave, err := a.waiting.enter(c.ctx, c.Param("sessionID"))
	if err == nil {
		defer leave()
		var t turn
		if t, err = a.pass(ctx, c.Param("sessionID"), b, blocks); err == nil {
			return t, nil
		}
		if errors.Is(context.Cause(ctx), errAborted) {
			err = errAborted
		}
	}
	if errors.Is(err, errAborted) {
		err = rest.ConflictOf("the prompt was aborted before the agent got it")
	}
	return turn{}, err
}

// pass passes a prompt on when its turn has come.
func (a prompts) pass(ctx context.Context, session string, b *promptBody, blocks []block) (turn, error) {
	f, err := a.findByID(ctx, session)
	if err != nil {
		return turn{}, err
	}
	if f, err = a.choose(ctx, f, b); err != nil {
		return turn{}, agenthost.Names{Session: f.ID, Agent: f.Agent}.Explain(err)
	}
	user := cmp.Or(b.Message, fmt.Sprintf("msg_%012x%s", uint64(time.Now().UnixMilli()<<12)&(1<<48-1), rand.Text()[:14])) //nolint:gosec // times are after 1970
	chosen := opencode.Chosen{Session: f.ID, Message: user, Agent: b.Agent, Variant: b.Variant, Part: b.Parts[0].ID}
	if b.Model != nil {
		chosen.Model = b.Model.Model
	}
	blocks[0].Meta = &opencode.Meta{Chosen: &chosen}
	text, err := json.Marshal(blocks)
	if err != nil {
		return turn{}, err
	}
	t, err := f.host.Prompt(ctx, f.ID, text)
	if err != nil {
		return turn{}, agenthost.Names{Session: f.ID, Agent: f.Agent}.Explain(err)
	}
	return turn{f, t, user}, nil
}

// choose sets what a prompt chooses. It makes the session of a draft.
func (a prompts) choose(ctx context.Context, f found, b *promptBody) (found, error) {
	agent, model := "", ""
	if b.Model != nil {
		agent, model = b.Model.Provider, b.Model.Model
	}
	if f.isDraft() {
		r := f.record
		if b.Agent != "" {
			changed := *r.Draft
			changed.Mode, r.Draft = b.Agent, &changed
		}
		f.Agent = cmp.Or(agent, a.defaultAgent())
		s, err := a.start(ctx, f.host, r, f.Agent, model, b.Variant)
		if err == nil {
			return s, nil
		}
		return f, err
	}
	if agent != "" && agent != f.Agent {
		return f, rest.InvalidField("model", fmt.Sprintf("model: this session has the agent %s; create another session for %.100q", f.Agent, agent))
	}
	if model != "" && model != opencode.DefaultModel && model != f.Model {
		if err := f.host.SetModel(ctx, f.ID, model); err != nil {
			return f, err
		}
	}
	if allow, err := a.settings.allow(f.Cwd); err != nil {
		return f, err
	} else if allow && f.Permissions.Mode != agents.Allow {
		if err := f.host.SetPermissions(ctx, f.ID, agents.Policy{Mode: agents.Allow}); err != nil {
			return f, err
		}
	}
	mode := b.Agent
	if mode == opencode.DefaultAgent {
		if err := a.withTranscript(ctx, f.host, f.Session, func(t *opencode.Transcript) { mode = t.InitialMode() }); err != nil {
			return f, err
		}
	}
	if mode != "" && mode != f.Mode {
		if err := f.host.SetMode(ctx, f.ID, mode); err != nil {
			return f, err
		}
	}
	if b.Variant != "" {
		return f, f.host.SetThoughtLevel(ctx, f.ID, b.Variant)
	}
	return f, nil
}

// message prompts the agent, and waits for the end of the turn if the client wants that.
func (a prompts) message(c *call, wait bool) (any, error) {
	var body promptBody
	if err := c.ReadJSON(&body); err != nil {
		return nil, err
	}
	t, err := a.prompt(c, &body)
	if err != nil || !wait {
		return nil, err
	}
	return a.reply(c, t)
}

// endPatience is how long the end of an agent may take to be in the log.
const endPatience = 10 * time.Second

// reply waits for the end of a turn, and returns the agent's message. A turn that fails has a
// message with an error.
func (a prompts) reply(c *call, t turn) (any, error) {
	ctx, stop := rest.UntilGone(c.ctx, c.Fiber)
	_, failed := t.turn.Wait(ctx)
	gone := ctx.Err() != nil
	if stop(); gone && failed != nil {
		return nil, failed
	}
	ctx, cancel := context.WithTimeout(c.ctx, endPatience)
	defer cancel()
	stream := agents.SessionStream(t.ID)
	for {
		last, err := t.host.Log().Last(ctx, stream)
		if err != nil {
			return nil, err
		}
		text, err := a.answerTo(ctx, t)
		switch {
		case err != nil || text != nil:
			return text, err
		case failed == nil:
			return nil, rest.Missing("answer to message", t.user)
		}
		if _, err := t.host.Log().Follow(stream, last).Next(ctx); err != nil {
			return nil, failed
		}
	}
}

// answerTo returns the agent's message of a turn as JSON, or nil if the log does not have the end
// of the turn.
func (a prompts) answerTo(ctx context.Context, t turn) (text json.RawMessage, err error) {
	read := a.withTranscript(ctx, t.host, t.Session, func(tr *opencode.Transcript) {
		if m, done := tr.Reply(t.user); m != nil && done {
			text, err = plainjson.Marshal(m)
		}
	})
	return text, cmp.Or(read, err)
}

// abort ends the running turn and those that wait, for the agent's start too.
func (a prompts) abort(c *call) (any, error) {
	f, err := a.find(c)
	if err != nil {
		return nil, err
	}
	if a.waiting.abort(f.ID); f.isDraft() {
		return true, nil
	}
	return true, f.host.Cancel(c.ctx, f.ID)
}

// commandsOf returns the slash commands of a session's agent.
func (a prompts) commandsOf(c *call) (f found, names []string, err error) {
	if f, err = a.find(c); err == nil && !f.isDraft() {
		err = a.withTranscript(c.ctx, f.host, f.Session, func(t *opencode.Transcript) { names = t.Commands() })
	}
	return f, names, err
}

// command runs a slash command of the agent.
func (a prompts) command(c *call) (any, error) {
	var body struct {
		Message   string       `json:"messageID"`
		Agent     string       `json:"agent"`
		Model     string       `json:"model"` // provider and model, with a slash between them
		Variant   string       `json:"variant"`
		Command   string       `json:"command"`
		Arguments string       `json:"arguments"`
		Parts     []promptPart `json:"parts"`
	}
	if err := c.ReadJSON(&body); err != nil {
		return nil, err
	}
	f, names, err := a.commandsOf(c)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, body.Command) {
		list := strings.Join(names, ", ")
		return nil, rest.InvalidField("command", fmt.Sprintf("command: the agent of session %s has no command %.100q; it has: %s", f.ID, body.Command, cmp.Or(list, "none")))
	}
	p := promptBody{Message: body.Message, Agent: body.Agent, Variant: body.Variant}
	if provider, model, ok := strings.Cut(body.Model, "/"); ok {
		p.Model = &opencode.ModelRef{Provider: provider, Model: model}
	}
	p.Parts = append([]promptPart{{Type: "text", Text: strings.TrimSpace("/" + body.Command + " " + body.Arguments)}}, body.Parts...)
	t, err := a.prompt(c, &p)
	if err != nil {
		return nil, err
	}
	a.publish(f.Cwd, "command.executed", map[string]any{"name": body.Command, "sessionID": f.ID, "arguments": body.Arguments, "messageID": t.user})
	return a.reply(c, t)
}

// aboutModel is the body of requests for a task with a model.
type aboutModel struct {
	Provider string `json:"providerID"`
	Model    string `json:"modelID"`
	Message  string `json:"messageID"`
}

// task prompts the agent with a text, and waits for the end of the turn.
func (a prompts) task(c *call, about aboutModel, text string) (any, error) {
	p := promptBody{Message: about.Message, Parts: []promptPart{{Type: "text", Text: text}}}
	if about.Provider != "" {
		p.Model = &opencode.ModelRef{Provider: about.Provider, Model: about.Model}
	}
	t, err := a.prompt(c, &p)
	if err != nil {
		return nil, err
	}
	ctx, stop := rest.UntilGone(c.ctx, c.Fiber)
	defer stop()
	_, err = t.turn.Wait(ctx)
	return err == nil, err
}

// initPrompt is what an agent without a command for it is asked.
const initPrompt = "Look at this project and write a file AGENTS.md at its root for coding agents: how to build, test and lint it, " +
	"and the rules of its code. If the file exists, improve it. Keep it under 150 lines."

// init has the agent write AGENTS.md.
func (a prompts) init(c *call) (any, error) {
	var about aboutModel
	if err := c.ReadJSON(&about); err != nil {
		return nil, err
	}
	_, names, err := a.commandsOf(c)
	if err != nil {
		return nil, err
	}
	if slices.Contains(names, "init") {
		return a.task(c, about, "/init")
	}
	return a.task(c, about, initPrompt)
}

// summarize has the agent replace the conversation by a summary, by its own command.
func (a prompts) summarize(c *call) (any, error) {
	var about aboutModel
	if err := c.ReadJSON(&about); err != nil {
		return nil, err
	}
	f, names, err := a.commandsOf(c)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"compact", "compress", "summarize"} {
		if slices.Contains(names, name) {
			done, err := a.task(c, about, "/"+name)
			if err == nil {
				a.publish(f.Cwd, "session.compacted", map[string]any{"sessionID": f.ID})
			}
			return done, err
		}
	}
	return nil, notImplemented("POST /session/{sessionID}/summarize is not supported: the agent of this session has no command for it")
}
