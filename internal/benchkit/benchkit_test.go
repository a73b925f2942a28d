package benchkit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/benchkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProcessorTime(t *testing.T) {
	t.Parallel()
	pid := os.Getpid()
	before, err := benchkit.ProcessorTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		after, err := benchkit.ProcessorTime(pid)
		if err != nil {
			t.Fatal(err)
		}
		if after > before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a busy process used no processor time")
		}
	}
	if _, err := benchkit.ProcessorTime(1 << 30); err == nil {
		t.Error("a process that does not exist has a processor time")
	}
}

func TestBinary(t *testing.T) {
	t.Parallel()
	binary, err := benchkit.Binary(t.Context(), "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := benchkit.Version(t.Context(), binary, "version")
	if err != nil || !strings.HasPrefix(text, "deskhand ") {
		t.Errorf("Version = %q, %v", text, err)
	}
	if given, err := benchkit.Binary(t.Context(), "program", t.TempDir()); err != nil || !filepath.IsAbs(given) || filepath.Base(given) != "program" {
		t.Errorf("Binary = %q, %v", given, err)
	}
}

func TestMachine(t *testing.T) {
	t.Parallel()
	if text, err := benchkit.Machine(); err != nil || !strings.Contains(text, " cores; Linux ") {
		t.Errorf("Machine = %q, %v", text, err)
	}
	if text := benchkit.LoadAverage(); !strings.Contains(text, ".") {
		t.Errorf("LoadAverage = %q", text)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{1234.5: "1234", 99.96: "100.0", 12.34: "12.3", 1.234: "1.23", 0.1234: "0.123"} {
		if got := benchkit.Significant(v); got != want {
			t.Errorf("Significant(%v) = %q, want %q", v, got, want)
		}
	}
	if got := benchkit.Quantile([]float64(nil), 0.5); got != 0 {
		t.Errorf("Quantile of no values = %v", got)
	}
	if got := benchkit.Milliseconds(1500 * time.Microsecond); got != "1.50 ms" {
		t.Errorf("Milliseconds = %q", got)
	}
	if benchkit.Verdict("5 ms", true) == benchkit.Verdict("5 ms", false) || benchkit.Verdict("", false) != "" {
		t.Error("a verdict without a goal, or the same verdict whether met or missed")
	}
	var table strings.Builder
	benchkit.Table(&table, []string{"call", "goal"}, [][]string{{"click", "1 ms"}})
	if want := "\n| call | goal |\n| --- | --- |\n| click | 1 ms |\n"; table.String() != want {
		t.Errorf("Table = %q, want %q", &table, want)
	}
}
