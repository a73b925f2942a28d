package process

import (
	"bufio"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// account is another user to run as.
type account struct {
	credential        *syscall.Credential // nil: it is the user who we are
	name, home, shell string
}

// lookupAccount returns nil for an empty name. The errors are InvalidErrors.
func lookupAccount(name string) (*account, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // nobody in particular
	}
	u, err := user.Lookup(name)
	if err != nil {
		if _, notANumber := strconv.ParseUint(name, 10, 32); notANumber == nil {
			u, err = user.LookupId(name)
		}
	}
	if err != nil {
		return nil, &InvalidError{Field: "user", Problem: fmt.Sprintf("%.40q does not exist here", name)}
	}
	a := &account{name: u.Username, home: u.HomeDir, shell: shellOf(u.Username)}
	if u.Uid == strconv.Itoa(os.Geteuid()) {
		return a, nil
	}
	if os.Geteuid() != 0 {
		return nil, &InvalidError{Field: "user", Problem: fmt.Sprintf("%.40q is not the user of this server, and only root may run programs as another one", name)}
	}
	if a.credential, err = credentialOf(u); err != nil {
		return nil, &InvalidError{Field: "user", Problem: fmt.Sprintf("%.40q cannot be used: %v", name, err)}
	}
	return a, nil
}

func credentialOf(u *user.User) (*syscall.Credential, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	c := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		g, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, err
		}
		c.Groups = append(c.Groups, uint32(g))
	}
	return c, nil
}

// shellOf reads the user's shell from /etc/passwd (passwd(5)), which os/user
// does not tell.
func shellOf(name string) string {
	const fallback = "/bin/sh"
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return fallback
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); len(fields) == 7 && fields[0] == name && fields[6] != "" {
			return fields[6]
		}
	}
	return fallback
}

// directory is where the user's programs begin, as login(1) has it.
func (a *account) directory() string {
	if fi, err := os.Stat(a.home); err != nil || !fi.IsDir() {
		return "/"
	}
	return a.home
}

func (a *account) variables() []string {
	return []string{
		"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name, "SHELL=" + a.shell,
		"XDG_RUNTIME_DIR", // that of somebody else
	}
}
