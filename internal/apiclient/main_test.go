package apiclient

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/testlog"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s has changed; if that is meant, run this test with -update (-want +got):\n%s", file, diff)
	}
}

// apiText is the document of this module's own server.
var apiText = sync.OnceValue(func() []byte {
	text, err := os.ReadFile("../../httpapi/testdata/openapi.json")
	if err != nil {
		panic(err)
	}
	return text
})

func apiDocument(t *testing.T) *document {
	t.Helper()
	d, err := parse(apiText(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// paths is a document of those paths, each with its methods.
func paths(t *testing.T, all map[string]string) *document {
	t.Helper()
	var b strings.Builder
	b.WriteString(`{"paths":{`)
	first := true
	for path, methods := range all {
		if !first {
			b.WriteString(",")
		}
		first = false
		b.WriteString(`"` + path + `":{`)
		for i, m := range strings.Fields(methods) {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(`"` + strings.ToLower(m) + `":{}`)
		}
		b.WriteString(`}`)
	}
	b.WriteString(`}}`)
	d, err := parse([]byte(b.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// waitLimit is for what a busy machine takes long for.
const waitLimit = 30 * time.Second

// serve answers requests until the test ends.
func serve(t *testing.T, handle http.HandlerFunc) *url.URL {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// result is what one run has left.
type result struct {
	stdout, stderr string
	err            error
}

// do runs a command line against a server.
func do(t *testing.T, at *url.URL, args ...string) result {
	t.Helper()
	return doWith(t.Context(), at, "", args...)
}

func doWith(ctx context.Context, at *url.URL, stdin string, args ...string) result {
	var stdout, stderr testlog.Buffer
	c := Command{
		Name: "deskhand api", Document: apiText(), Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
		Connect: func() (Server, error) { return Server{URL: at, Token: "secret"}, nil },
	}
	err := c.Run(ctx, args)
	return result{stdout.String(), stderr.String(), err}
}

// poll asks until there is no complaint, and fails with the last one.
func poll(t *testing.T, what string, complaint func() string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitLimit)
	for {
		why := complaint()
		if why == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s: %s", waitLimit, what, why)
		}
	}
}
