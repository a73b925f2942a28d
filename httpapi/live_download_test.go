package httpapi

import (
	"context"
	"net/http"
	"testing"
)

// TestLiveDownloadsOfTokens: 64 clients with limited tokens follow recordings, 32 with one of them. A
// further one gets 503 until another has left. The server's token is not bounded.
func TestLiveDownloadsOfTokens(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":320,"height":240}`)
	_, view := s.token(t, `{"scope":"view"}`)
	_, control := s.token(t, `{"scope":"control"}`)
	_, other := s.token(t, `{"scope":"view"}`)
	id := s.post(t, mainPath+"/recordings", `{}`).want(t, 201).json(t)["id"].(string)
	follow := func(token string) (status int, retry string, leave func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+mainPath+"/recordings/"+id+"/download?live=true", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Retry-After"), func() { cancel(); resp.Body.Close() }
	}
	var leave func()
	for _, token := range []string{control, view} {
		for i := range 32 {
			status, _, end := follow(token)
			if status != http.StatusOK {
				t.Fatalf("download %d: %d", i+1, status)
			}
			defer end()
			leave = end
		}
		status, retry, end := follow(token)
		if end(); status != http.StatusServiceUnavailable || retry == "" {
			t.Errorf("one more of a token: %d, Retry-After %q", status, retry)
		}
	}
	status, _, end := follow(other)
	if end(); status != http.StatusServiceUnavailable {
		t.Errorf("one more of all tokens: %d", status)
	}
	status, _, end = follow(s.Token())
	if end(); status != http.StatusOK {
		t.Errorf("the server's token: %d", status)
	}
	leave()
	eventually(t, "a place is free", func() bool {
		status, _, end := follow(view)
		end()
		return status == http.StatusOK
	})
}
