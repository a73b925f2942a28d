package agents

import "context"

// OwnCgroup is ownCgroup, for tests that look into the groups of hosts.
var OwnCgroup = ownCgroup

// SetPermissionsLate is SetPermissions of who has seen no restoration, although
// one has begun since.
func (h *Host) SetPermissionsLate(ctx context.Context, id string, p Policy) error {
	l, err := h.keeper(ctx, id)
	if err != nil {
		return err
	}
	return h.changeNow(ctx, l, id, note{}, p.set)
}
