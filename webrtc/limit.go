package webrtc

import (
	"strconv"
	"strings"
)

// headerShare is what the headers of IP, UDP, SRTP and our extensions are of a
// stream of full packets.
const headerShare = 0.05

// askedRate is how many bits a second a viewer wants for its video at most, by
// its session description; 0: it does not say. That is the b= line of the
// section, of type TIAS (RFC 3890, section 6.2) or AS, which is in kbit/s and
// includes headers (RFC 8866, section 5.8).
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
