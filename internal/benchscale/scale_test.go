package benchscale

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/testpostgres"
	"github.com/deskhand/deskhand/internal/testx11"
)

const (
	// settling is how long desktops and servers come to rest before they are measured.
	settling = 10 * time.Second
	// unused is how long nobody has used a desktop when it counts as idle. It is longer than a
	// desktop is checked after its start.
	unused = time.Minute
)

// measureIdle starts desktops that nothing uses.
func measureIdle(t *testing.T, r *report, binary string) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	b := serve(t, binary, "--max-desktops", fmt.Sprint(*desktops+1))
	var starts []time.Duration
	for i := range *desktops {
		starts = append(starts, b.desktop(fmt.Sprint("d", i)))
	}
	pause(t.Context(), unused)
	used := b.usage(*watch)
	held := memory(b.processes()...)
	r.add(fmt.Sprintf("start of %d desktops, one after the other, median", *desktops), benchkit.Milliseconds(quantile(starts, 0.5)), "", false)
	p95 := quantile(starts, 0.95)
	r.add("the same, p95", benchkit.Milliseconds(p95), "300 ms", p95 < 300*time.Millisecond)
	r.add("processor", percent(used), "1 % of a core", used < 0.01)
	r.add("memory", mebibytes(held), "6144 MiB", held < 6<<30)
}

// viewer is a viewer of a live view over a WebSocket.
type viewer struct {
	conn  *websocket.Conn
	since time.Time

	mu   sync.Mutex      // guards what follows
	ages []time.Duration // of the pictures, when they came
}

// view opens a viewer, which reads until the test ends or closes it.
func (b *bed) view(wg *sync.WaitGroup, id string) (*viewer, error) {
	url := strings.Replace(b.URL, "http", "ws", 1) + "/v1/desktops/" + id + "/stream/video?role=view&access_token=" + b.Token
	conn, _, err := websocket.Dial(b.t.Context(), url, &websocket.DialOptions{HTTPClient: b.client})
	if err != nil {
		return nil, fmt.Errorf("viewer of %s: %w", id, err)
	}
	conn.SetReadLimit(64 << 20)
	v := &viewer{conn: conn, since: time.Now()}
	wg.Go(func() {
		for {
			kind, data, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			// A byte of flags, and microseconds from the viewer's coming to the capture.
			if kind != websocket.MessageBinary || len(data) < 9 || data[0]&0x80 != 0 {
				continue
			}
			captured := v.since.Add(time.Duration(binary.BigEndian.Uint64(data[1:])) * time.Microsecond)
			v.mu.Lock()
			v.ages = append(v.ages, max(time.Since(captured), 0))
			v.mu.Unlock()
		}
	})
	return v, nil
}

func (v *viewer) close() { _ = v.conn.CloseNow() }

// take returns the ages of the pictures since the last call.
func (v *viewer) take() []time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	ages := v.ages
	v.ages = nil
	return ages
}

// measureBusy has one viewer look at each of several desktops on which text scrolls.
func measureBusy(t *testing.T, r *report, binary string) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	b := serve(t, binary, "--max-desktops", fmt.Sprint(*busy+1))
	var all []*viewer
	var reading sync.WaitGroup
	defer reading.Wait()
	for i := range *busy {
		id := fmt.Sprint("d", i)
		b.desktop(id)
		v, err := b.view(&reading, id)
		if err != nil {
			t.Fatal(err)
		}
		defer v.close()
		all = append(all, v)
	}
	for i := range *busy {
		b.scroll(fmt.Sprint("d", i))
	}
	pause(t.Context(), settling)
	for _, v := range all {
		v.take()
	}
	used := b.usage(*watch)
	var every, medians, worst []time.Duration
	pictures := 0
	for i, v := range all {
		ages := v.take()
		if len(ages) == 0 {
			t.Errorf("the viewer of desktop %d got no picture", i)
			continue
		}
		pictures += len(ages)
		every = append(every, ages...)
		medians = append(medians, quantile(ages, 0.5))
		worst = append(worst, quantile(ages, 0.99))
	}
	if t.Failed() {
		return
	}
	median := quantile(every, 0.5)
	r.add(fmt.Sprintf("%d desktops with a viewer each: pictures a second and viewer", *busy), benchkit.Significant(float64(pictures)/watch.Seconds()/float64(*busy)), "", false)
	r.add("processor", percent(used), "", false)
	r.add("age of a picture, median of all", benchkit.Milliseconds(median), "", false)
	slowest := quantile(medians, 1)
	r.add("age, median of the worst viewer", benchkit.Milliseconds(slowest), "3 times the median", slowest < 3*median)
	r.add("age, p99 of the worst viewer", benchkit.Milliseconds(quantile(worst, 1)), "", false)
}

// measureViewers compares many viewers of one desktop with one viewer.
func measureViewers(t *testing.T, r *report, binary string) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	b := serve(t, binary)
	b.desktop("d")
	b.scroll("d")
	var reading sync.WaitGroup
	defer reading.Wait()
	costs, encoded := map[int]float64{}, map[int]float64{}
	open := 0
	for _, n := range []int{1, *viewers} {
		for ; open < n; open++ {
			v, err := b.view(&reading, "d")
			if err != nil {
				t.Fatal(err)
			}
			defer v.close()
		}
		pause(t.Context(), settling)
		before, begun := b.metric("deskhand_live_view_pictures_total"), time.Now()
		used := b.serverUsage(*watch)
		rate := (b.metric("deskhand_live_view_pictures_total") - before) / time.Since(begun).Seconds()
		costs[n], encoded[n] = used/rate, rate
		r.add(fmt.Sprintf("viewers: %d, encoded pictures a second", n), benchkit.Significant(rate), "", false)
		r.add("processor of the server", percent(used), "", false)
	}
	ratio := costs[*viewers] / costs[1]
	r.add(fmt.Sprintf("processor for a picture, %d viewers to one", *viewers), benchkit.Significant(ratio), "1.3", ratio < 1.3)
	// Sending a picture to a viewer is no encoding.
	r.add("encoded pictures, the same ratio", benchkit.Significant(encoded[*viewers]/encoded[1]), "1.3", encoded[*viewers] < 1.3*encoded[1])
}

// serverUsage is like usage for the server's process alone.
func (b *bed) serverUsage(d time.Duration) float64 {
	b.t.Helper()
	before, err := benchkit.ProcessorTime(b.PID)
	if err != nil {
		b.t.Fatal(err)
	}
	begun := time.Now()
	pause(b.t.Context(), d)
	after, err := benchkit.ProcessorTime(b.PID)
	if err != nil {
		b.t.Fatal(err)
	}
	return float64(after-before) / float64(time.Since(begun))
}

// measureSessions has a fifth of many sessions prompt once a second.
func measureSessions(t *testing.T, r *report, binary string) {
	b := serve(t, binary, "--agent-idle-timeout", "0")
	const perAgent = 50
	n := max(*sessions, 5)
	ids := make([]string, n)
	server := func(i int) string { return fmt.Sprintf("/v1/acp/s%d", i/perAgent) }
	for first := 0; first < n; first += perAgent {
		b.must(http.MethodPost, server(first)+"?agent=mock", rpc("initialize", map[string]any{"protocolVersion": 1}), nil)
	}
	dir := t.TempDir()
	begun := time.Now()
	concurrently(t, n, 8, func(i int) error {
		var answer struct {
			Result struct {
				ID string `json:"sessionId"`
			} `json:"result"`
		}
		_, err := b.call(t.Context(), http.MethodPost, server(i), rpc("session/new", map[string]any{"cwd": dir, "mcpServers": []any{}}), &answer)
		if ids[i] = answer.Result.ID; err == nil && ids[i] == "" {
			err = fmt.Errorf("session %d was not made", i)
		}
		return err
	})
	made := time.Since(begun)
	var mu sync.Mutex
	var answers []time.Duration
	ctx, stop := context.WithTimeout(t.Context(), *watch)
	defer stop()
	prompting := n / 5
	concurrently(t, prompting, prompting, func(i int) error {
		i *= 5
		pause(ctx, time.Duration(i)*time.Second/time.Duration(n)) // spread over the second
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for {
			took, err := b.call(t.Context(), http.MethodPost, server(i), rpc("session/prompt", map[string]any{
				"sessionId": ids[i], "prompt": []any{map[string]string{"type": "text", "text": "hello"}},
			}), nil)
			if err != nil {
				return err
			}
			mu.Lock()
			answers = append(answers, took)
			mu.Unlock()
			select {
			case <-every.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
	var list struct{ Sessions []struct{} }
	b.must(http.MethodGet, "/v1/sessions", nil, &list)
	r.add("sessions", fmt.Sprint(len(list.Sessions)), fmt.Sprint(n), len(list.Sessions) == n)
	r.add("sessions made a second, eight at a time", benchkit.Significant(float64(n)/made.Seconds()), "", false)
	r.add(fmt.Sprintf("%d sessions prompt: answers a second", prompting), benchkit.Significant(float64(len(answers))/watch.Seconds()), "", false)
	r.add("prompt and answer, median", benchkit.Milliseconds(quantile(answers, 0.5)), "", false)
	p99 := quantile(answers, 0.99)
	r.add("prompt and answer, p99", benchkit.Milliseconds(p99), "100 ms", p99 < 100*time.Millisecond)
	r.add("memory of the server", mebibytes(memory(b.PID)), "", false)
}

func rpc(method string, params any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
}

// kept is what a server keeps at a moment.
type kept struct {
	memory                  int64
	descriptors, goroutines int
}

// keeps returns what the server keeps after its last requests have ended.
func (b *bed) keeps() kept {
	b.t.Helper()
	b.client.CloseIdleConnections()
	pause(b.t.Context(), settling)
	k := kept{goroutines: int(b.metric("go_goroutines"))}
	k.memory, k.descriptors = memory(b.PID), descriptors(b.t, b.PID)
	return k
}

// measureCycles starts and ends desktops, viewers and sessions.
func measureCycles(t *testing.T, r *report, binary string) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	b := serve(t, binary)
	b.desktop("viewed")
	var reading sync.WaitGroup
	cycle := func(i int) error {
		switch {
		case i%10 == 0:
			id := fmt.Sprint("c", i)
			if _, err := b.call(t.Context(), http.MethodPost, "/v1/desktops", map[string]any{"id": id, "width": 640, "height": 480}, nil); err != nil {
				return err
			}
			_, err := b.call(t.Context(), http.MethodDelete, "/v1/desktops/"+id, nil, nil)
			return err
		case i%10 < 6:
			v, err := b.view(&reading, "viewed")
			if err != nil {
				return err
			}
			v.close()
			return nil
		}
		path := fmt.Sprintf("/v1/acp/c%d", i)
		if _, err := b.call(t.Context(), http.MethodPost, path+"?agent=mock", rpc("initialize", map[string]any{"protocolVersion": 1}), nil); err != nil {
			return err
		}
		if _, err := b.call(t.Context(), http.MethodPost, path, rpc("session/new", map[string]any{"cwd": "/", "mcpServers": []any{}}), nil); err != nil {
			return err
		}
		_, err := b.call(t.Context(), http.MethodDelete, path, nil, nil)
		return err
	}
	warm := min(max(*cycles/10, 50), *cycles)
	begun := time.Now()
	concurrently(t, warm, 2, cycle)
	reading.Wait()
	first := b.keeps()
	concurrently(t, *cycles-warm, 2, func(i int) error { return cycle(warm + i) })
	reading.Wait()
	last := b.keeps()
	r.add("cycles", fmt.Sprintf("%d in %s", *cycles, time.Since(begun).Round(time.Second)), "", false)
	r.add(fmt.Sprintf("memory of the server after %d, at the end", warm), mebibytes(first.memory)+", "+mebibytes(last.memory), "16 MiB more",
		last.memory-first.memory < 16<<20)
	r.add("descriptors", fmt.Sprintf("%d, %d", first.descriptors, last.descriptors), "5 more", last.descriptors-first.descriptors <= 5)
	r.add("goroutines", fmt.Sprintf("%d, %d", first.goroutines, last.goroutines), "5 more", last.goroutines-first.goroutines <= 5)
}

// killEvery is the time between two kills of a server.
const killEvery = 10 * time.Second

// measureServers kills one of three servers with one Postgres again and again.
func measureServers(t *testing.T, r *report, binary string) {
	dsn := testpostgres.Start(t).DSN()
	var all []*bed
	var urls []string
	for range 3 {
		b := serve(t, binary, "--database", dsn, "--gone-after", "2s")
		all, urls = append(all, b), append(urls, b.URL)
	}
	load := NewLoad(sharedToken, urls...)
	if err := load.Create(t.Context(), 12, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), *kill)
	defer stop()
	ended := make(chan struct{})
	go func() { defer close(ended); load.Run(ctx) }()
	kills := 0
	for ; ; kills++ {
		pause(ctx, killEvery)
		if ctx.Err() != nil {
			break
		}
		again, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := all[kills%len(all)].Crash(again)
		cancel()
		if err != nil {
			t.Error(err)
			break
		}
	}
	<-ended
	err := load.Check(t.Context(), urls[0])
	acknowledged, uncertain, retries := load.Counts()
	wrong := 0
	if err != nil {
		t.Error(err)
		wrong = strings.Count(err.Error(), "\n") + 1
	}
	r.add(fmt.Sprintf("three servers for %s, kills", *kill), fmt.Sprint(kills), "", false)
	r.add("acknowledged prompts, of no known outcome, requests at another server", fmt.Sprintf("%d, %d, %d", acknowledged, uncertain, retries), "", false)
	r.add("lost or doubled", fmt.Sprint(wrong), "0", wrong == 0)
}
