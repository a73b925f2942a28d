package network

import (
	"bytes"
	"net"
	"testing"

	"github.com/pion/stun/v4"
)

// TestShortAllocations: an allocation that has to be refreshed all the time is not used.
func TestShortAllocations(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server, err := net.Dial("udp", conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	answer := func(m stun.Method, lifetime ...byte) []byte {
		return stun.MustBuild(stun.NewType(m, stun.ClassSuccessResponse), stun.RawAttribute{Type: stun.AttrLifetime, Value: lifetime}).Raw
	}
	packets, buffer := relayPackets{conn, new(bounds)}, make([]byte, maxPacket)
	for _, short := range [][]byte{answer(stun.MethodAllocate, 0, 0, 0, 0), answer(stun.MethodAllocate, 0, 0, 0, 9)} {
		for _, used := range [][]byte{answer(stun.MethodAllocate, 0, 0, 0, 10), answer(stun.MethodAllocate, 0, 0, 2, 88), answer(stun.MethodRefresh, 0, 0, 0, 0)} {
			for _, m := range [][]byte{short, used} {
				if _, err := server.Write(m); err != nil {
					t.Fatal(err)
				}
			}
			if n, _, err := packets.ReadFrom(buffer); err != nil || !bytes.Equal(buffer[:n], used) {
				t.Errorf("got %x, %v, want %x", buffer[:n], err, used)
			}
		}
	}
}
