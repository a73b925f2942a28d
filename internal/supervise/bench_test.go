package supervise

import "testing"

// BenchmarkRun starts a child and waits for its end.
func BenchmarkRun(b *testing.B) {
	g, err := NewGroup(GroupConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	for b.Loop() {
		c, err := g.Start(Spec{Path: "true"})
		if err != nil {
			b.Fatal(err)
		}
		<-c.Done()
	}
}

// BenchmarkStop starts a child and stops it.
func BenchmarkStop(b *testing.B) {
	g, err := NewGroup(GroupConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	for b.Loop() {
		c, err := g.Start(Spec{Path: "sleep", Args: []string{"1000"}})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProcesses reads all of /proc, as each search for processes does.
func BenchmarkProcesses(b *testing.B) {
	n := 0
	for b.Loop() {
		all, _, err := processes()
		if err != nil {
			b.Fatal(err)
		}
		n = len(all)
	}
	b.ReportMetric(float64(n), "processes")
}
