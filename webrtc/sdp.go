package webrtc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/deskhand/deskhand/webrtc/internal/network"
)

// Bounds of what clients send. Each medium and each candidate costs memory here
// and packets to where it points.
const (
	// MaxDescription is how long a session description may be, in bytes.
	MaxDescription = 64 << 10

	// mediaMost is how many media it may have.
	mediaMost = 8
	// maxCandidates is how many addresses a client may tell, in its session description
	// and after it.
	maxCandidates = network.MaxCandidates
	// candidateMost is how long one may be, in bytes.
	candidateMost = 1 << 10
)

// checkDescription refuses a session description that is larger than any that
// is of use. It returns how many candidates there are in it.
func checkDescription(sdp string) (candidates int, err error) {
	if len(sdp) > MaxDescription {
		return 0, fmt.Errorf("it has more than %d bytes", MaxDescription)
	}
	media := 0
	// The parser ends lines at either character, and passes over empty ones.
	eol := func(r rune) bool { return r == '\r' || r == '\n' }
	for line := range strings.FieldsFuncSeq(sdp, eol) {
		switch {
		case strings.HasPrefix(line, "m="):
			media++
		case strings.HasPrefix(line, "a=candidate:"):
			candidates++
		}
	}
	switch {
	case media > mediaMost:
		return 0, fmt.Errorf("it has %d media; at most %d are accepted", media, mediaMost)
	case candidates > maxCandidates:
		return 0, errTooManyCandidates
	}
	return candidates, nil
}

var errTooManyCandidates = fmt.Errorf("more than %d candidates", maxCandidates)

var errLongCandidate = errors.New("a candidate that is too long")
