package registry

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestAnswersKeepNoOthers: answers without a request take no memory.
func TestAnswersKeepNoOthers(t *testing.T) {
	a := newAnswers()
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	for i := range 64 {
		fmt.Fprintf(a, `{"jsonrpc":"2.0","id":%d,"result":%q}`+"\n", 1000+i, strings.Repeat("x", 1<<20))
	}
	if more := int64(memory()) - int64(before); more > 16<<20 {
		t.Errorf("64 answers of 1 MiB without a request take %d MiB", more>>20)
	}
	runtime.KeepAlive(a)
}
