package process

import (
	"bufio"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/deskhand/deskhand/internal/supervise"
)

// account is a user that a process runs as.
type account struct {
	credential        *syscall.Credential // nil for the user of this program
	name, home, shell string
}

// lookupAccount returns nil for an empty name. The errors are InvalidErrors.
func lookupAccount(name string) (*account, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // an empty name means no other user
	}
	u, err := user.Lookup(name)
	if err != nil {
		if _, notANumber := strconv.ParseUint(name, 10, 32); notANumber == nil {
			u, err = user.LookupId(name)
		}
	}
	if err != nil {
		return nil, &InvalidError{Field: "User", Reason: fmt.Sprintf("%.40q does not exist here", name)}
	}
	a := &account{name: u.Username, home: u.HomeDir, shell: shellOf(u.Username)}
	if u.Uid == strconv.Itoa(os.Geteuid()) {
		return a, nil
	}
	if os.Geteuid() != 0 {
		return nil, &InvalidError{Field: "User", Reason: fmt.Sprintf("%.40q is not the user of this server, and only root may run programs as another user", name)}
	}
	if a.credential, err = supervise.CredentialOf(u); err != nil {
		return nil, &InvalidError{Field: "User", Reason: fmt.Sprintf("%.40q cannot be used: %v", name, err)}
	}
	return a, nil
}

// shellOf reads the user's shell from /etc/passwd (passwd(5)). Package os/user does
// not have it.
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

// directory returns the working directory that login(1) would choose.
func (a *account) directory() string {
	if fi, err := os.Stat(a.home); err != nil || !fi.IsDir() {
		return "/"
	}
	return a.home
}

func (a *account) variables() []string {
	return []string{
		"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name, "SHELL=" + a.shell,
		"XDG_RUNTIME_DIR", // removed: it belongs to this program's user
	}
}
