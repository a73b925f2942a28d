package x11

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// cookieProtocol is the only authorization protocol in use (Xsecurity(7)).
const cookieProtocol = "MIT-MAGIC-COOKIE-1"

// Address families of an Xauthority entry (Xauth.h).
const (
	familyLocal = 0x0100
	familyWild  = 0xffff
)

// NewCookie returns a fresh 16-byte MIT-MAGIC-COOKIE-1.
func NewCookie() []byte {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return b
}

// authEntry is one record of an Xauthority file.
type authEntry struct {
	family   uint16
	address  string
	display  string // number; empty: any
	protocol string
	data     []byte
}

func (e authEntry) append(b []byte) []byte {
	str := func(s string) {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	b = binary.BigEndian.AppendUint16(b, e.family)
	str(e.address)
	str(e.display)
	str(e.protocol)
	str(string(e.data))
	return b
}

// parseAuthority reads the records of an Xauthority file, up to one that is cut off, as
// libXau does.
func parseAuthority(b []byte) []authEntry {
	var list []authEntry
	field := func() (string, bool) {
		if len(b) < 2 {
			return "", false
		}
		n := int(binary.BigEndian.Uint16(b))
		if len(b) < 2+n {
			return "", false
		}
		s := string(b[2 : 2+n])
		b = b[2+n:]
		return s, true
	}
	for len(b) >= 2 {
		e := authEntry{family: binary.BigEndian.Uint16(b)}
		b = b[2:]
		var data string
		for _, p := range []*string{&e.address, &e.display, &e.protocol, &data} {
			s, ok := field()
			if !ok {
				return list
			}
			*p = s
		}
		e.data = []byte(data)
		list = append(list, e)
	}
	return list
}

// WriteAuthority writes an Xauthority file, mode 0600, with the cookie of one display. An X
// server accepts the cookie whatever the number is. Clients send it only to that display,
// which is none for -1.
func WriteAuthority(path string, display int, cookie []byte) error {
	e := authEntry{family: familyWild, display: strconv.Itoa(display), protocol: cookieProtocol, data: cookie}
	return writeFileAtomic(path, e.append(nil))
}

// MergeAuthority adds the cookie of a local display to an Xauthority file, or
// replaces it there, and keeps all other entries. The file need not exist.
func MergeAuthority(path string, display int, cookie []byte) error {
	return editAuthority(path, display, cookie)
}

// RemoveAuthority removes the entry of MergeAuthority from the file, if it still has that
// cookie.
func RemoveAuthority(path string, display int, cookie []byte) error {
	old, err := os.ReadFile(path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return fmt.Errorf("read X authority: %w", err)
	}
	for _, e := range parseAuthority(old) {
		if e.display == strconv.Itoa(display) && string(e.data) == string(cookie) {
			return editAuthority(path, display, nil)
		}
	}
	return nil
}

func editAuthority(path string, display int, cookie []byte) (err error) {
	unlock, err := lockAuthority(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read X authority: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name for X authority: %w", err)
	}
	number := strconv.Itoa(display)
	var out []byte
	if cookie != nil {
		// First, so that it comes before a wild entry of the user.
		out = authEntry{family: familyLocal, address: host, display: number, protocol: cookieProtocol, data: cookie}.append(out)
	}
	for _, e := range parseAuthority(old) {
		if e.family == familyLocal && e.address == host && e.display == number {
			continue
		}
		out = e.append(out)
	}
	return writeFileAtomic(path, out)
}

const (
	lockPatience = 3 * time.Second  // for the lock of an authority file
	lockStale    = 10 * time.Second // the age of a lock that a dead program left
)

// lockAuthority keeps other programs, such as xauth(1), from editing the file. The program
// that links FILE-c to FILE-l has the lock (XauLockAuth(3)).
func lockAuthority(path string) (unlock func() error, err error) {
	if path == "" {
		return nil, errors.New("lock X authority: neither XAUTHORITY nor HOME says where it is")
	}
	creat, link := path+"-c", path+"-l"
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		if info, err := os.Lstat(creat); err == nil && time.Since(info.ModTime()) > lockStale {
			_ = os.Remove(creat)
			_ = os.Remove(link)
		}
		f, err := os.OpenFile(creat, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			_ = f.Close()
			if err = os.Link(creat, link); err == nil {
				return func() error { return errors.Join(os.Remove(creat), os.Remove(link)) }, nil
			}
			_ = os.Remove(creat)
		}
		if !os.IsExist(err) || time.Since(begin) > lockPatience {
			return nil, fmt.Errorf("lock X authority: %w", err)
		}
	}
}

// readCookie finds the cookie for a local display, as Xlib would.
func readCookie(path string, display int) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read X authority: %w", err)
	}
	host, _ := os.Hostname()
	for _, e := range parseAuthority(b) {
		local := e.family == familyWild || (e.family == familyLocal && e.address == host)
		if local && e.protocol == cookieProtocol && (e.display == "" || e.display == strconv.Itoa(display)) {
			return e.data, nil
		}
	}
	return nil, fmt.Errorf("read X authority %s: no cookie for display :%d", path, display)
}

func writeFileAtomic(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".xauth-*") // 0600 by os.CreateTemp
	if err != nil {
		return fmt.Errorf("write X authority: %w", err)
	}
	defer os.Remove(f.Name()) // fails once renamed
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write X authority: %w", err)
	}
	return nil
}
