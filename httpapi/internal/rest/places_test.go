package rest

import (
	"strings"
	"testing"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// TestSharedPlaces: a token gets half of the places for guests, and all tokens get no more than there
// are. The server's token takes none.
func TestSharedPlaces(t *testing.T) {
	t.Parallel()
	places := NewSharedPlaces(4)
	enter := func(id string) (leave func(), ok bool) {
		t.Helper()
		r := &Request{}
		if id != "" {
			r.Grant = &grants.Grant{ID: id, Scope: grants.ScopeView}
		}
		leave, bad := places.Enter(r, "too many clips")
		if bad != nil && !strings.Contains(bad.Error(), "too many clips") {
			t.Error(bad)
		}
		return leave, bad == nil
	}
	for _, c := range []struct {
		id string
		ok bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", true}, {"b", false}, {"", true}} {
		if _, ok := enter(c.id); ok != c.ok {
			t.Errorf("the token %q enters: %v", c.id, ok)
		}
	}
	places.taken = []string{"a", "b", "c"}
	leave, ok := enter("a")
	if !ok {
		t.Fatal("there is no place")
	}
	leave()
	leave()
	if _, ok := enter("a"); !ok || len(places.taken) != 4 {
		t.Errorf("after the end of one: %v, taken by %v", ok, places.taken)
	}
}
