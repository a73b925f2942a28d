package fleet

import (
	"slices"
	"time"

	"github.com/deskhand/deskhand/recording"
)

// RecordingChange is a change of a recording's state.
type RecordingChange struct {
	Time time.Time
	Info recording.Info // after the change
}

// RecordingSubscription collects the changes of a desktop's recordings: the latest of
// each recording, so that a slow reader costs no more memory.
type RecordingSubscription struct {
	recordings *recordings
	changed    chan struct{} // has an element if pending may have some
	pending    []RecordingChange
}

// SubscribeRecordings begins to collect the changes of the desktop's recordings. The
// caller must close the subscription.
func (in *Instance) SubscribeRecordings() *RecordingSubscription {
	r := &in.recordings
	s := &RecordingSubscription{recordings: r, changed: make(chan struct{}, 1)}
	r.subscribing.Lock()
	defer r.subscribing.Unlock()
	r.subscriptions = append(r.subscriptions, s)
	return s
}

// notify is StoreConfig.Notify.
func (r *recordings) notify(info recording.Info) {
	change := RecordingChange{time.Now(), info}
	r.subscribing.Lock()
	defer r.subscribing.Unlock()
	for _, s := range r.subscriptions {
		s.pending = append(slices.DeleteFunc(s.pending, func(c RecordingChange) bool { return c.Info.ID == info.ID }), change)
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// Changed returns a channel that receives when Take may return changes. Close does not
// close the channel.
func (s *RecordingSubscription) Changed() <-chan struct{} { return s.changed }

// Take returns the changes since the last call, or nil. It does not block.
func (s *RecordingSubscription) Take() []RecordingChange {
	s.recordings.subscribing.Lock()
	defer s.recordings.subscribing.Unlock()
	changes := s.pending
	s.pending = nil
	return changes
}

// Close ends the subscription. It may be called more than once.
func (s *RecordingSubscription) Close() {
	r := s.recordings
	r.subscribing.Lock()
	defer r.subscribing.Unlock()
	r.subscriptions = slices.DeleteFunc(r.subscriptions, func(other *RecordingSubscription) bool { return other == s })
}
