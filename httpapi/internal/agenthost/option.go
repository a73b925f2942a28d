package agenthost

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// ChosenOption returns the id of the option that an answer names by its id or its name, or
// else by its name in other case. It returns a problem if no option or several match.
func ChosenOption(options []agents.Option, answer string) (string, error) {
	options = options[:min(len(options), agents.MaxOptions)]
	matches := func(same func(agents.Option) bool) (ids []string) {
		for _, o := range options {
			if same(o) && !slices.Contains(ids, o.ID) {
				ids = append(ids, o.ID)
			}
		}
		return ids
	}
	ids := matches(func(o agents.Option) bool { return o.ID == answer || o.Name == answer })
	if len(ids) == 0 {
		ids = matches(func(o agents.Option) bool { return strings.EqualFold(o.Name, answer) })
	}
	switch {
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) > 1:
		return "", rest.InvalidField("answers", fmt.Sprintf("answers: %.100q is the id or the name of several options", answer))
	}
	var names []string
	for _, o := range options {
		names = append(names, fmt.Sprintf("%.100s", o.Name))
	}
	slices.Sort(names)
	return "", rest.InvalidField("answers", fmt.Sprintf("answers: there is no option %.100q; there are %s", answer, strings.Join(names, ", ")))
}
