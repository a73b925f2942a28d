package desktops

import (
	"strings"
	"testing"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// TestEnterAsGuest: guests get the places that there are, and leave none for each other then. The
// server's token takes none.
func TestEnterAsGuest(t *testing.T) {
	t.Parallel()
	guest, owner := &rest.Request{Grant: &grants.Grant{Scope: grants.ScopeView}}, &rest.Request{}
	places := make(chan struct{}, 1)
	leave, err := enterAsGuest(guest, places, "too many clips")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enterAsGuest(guest, places, "too many clips"); err == nil || !strings.Contains(err.Error(), "too many clips") {
		t.Errorf("the second guest: %v", err)
	}
	if _, err := enterAsGuest(owner, places, "too many clips"); err != nil {
		t.Errorf("the owner: %v", err)
	}
	leave()
	leave()
	if _, err := enterAsGuest(guest, places, "too many clips"); err != nil {
		t.Errorf("the guest after that: %v", err)
	}
}
