package opencode

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// idDigits is the number of hexadecimal digits of an id that order it by time.
const idDigits = 12

// ids makes ids that clients can sort by time, as OpenCode's: hexadecimal digits of the time
// and a counter, then characters of the session. The same log makes the same ids.
type ids struct {
	last    uint64
	session string // its characters
}

// newIDs returns the ids of a session.
func newIDs(session string) ids {
	sum := sha256.Sum256([]byte(session))
	return ids{session: hex.EncodeToString(sum[:7])}
}

// next returns an id after all others.
func (n *ids) next(prefix string, at time.Time) string {
	now := uint64(at.UnixMilli()) << 12 & (1<<(4*idDigits) - 1) //nolint:gosec // times are after 1970
	n.last = max(now, n.last+1)
	return fmt.Sprintf("%s_%0*x%s", prefix, idDigits, n.last, n.session)
}

// follow has later ids come after an id of a client, unless no digits are left for them.
func (n *ids) follow(id string) {
	_, digits, _ := strings.Cut(id, "_")
	if len(digits) < idDigits {
		return
	}
	if given, err := strconv.ParseUint(digits[:idDigits], 16, 64); err == nil && given>>(4*idDigits-8) < 0xff {
		n.last = max(n.last, given)
	}
}
