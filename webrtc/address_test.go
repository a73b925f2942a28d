package webrtc

import (
	"strings"
	"testing"
)

func TestWithCandidates(t *testing.T) {
	t.Parallel()
	const head, media = "v=0\r\ns=-\r\n", "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:0\r\n"
	const old, end, put = "a=candidate:1 1 udp 2 127.0.0.1 3 typ host\r\n", "a=end-of-candidates\r\n", "a=candidate:x\r\na=candidate:y\r\n"
	for _, c := range [][2]string{
		{head + media + old + end, head + media + put + end},
		{head + media + old + old, head + media + put},
		{head + media, head + media + put},
		{head + media + old + end + media + old + end, head + media + put + end + media + end},
		{head + media + media, head + media + put + media},
	} {
		if got := withCandidates(c[0], []string{"candidate:x", "candidate:y"}); got != c[1] {
			t.Errorf("%q became\n%q, want\n%q", c[0], got, c[1])
		}
	}
}

func TestCheckDescription(t *testing.T) {
	t.Parallel()
	const media, candidate = "m=video 9 RTP 96\r\n", "a=candidate:1 1 udp 2 127.0.0.1 3 typ host\r\n"
	if n, err := checkDescription(strings.Repeat(media, mediaMost)+strings.Repeat(candidate, maxCandidates), true); err != nil || n != maxCandidates {
		t.Errorf("description with the most addresses: %d, %v", n, err)
	}
	for name, sdp := range map[string]string{
		"long":       strings.Repeat(" ", MaxDescription+1),
		"media":      strings.Repeat(media, mediaMost+1),
		"candidates": strings.Repeat(candidate, maxCandidates+1),
		// Pion also ends a line at each of these.
		"candidates, lines end otherwise": strings.Repeat("\r"+strings.TrimSpace(candidate)+"\n", maxCandidates+1),
		"candidates, lines end in CR":     strings.Repeat(strings.TrimSpace(candidate)+"\r", maxCandidates+1),
	} {
		if _, err := checkDescription(sdp, true); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	const data = media + "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n"
	for _, allowed := range []bool{true, false} {
		if _, err := checkDescription(data, allowed); (err == nil) != allowed {
			t.Errorf("a data channel, allowed %v: %v", allowed, err)
		}
	}
}
