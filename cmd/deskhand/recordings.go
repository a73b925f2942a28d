package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/recording"
)

// recordingFlags configure the recordings' directory and retention.
type recordingFlags struct {
	dir      string
	maxCount int
	maxAge   time.Duration
	maxBytes int64
}

func (r *recordingFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&r.dir, "recordings-dir", "", "`directory` for recordings (default: beside the desktops' files)")
	flags.IntVar(&r.maxCount, "recordings-max-count", 0, "maximum `number` of recordings of a desktop, of which the newest are kept; 0 keeps all")
	flags.DurationVar(&r.maxAge, "recordings-max-age", 0, "delete recordings older than a `time` such as 720h; 0 keeps all")
	flags.Int64Var(&r.maxBytes, "recordings-max-bytes", 0, "maximum `bytes` of the recordings of a desktop, of which the newest are kept; 0 keeps all")
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
