package opencode

import "slices"

// routes lists the routes of all topics.
func (a *area) routes() []route {
	return slices.Concat(
		a.sessionRoutes(), a.transcriptRoutes(), prompts{a}.routes(), replies{a}.routes(), a.eventRoutes(), a.shellRoutes(),
		a.machineRoutes(),
	)
}
