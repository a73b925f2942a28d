package rest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
)

// TestHandlerCannotBeFooled: the headers by which the inner server learns about
// the connection are not the client's to set.
func TestHandlerCannotBeFooled(t *testing.T) {
	t.Parallel()
	s := new(API)
	in := httptest.NewRequest(http.MethodGet, "/v1/health", nil)
	in.Header.Set(innerClient, "6.6.6.6")
	in.RemoteAddr = "1.2.3.4:5"
	out := httputil.ProxyRequest{In: in, Out: in.Clone(t.Context())}
	bridge{s}.rewrite(&out)
	if got := out.Out.Header.Get(innerClient); got != "1.2.3.4:5" {
		t.Errorf("client = %s", got)
	}
}
