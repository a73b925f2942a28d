package fleet

import (
	"context"
	"time"
)

// idleChecks is the number of checks in Config.IdleStop.
const idleChecks = 8

// Use marks the desktop as used now, so that it is not idle. See Config.IdleStop.
func (in *Instance) Use() { in.used.Store(time.Now().UnixNano()) }

// Resume starts the desktop again, with the options of the latest start, if it was stopped
// because it was idle and StartOptions.RestartAfterIdle is set. Otherwise it does nothing. It
// blocks and fails as Start does.
func (in *Instance) Resume(ctx context.Context) error {
	in.mu.Lock()
	o, idle := in.options, in.wasIdle
	in.mu.Unlock()
	if !idle || !o.RestartAfterIdle {
		return nil
	}
	return in.Start(ctx, o)
}

// watchIdle stops the desktop d when it has been idle for Config.IdleStop. It returns when ended
// is closed.
func (in *Instance) watchIdle(d Desktop, ended <-chan struct{}) {
	most := in.fleet.cfg.IdleStop
	check := time.NewTicker(max(most/idleChecks, time.Millisecond))
	defer check.Stop()
	for {
		select {
		case <-ended:
			return
		case <-check.C:
		}
		if in.inUse() {
			in.Use()
		}
		if time.Since(time.Unix(0, in.used.Load())) < most {
			continue
		}
		in.mu.Lock()
		if in.phase == running && in.desk == d {
			in.fleet.cfg.Logger.Info("desktop is idle and is stopped", "desktop", in.id, "after", most)
			in.wasIdle = true
			in.beginStop()
		}
		in.mu.Unlock()
		return
	}
}

// inUse reports whether a viewer, a recording, a client of the browser or Config.InUse uses the
// desktop.
func (in *Instance) inUse() bool {
	if stream := in.RunningStream(); stream != nil && len(stream.Viewers()) > 0 {
		return true
	}
	if b, err := in.Browser(); err == nil && b.Clients() > 0 {
		return true
	}
	return len(in.ActiveRecordings()) > 0 || in.fleet.cfg.InUse(in.id)
}
