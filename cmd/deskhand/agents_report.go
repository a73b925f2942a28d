package main

import (
	"encoding/json"
	"time"

	"github.com/deskhand/deskhand/internal/apiclient"
)

// agentsReport is the command "api agents report".
var agentsReport = apiclient.Report{
	Words: []string{"agents", "report"}, Summary: "List the agents with their models, modes and thought levels",
	About: "The values are those that the agent named when it last ran, or else deskhand's defaults.",
	Tag:   "Agents", Path: "/v1/agents?config=true", Make: reportAgents,
}

// reported is a report as sandbox-agent prints it.
type reported struct {
	Generated int64           `json:"generatedAtMs"`
	Endpoint  string          `json:"endpoint"`
	Agents    []reportedAgent `json:"agents"`
}

type reportedAgent struct {
	ID        string          `json:"id"`
	Installed bool            `json:"installed"`
	Models    reportedChoices `json:"models"`
	Modes     reportedChoices `json:"modes"`
	Thoughts  reportedChoices `json:"thoughtLevels"`
}

type reportedChoices struct {
	Current string          `json:"currentValue,omitempty"`
	Values  []reportedValue `json:"values"`
}

type reportedValue struct {
	Value string `json:"value"`
	Name  string `json:"name"`
}

func reportAgents(endpoint string, answer []byte) (any, error) {
	var list struct {
		Agents []struct {
			ID        string `json:"id"`
			Installed bool   `json:"installed"`
			Options   []struct {
				Category string          `json:"category"`
				Current  string          `json:"currentValue"`
				Values   []reportedValue `json:"options"`
			} `json:"configOptions"`
		} `json:"agents"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, err
	}
	out := reported{Generated: time.Now().UnixMilli(), Endpoint: endpoint, Agents: []reportedAgent{}}
	for _, a := range list.Agents {
		none := reportedChoices{Values: []reportedValue{}}
		r := reportedAgent{ID: a.ID, Installed: a.Installed, Models: none, Modes: none, Thoughts: none}
		for _, o := range a.Options {
			c := reportedChoices{o.Current, o.Values}
			switch o.Category {
			case "model":
				r.Models = c
			case "mode":
				r.Modes = c
			case "thought_level":
				r.Thoughts = c
			}
		}
		out.Agents = append(out.Agents, r)
	}
	return out, nil
}
