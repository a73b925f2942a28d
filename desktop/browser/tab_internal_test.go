package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestWithoutSecrets checks that events have neither passwords nor signatures of URLs.
func TestWithoutSecrets(t *testing.T) {
	for _, c := range []struct {
		url, want string
	}{
		{"", ""},
		{"about:blank", "about:blank"},
		{"https://example.com/a?q=1#b", "https://example.com/a"},
		{"https://ann:secret@example.com/a?q=1#b", "https://example.com/a"},
		{"https://ann@example.com/", "https://example.com/"},
		{"https://ann:secret@example.com/a?signature=x#b", "https://example.com/a"},
		{"https://ann:secret@example.com/%zz", "https:…"},
		{"data:text/html,a@b", "data:text/html,a@b"},
		{"view-source:https://ann:secret@example.com/a?q=1#b", "view-source:https://example.com/a"},
		{"View-Source:View-Source:HTTP://ann:secret@example.com/", "View-Source:View-Source:http://example.com/"},
		{"view-source:https://ann:secret@example.com/%zz", "view-source:https:…"},
		{"blob:https://ann:secret@example.com/1-2", "blob:https://example.com/1-2"},
		{"blob:https://example.com/1-2?signature=x", "blob:https://example.com/1-2"},
		{"filesystem:https://ann:secret@example.com/temporary/a", "filesystem:https://example.com/temporary/a"},
		{"view-source:about:blank", "view-source:about:blank"},
		{"https://ann:" + strings.Repeat("secret", 1000) + "@example.com/", "https://example.com/"},
		{"https://ann:" + strings.Repeat("secret", 1000) + "…", "https:…"},
		{"https:ann:secret@example.com", "https:…"},
		{"https:/ann:secret@example.com", "https:…"},
		{"https:///ann:secret@example.com", "https:…"},
		{"https:\\\\ann:secret@example.com", "https:…"},
		{"ht\ntps://ann:secret@example.com", "…"},
		{" https://ann:secret@example.com", "…"},
		{"ann:secret@example.com", "ann:…"},
		{"//ann:secret@example.com/%zz", "…"},
		{"https://example.com/ann@example.org", "https://example.com/ann@example.org"},
		{"file:///home/ann/a@b", "file:///home/ann/a@b"},
		{"file:///home/ann/a.txt", "file:///home/ann/a.txt"},
	} {
		if got := withoutSecrets(c.url); got != c.want {
			t.Errorf("withoutSecrets(%q) = %q, want %q", c.url, got, c.want)
		}
	}
}

// TestLimited checks that the beginning of a text does not keep the rest of it in memory.
func TestLimited(t *testing.T) {
	var kept []string
	for range 100 {
		kept = append(kept, limited(strings.Repeat("\U0001F600", 1<<18)))
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 30<<20 {
		t.Errorf("%d texts need %d bytes", len(kept), m.HeapAlloc)
	}
	if got := limited(kept[0]); got != kept[0] || len([]rune(got)) != maxText {
		t.Errorf("%d characters", len([]rune(got)))
	}
}

// TestClosedTabs checks that nothing is kept of frames and tabs that are gone.
func TestClosedTabs(t *testing.T) {
	b := &clients{tabs: tabs{sessions: map[string]*session{}, followed: map[string]*tab{}, posted: make(chan struct{}, 1)}}
	event := func(session, method, params string, args ...any) {
		b.route(message{session: quote(session), method: quote(method), params: fmt.Appendf(nil, params, args...)})
	}
	const attached = `{"sessionId":"%s","targetInfo":{"targetId":"%s","type":"%s"}}`
	event("", "Target.attachedToTarget", attached, "S", "T", "page")
	for i := range 2 * maxFrames {
		event("S", "Target.attachedToTarget", attached, fmt.Sprint("S", i), fmt.Sprint("F", i), "iframe")
		if _, ok := b.all[0].frames[fmt.Sprint("F", i)]; !ok {
			t.Fatalf("frame %d is not followed", i)
		}
		event("S", "Target.detachedFromTarget", `{"sessionId":"S%d"}`, i)
	}
	if frames := b.all[0].frames; len(frames) > 0 || len(b.followed) != 1 {
		t.Errorf("%d frames and %d sessions are left", len(frames), len(b.followed))
	}
	event("S", "Target.attachedToTarget", attached, "R", "F", "iframe")
	event("", "Target.targetDestroyed", `{"targetId":"T"}`)
	if len(b.all) > 0 || len(b.followed) > 0 {
		t.Errorf("%d tabs and %d sessions are left", len(b.all), len(b.followed))
	}
}

// TestUploadable checks that an error does not say whether a file outside the home exists.
func TestUploadable(t *testing.T) {
	home, outside := t.TempDir(), t.TempDir()
	b := &elements{clients: clients{tabs: tabs{process: process{home: home}}}}
	inside := filepath.Join(home, "a")
	for _, path := range []string{inside, filepath.Join(outside, "a")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := b.uploadable([]string{"a"}); err != nil || len(files) != 1 {
		t.Error(files, err)
	}
	_, exists := b.uploadable([]string{filepath.Join(outside, "a")})
	_, missing := b.uploadable([]string{filepath.Join(outside, "b")})
	if exists == nil || missing == nil || strings.ReplaceAll(exists.Error(), outside+"/a", outside+"/b") != missing.Error() {
		t.Errorf("%v\n%v", exists, missing)
	}
}
