package tokens

import (
	"cmp"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// allows describes what the holder of a token can do, for the user who makes the token.
func (c Config) allows(g *grants.Grant) string {
	as := "as user " + cmp.Or(c.DesktopUser, userName())
	switch g.Scope {
	case grants.ScopeView:
		return "Seeing the desktop; no input."
	case grants.ScopeControl:
		if c.DesktopMenu {
			return "A shell " + as + ": the menu of the desktop has a terminal."
		}
		return "Using every program that is open on the desktop, " + as + ": with a terminal, a file manager or a browser there, " +
			"that is a shell, or that user's files. From the empty desktop no program can be started."
	case grants.ScopeAgent:
		return "A shell " + as + ": it starts any program on the desktop."
	case grants.ScopeSupervise:
		return "All desktops, agents and sessions: a shell " + as + ", and one as user " + cmp.Or(c.AgentUser, userName()) +
			" through agents. " + filesOf(g) + "No tokens, secrets and processes of other clients."
	case grants.ScopeAdmin:
	}
	return "Everything: a shell as user " + userName() + ", all desktops, files, agents and tokens."
}

// filesOf describes the files that a token of the scope supervise reaches.
func filesOf(g *grants.Grant) string {
	if len(g.Roots) == 0 {
		return "Only the files of these users. "
	}
	return "The files of " + strings.Join(g.Roots, ", ") + ", as user " + userName() + ". "
}

// userName returns the name of the user that this program runs as, or its number if
// it has no name.
func userName() string {
	id := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}
