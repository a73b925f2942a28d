package httpapi

import (
	"context"
	"net/http"
	"testing"
)

// TestLiveDownloadsOfTokens: 64 clients with limited tokens follow recordings. A further one gets
// 503 until another has left. The server's token is not bounded.
func TestLiveDownloadsOfTokens(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":320,"height":240}`)
	_, view := s.token(t, `{"scope":"view"}`)
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
	for i := range 64 {
		status, _, end := follow(view)
		if status != http.StatusOK {
			t.Fatalf("download %d: %d", i+1, status)
		}
		defer end()
		leave = end
	}
	status, retry, end := follow(view)
	if end(); status != http.StatusServiceUnavailable || retry == "" {
		t.Errorf("one more: %d, Retry-After %q", status, retry)
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
