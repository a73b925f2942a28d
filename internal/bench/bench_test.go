package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDeskhandAlone measures a few rows of each kind, to keep the command
// working; what it finds is not judged here.
func TestDeskhandAlone(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm", "ffmpeg", "ffprobe")
	var out, progress bytes.Buffer
	args := []string{"-alone", "-n", "3", "-idle", "200ms", "-record", "1s", "-history", "1000", "-row", "^(agent-prompt|agent-history|record-text|png-changing|png-same|windows|type|burst|start|run|list|echo|put-memory|get-memory|put-large)$"}
	if err := run(t.Context(), args, &out, &progress); err != nil {
		t.Fatalf("run: %v\n%s", err, &progress)
	}
	for _, want := range []string{
		`(?m)^\| PNG, content changing between calls \| [0-9.]+ ms \([0-9.]+ ms\) \|`,
		`(?m)^\| list of windows \| [0-9.]+ ms`,
		`(?m)^\| type 100 ASCII characters, delayMs 0 \| [0-9.]+ ms`,
		`(?m)^\| desktop start \| [0-9.]+ ms`,
		`(?m)^\| run /bin/true \| [0-9.]+ ms \([0-9.]+ ms\) \|`,
		`(?m)^\| list of 500 running processes \| [0-9.]+ ms`,
		`(?m)^\| terminal: a key and its echo \| [0-9.]+ ms`,
		`(?m)^\| put 1 MiB, in memory \| [0-9.]+ ms \([0-9.]+ ms\), [0-9.]+ MB/s \|`,
		`(?m)^\| get 1 MiB, in memory \| [0-9.]+ ms \([0-9.]+ ms\), [0-9.]+ MB/s \|`,
		`(?m)^\| put 64 MiB, in memory \| [0-9.]+ ms .*, memory \+[0-9.]+ MiB \|`,
		`(?m)^\| processor, over .* \| [0-9.]+ % of a core \|`,
		`(?m)^\| resident memory .* \| [0-9.]+ MB \|  \| at most 41 MB \|`,
		`(?m)^\| anonymous resident memory \| [0-9.]+ MiB \|`,
		`(?m)^\| random text scrolls: processor \| [0-9.]+ % of a core \|`,
		`(?m)^\| random text scrolls: bytes \| [0-9.]+ MB, SSIM 0\.[0-9]+ \|`,
		`(?m)^\| random text scrolls: pictures lost \| [0-9.]+ % \|`,
		`(?m)^\| random text scrolls: from stop .* \| [0-9.]+ ms, of [0-9.]+ s \|`,
		`(?m)^\| prompt and answer, median \(p90\) \| [0-9.]+ ms \([0-9.]+ ms\) \|`,
		`(?m)^\| history of 1000 events: page of 100 in /v1/sessions \| [0-9.]+ ms`,
		`deskhand: deskhand `,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("the report does not match %s:\n%s", want, &out)
		}
	}
	if bytes.Contains(out.Bytes(), []byte("did not arrive")) {
		t.Errorf("text was lost:\n%s", &out)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-n", "0"}, {"extra"}, {"-row", "("}, {"-idle", "-1s"}, {"-record", "-1s"}, {"-history", "999"}, {"-alone", "-against", "deskhand"}, {"-unknown"}} {
		if _, err := parse(args, new(bytes.Buffer)); err == nil {
			t.Errorf("parse(%q) found nothing wrong", args)
		}
	}
	o, err := parse([]string{"-quick", "-row", "^png"}, new(bytes.Buffer))
	if err != nil || o.calls != 10 || o.rounds != 1 || o.idle != 5*time.Second || !o.Rows.MatchString("png-same") || o.Rows.MatchString("jpeg") {
		t.Errorf("parse = %+v, %v", o, err)
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	ms := func(values ...float64) (s sample) {
		for _, v := range values {
			s = append(s, time.Duration(v*float64(time.Millisecond)))
		}
		return s
	}
	if s := ms(1, 2, 3, 4, 5, 6, 7, 8, 9, 10); s.String() != "6.00 ms (10.0 ms)" {
		t.Errorf("median and p90 %v, want 6.00 ms (10.0 ms)", s)
	}
	tests := []struct {
		row          row
		ours, theirs sample
		grown        int64
		missed       incomplete
		wantRatio    float64
		wantMet      bool
	}{
		{row: row{factor: 10}, ours: ms(2), theirs: ms(20), wantRatio: 10, wantMet: true},
		{row: row{factor: 11}, ours: ms(2), theirs: ms(20), wantRatio: 10, wantMet: false},
		{row: row{factor: 150, below: quickEnough}, ours: ms(0.4), theirs: ms(4), wantRatio: 10, wantMet: true},
		{row: row{factor: 150, below: quickEnough}, ours: ms(0.5), theirs: ms(4), wantRatio: 8, wantMet: false},
		{row: row{below: quickEnough}, ours: ms(0.5), theirs: ms(50), wantRatio: 100, wantMet: false},
		{row: row{rate: 50, bytes: 100e6}, ours: ms(2000), wantMet: true},
		{row: row{rate: 51, bytes: 100e6}, ours: ms(2000), wantMet: false},
		{row: row{growth: 1000}, ours: ms(1), grown: 999, wantMet: true},
		{row: row{growth: 1000}, ours: ms(1), grown: 1000, wantMet: false},
		{row: row{whole: true}, ours: ms(1), wantMet: true},
		{row: row{whole: true}, ours: ms(1), missed: 1, wantMet: false},
		{row: row{rate: 1, bytes: 1}, missed: 1, wantMet: false},
	}
	for _, tt := range tests {
		r := result{row: tt.row, times: [2]sample{tt.ours, tt.theirs}, grown: [2]int64{tt.grown}, missed: [2]incomplete{tt.missed}}
		if r.ratio() != tt.wantRatio || r.met() != tt.wantMet {
			t.Errorf("%+v: ratio %v, met %v", tt, r.ratio(), r.met())
		}
	}
}

func TestOwnProcess(t *testing.T) {
	t.Parallel()
	pid := os.Getpid()
	if n, err := anonymousMemory(pid); err != nil || n < 1<<20 {
		t.Errorf("anonymousMemory = %d, %v", n, err)
	}
	resident, err := forgetPeak(pid)
	if err != nil {
		t.Fatal(err)
	}
	const more = 32 << 20
	used := bytes.Repeat([]byte{1}, more)
	if peak, err := peakMemory(pid); err != nil || peak < resident+more/2 {
		t.Errorf("peakMemory = %d, %v; it was %d before %d bytes more", peak, err, resident, len(used))
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	one, two := newScript(), newScript()
	for range 100 {
		text := one.lines(115)
		if text != two.lines(115) {
			t.Fatal("two scripts differ")
		}
		lines := strings.Split(strings.TrimPrefix(text, "\r\n"), "\r\n")
		if len(lines) != newLines {
			t.Fatalf("%d lines, want %d", len(lines), newLines)
		}
		for _, l := range lines {
			if len(l) < 115/2 || len(l) > 115 {
				t.Errorf("a line of %d characters: %q", len(l), l)
			}
		}
	}
	if len(sentence) != 100 {
		t.Errorf("the sentence has %d characters", len(sentence))
	}
}
