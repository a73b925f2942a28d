package tokens

import (
	"cmp"
	"os"
	"os/user"
	"strconv"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// allows describes what the holder of a token of a scope can do, for the user who
// makes the token.
func (c Config) allows(s grants.Scope) string {
	as := "as user " + cmp.Or(c.DesktopUser, userName())
	switch s {
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
	case grants.ScopeAdmin:
	}
	return "Everything: a shell as user " + userName() + ", all desktops, files, agents and tokens."
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
