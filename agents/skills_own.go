package agents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/internal/configfile"
)

// Skills that a session brings are an entry of its folder's skills.json while it
// lasts: a process that opens it again finds them there.

// ownSkills is the entry's name.
func ownSkills(session string) string { return "session-" + session }

// sumOf tells an entry from others, however it is indented; empty: there is none.
func sumOf(entry json.RawMessage) string {
	if entry == nil {
		return ""
	}
	var text bytes.Buffer
	if json.Compact(&text, entry) != nil {
		return "" // it is no JSON
	}
	sum := sha256.Sum256(text.Bytes())
	return hex.EncodeToString(sum[:16])
}

func (h *Host) keepSkills(ctx context.Context, session string, o SessionOptions) error {
	if err := h.store.Put(ctx, configfile.Path(o.Cwd, "skills"), ownSkills(session), o.Skills); err != nil {
		return fmt.Errorf("keep the session's skills: %w", err)
	}
	return nil
}

// dropWait bounds the wait for others who change the same file.
const dropWait = 5 * time.Second

// dropSkills removes the entry if it still is the session's.
func (h *Host) dropSkills(session, cwd, sum string) {
	if sum == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropWait)
	defer cancel()
	err := h.store.DeleteIf(ctx, configfile.Path(cwd, "skills"), ownSkills(session), func(e json.RawMessage) bool { return sumOf(e) == sum })
	if err != nil {
		h.cfg.Logger.Warn("a session's skills stay in its folder's configuration", "session", session, "error", err)
	}
}
