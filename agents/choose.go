package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// The categories of what can be chosen for a session, as ACP has them.
const (
	categoryMode    = "mode"
	categoryModel   = "model"
	categoryThought = "thought_level"
)

// SetMode chooses one of the agent's modes for a session. The error is an
// [InvalidError] when it has none of that name.
func (h *Host) SetMode(ctx context.Context, id, mode string) error {
	return h.set(ctx, id, categoryMode, mode)
}

// SetModel chooses one of the agent's models, as SetMode does.
func (h *Host) SetModel(ctx context.Context, id, model string) error {
	return h.set(ctx, id, categoryModel, model)
}

// SetThoughtLevel chooses how much the agent thinks, as SetMode does.
func (h *Host) SetThoughtLevel(ctx context.Context, id, level string) error {
	return h.set(ctx, id, categoryThought, level)
}

// chooseAll chooses what the options name for a new session.
func (h *Host) chooseAll(ctx context.Context, p *agentProcess, id string, o SessionOptions) error {
	for _, choice := range []struct{ category, value string }{
		{categoryMode, o.Mode}, {categoryModel, o.Model}, {categoryThought, o.ThoughtLevel},
	} {
		if choice.value == "" {
			continue
		}
		err := h.choose(ctx, p, id, choice.category, choice.value)
		if invalid, ok := errors.AsType[*InvalidError](err); ok && o.Lenient {
			err = p.edit(ctx, id, note{}, func(s *attachedSession) error {
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
		return h.choose(ctx, p, id, category, value)
	})
}

// choose sets one of the things that agents let clients choose. They offer them
// in two ways, of which the option is the newer.
func (h *Host) choose(ctx context.Context, p *agentProcess, id, category, value string) error {
	row, err := h.cfg.Log.Session(ctx, id)
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
		all := strings.Join(offer.option, ", ")
		if all == "" {
			all = strings.Join(offer.list, ", ")
		}
		if all == "" {
			return &InvalidError{category, "cannot be chosen with " + p.agent}
		}
		return &InvalidError{category, fmt.Sprintf("must be one of %s", all)}
	}
	c, err := newClientCall(method, true, params)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.RequestTimeout)
	defer cancel()
	raw, err := p.send(ctx, c)
	if err != nil {
		return err
	}
	_, err = resultOf(method, raw)
	return err
}

// offer is what an agent lets clients choose of one category.
type offer struct {
	id     string   // of the option
	option []string // its values
	list   []string // those of the older way
}

func offerOf(row eventlog.Session, category string) (o offer) {
	if s := ofCategory(settingsOf(row.Config), category); s != nil {
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
