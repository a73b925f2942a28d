package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/recording"
)

// recordingFlags say where recordings are, and which of them stay.
type recordingFlags struct {
	dir      string
	maxCount int
	maxAge   time.Duration
	maxBytes int64
}

func (r *recordingFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&r.dir, "recordings-dir", "", "`directory` for recordings; beside the desktops' files, unless given")
	flags.IntVar(&r.maxCount, "recordings-max-count", 0, "keep at most that `number` of recordings of a desktop, the newest; 0 keeps all")
	flags.DurationVar(&r.maxAge, "recordings-max-age", 0, "delete recordings that are older than a `time` as 720h; 0 keeps them")
	flags.Int64Var(&r.maxBytes, "recordings-max-bytes", 0, "delete the oldest recordings of a desktop that together have more `bytes`; 0 keeps all")
}

// config puts the flags into the server's configuration.
func (r *recordingFlags) config(cfg *httpapi.Config) error {
	if r.maxCount < 0 || r.maxAge < 0 || r.maxBytes < 0 {
		return usagef("--recordings-max-count, --recordings-max-age and --recordings-max-bytes must not be negative")
	}
	cfg.RecordingsDir = r.dir
	cfg.Retention = recording.Retention{MaxCount: r.maxCount, MaxAge: r.maxAge, MaxBytes: r.maxBytes}
	return nil
}
