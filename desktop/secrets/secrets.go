package secrets

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Limits of a store.
const (
	MaxSecrets = 256
	MaxValue   = 64 << 10 // bytes
)

// Errors that a caller may branch on, with errors.Is.
var (
	// ErrNotFound is returned by Delete if there is no secret with the name.
	ErrNotFound = errors.New("no such secret")

	// ErrTooMany is returned by Set and Load for a new name if the store has MaxSecrets already.
	ErrTooMany = fmt.Errorf("there are %d secrets already", MaxSecrets)
)

// InvalidError is returned for a name or value that is not valid. It wraps no other error: test
// for it with errors.As.
type InvalidError struct {
	Field  string // "name" or "value"
	Reason string // what is accepted: "must not be empty"
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }

// names is the pattern of names.
var names = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)
})

// Info describes a secret without its value.
type Info struct {
	Name string
	Set  time.Time // when its value was set
}

// Store holds secrets by name. Make one with [New].
type Store struct {
	mu  sync.RWMutex
	all map[string]*secret // pointers, which package fmt does not follow here
}

type secret struct {
	value string
	set   time.Time
}

// New returns an empty store.
func New() *Store { return &Store{all: map[string]*secret{}} }

// String implements fmt.Stringer, so that a formatted store shows no value.
func (s *Store) String() string { return "secrets" }

// GoString implements fmt.GoStringer, for %#v.
func (s *Store) GoString() string { return s.String() }

// Set adds a secret, or replaces the value of the one with that name. A value has 1 to 65,536
// bytes of UTF-8 without NUL. A name has 1 to 64 letters, digits, underscores, dots and hyphens,
// and begins with a letter or an underscore. The error is an *InvalidError or ErrTooMany.
func (s *Store) Set(name, value string) error {
	switch {
	case !names().MatchString(name):
		return &InvalidError{"name", "must have 1 to 64 letters, digits or any of _ . -, and begin with a letter or _"}
	case value == "":
		return &InvalidError{"value", "must not be empty"}
	case len(value) > MaxValue:
		return &InvalidError{"value", fmt.Sprintf("must be at most %d bytes", MaxValue)}
	case !utf8.ValidString(value) || strings.Contains(value, "\x00"):
		return &InvalidError{"value", "must be UTF-8 without NUL"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.all[name]; !known && len(s.all) == MaxSecrets {
		return ErrTooMany
	}
	s.all[name] = &secret{value, time.Now()}
	return nil
}

// Delete removes a secret. It returns ErrNotFound if there is none with that name.
func (s *Store) Delete(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.all[name]; !known {
		return ErrNotFound
	}
	delete(s.all, name)
	return nil
}

// Value returns the value of a secret. ok is false if there is none with that name.
func (s *Store) Value(name string) (value string, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if found := s.all[name]; found != nil {
		return found.value, true
	}
	return "", false
}

// Names returns the names of the secrets, sorted.
func (s *Store) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.all))
}

// List returns the secrets in the order of their names.
func (s *Store) List() []Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]Info, 0, len(s.all))
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		list = append(list, Info{name, s.all[name].set})
	}
	return list
}
