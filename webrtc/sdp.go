package webrtc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/deskhand/deskhand/webrtc/internal/network"
)

// Limits of session descriptions. Each medium and each candidate costs memory and packets.
const (
	// MaxDescription is the largest size of a session description, in bytes.
	MaxDescription = 64 << 10

	// mediaMost bounds the media of a session description.
	mediaMost = 8
	// maxCandidates bounds the addresses that a client sends, in its session description and
	// after it.
	maxCandidates = network.MaxCandidates
	// candidateMost is the largest size of a candidate with its medium and user name fragment, in bytes.
	candidateMost = 1 << 10
)

// checkDescription checks the limits of a session description. It returns the number of its
// candidates. data is whether the viewer may have data channels.
func checkDescription(sdp string, data bool) (candidates int, err error) {
	if len(sdp) > MaxDescription {
		return 0, fmt.Errorf("it has more than %d bytes", MaxDescription)
	}
	media := 0
	// The parser ends lines at either character and skips empty ones.
	eol := func(r rune) bool { return r == '\r' || r == '\n' }
	for line := range strings.FieldsFuncSeq(sdp, eol) {
		switch {
		case strings.HasPrefix(line, "m="):
			media++
			if !data && !strings.HasPrefix(line, "m=audio ") && !strings.HasPrefix(line, "m=video ") {
				return 0, errNoData
			}
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

// errNoData is returned for viewers that only watch. With a data channel, a viewer can make Pion's
// SCTP use hundreds of megabytes (up to version 1.12.1).
var errNoData = errors.New("it has media other than audio and video (m=); viewers that only watch have no data channel")

var errTooManyCandidates = fmt.Errorf("more than %d candidates", maxCandidates)

var errLongCandidate = errors.New("a candidate that is too long")

// headerShare is the share of the headers of IP, UDP, SRTP and of the RTP extensions.
const headerShare = 0.05

// askedRate returns the highest bit rate of the video that a viewer's session description
// asks for, or 0. It is the b= line of the section, of type TIAS (RFC 3890, section 6.2) or
// AS, which is in kbit/s and includes headers (RFC 8866, section 5.8).
func askedRate(sdp string) (bps int) {
	video := false
	for line := range strings.Lines(sdp) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "m=") {
			video = strings.HasPrefix(line, "m=video ")
		}
		kind, value, ok := strings.Cut(strings.TrimPrefix(line, "b="), ":")
		if !video || !ok || !strings.HasPrefix(line, "b=") {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 31)
		switch {
		case err != nil:
		case kind == "TIAS":
			return int(n)
		case kind == "AS":
			bps = int(float64(n) * 1000 * (1 - headerShare))
		}
	}
	return bps
}
