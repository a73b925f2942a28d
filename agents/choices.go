package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// setting is one of the options of a session that an agent lets clients choose,
// the newer of ACP's two ways.
type setting struct {
	ID       string          `json:"id"`
	Category string          `json:"category"`
	Current  json.RawMessage `json:"currentValue"`
	Options  []settingValue  `json:"options"`
}

// settingValue is a value, or a group of values.
type settingValue struct {
	Value   string         `json:"value"`
	Options []settingValue `json:"options"`
}

// maxSettings bounds the options of a session that are compared with each other.
const maxSettings = 256

// settingsOf reads configOptions: the first maxSettings of those that can be chosen.
func settingsOf(config []byte) []setting {
	var list []json.RawMessage
	_ = json.Unmarshal(config, &list)
	var all []setting
	for _, raw := range list {
		var s setting
		if len(all) < maxSettings && json.Unmarshal(raw, &s) == nil && s.ID != "" {
			all = append(all, s)
		}
	}
	return all
}

func (s *setting) values() (all []string) {
	for _, v := range s.Options {
		if len(v.Options) == 0 {
			all = append(all, v.Value)
		}
		for _, grouped := range v.Options {
			all = append(all, grouped.Value)
		}
	}
	return all
}

// has tells whether a value can be chosen: one of the list, or for what is on or
// off either.
func (s *setting) has(value json.RawMessage) bool {
	if isText(value) {
		return slices.Contains(s.values(), text(value))
	}
	return given(s.Current) && !isText(s.Current)
}

func isText(value json.RawMessage) bool { return len(value) > 0 && value[0] == '"' }

// given tells whether a member is there and not null.
func given(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// same tells whether two values are equal, however they are written.
func same(a, b json.RawMessage) bool {
	if isText(a) && isText(b) {
		return text(a) == text(b)
	}
	return bytes.Equal(a, b)
}

// named is the setting of an id, or nil.
func named(all []setting, id string) *setting {
	return first(all, func(s setting) bool { return s.ID == id })
}

// ofCategory is the setting of a category, or nil.
func ofCategory(all []setting, category string) *setting {
	return first(all, func(s setting) bool { return s.Category == category })
}

func first(all []setting, is func(setting) bool) *setting {
	if at := slices.IndexFunc(all, is); at >= 0 {
		return &all[at]
	}
	return nil
}

// category is that of a session's setting.
func category(id string, in ...[]setting) string {
	for _, all := range in {
		if s := named(all, id); s != nil {
			return s.Category
		}
	}
	return ""
}

// set notes the current value of a category.
func (d *sessionData) set(category, value string) {
	switch category {
	case categoryMode:
		d.Mode = value
	case categoryModel:
		d.Model = value
	}
}

// choice is an option and the value that was chosen for it.
type choice struct {
	ID    string          `json:"id"`
	Value json.RawMessage `json:"value"`
}

// choices are those of a session, the last one at the end: made in that order
// they have the effects on each other that they had. They are replaced, never
// changed, since copies share them.
type choices []choice

func (c choices) has(id string) bool {
	return slices.ContainsFunc(c, func(one choice) bool { return one.ID == id })
}

func (c choices) without(id string) choices {
	return slices.DeleteFunc(slices.Clone(c), func(one choice) bool { return one.ID == id })
}

func (c choices) with(id string, value json.RawMessage) choices {
	return append(c.without(id), choice{id, bytes.Clone(value)})
}

// recordChoice remembers what was chosen in the newer way.
func (s *attachedSession) recordChoice(id string, value json.RawMessage) {
	s.data.Options = s.data.Options.with(id, value)
	s.data.set(category(id, settingsOf(s.row.Config)), text(value))
	s.saveData()
}

// recordListedChoice remembers what was chosen in the older way, for both.
func (s *attachedSession) recordListedChoice(category, value string) {
	if value == "" || len(value) > maxTitle {
		return
	}
	if category == categoryMode {
		s.row.Modes = setCurrent(s.row.Modes, "currentModeId", value)
	}
	if s.opening {
		return
	}
	s.data.set(category, value)
	if o := ofCategory(settingsOf(s.row.Config), category); o != nil && o.has(quote(value)) {
		s.data.Options = s.data.Options.with(o.ID, quote(value))
	}
	s.saveData()
}

// setOptions takes over what the agent says that the options of a session are. What
// it has changed from what it said before counts as chosen; of what is said for
// the first time only that does which was chosen already. While a session is
// being restored the agent says what there is without the choices.
func (s *attachedSession) setOptions(config json.RawMessage, before []setting) {
	if !s.keeps("configOptions", &config) {
		s.saveData()
		return
	}
	s.row.Config = config
	if s.opening {
		return
	}
	now := settingsOf(config)
	for _, c := range s.data.Options {
		if named(now, c.ID) == nil {
			s.data.Options = s.data.Options.without(c.ID)
		}
	}
	for _, o := range now {
		old := named(before, o.ID)
		if !given(o.Current) || old == nil && !s.data.Options.has(o.ID) || old != nil && same(old.Current, o.Current) {
			continue
		}
		s.data.Options = s.data.Options.with(o.ID, o.Current)
		s.data.set(o.Category, text(o.Current))
	}
	s.saveData()
}

// applyChoice remembers what a session was set to.
func (p *agentProcess) applyChoice(s *attachedSession, c *call, e *envelope) {
	switch c.env.method {
	case "session/set_mode":
		s.recordListedChoice(categoryMode, modeOf(c.env, "modeId"))
	case "session/set_model":
		s.recordListedChoice(categoryModel, modeOf(c.env, "modelId"))
	case "session/set_config_option":
		var result created
		_ = json.Unmarshal(e.bytes(e.result), &result)
		if given(result.Config) {
			s.setOptions(result.Config, settingsOf(s.row.Config))
		}
		if value := c.env.find(c.env.params, "value"); value.there() && !s.opening {
			s.recordChoice(modeOf(c.env, "configId"), c.env.bytes(value))
		}
	}
}

// rechoice sets a session that was opened in a new process to what was chosen,
// for agents that do not keep that.
type rechoice struct {
	life     *agentProcess
	session  string
	before   []setting
	now      []setting
	says     bool            // the agent has told what it offers now
	over     map[string]bool // categories of which nothing is left to do
	kept     sessionData     // what it is set to at the end
	problems []string        // what is not as it was
}

// chooseAgain sets a session to what its row says, after the result of opening
// it. What the agent refuses, or does not offer any more, is among the problems;
// an error is that of an agent that does not answer.
func (p *agentProcess) chooseAgain(ctx context.Context, row eventlog.Session, result json.RawMessage) (*rechoice, error) {
	var now created
	_ = json.Unmarshal(result, &now)
	was := attachedSessionOf(row).data
	r := &rechoice{
		life: p, session: row.ID, before: settingsOf(row.Config), now: settingsOf(now.Config), says: given(now.Config),
		over: map[string]bool{}, kept: was,
	}
	for _, o := range [][2]string{{categoryMode, was.Mode}, {categoryModel, was.Model}} {
		// The newer way is the one that choose prefers.
		s := ofCategory(r.now, o[0])
		if s != nil && !was.Options.has(s.ID) && s.has(quote(o[1])) {
			r.kept.Options = r.kept.Options.with(s.ID, quote(o[1]))
		}
	}
	if err := r.options(ctx); err != nil {
		return r, err
	}
	for _, o := range []older{
		{categoryMode, "session/set_mode", "modeId", was.Mode, currentOf(now.Modes, "currentModeId")},
		{categoryModel, "session/set_model", "modelId", was.Model, currentOf(now.Models, "currentModelId")},
	} {
		if r.over[o.category] {
			continue
		}
		if err := r.older(ctx, o); err != nil {
			return r, err
		}
	}
	return r, nil
}

func currentOf(list json.RawMessage, name string) string {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(list, &m)
	return text(m[name])
}

// options sets what was chosen of the options. Some are there only when others
// are set: those that cannot be set are tried again as long as others can.
func (r *rechoice) options(ctx context.Context) error {
	for left := r.kept.Options; len(left) > 0; {
		refused, why, err := r.each(ctx, left)
		if err != nil {
			return err
		}
		if len(refused) == len(left) {
			for i, c := range left {
				r.lose(c, why[i])
			}
			break
		}
		left = refused
	}
	if !r.says {
		return nil
	}
	_, _, err := r.each(ctx, r.kept.Options) // what another one has changed
	return err
}

// each sets options in their order, and returns those that cannot be set.
func (r *rechoice) each(ctx context.Context, all choices) (refused choices, why []string, err error) {
	for _, c := range all {
		problem, err := r.option(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		if problem != "" {
			refused, why = append(refused, c), append(why, problem)
			continue
		}
		r.over[category(c.ID, r.now, r.before)] = true
	}
	return refused, why, nil
}

const notOffered = "the agent does not offer it any more"

// option sets one of the options, and tells why it cannot.
func (r *rechoice) option(ctx context.Context, c choice) (problem string, err error) {
	s := named(r.now, c.ID)
	switch {
	case s != nil && same(s.Current, c.Value):
		return "", nil
	case r.says && (s == nil || !s.has(c.Value)):
		return notOffered, nil
	}
	params := map[string]any{"sessionId": r.session, "configId": c.ID, "value": c.Value}
	if !isText(c.Value) {
		params["type"] = "boolean"
	}
	result, problem, err := r.request(ctx, "session/set_config_option", params)
	var now created
	if json.Unmarshal(result, &now) == nil && given(now.Config) {
		r.now, r.says = settingsOf(now.Config), true
	}
	return problem, err
}

// request makes a choice. That the agent refuses it is no error.
func (r *rechoice) request(ctx context.Context, method string, params any) (result json.RawMessage, problem string, err error) {
	result, err = r.life.request(ctx, method, encode(params))
	if refused, ok := errors.AsType[*ResponseError](err); ok {
		return nil, refused.Error(), nil
	}
	return result, "", err
}

// lose notes that an option is not what it was.
func (r *rechoice) lose(c choice, why string) {
	r.kept.Options = r.kept.Options.without(c.ID)
	of := category(c.ID, r.now, r.before)
	if s := named(r.now, c.ID); s != nil {
		r.kept.set(of, text(s.Current))
		r.over[of] = true
	} else if of == categoryMode || of == categoryModel {
		return // it may be there in the older way
	}
	r.problem(c.ID, string(c.Value), why)
}

func (r *rechoice) problem(what, value, why string) {
	r.problems = append(r.problems, fmt.Sprintf("%s is not %s any more: %s", what, value, why))
}

// older is a choice of the older way.
type older struct{ category, method, name, value, current string }

func (r *rechoice) older(ctx context.Context, o older) error {
	if o.value == "" || o.value == o.current {
		return nil
	}
	_, problem, err := r.request(ctx, o.method, map[string]string{"sessionId": r.session, o.name: o.value})
	if problem != "" {
		r.kept.set(o.category, o.current)
		r.problem(o.category, string(quote(o.value)), problem)
	}
	return err
}
