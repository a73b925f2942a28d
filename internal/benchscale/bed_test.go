package benchscale

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// The command line, after -args.
var (
	scale    = flag.Bool("scale", false, "measure")
	given    = flag.String("deskhand", "", "the program to measure; empty: it is built")
	parts    = flag.String("part", "idle,busy,viewers,sessions,cycles,servers", "the parts to measure, separated by commas")
	desktops = flag.Int("desktops", 100, "desktops of the part idle")
	busy     = flag.Int("busy", 20, "desktops of the part busy")
	viewers  = flag.Int("viewers", 50, "viewers of the part viewers")
	sessions = flag.Int("sessions", 1000, "sessions of the part sessions, of which a fifth prompt")
	cycles   = flag.Int("cycles", 10_000, "cycles of the part cycles in all, a tenth of which start desktops")
	watch    = flag.Duration("watch", 30*time.Second, "how long a state is measured")
	kill     = flag.Duration("kill", 5*time.Minute, "how long the part servers kills one every ten seconds")
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		testpostgres.Remove()
		os.Exit(status)
	}))
}

// TestScale measures the parts that were asked for.
func TestScale(t *testing.T) {
	if !*scale {
		t.Skip("measures only with -scale: see make bench-scale")
	}
	machine, err := benchkit.Machine()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := benchkit.Binary(t.Context(), *given, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &report{}
	fmt.Printf("%s; load before: %s\n", machine, benchkit.LoadAverage())
	for _, p := range []struct {
		name    string
		measure func(*testing.T, *report, string)
	}{
		{"idle", measureIdle}, {"busy", measureBusy}, {"viewers", measureViewers}, {"sessions", measureSessions}, {"cycles", measureCycles}, {"servers", measureServers},
	} {
		if slices.Contains(strings.Split(*parts, ","), p.name) {
			t.Run(p.name, func(t *testing.T) { p.measure(t, r, binary) })
			r.print(p.name)
		}
	}
}

// report collects the rows of a table.
type report struct{ rows [][]string }

func (r *report) add(what, figure, goal string, met bool) {
	r.rows = append(r.rows, []string{what, figure, goal, benchkit.Verdict(goal, met)})
}

// print prints the table of a part.
func (r *report) print(part string) {
	benchkit.Table(os.Stdout, []string{part, "measured", "goal", ""}, r.rows)
	fmt.Printf("\nload: %s\n", benchkit.LoadAverage())
	r.rows = nil
}

// bed is a server to measure.
type bed struct {
	*sdktest.Server
	t      *testing.T
	client *http.Client
}

const sharedToken = "the-token-of-all-servers"

// serve starts a server that ends with the test.
func serve(t *testing.T, binary string, args ...string) *bed {
	t.Helper()
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := sdktest.Start(ctx, sdktest.Config{Binary: binary, Home: home, Token: sharedToken, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{s, t, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 2 * time.Minute}}
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// call sends a request, with body as JSON unless it is nil, and decodes the answer into out unless
// that is nil. It returns how long that took.
func (b *bed) call(ctx context.Context, method, path string, body, out any) (time.Duration, error) {
	begun := time.Now()
	req, err := b.Request(ctx, method, path, body)
	if err != nil {
		return 0, err
	}
	var text bytes.Buffer
	if err := benchkit.Do(b.client, req, &text); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	if out != nil {
		err = json.Unmarshal(text.Bytes(), out)
	}
	return took, err
}

// must is like call, and ends the test if the request fails.
func (b *bed) must(method, path string, body, out any) time.Duration {
	b.t.Helper()
	took, err := b.call(b.t.Context(), method, path, body, out)
	if err != nil {
		b.t.Fatal(err)
	}
	return took
}

// desktop starts a desktop and returns how long that took.
func (b *bed) desktop(id string) time.Duration {
	b.t.Helper()
	return b.must(http.MethodPost, "/v1/desktops", map[string]any{"id": id, "width": 1280, "height": 720}, nil)
}

// scroll has a terminal on a desktop print text without end.
func (b *bed) scroll(id string) {
	b.t.Helper()
	script := `n=0; while :; do n=$((n+1)); echo "line $n of text that scrolls on this desktop without end"; sleep 0.05; done`
	b.must(http.MethodPost, "/v1/desktops/"+id+"/launch", map[string]any{
		"app": "xterm", "args": []string{"-geometry", "150x45+0+0", "-e", "sh", "-c", script},
	}, nil)
}

// metric returns the sum of a metric's values.
func (b *bed) metric(name string) (sum float64) {
	b.t.Helper()
	req, err := b.Request(b.t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := benchkit.Open(b.client, req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer body.Close()
	for lines := bufio.NewScanner(body); lines.Scan(); {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				b.t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// processes returns the server and the processes that it has started: their environment names its
// home.
func (b *bed) processes() (pids []int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, dir := range dirs {
		if environ, err := os.ReadFile(dir + "/environ"); err == nil && bytes.Contains(environ, []byte(b.Home)) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	if !slices.Contains(pids, b.PID) { // the server hides its environment
		pids = append(pids, b.PID)
	}
	return pids
}

// memory returns the memory of processes in bytes, of which each shared page counts once.
func memory(pids ...int) (total int64) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "Pss:"); ok {
				kib, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
				total += kib << 10
			}
		}
	}
	return total
}

// descriptors returns the number of open descriptors of a process.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// usage returns the share of a core that the server and its processes use during a time.
func (b *bed) usage(d time.Duration) float64 {
	b.t.Helper()
	before, err := b.ProcessorTime()
	if err != nil {
		b.t.Fatal(err)
	}
	begun := time.Now()
	pause(b.t.Context(), d)
	after, err := b.ProcessorTime()
	if err != nil {
		b.t.Fatal(err)
	}
	return float64(after-before) / float64(time.Since(begun))
}

// concurrently calls f for each number below n, most at the same time.
func concurrently(t *testing.T, n, most int, f func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	places := make(chan struct{}, most)
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if err := f(i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// quantile returns a quantile of times.
func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return benchkit.Quantile(all, q)
}

func percent(share float64) string { return benchkit.Significant(100*share) + " % of a core" }

func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
