package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// Categories of ACP's options.
const (
	categoryMode    = "mode"
	categoryModel   = "model"
	categoryThought = "thought_level"
)

// SetMode sets one of the agent's modes for a session, and waits for the agent's answer. It
// restores the session if its process has ended. It returns an [InvalidError] if the agent
// has no such mode, context.DeadlineExceeded if the agent does not answer within
// Config.RequestTimeout, and otherwise the errors of [Host.Prompt] and [ResponseError].
func (h *Host) SetMode(ctx context.Context, id, mode string) error {
	return h.set(ctx, id, categoryMode, mode)
}

// SetModel is like SetMode for models.
func (h *Host) SetModel(ctx context.Context, id, model string) error {
	return h.set(ctx, id, categoryModel, model)
}

// SetThoughtLevel is like SetMode for thought levels.
func (h *Host) SetThoughtLevel(ctx context.Context, id, level string) error {
	return h.set(ctx, id, categoryThought, level)
}

// chooseAll sets the mode, model and thought level of a new session.
func (p *agentProcess) chooseAll(ctx context.Context, id string, o SessionOptions) error {
	for _, choice := range []struct{ category, value string }{
		{categoryMode, o.Mode}, {categoryModel, o.Model}, {categoryThought, o.ThoughtLevel},
	} {
		if choice.value == "" {
			continue
		}
		err := p.choose(ctx, id, choice.category, choice.value)
		if invalid, ok := errors.AsType[*InvalidError](err); ok && o.Lenient {
			err = p.edit(ctx, id, hostEvent{}, func(s *attachedSession) error {
				s.data.Problems = append(s.data.Problems, invalid.Error())
				s.saveData()
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) set(ctx context.Context, id, category, value string) error {
	return retryResting(func() error {
		p, err := h.processWithSession(ctx, id)
		if err != nil {
			return err
		}
		return p.choose(ctx, id, category, value)
	})
}

// choose sets a mode, model or thought level. Agents offer them as options or, in an older
// version of ACP, as lists.
func (p *agentProcess) choose(ctx context.Context, id, category, value string) error {
	row, err := p.host.cfg.Log.Session(ctx, id)
	if err != nil {
		return err
	}
	offer := offerOf(row, category)
	method, params := "", map[string]string{"sessionId": id}
	switch {
	case slices.Contains(offer.option, value):
		method = "session/set_config_option"
		params["configId"], params["value"] = offer.id, value
	case category == categoryMode && slices.Contains(offer.list, value):
		method, params["modeId"] = "session/set_mode", value
	case category == categoryModel && slices.Contains(offer.list, value):
		method, params["modelId"] = "session/set_model", value
	default:
		all := cmp.Or(strings.Join(offer.option, ", "), strings.Join(offer.list, ", "))
		if all == "" {
			return &InvalidError{category, "cannot be chosen with " + p.agent}
		}
		return &InvalidError{category, "must be one of " + cuttext.Cut(all, maxErrorText)}
	}
	c, err := newClientCall(method, true, params)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.host.cfg.RequestTimeout)
	defer cancel()
	raw, err := p.sendInTime(ctx, c)
	if err != nil {
		return err
	}
	_, err = resultOf(method, raw)
	return err
}

// offer has the values of a category that an agent offers.
type offer struct {
	id     string   // of the option
	option []string // the option's values
	list   []string // the values of the older version
}

func offerOf(row eventlog.Session, category string) (o offer) {
	if s := optionOfCategory(configOptionsOf(row.Config), category); s != nil {
		o.id, o.option = s.ID, s.values()
	}
	switch category {
	case categoryMode:
		var m struct {
			Available []struct{ ID string } `json:"availableModes"`
		}
		_ = json.Unmarshal(row.Modes, &m)
		for _, v := range m.Available {
			o.list = append(o.list, v.ID)
		}
	case categoryModel:
		var m struct {
			Available []struct {
				ID string `json:"modelId"`
			} `json:"availableModels"`
		}
		_ = json.Unmarshal(attachedSessionOf(row).data.Models, &m)
		for _, v := range m.Available {
			o.list = append(o.list, v.ID)
		}
	}
	return o
}
