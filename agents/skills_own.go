package agents

import (
	"context"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/agents/folders"
)

// Skills that a session brings are an entry of its folder's skills.json while it
// lasts: a process that opens it again finds them there. They count as what the
// session was made with.

// ownSkills is the entry's name.
func ownSkills(session string) string { return "session-" + session }

func (h *Host) keepSkills(ctx context.Context, session string, o SessionOptions) error {
	if err := h.folders.Put(ctx, o.Cwd, folders.Skills, ownSkills(session), o.Skills); err != nil {
		return fmt.Errorf("keep the session's skills: %w", err)
	}
	return nil
}

// dropWait bounds the wait for others who change the same file.
const dropWait = 5 * time.Second

// dropSkills removes the entry if it still is the session's.
func (h *Host) dropSkills(session, cwd, hash string) {
	if hash == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropWait)
	defer cancel()
	err := h.folders.DeleteIf(ctx, cwd, folders.Skills, ownSkills(session), hash)
	if err != nil {
		h.cfg.Logger.Warn("a session's skills stay in its folder's configuration", "session", session, "error", err)
	}
}
