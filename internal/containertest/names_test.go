package containertest

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// serveNames answers requests for names at an address until the test ends. The containers that are started
// meanwhile ask there, as this process does.
func serveNames(t *testing.T, at string, names map[string]string) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("nameserver "+at+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(conf, "/etc/resolv.conf", "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount("/etc/resolv.conf", syscall.MNT_DETACH) })
	conn, err := net.ListenPacket("udp", net.JoinHostPort(at, "53"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		for packet := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if answer := answerName(packet[:n], names); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
}

// answerName answers a DNS request of one question (RFC 1035, section 4) for an IPv4 address.
func answerName(request []byte, names map[string]string) []byte {
	const header = 12
	var labels []string
	end := header
	for end < len(request) && request[end] != 0 {
		next := end + 1 + int(request[end])
		if next >= len(request) {
			return nil
		}
		labels, end = append(labels, string(request[end+1:next])), next
	}
	if end += 5; end > len(request) { // the root, the type and the class
		return nil
	}
	question := request[header:end]
	address, known := names[strings.ToLower(strings.Join(labels, "."))]
	reply := func(code, answers byte) []byte {
		return slices.Concat(request[:2], []byte{0x81, 0x80 | code, 0, 1, 0, answers, 0, 0, 0, 0}, question)
	}
	const nameError, typeA = 3, 1
	switch {
	case !known:
		return reply(nameError, 0)
	case question[len(question)-3] != typeA:
		return reply(0, 0)
	}
	return slices.Concat(reply(0, 1), []byte{0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 1, 0, 4}, net.ParseIP(address).To4())
}
