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

// configOption is an option of a session, from configOptions of ACP.
type configOption struct {
	ID       string          `json:"id"`
	Category string          `json:"category"`
	Current  json.RawMessage `json:"currentValue"`
	Options  []configValue   `json:"options"`
}

// configValue is a value, or a group of values.
type configValue struct {
	Value   string        `json:"value"`
	Options []configValue `json:"options"`
}

// maxConfigOptions bounds the options of a session.
const maxConfigOptions = 256

// configOptionsOf decodes configOptions. It returns at most maxConfigOptions, and none that are
// larger than a session's row keeps. It leaves out options whose names are too long.
func configOptionsOf(config []byte) []configOption {
	var list []json.RawMessage
	if isOffered(config) {
		_ = json.Unmarshal(config, &list)
	}
	var all []configOption
	for _, raw := range list {
		var s configOption
		if len(all) < maxConfigOptions && json.Unmarshal(raw, &s) == nil && s.ID != "" && max(len(s.ID), len(s.Category), len(s.Current)) <= maxID {
			all = append(all, s)
		}
	}
	return all
}

func (s *configOption) values() (all []string) {
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

// has reports whether a value can be chosen. An option without a list is a boolean.
func (s *configOption) has(value json.RawMessage) bool {
	if isText(value) {
		return slices.Contains(s.values(), stringValue(value))
	}
	return isPresent(s.Current) && !isText(s.Current)
}

func isText(value json.RawMessage) bool { return len(value) > 0 && value[0] == '"' }

// isOffered reports whether a member is present and a session's row can keep it.
func isOffered(value json.RawMessage) bool { return isPresent(value) && len(value) <= maxOffered }

// isPresent reports whether a member is present and not null.
func isPresent(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

func equalValues(a, b json.RawMessage) bool {
	if isText(a) && isText(b) {
		return stringValue(a) == stringValue(b)
	}
	return bytes.Equal(a, b)
}

func optionByID(all []configOption, id string) *configOption {
	return findOption(all, func(s configOption) bool { return s.ID == id })
}

func optionOfCategory(all []configOption, category string) *configOption {
	return findOption(all, func(s configOption) bool { return s.Category == category })
}

func findOption(all []configOption, is func(configOption) bool) *configOption {
	if at := slices.IndexFunc(all, is); at >= 0 {
		return &all[at]
	}
	return nil
}

func categoryOf(id string, in ...[]configOption) string {
	for _, all := range in {
		if s := optionByID(all, id); s != nil {
			return s.Category
		}
	}
	return ""
}

// set records the current value of a category.
func (d *sessionData) set(category, value string) {
	switch category {
	case categoryMode:
		d.Mode = value
	case categoryModel:
		d.Model = value
	}
}

func setCurrent(object []byte, name, value string) []byte {
	if len(object) == 0 || object[0] != '{' {
		return object
	}
	return setMember(object, name, jsonString(value))
}

type choice struct {
	ID    string          `json:"id"`
	Value json.RawMessage `json:"value"`
}

// choices lists choices in their order, since they can affect each other. Copies share them,
// so they are replaced and never changed.
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

func (s *attachedSession) recordChoice(id string, value json.RawMessage) {
	s.data.Options = s.data.Options.with(id, value)
	s.data.set(categoryOf(id, configOptionsOf(s.row.Config)), stringValue(value))
	s.saveData()
}

// recordListedChoice records the choice of a mode or model, also as an option.
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
	if o := optionOfCategory(configOptionsOf(s.row.Config), category); o != nil && o.has(jsonString(value)) {
		s.data.Options = s.data.Options.with(o.ID, jsonString(value))
	}
	s.saveData()
}

// setOptions records the options of a session, as the agent describes them. A value that the
// agent has changed counts as chosen. A new option counts only if it was chosen before. While
// a session is being restored, the choices are not made yet and stay.
func (s *attachedSession) setOptions(config json.RawMessage, before []configOption) {
	if !s.keeps("configOptions", &config) {
		s.saveData()
		return
	}
	s.row.Config = bytes.Clone(config) // not a part of the message
	if s.opening {
		return
	}
	now := configOptionsOf(config)
	for _, c := range s.data.Options {
		if optionByID(now, c.ID) == nil {
			s.data.Options = s.data.Options.without(c.ID)
		}
	}
	for _, o := range now {
		old := optionByID(before, o.ID)
		if !isPresent(o.Current) || old == nil && !s.data.Options.has(o.ID) || old != nil && equalValues(old.Current, o.Current) {
			continue
		}
		s.data.Options = s.data.Options.with(o.ID, o.Current)
		s.data.set(o.Category, stringValue(o.Current))
	}
	s.saveData()
}

// applyChoice records the choice that a request of a client made.
func (s *attachedSession) applyChoice(c *call, e *envelope) {
	switch c.env.method {
	case "session/set_mode":
		s.recordListedChoice(categoryMode, memberOf(c.env, "modeId"))
	case "session/set_model":
		s.recordListedChoice(categoryModel, memberOf(c.env, "modelId"))
	case "session/set_config_option":
		var result sessionResult
		_ = json.Unmarshal(e.bytes(e.result), &result)
		if isPresent(result.Config) {
			s.setOptions(result.Config, configOptionsOf(s.row.Config))
		}
		if value := c.env.find(c.env.params, "value"); value.exists() && !s.opening {
			s.recordChoice(memberOf(c.env, "configId"), c.env.bytes(value))
		}
	}
}

// choiceRestorer makes the choices of a session again in a new process. Some agents do not keep
// them.
type choiceRestorer struct {
	process  *agentProcess
	session  string
	before   []configOption
	now      []configOption
	known    bool            // now is known
	done     map[string]bool // categories that are done
	kept     sessionData     // with the choices that are made
	problems []string        // choices that cannot be made
}

// chooseAgain makes the choices of a session again. result is the result of opening it.
// Choices that the agent refuses or no longer offers are problems. It returns an error if the
// agent does not answer.
func (p *agentProcess) chooseAgain(ctx context.Context, row eventlog.Session, result json.RawMessage) (*choiceRestorer, error) {
	var now sessionResult
	_ = json.Unmarshal(result, &now)
	was := attachedSessionOf(row).data
	r := &choiceRestorer{
		process: p, session: row.ID, before: configOptionsOf(row.Config), now: configOptionsOf(now.Config), known: isOffered(now.Config),
		done: map[string]bool{}, kept: was,
	}
	for _, o := range [][2]string{{categoryMode, was.Mode}, {categoryModel, was.Model}} {
		// choose prefers options.
		s := optionOfCategory(r.now, o[0])
		if s != nil && !was.Options.has(s.ID) && s.has(jsonString(o[1])) {
			r.kept.Options = r.kept.Options.with(s.ID, jsonString(o[1]))
		}
	}
	listed := []listedChoice{
		{categoryMode, "session/set_mode", "modeId", was.Mode, currentOf(now.Modes, "currentModeId")},
		{categoryModel, "session/set_model", "modelId", was.Model, currentOf(now.Models, "currentModelId")},
	}
	if err := r.setOptions(ctx); err != nil { // which can take long: now is not in memory meanwhile
		return r, err
	}
	for _, o := range listed {
		if r.done[o.category] {
			continue
		}
		if err := r.setListed(ctx, o); err != nil {
			return r, err
		}
	}
	return r, nil
}

// currentOf returns the current mode or model in a list, or "" if its name is too long.
func currentOf(list json.RawMessage, name string) string {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(list, &m)
	if len(m[name]) > maxID {
		return ""
	}
	return stringValue(m[name])
}

// setOptions sets the chosen options. An option may exist only after another is set, so options
// that cannot be set are tried again while others can be set.
func (r *choiceRestorer) setOptions(ctx context.Context) error {
	for left := r.kept.Options; len(left) > 0; {
		refused, why, err := r.setEach(ctx, left)
		if err != nil {
			return err
		}
		if len(refused) == len(left) {
			for i, c := range left {
				r.drop(c, why[i])
			}
			break
		}
		left = refused
	}
	if !r.known {
		return nil
	}
	_, _, err := r.setEach(ctx, r.kept.Options) // options that others have changed
	return err
}

// setEach sets options in their order, and returns the options that cannot be set.
func (r *choiceRestorer) setEach(ctx context.Context, all choices) (refused choices, why []string, err error) {
	for _, c := range all {
		problem, err := r.setOption(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		if problem != "" {
			refused, why = append(refused, c), append(why, problem)
			continue
		}
		r.done[categoryOf(c.ID, r.now, r.before)] = true
	}
	return refused, why, nil
}

const noLongerOffered = "the agent does not offer it any more"

// setOption sets an option. problem says why it cannot.
func (r *choiceRestorer) setOption(ctx context.Context, c choice) (problem string, err error) {
	s := optionByID(r.now, c.ID)
	switch {
	case s != nil && equalValues(s.Current, c.Value):
		return "", nil
	case r.known && (s == nil || !s.has(c.Value)):
		return noLongerOffered, nil
	}
	params := map[string]any{"sessionId": r.session, "configId": c.ID, "value": c.Value}
	if !isText(c.Value) {
		params["type"] = "boolean"
	}
	result, problem, err := r.request(ctx, "session/set_config_option", params)
	var now sessionResult
	if json.Unmarshal(result, &now) == nil && isOffered(now.Config) {
		r.now, r.known = configOptionsOf(now.Config), true
	}
	return problem, err
}

// request makes a choice. If the agent refuses it, problem says why.
func (r *choiceRestorer) request(ctx context.Context, method string, params any) (result json.RawMessage, problem string, err error) {
	result, err = r.process.request(ctx, method, encode(params))
	if refused, ok := errors.AsType[*ResponseError](err); ok {
		return nil, refused.Error(), nil
	}
	return result, "", err
}

// drop records that an option cannot be set.
func (r *choiceRestorer) drop(c choice, why string) {
	r.kept.Options = r.kept.Options.without(c.ID)
	of := categoryOf(c.ID, r.now, r.before)
	if s := optionByID(r.now, c.ID); s != nil {
		r.kept.set(of, stringValue(s.Current))
		r.done[of] = true
	} else if of == categoryMode || of == categoryModel {
		return // it may be a listed mode or model
	}
	r.problem(c.ID, string(c.Value), why)
}

func (r *choiceRestorer) problem(what, value, why string) {
	r.problems = append(r.problems, fmt.Sprintf("%s is not %s any more: %s", what, value, why))
}

// listedChoice is a choice of a listed mode or model.
type listedChoice struct{ category, method, name, value, current string }

func (r *choiceRestorer) setListed(ctx context.Context, o listedChoice) error {
	if o.value == "" || o.value == o.current {
		return nil
	}
	_, problem, err := r.request(ctx, o.method, map[string]string{"sessionId": r.session, o.name: o.value})
	if problem != "" {
		r.kept.set(o.category, o.current)
		r.problem(o.category, string(jsonString(o.value)), problem)
	}
	return err
}
